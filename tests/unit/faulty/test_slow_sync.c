/* One write or sync that takes as long as the test wants, in a thread of the store: what others,
 * and the run itself, may do meanwhile. The thread of the loop syncs nothing. */
#include "../sink/store/store_verbs.h"
#include "message_parts.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>

#define SLOW RUN
#define OTHER (RUN + 1)
#define FRAMES_MIN 64 /* a write of fewer bytes is none of frames */

static atomic_bool s_hold, s_fails, s_hold_write, s_is_full;
static atomic_uint s_syncs_of_loop;
static sem_t s_held, s_go;

/* False: it fails. */
static bool
s_take_time(void)
{
    if (gettid() == getpid()) {
        s_syncs_of_loop++;
        return true;
    }
    if (!atomic_exchange(&s_hold, false))
        return true;
    sem_post(&s_held);
    sem_wait(&s_go);
    return !s_fails;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

int
__wrap_fdatasync(int fd)
{
    if (s_take_time())
        return __real_fdatasync(fd);
    errno = EIO;
    return -1;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int
__wrap_fsync(int fd)
{
    if (s_take_time())
        return __real_fsync(fd);
    errno = EIO;
    return -1;
}

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);

ssize_t
__wrap_write(int fd, const void *bytes, size_t size)
{
    if (size < FRAMES_MIN || !atomic_exchange(&s_hold_write, false))
        return __real_write(fd, bytes, size);
    sem_post(&s_held);
    sem_wait(&s_go);
    if (!s_is_full)
        return __real_write(fd, bytes, size);
    errno = ENOSPC;
    return -1;
}

/* Begins to sync what waits, of which there is one journal, and has that stay under way. */
static void
must_begin_slowly(sink_store_t *store)
{
    int64_t due_ns;
    s_hold = true;
    must(sink_store_begin(store, NULL, &due_ns));
    sem_wait(&s_held);
}

static void
must_end_one(sink_store_t *store)
{
    struct pollfd of = {.fd = sink_store_fd(store), .events = POLLIN};
    assert_int_equal(poll(&of, 1, 10000), 1);
    must(sink_store_end(store));
}

/* Until nothing of the run waits. */
static crema_err_t
s_commit_run(sink_store_t *store, const crema_id_t *run_id)
{
    struct pollfd of = {.fd = sink_store_fd(store), .events = POLLIN};
    crema_err_t err = CREMA_OK;
    int64_t due_ns;
    while (err == CREMA_OK && sink_store_is_pending(store, run_id)) {
        err = sink_store_begin(store, NULL, &due_ns);
        if (err == CREMA_OK) {
            assert_int_equal(poll(&of, 1, 10000), 1);
            err = sink_store_end(store);
        }
    }
    return err;
}

static sink_store_t *
must_open_with_a_slow_sync(void)
{
    sink_store_put_t answer;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    must(s_put(store, 2, OTHER, 1, 1, false, &answer));
    must_commit(store);
    must_put(store, 1, 6, 9, false);
    must_begin_slowly(store);
    return store;
}

static void
test_a_slow_sync_delays_only_its_own_run(void **state)
{
    (void)state;
    const sink_store_pace_t pace = {.rest_max_ns = 0, .bytes = 1};
    const crema_id_t slow = frames_id(SLOW), other = frames_id(OTHER);
    sink_store_put_t answer;
    int64_t due_ns;
    sink_store_t *store = must_open_with_a_slow_sync();
    must_put(store, 1, 10, 12, true);
    must(s_put(store, 2, OTHER, 2, 3, false, &answer));
    must(sink_store_begin(store, &pace, &due_ns));
    must_end_one(store);
    assert_int_equal(s_row(store, 2).committed, 3);
    must(s_put(store, 2, OTHER, 4, 4, true, &answer));
    must(s_commit_run(store, &other));
    assert_int_equal(s_row(store, 2).committed, 4);
    assert_false(sink_store_is_pending(store, &other));
    assert_true(sink_store_is_pending(store, &slow));
    assert_int_equal(s_row(store, 1).committed, 5);
    assert_int_equal(s_row(store, 1).recv_next, 13);
    assert_int_equal(s_put(store, 1, RUN, 6, 9, false, &answer), CREMA_OK);
    assert_int_equal(answer.decision, SINK_PUT_REPEAT);
    sem_post(&s_go);
    must_end_one(store);
    assert_int_equal(s_row(store, 1).committed, 9); /* what came later was not in the file */
    assert_int_equal(s_row(store, 1).flags, 0);
    assert_true(sink_store_is_pending(store, &slow));
    must_commit(store);
    assert_int_equal(s_row(store, 1).committed, 12);
    sink_store_close(&store);
    store = must_open(NULL);
    assert_int_equal(s_row(store, 1).committed, 12);
    assert_int_equal(s_row(store, 1).flags, CREMA_STREAM_FLAG_CLOSED);
    assert_int_equal(s_row(store, 2).committed, 4);
    sink_store_close(&store);
}

static void
test_a_slow_sync_that_fails_acknowledges_nothing_of_its_run(void **state)
{
    (void)state;
    const crema_id_t slow = frames_id(SLOW);
    sink_store_put_t answer;
    sink_store_event_t event;
    sink_store_t *store = must_open_with_a_slow_sync();
    must_put(store, 1, 10, 12, false);
    must(s_put(store, 2, OTHER, 2, 3, false, &answer));
    s_fails = true;
    sem_post(&s_go);
    assert_int_equal(s_commit_run(store, &slow), CREMA_EIO);
    s_fails = false;
    assert_int_equal(s_row(store, 1).committed, 5);
    assert_true(store_events_take(&event));
    assert_int_equal(event.type, SINK_STORE_BROKEN);
    assert_true(crema_id_equal(&event.run_id, &slow));
    assert_int_equal(sink_store_commit(store), CREMA_EIO); /* nothing is tried again */
    assert_int_equal(s_row(store, 1).committed, 5);
    sink_store_close(&store);
}

/* Before the list of its writers is confirmed its journal is read, which waits for its own commit
 * alone. */
static void
test_a_slow_sync_does_not_delay_the_check_of_another_run(void **state)
{
    (void)state;
    const crema_id_t slow = frames_id(SLOW), other = frames_id(OTHER);
    Crema__Writer writer = {.stream_id = body_id(frames_id(2)), .name = "w", .last = 3};
    const Crema__RunWriters list = {
        .run_id = body_id(other), .parts = 1, .n_writers = 1, .writers = body_writers(1, &writer)};
    sink_store_put_t answer;
    sink_store_scrubbed_t scrubbed = {0};
    bool is_new;
    sink_store_t *store = must_open_with_a_slow_sync();
    must(s_put(store, 2, OTHER, 2, 3, true, &answer));
    must(sink_store_writers(store, &list, 5000, &is_new));
    assert_false(sink_store_check_list(store, &other));
    for (int i = 0; i < 5; i++) /* until the list is durable */
        assert_false(sink_store_scrub_some(store, &scrubbed));
    must(s_commit_run(store, &other));
    while (sink_store_is_scrubbing(store))
        (void)sink_store_scrub_some(store, &scrubbed);
    assert_true(scrubbed.for_list && crema_id_equal(&scrubbed.run_id, &other));
    assert_true(sink_store_is_pending(store, &slow));
    sem_post(&s_go);
    must_commit(store);
    assert_int_equal(s_row(store, 1).committed, 9);
    sink_store_close(&store);
}

/* A run that is written all the time never has a pause: its journal is checked all the same, and
 * nobody commits it for that. */
static void
test_a_run_is_checked_while_it_is_written(void **state)
{
    (void)state;
    const crema_id_t run_id = frames_id(SLOW);
    Crema__Writer writer = {.stream_id = body_id(frames_id(1)), .name = "w", .last = 3};
    const Crema__RunWriters list = {
        .run_id = body_id(run_id), .parts = 1, .n_writers = 1, .writers = body_writers(1, &writer)};
    sink_store_scrubbed_t scrubbed = {0};
    bool is_new;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    must(sink_store_writers(store, &list, 5000, &is_new));
    must_commit(store);
    must_put(store, 1, 6, 9, false);
    must_begin_slowly(store);
    must_put(store, 1, 10, 12, false);
    assert_false(sink_store_check_list(store, &run_id));
    for (int i = 0; i < 100 && sink_store_is_scrubbing(store); i++)
        (void)sink_store_scrub_some(store, &scrubbed);
    assert_false(sink_store_is_scrubbing(store));
    assert_true(scrubbed.for_list && !scrubbed.fell);
    assert_true(sink_store_is_pending(store, &run_id));
    sem_post(&s_go);
    must_commit(store);
    assert_int_equal(s_row(store, 1).committed, 12);
    sink_store_close(&store);
}

/* The disk is found full while more collects: that waits, and everything is there in its order. */
static void
test_a_slow_write_delays_only_its_own_run(void **state)
{
    (void)state;
    const crema_id_t slow = frames_id(SLOW), other = frames_id(OTHER);
    sink_store_put_t answer;
    int64_t due_ns;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    must(s_put(store, 2, OTHER, 1, 1, false, &answer));
    must_commit(store);
    for (int full = 0; full < 2; full++) {
        const uint64_t before = s_row(store, 1).committed;
        must_put(store, 1, before + 1, before + 3, false);
        s_is_full = full;
        s_hold_write = true;
        must(sink_store_begin(store, NULL, &due_ns));
        sem_wait(&s_held);
        must(s_put(store, 2, OTHER, (uint64_t)full + 2, (uint64_t)full + 2, false, &answer));
        must(s_commit_run(store, &other));
        assert_int_equal(s_row(store, 2).committed, full + 2);
        must_put(store, 1, before + 4, before + 9, false);
        sem_post(&s_go);
        assert_int_equal(s_commit_run(store, &slow), full ? CREMA_ENOSPC : CREMA_OK);
        if (full) {
            assert_int_equal(s_row(store, 1).committed, before);
            assert_true(sink_store_is_pending(store, &slow));
            assert_int_equal(s_put(store, 1, RUN, before + 10, before + 10, false, &answer),
                             CREMA_ENOSPC);
            must(s_commit_run(store, &slow));
        }
        assert_int_equal(s_row(store, 1).committed, before + 9);
        assert_false(sink_store_is_pending(store, &slow));
    }
    must_put(store, 1, 24, 25, true);
    must_commit(store);
    sink_store_close(&store);
    store = must_open(NULL);
    assert_int_equal(s_row(store, 1).committed, 25);
    assert_int_equal(sink_store_report(store).damaged_bytes, 0);
    assert_int_equal(sink_store_report(store).missing_frames, 0);
    sink_store_close(&store);
}

/* A sealed run neither comes to rest nor is freed, and a file that is made meanwhile is not the
 * last. */
static void
test_a_run_stays_while_it_is_synced(void **state)
{
    (void)state;
    const crema_id_t slow = frames_id(SLOW);
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_SEAL, .run_id = body_id(slow)};
    const sink_journal_sealed_t sealed = {.revision = 1};
    bool is_new;
    sink_store_t *store = must_open(NULL);
    sink_store_tick(store, INT64_C(1000000000));
    must_put(store, 1, 1, 5, true);
    must(sink_store_run_msg(store, &msg, NULL, 5000, &is_new));
    must_begin_slowly(store);
    assert_true(sink_store_find(store, &slow)->durable_news < sink_store_find(store, &slow)->news);
    sem_post(&s_go);
    must_commit(store);
    assert_int_equal(sink_store_find(store, &slow)->durable_news,
                     sink_store_find(store, &slow)->news);
    must(sink_store_sealed(store, &slow, &sealed, 6000));
    must_begin_slowly(store);
    assert_int_equal(sink_store_begin_free(store, &slow, NULL), CREMA_EAGAIN);
    sink_store_tick(store, INT64_C(60000000000));
    assert_int_equal(sink_store_live(store), 1);
    sem_post(&s_go);
    must_commit(store);
    sink_store_tick(store, INT64_C(120000000000));
    must(sink_store_commit(store));
    assert_int_equal(sink_store_live(store), 0);
    must(store_free(store, &slow));
    sink_store_close(&store);
}

/* Runs come to rest in threads: one that takes long delays nobody, and keeps what comes for it
 * meanwhile. */
static void
test_a_slow_rest_delays_nobody(void **state)
{
    (void)state;
    const crema_id_t slow = frames_id(SLOW), other = frames_id(OTHER);
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_SEAL, .run_id = body_id(slow)};
    const sink_journal_sealed_t sealed = {.revision = 1};
    bool is_new;
    sink_store_put_t answer;
    sink_store_t *store = must_open(NULL);
    sink_store_tick(store, INT64_C(1000000000));
    must_put(store, 1, 1, 5, false);
    must(s_put(store, 2, OTHER, 1, 1, false, &answer));
    must(sink_store_run_msg(store, &msg, NULL, 5000, &is_new));
    must(sink_store_sealed(store, &slow, &sealed, 6000));
    must_commit(store);
    s_hold = true;
    sink_store_tick(store, INT64_C(60000000000)); /* returns while it is synced */
    sem_wait(&s_held);
    must(s_put(store, 2, OTHER, 2, 2, false, &answer));
    must(s_commit_run(store, &other));
    assert_int_equal(s_row(store, 2).committed, 2);
    must_put(store, 1, 6, 9, false);
    sem_post(&s_go);
    must_commit(store);
    assert_int_equal(sink_store_live(store), 2); /* something came for it */
    assert_int_equal(s_row(store, 1).committed, 9);
    sink_store_close(&store);
    store = must_open(NULL);
    assert_int_equal(s_row(store, 1).committed, 9);
    sink_store_close(&store);
}

/* ---- the loop waits for no disk */

static void
s_segment(unsigned number, char path[700])
{
    char uuid[37];
    const crema_id_t run_id = frames_id(RUN);
    snprintf(path, 700, "%s/%s/%06u.journal", s_dir, crema_id_uuid(&run_id, uuid), number);
}

/* As a kill in the middle of a write leaves it. */
static void
must_tear(unsigned number)
{
    char path[700];
    s_segment(number, path);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite("torn off", 1, 8, file), 8);
    fclose(file);
}

static void
must_rest(sink_store_t *store, int64_t at_s)
{
    sink_store_tick(store, at_s * INT64_C(1000000000));
    must_commit(store);
    sink_store_tick(store, (at_s + 60) * INT64_C(1000000000));
    must_commit(store);
    assert_int_equal(sink_store_live(store), 0);
}

static void
test_the_loop_syncs_nothing(void **state)
{
    (void)state;
    const crema_id_t run_id = frames_id(RUN);
    const crema_msg_t seal = {.type = CREMA_MSG_RUN_SEAL, .run_id = body_id(run_id)};
    const sink_journal_sealed_t sealed = {.revision = 1};
    bool is_new;
    sink_store_t *store;
    for (int life = 0; life < 3; life++) { /* a new run, one that was written, one that was torn */
        const uint64_t next = 1 + 5 * (uint64_t)life;
        store = must_open_unread();
        s_syncs_of_loop = 0;
        must_examine(store);
        must_put(store, 1, next, next + 4, false);
        must_commit(store);
        assert_int_equal(s_row(store, 1).committed, next + 4);
        assert_int_equal(s_syncs_of_loop, 0);
        sink_store_close(&store);
        if (life == 1)
            must_tear(2);
    }
    store = must_open_unread();
    s_syncs_of_loop = 0;
    must_examine(store);
    must(sink_store_run_msg(store, &seal, NULL, 5000, &is_new));
    must(sink_store_keep_answer(store, &run_id, (const uint8_t *)"answer", 6));
    must(sink_store_sealed(store, &run_id, &sealed, 6000));
    must_commit(store);
    must_rest(store, 1);
    must_put(store, 1, 16, 20, true); /* it came to rest and is opened again */
    must_commit(store);
    must(sink_store_sealed(store, &run_id, &sealed, 7000));
    must_commit(store);
    must_rest(store, 100);
    assert_int_equal(s_syncs_of_loop, 0);
    sink_store_close(&store);
    store = must_open_unread();
    s_syncs_of_loop = 0;
    must_examine(store);
    assert_int_equal(sink_store_live(store), 0);
    (void)must_put(store, 2, 1, 1, true); /* an earlier process had it at rest */
    must_commit(store);
    assert_int_equal(s_row(store, 1).committed, 20);
    assert_int_equal(s_row(store, 2).committed, 1);
    assert_int_equal(s_syncs_of_loop, 0);
    assert_int_equal(sink_store_report(store).damaged_bytes, 0);
    sink_store_close(&store);
}

/* What this process brought to rest is not written again. */
static void
test_a_run_that_rested_here_is_not_renewed(void **state)
{
    (void)state;
    const crema_id_t run_id = frames_id(RUN);
    const crema_msg_t seal = {.type = CREMA_MSG_RUN_SEAL, .run_id = body_id(run_id)};
    const sink_journal_sealed_t sealed = {.revision = 1};
    bool is_new;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, true);
    must(sink_store_run_msg(store, &seal, NULL, 5000, &is_new));
    must(sink_store_sealed(store, &run_id, &sealed, 6000));
    must_commit(store);
    must_rest(store, 1);
    const crema_stream_row_t asked = {.stream_id = frames_id(1), .run_id = run_id};
    crema_stream_row_t row;
    must(sink_store_stream(store, &asked, &row));
    assert_int_equal(row.committed, 5);
    assert_false(sink_store_is_pending(store, &run_id));
    sink_store_close(&store);
}

/* A store of two runs, of which the first is being renewed, for as long as the test wants. */
static sink_store_t *
must_renew_slowly(void)
{
    sink_store_put_t answer;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    must(s_put(store, 2, OTHER, 1, 1, false, &answer));
    must_commit(store);
    sink_store_close(&store);
    store = must_open_unread();
    const crema_id_t slow = frames_id(SLOW);
    s_hold = true;
    assert_non_null(sink_store_find(store, &slow));
    sem_wait(&s_held);
    return store;
}

static void
test_what_is_being_renewed_is_not_durable(void **state)
{
    (void)state;
    const crema_id_t slow = frames_id(SLOW), other = frames_id(OTHER);
    const crema_msg_t seal = {.type = CREMA_MSG_RUN_SEAL, .run_id = body_id(slow)};
    const crema_stream_row_t asked = {.stream_id = frames_id(1), .run_id = slow};
    crema_stream_row_t row, *rows;
    size_t n;
    bool is_new;
    sink_store_put_t answer;
    sink_store_t *store = must_renew_slowly();
    while (sink_store_examine(store))
        ;
    assert_true(sink_store_find(store, &slow)->is_renewing);
    assert_true(sink_store_is_pending(store, &slow) && sink_store_is_held(store, &slow));
    assert_int_equal(sink_store_stream(store, &asked, &row), CREMA_EAGAIN);
    assert_int_equal(sink_store_open_streams(store, &rows, &n), CREMA_EAGAIN);
    assert_int_equal(s_row(store, 1).committed, 0);
    assert_int_equal(s_row(store, 1).recv_next, 6);
    assert_int_equal(must_put(store, 1, 1, 5, false).decision, SINK_PUT_REPEAT);
    assert_int_equal(must_put(store, 1, 6, 9, false).decision, SINK_PUT_APPEND);
    must(sink_store_run_msg(store, &seal, NULL, 5000, &is_new));
    must(s_put(store, 2, OTHER, 2, 3, false, &answer));
    must(s_commit_run(store, &other));
    assert_int_equal(s_row(store, 2).committed, 3);
    assert_int_equal(s_row(store, 1).committed, 0);
    assert_false(sink_store_may_seal(store, &slow));
    sem_post(&s_go);
    must_end_one(store);
    assert_false(sink_store_is_held(store, &slow));
    assert_int_equal(s_row(store, 1).committed, 5); /* what came later is the next group */
    assert_false(sink_store_may_seal(store, &slow));
    must_commit(store);
    assert_int_equal(s_row(store, 1).committed, 9);
    assert_true(sink_store_may_seal(store, &slow));
    sink_store_close(&store);
    store = must_open(NULL);
    assert_int_equal(s_row(store, 1).committed, 9);
    assert_int_equal(sink_store_report(store).missing_frames, 0);
    sink_store_close(&store);
}

/* Nothing of it was acknowledged, and what was said meanwhile counts as not said. */
static void
test_a_run_that_cannot_be_renewed_is_set_aside(void **state)
{
    (void)state;
    const crema_id_t slow = frames_id(SLOW);
    Crema__Writer writer = {.stream_id = body_id(frames_id(1)), .name = "w", .last = 3};
    const Crema__RunWriters list = {
        .run_id = body_id(slow), .parts = 1, .n_writers = 1, .writers = body_writers(1, &writer)};
    sink_store_put_t answer;
    sink_store_event_t event;
    bool is_new;
    sink_store_t *store = must_renew_slowly();
    must_put(store, 1, 6, 9, false);
    must(sink_store_writers(store, &list, 5000, &is_new));
    s_fails = true;
    sem_post(&s_go);
    must_commit(store);
    s_fails = false;
    assert_true(store_events_take(&event));
    assert_int_equal(event.type, SINK_STORE_ASIDE);
    assert_non_null(strstr(sink_store_find(store, &slow)->aside, "Input/output error"));
    assert_int_equal(s_row(store, 1).recv_next, 0);
    assert_int_equal(s_put(store, 1, RUN, 6, 9, false, &answer), CREMA_EIO);
    assert_false(sink_store_is_pending(store, &slow));
    must(s_put(store, 2, OTHER, 2, 3, false, &answer)); /* nobody else is hurt */
    must_commit(store);
    assert_false(store_events_take(&event));
    sink_store_tick(store, INT64_C(1000000000));
    sink_store_tick(store, INT64_C(7000000000));
    must_put(store, 1, 6, 9, false);
    must(sink_store_writers(store, &list, 5000, &is_new));
    assert_true(is_new);
    must_commit(store);
    assert_true(store_events_take(&event));
    assert_int_equal(event.type, SINK_STORE_BACK);
    assert_int_equal(s_row(store, 1).committed, 9);
    assert_true(sink_store_has_part(store, &slow, 0));
    sink_store_close(&store);
}

/* PUTs of 500 records until the group is full; the number of the last record that was taken. */
static uint64_t
must_crowd(sink_store_t *store, uint64_t next)
{
    sink_store_put_t answer;
    crema_err_t err;
    for (; (err = s_put(store, 1, RUN, next, next + 499, false, &answer)) == CREMA_OK; next += 500)
        ;
    assert_int_equal(err, CREMA_EAGAIN);
    return next - 1;
}

static void
test_a_full_group_holds_back_only_its_own_run(void **state)
{
    (void)state;
    const crema_id_t slow = frames_id(SLOW), other = frames_id(OTHER);
    crema_stream_row_t asked = {.stream_id = frames_id(1), .run_id = slow}, row;
    sink_store_put_t answer;
    sink_store_t *store = must_open_with_a_slow_sync();
    const uint64_t last = must_crowd(store, 10);
    assert_true(sink_store_find(store, &slow)->is_crowded);
    assert_int_equal(s_put(store, 1, RUN, last + 1, last + 1, false, &answer), CREMA_EAGAIN);
    assert_int_equal(s_put(store, 3, RUN, 1, 1, false, &answer), CREMA_EAGAIN);
    assert_int_equal(sink_store_stream(store, &asked, &row), CREMA_EAGAIN); /* it would repeat */
    asked.stream_id = frames_id(3);
    assert_int_equal(sink_store_stream(store, &asked, &row), CREMA_EAGAIN);
    must(s_put(store, 2, OTHER, 2, 3, false, &answer));
    must(s_commit_run(store, &other));
    assert_int_equal(s_row(store, 2).committed, 3);
    sem_post(&s_go);
    must_commit(store);
    assert_false(sink_store_find(store, &slow)->is_crowded);
    assert_int_equal(s_row(store, 1).committed, last);
    must_put(store, 1, last + 1, last + 1, true);
    must(s_put(store, 3, RUN, 1, 1, true, &answer));
    must_commit(store);
    sink_store_close(&store);
    store = must_open(NULL);
    assert_int_equal(s_row(store, 1).committed, last + 1);
    assert_int_equal(sink_store_report(store).missing_frames, 0);
    sink_store_close(&store);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_slow_sync_delays_only_its_own_run),
        T(test_a_slow_sync_that_fails_acknowledges_nothing_of_its_run),
        T(test_a_slow_sync_does_not_delay_the_check_of_another_run),
        T(test_a_run_is_checked_while_it_is_written),
        T(test_a_slow_write_delays_only_its_own_run),
        T(test_a_run_stays_while_it_is_synced),
        T(test_a_slow_rest_delays_nobody),
        T(test_the_loop_syncs_nothing),
        T(test_a_run_that_rested_here_is_not_renewed),
        T(test_what_is_being_renewed_is_not_durable),
        T(test_a_run_that_cannot_be_renewed_is_set_aside),
        T(test_a_full_group_holds_back_only_its_own_run),
    };
    sem_init(&s_held, 0, 0);
    sem_init(&s_go, 0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
