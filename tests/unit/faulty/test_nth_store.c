/* Every single call to the disk and every single allocation in the life of a store fails once:
 * nothing that was acknowledged is missing afterwards, and the store opens and goes on. */
#include "must.h"

#include <errno.h>

#include "faulty.h"
#include "record_frames.h"
#include "store_life.h"

static void
must_hold_whatever_fails(const char *calls, int error)
{
    uint64_t n = 0;
    for (int failed = 1; failed;) {
        char *dir = scratch_make_in_memory(32);
        store_life_t life = {0};
        faulty_arm(calls, dir, ++n, error);
        store_life_live(&life, dir);
        failed = faulty_has_failed();
        faulty_disarm();
        store_life_check(&life, dir);
        store_life_live(&life, dir); /* a new sink goes on from there */
        store_life_check(&life, dir);
        assert_true(life.acked[2] >= 25);
        scratch_remove(&dir);
    }
    print_message("%s: each of %llu calls failed once\n", calls, (unsigned long long)(n - 1));
    assert_true(n > 20);
}

static void
test_store_with_an_io_error(void **state)
{
    (void)state;
    must_hold_whatever_fails("disk", EIO);
}

static void
test_store_without_room(void **state)
{
    (void)state;
    must_hold_whatever_fails("open,write,sync,truncate,mkdir", ENOSPC);
}

static void
test_store_without_memory(void **state)
{
    (void)state;
    must_hold_whatever_fails("memory", ENOMEM);
}

int
main(void)
{
    store_life_pause = faulty_pause;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_with_an_io_error),
        cmocka_unit_test(test_store_without_room),
        cmocka_unit_test(test_store_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
