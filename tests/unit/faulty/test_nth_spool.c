/* Every single call to the disk and every single allocation in the life of a spool's reader fails
 * once: nothing undelivered is unlinked, nothing that could not be read is silently absent, and
 * all of it is delivered afterwards. */
#include "must.h"

#include <errno.h>

#include "faulty.h"
#include "record_frames.h"
#include "spool_life.h"

static void
must_hold_whatever_fails(const char *calls, int error)
{
    uint64_t n = 0;
    for (int failed = 1; failed;) {
        char *dir = scratch_make_in_memory(32);
        spool_life_t life = {0};
        spool_life_write(dir);
        faulty_arm(calls, dir, ++n, error);
        (void)!spool_life_serve(&life, dir);
        failed = faulty_has_failed();
        faulty_disarm();
        spool_life_check(&life, dir);
        must(spool_life_serve(&life, dir)); /* the next agent finds what is left */
        scratch_remove(&dir);
    }
    print_message("%s: each of %llu calls failed once\n", calls, (unsigned long long)(n - 1));
    assert_true(n > 10);
}

static void
test_spool_with_an_io_error(void **state)
{
    (void)state;
    must_hold_whatever_fails("disk", EIO);
}

static void
test_spool_that_may_not_be_opened(void **state)
{
    (void)state;
    must_hold_whatever_fails("open", EACCES);
}

static void
test_spool_without_descriptors(void **state)
{
    (void)state;
    must_hold_whatever_fails("open", EMFILE);
}

static void
test_spool_without_room(void **state)
{
    (void)state;
    must_hold_whatever_fails("open,write,truncate,sync", ENOSPC);
}

static void
test_spool_without_memory(void **state)
{
    (void)state;
    must_hold_whatever_fails("memory", ENOMEM);
}

int
main(void)
{
    spool_life_pause = faulty_pause;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spool_with_an_io_error),
        cmocka_unit_test(test_spool_that_may_not_be_opened),
        cmocka_unit_test(test_spool_without_descriptors),
        cmocka_unit_test(test_spool_without_room),
        cmocka_unit_test(test_spool_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
