/* Each sync ends once with its own outcome, with any number of files and over many rounds. */
#include "must.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "record_frames.h"
#include "sink_syncs.h"

#define FILES 200
#define ROUNDS 50

static int
s_file(void)
{
    char path[SCRATCH_BYTES];
    scratch_template("syncs", path);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

typedef struct {
    sink_sync_t sync;
    int fd, error;
} file_t;

static void
s_sync(void *context)
{
    file_t *file = context;
    file->error = fdatasync(file->fd) == 0 ? 0 : errno;
}

static bool
s_is_readable(const sink_syncs_t *self, int wait_ms)
{
    struct pollfd of = {.fd = sink_syncs_fd(self), .events = POLLIN};
    return poll(&of, 1, wait_ms) == 1;
}

static void
test_each_file_has_its_own_outcome(void **state)
{
    (void)state;
    file_t files[FILES];
    sink_sync_t *ended;
    sink_syncs_t *self;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const int file = s_file();
    must(sink_syncs_new(&self));
    for (size_t round = 0; round < ROUNDS; round++) {
        const size_t n = round < 4 ? round : 1 + round * 37 % FILES;
        const bool waits = round % 2;
        size_t left = n;
        for (size_t i = 0; i < n; i++) { /* a pipe refuses fdatasync */
            files[i] = (file_t){.fd = (i + round) % 5 ? file : pipes[1], .error = -1};
            files[i].sync = (sink_sync_t){.fn = s_sync, .context = &files[i]};
            sink_syncs_begin(self, &files[i].sync);
        }
        while (left > 0 && (waits || s_is_readable(self, 10000)))
            while ((ended = sink_syncs_ended(self, waits)) != NULL) {
                file_t *of = ended->context;
                assert_int_equal(of->error, of->fd == file ? 0 : EINVAL);
                of->error = -2;
                left--;
            }
        for (size_t i = 0; i < n; i++)
            assert_int_equal(files[i].error, -2);
        assert_int_equal(left, 0);
        assert_null(sink_syncs_ended(self, true));
        assert_false(s_is_readable(self, 0));
    }
    sink_syncs_destroy(&self);
    assert_null(self);
    sink_syncs_destroy(&self);
    close(file);
    close(pipes[0]);
    close(pipes[1]);
}

/* Its threads have ended when it has. */
static void
test_one_ends_with_syncs_under_way_or_without_any(void **state)
{
    (void)state;
    file_t files[FILES];
    sink_syncs_t *self;
    const int file = s_file();
    must(sink_syncs_new(&self));
    sink_syncs_destroy(&self);
    must(sink_syncs_new(&self));
    for (size_t i = 0; i < FILES; i++) {
        files[i] = (file_t){.fd = file};
        files[i].sync = (sink_sync_t){.fn = s_sync, .context = &files[i]};
        sink_syncs_begin(self, &files[i].sync);
    }
    sink_syncs_destroy(&self);
    close(file);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_file_has_its_own_outcome),
        cmocka_unit_test(test_one_ends_with_syncs_under_way_or_without_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
