/* The store: what was committed is known again after any end, one writer at a time. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "children.h"
#include "message_parts.h"
#include "store_verbs.h"

/* ---- tests */

static void
test_store_commits_only_what_was_synced(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    assert_int_equal(must_put(store, 1, 1, 5, false).decision, SINK_PUT_APPEND);
    assert_int_equal(s_row(store, 1).committed, 0);
    assert_int_equal(s_row(store, 1).recv_next, 6);
    assert_true(sink_store_pending_bytes(store) > 0);
    must_commit(store);
    assert_int_equal(s_row(store, 1).committed, 5);
    assert_int_equal(sink_store_pending_bytes(store), 0);
    sink_store_close(&store);
}

static void
test_store_takes_each_number_once(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    assert_int_equal(must_put(store, 1, 1, 5, false).decision, SINK_PUT_REPEAT);
    sink_store_put_t gap = must_put(store, 1, 8, 9, false);
    assert_int_equal(gap.decision, SINK_PUT_GAP);
    assert_int_equal(gap.next, 6);
    assert_int_equal(must_put(store, 1, 4, 7, false).decision, SINK_PUT_APPEND);
    assert_int_equal(must_put(store, 1, 8, 9, true).decision, SINK_PUT_APPEND);
    assert_int_equal(must_put(store, 1, 10, 11, false).decision, SINK_PUT_CLOSED);
    must_commit(store);
    assert_int_equal(s_row(store, 1).committed, 9);
    assert_int_equal(s_row(store, 1).flags, CREMA_STREAM_FLAG_CLOSED);
    sink_store_close(&store);

    store = must_open(NULL);
    assert_int_equal(s_row(store, 1).committed, 9);
    assert_int_equal(s_row(store, 1).flags, CREMA_STREAM_FLAG_CLOSED);
    assert_int_equal(must_put(store, 1, 1, 9, true).decision, SINK_PUT_REPEAT);
    assert_int_equal(must_put(store, 1, 10, 10, false).decision, SINK_PUT_CLOSED);
    sink_store_close(&store);
}

/* Of a PUT that overlaps only what is new is written. */
static void
test_store_writes_each_number_once(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    must_commit(store);
    uint64_t before = sink_store_bytes(store);
    must_put(store, 1, 6, 7, false);
    must_commit(store);
    uint64_t two = sink_store_bytes(store) - before;
    must_put(store, 1, 4, 9, false); /* of which 8 and 9 are new */
    must_commit(store);
    assert_int_equal(sink_store_bytes(store), before + 2 * two);
    sink_store_close(&store);
}

static void
test_store_forgets_what_was_not_synced(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    must_commit(store);
    must_put(store, 1, 6, 9, false);
    sink_store_close(&store);
    store = must_open(NULL);
    assert_int_equal(s_row(store, 1).committed, 5);
    assert_int_equal(must_put(store, 1, 6, 6, false).decision, SINK_PUT_APPEND);
    sink_store_close(&store);
}

static void
test_store_commits_a_clock_that_comes_alone(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    must_commit(store);
    uint64_t before = sink_store_bytes(store);
    const Crema__ClockSample clock = {.run_id = body_id(frames_id(RUN)), .offset_ns = 7};
    must(sink_store_clock(store, &clock, 6000));
    must_commit(store);
    assert_true(sink_store_bytes(store) > before);
    sink_store_close(&store);
}

static void
test_store_refuses_what_is_not_sound(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    sink_store_put_t answer;
    must_put(store, 1, 1, 5, false);
    assert_int_equal(s_put(store, 1, RUN + 1, 6, 7, false, &answer),
                     CREMA_EPROTO);                                           /* another run */
    assert_int_equal(s_put(store, 2, 0, 1, 2, false, &answer), CREMA_EPROTO); /* no run */
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, 1, 2);
    s_frames.bytes[s_frames.size - 1] ^= 1;
    Crema__Put put = frames_put(&s_frames, 3, RUN, 1);
    assert_int_equal(sink_store_put(store, &put, 0, &answer), CREMA_EPROTO);
    const crema_record_t of_another = {.type = CREMA_RECORD_STREAM,
                                       .stream = {.run_id = body_id(frames_id(RUN + 1))}};
    frames_clear(&s_frames);
    frames_add(&s_frames, &of_another, 1);
    put = frames_put(&s_frames, 4, RUN, 1);
    assert_int_equal(sink_store_put(store, &put, 0, &answer), CREMA_EPROTO);
    must_commit(store);
    assert_int_equal(s_row(store, 1).committed, 5);
    assert_int_equal(s_row(store, 3).committed, 0);
    assert_int_equal(s_row(store, 4).committed, 0);
    sink_store_close(&store);
}

/* What a killed sink leaves behind for a moment: a process of its own that has not begun its
 * program. */
static void
test_store_waits_for_a_lock_that_ends_soon(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    sink_store_close(&store);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lock", s_config().dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    pid_t child = must_fork();
    if (child == 0) {
        usleep(50000);
        _exit(0);
    }
    close(fd);
    store = must_open(NULL);
    sink_store_close(&store);
    must_exit(child);
}

static void
test_store_has_one_writer(void **state)
{
    (void)state;
    sink_store_config_t config = s_config();
    sink_store_t *store = must_open(NULL), *second = NULL;
    assert_int_equal(s_open(&config, &second), CREMA_EBUSY);
    assert_null(second);
    assert_non_null(strstr(s_why, "another crema-sink"));
    crema_id_t id = sink_store_id(store);
    sink_store_close(&store);
    store = must_open(NULL);
    crema_id_t again = sink_store_id(store);
    assert_true(crema_id_equal(&id, &again));
    sink_store_close(&store);
}

static void
test_store_that_is_none_is_refused(void **state)
{
    (void)state;
    char path[600];
    sink_store_config_t config = s_config();
    sink_store_t *store = NULL;
    snprintf(path, sizeof path, "%s/store", s_dir);
    FILE *file = fopen(path, "w");
    fputs("#!/bin/sh\n", file);
    fclose(file);
    assert_int_equal(s_open(&config, &store), CREMA_EMAGIC);
    assert_null(store);
    assert_int_equal(unlink(path), 0);
    store = must_open(NULL);
    sink_store_close(&store);
}

/* The tail of the newest segment is cut by a byte: that group was never acknowledged, all before
 * it stays. */
static void
test_store_recovers_from_a_torn_journal(void **state)
{
    (void)state;
    char dir[PATH_MAX], path[PATH_MAX + 32];
    sink_store_report_t report;
    crema_id_t run_id = frames_id(RUN);
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    must_commit(store);
    must_put(store, 1, 6, 9, false);
    must_commit(store);
    sink_store_run_dir(store, &run_id, dir);
    sink_store_close(&store);
    snprintf(path, sizeof path, "%s/000001.journal", dir);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    store = must_open(&report);
    assert_true(report.torn_bytes > 0);
    assert_int_equal(report.runs, 1);
    assert_int_equal(s_row(store, 1).committed, 5);
    assert_int_equal(must_put(store, 1, 6, 9, false).decision, SINK_PUT_APPEND);
    must_commit(store);
    sink_store_close(&store);
    store = must_open(&report);
    assert_int_equal(report.torn_bytes, 0);
    assert_int_equal(s_row(store, 1).committed, 9);
    sink_store_close(&store);
}

/* The descriptor of a run's journal. */
static int
s_journal_fd(const crema_id_t *run_id)
{
    char uuid[37], link[64], target[600];
    crema_id_uuid(run_id, uuid);
    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strstr(target, uuid) && strstr(target, ".journal"))
            return fd;
    }
    fail_msg("no descriptor of %s", uuid);
    return -1;
}

/* More runs than are synced at a time, of which the others may be acknowledged; a pipe takes the
 * write and refuses the fdatasync. */
static void
test_store_ends_when_one_of_many_syncs_fails(void **state)
{
    (void)state;
    const uint8_t runs = 90, bad_run = 40;
    sink_store_put_t answer;
    sink_store_event_t event;
    int fds[2];
    sink_store_t *store = must_open(NULL);
    for (uint8_t i = 1; i <= runs; i++)
        must(s_put(store, i, i, 1, 1, false, &answer));
    must_commit(store);
    for (uint8_t i = 1; i <= runs; i++) {
        assert_int_equal(s_row(store, i).committed, 1);
        must(s_put(store, i, i, 2, 2, false, &answer));
    }
    const crema_id_t bad = frames_id(bad_run);
    assert_int_equal(pipe(fds), 0);
    assert_true(dup2(fds[1], s_journal_fd(&bad)) >= 0);
    assert_int_equal(sink_store_commit(store), CREMA_EIO);
    assert_int_equal(s_row(store, bad_run).committed, 1);
    assert_true(store_events_take(&event));
    assert_int_equal(event.type, SINK_STORE_BROKEN);
    assert_true(crema_id_equal(&event.run_id, &bad));
    assert_non_null(strstr(event.text, "Invalid argument"));
    assert_false(store_events_take(&event));
    close(fds[0]), close(fds[1]);
    sink_store_close(&store);
    store = must_open(NULL);
    assert_int_equal(s_row(store, bad_run).committed, 1);
    sink_store_close(&store);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_store_commits_only_what_was_synced),
        T(test_store_takes_each_number_once),
        T(test_store_writes_each_number_once),
        T(test_store_forgets_what_was_not_synced),
        T(test_store_commits_a_clock_that_comes_alone),
        T(test_store_refuses_what_is_not_sound),
        T(test_store_has_one_writer),
        T(test_store_waits_for_a_lock_that_ends_soon),
        T(test_store_that_is_none_is_refused),
        T(test_store_recovers_from_a_torn_journal),
        T(test_store_ends_when_one_of_many_syncs_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
