/* What a round of syncs reports for each file, with any number of files and over many rounds. */
#include "must.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sink_syncs.h"

#define FILES 200
#define ROUNDS 50

static int
s_file(void)
{
    char path[] = "/tmp/crema-syncs-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static void
test_each_file_has_its_own_outcome(void **state)
{
    (void)state;
    sink_sync_t syncs[FILES];
    sink_syncs_t *self;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const int file = s_file();
    must(sink_syncs_new(&self));
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = round < 4 ? round : 1 + round * 37 % FILES;
        for (size_t i = 0; i < FILES; i++) /* a pipe refuses fdatasync */
            syncs[i] = (sink_sync_t){(i + round) % 5 ? file : pipes[1], -1};
        sink_syncs_run(self, syncs, n);
        for (size_t i = 0; i < FILES; i++)
            assert_int_equal(syncs[i].error, i >= n ? -1 : (i + round) % 5 ? 0 : EINVAL);
    }
    sink_syncs_destroy(&self);
    assert_null(self);
    sink_syncs_destroy(&self);
    close(file);
    close(pipes[0]);
    close(pipes[1]);
}

static void
test_one_that_was_never_used_ends(void **state)
{
    (void)state;
    sink_syncs_t *self;
    must(sink_syncs_new(&self));
    sink_syncs_destroy(&self);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_file_has_its_own_outcome),
        cmocka_unit_test(test_one_that_was_never_used_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
