/* The end of a stream in a spool: closed for a writer that is gone; segments trimmed, evicted;
 * lock and identity. */
#include "children.h"
#include "spool_bench.h"

/* ---- whose writer is gone */

/* Or whoever may write in the same directory could go on with, or end, a stream of somebody
 * else. */
static void
test_a_segment_of_another_user_is_not_of_the_stream(void **state)
{
    (void)state;
    if (geteuid() != 0)
        not_tested_here(MISSING_OTHER_USERS);
    bench_t *b = bench_new();
    char first[PATH_MAX], next[PATH_MAX];
    must_start_writer(b);
    must_append(b, 8);
    path_of(b, 1, first);
    path_of(b, 3, next);
    assert_int_equal(chown(first, 1001, 0), 0);
    must_open(b);
    must_scan(b);
    assert_int_equal(crema_spool_stream(b->spool, 0)->owner, 1001);
    int fd = open(next, O_WRONLY | O_CREAT | O_EXCL, 0600);
    uint8_t frame[CREMA_FRAME_HEADER_BYTES];
    crema_frame_encode(&(crema_frame_t){.seq = 3, .type = CREMA_RECORD_BATCH}, frame);
    assert_int_equal(write(fd, frame, sizeof frame), sizeof frame);
    close(fd);
    assert_int_equal(chown(next, 1002, 0), 0);
    must_scan(b);
    assert_int_equal(crema_spool_stream(b->spool, 0)->hi, 2);
    assert_false(crema_spool_stream(b->spool, 0)->closed);
    assert_int_equal(crema_spool_stats(b->spool).foreign_files, 1);
    must_append(b, 8); /* its own number 3 */
    must_scan(b);
    assert_int_equal(crema_spool_stream(b->spool, 0)->hi, 3);
    assert_int_equal(unlink(next), 0);
    must_scan(b);
    assert_int_equal(crema_spool_stats(b->spool).foreign_files, 0);
    bench_destroy(b);
}

/* Nor keep it open, which would end the run of its owner PARTIAL. */
static void
test_a_file_of_another_user_does_not_keep_a_dead_writers_stream_open(void **state)
{
    (void)state;
    if (geteuid() != 0)
        not_tested_here(MISSING_OTHER_USERS);
    bench_t *b = bench_new();
    char later[PATH_MAX];
    must_start_writer(b);
    must_append(b, 8);
    kill_writer(b);
    path_of(b, INT64_MAX - 1, later);
    int fd = open(later, O_WRONLY | O_CREAT | O_EXCL, 0600);
    close(fd);
    assert_int_equal(chown(later, 1002, 0), 0);
    must_open(b);
    must_scan(b);
    must_scan(b);
    assert_true(must_find(b)->closed);
    bench_destroy(b);
}

static void
test_a_living_writer_is_not_closed_whatever_its_tail(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_start_writer(b);
    append_bytes(b, 1, "torn", 4);
    for (int i = 0; i < 3; i++)
        must_scan(b);
    assert_false(must_find(b)->closed);
    assert_int_equal(crema_spool_stats(b->spool).torn_bytes, 0);
    bench_destroy(b);
}

static void
test_without_the_lock_nothing_is_closed(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    kill_writer(b);
    must(crema_spool_open(b->dir, &b->spool));
    must_scan(b);
    assert_false(must_find(b)->closed);
    must(crema_spool_lock(b->spool));
    must_scan(b);
    assert_true(must_find(b)->closed);
    bench_destroy(b);
}

static void
test_a_killed_process_is_closed_for(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = must_fork();
    if (pid == 0) {
        must_start_writer(b);
        must_append(b, 5);
        (void)!write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    close(ready[1]); /* so that the end of the child is the end of the pipe */
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    must_scan(b);
    assert_string_equal(delivered(b, 1), "1S 2D");
    assert_false(must_find(b)->closed);
    must_kill(pid);
    must_scan(b);
    assert_string_equal(delivered(b, 1), "1S 2D 3E");
    uint8_t buf[256];
    size_t bytes;
    uint32_t n;
    uint64_t last;
    must(crema_spool_read(b->spool, &b->stream_id, 3, buf, sizeof buf, &bytes, &n, &last));
    crema_frame_t frame;
    crema_record_t record;
    must(crema_frame_decode(buf, bytes, &frame));
    must(crema_record_decode(&frame, b->arena, &record));
    assert_int_equal(record.end.reason, CREMA_END_WRITER_GONE);
    close(ready[0]);
    bench_destroy(b);
}

static void
test_a_forked_child_can_neither_append_nor_close(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_start_writer(b);
    pid_t pid = must_fork();
    if (pid == 0) {
        crema_record_t record = {.type = CREMA_RECORD_END};
        bool refused = crema_spool_writer_append(b->writer, &record, 1) == CREMA_EINVAL;
        crema_spool_writer_close(&b->writer);
        _exit(refused ? 0 : 1);
    }
    must_exit(pid);
    must_append(b, 1);
    must_scan(b);
    assert_string_equal(delivered(b, 1), "1S 2D");
    assert_false(must_find(b)->closed);
    bench_destroy(b);
}

/* A closer that is killed leaves one of these; the next one makes the same stream of it. */
static void
test_closing_survives_a_kill_between_its_steps(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    must_append(b, 20);
    kill_writer(b);
    off_t end_at = size_of(b, 1);
    uint8_t torn[200];
    memset(torn, 0x55, sizeof torn);
    append_bytes(b, 1, torn, sizeof torn);
    must_open(b);
    must_scan(b);
    assert_string_equal(delivered(b, 1), "1S 2D 3E");
    off_t closed = size_of(b, 1);
    char path[PATH_MAX];
    path_of(b, 1, path);
    uint8_t end[200];
    size_t end_n = (size_t)(closed - end_at);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, end, end_n, end_at), (ssize_t)end_n);
    /* END written so far, the tail not yet cut. */
    for (size_t written = 0; written <= end_n; written++) {
        assert_int_equal(pwrite(fd, torn, sizeof torn, end_at), (ssize_t)sizeof torn);
        assert_int_equal(pwrite(fd, end, written, end_at), (ssize_t)written);
        must_open(b);
        must_scan(b);
        assert_string_equal(delivered(b, 1), "1S 2D 3E");
        uint8_t again[200];
        assert_int_equal(pread(fd, again, end_n, end_at), (ssize_t)end_n);
        assert_memory_equal(again, end, end_n); /* the torn bytes are the same number too */
    }
    close(fd);
    bench_destroy(b);
}

static void
test_a_writer_between_two_segments_is_alive(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    must_append(b, 20);
    kill_writer(b);
    /* The old segment is held, the new one is there and not locked yet. */
    char path[PATH_MAX];
    path_of(b, 1, path);
    int held = open(path, O_RDONLY);
    assert_int_equal(flock(held, LOCK_EX), 0);
    append_bytes(b, 3, "", 0);
    must_open(b);
    must_scan(b);
    assert_false(must_find(b)->closed);
    assert_int_equal(size_of(b, 3), 0);
    /* Gone now: the next number goes into the new one. */
    close(held);
    must_scan(b);
    assert_string_equal(delivered(b, 1), "1S 2D 3E");
    assert_true(size_of(b, 3) > 0);
    bench_destroy(b);
}

/* ---- trimming */

/* Three segments and a bit; returns the first numbers of the second and the third. */
static void
must_write_three_segments(bench_t *b, uint64_t ret_first[2])
{
    must_start_writer(b);
    int n = 0;
    char path[PATH_MAX];
    for (uint64_t seq = 2; n < 2; seq++) {
        must_append_big(b);
        path_of(b, seq, path);
        if (access(path, F_OK) == 0)
            ret_first[n++] = seq;
    }
    must_append(b, 1);
}

static void
test_committed_segments_go_and_the_name_of_the_run_stays(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    uint64_t first[2];
    must_open(b);
    must_write_three_segments(b, first);
    must_scan(b);
    off_t one = size_of(b, 1), two = size_of(b, first[0]);
    must(crema_spool_trim(b->spool, &b->stream_id, first[0] - 2));
    assert_int_equal(size_of(b, 1), one);
    must(crema_spool_trim(b->spool, &b->stream_id, first[0] - 1));
    assert_true(size_of(b, 1) > 0 && size_of(b, 1) < 300);
    assert_int_equal(size_of(b, first[0]), two);
    assert_int_equal(must_find(b)->first_avail, first[0]);
    must(crema_spool_trim(b->spool, &b->stream_id, first[1]));
    assert_int_equal(size_of(b, first[0]), -1);
    assert_int_equal(must_find(b)->first_avail, first[1]);
    assert_int_equal(must_find(b)->committed, first[1]);
    assert_int_equal(must_find(b)->bytes, size_of(b, 1) + size_of(b, first[1]));
    assert_int_equal(must_find(b)->lost, 0);

    /* After a restart the same is known, but for what was committed. */
    must_open(b);
    must_scan(b);
    assert_true(crema_id_equal(&must_find(b)->run_id, &b->run_id));
    assert_int_equal(must_find(b)->first_avail, first[1]);
    assert_int_equal(must_find(b)->hi, first[1] + 1);
    assert_int_equal(must_find(b)->lost, 0);
    assert_int_equal(crema_spool_stats(b->spool).corrupt, 0);
    must_append(b, 1);
    crema_spool_writer_close(&b->writer);
    must_scan(b);
    must(crema_spool_trim(b->spool, &b->stream_id, first[1] + 2));
    assert_true(size_of(b, first[1]) > 0);
    must(crema_spool_trim(b->spool, &b->stream_id, UINT64_MAX));
    assert_null(crema_spool_find(b->spool, &b->stream_id));
    assert_int_equal(size_of(b, 1), -1);
    assert_int_equal(size_of(b, first[1]), -1);
    assert_int_equal(crema_spool_trim(b->spool, &b->stream_id, 1), CREMA_ENOENT);
    bench_destroy(b);
}

static void
test_a_store_that_forgot_gets_a_loss_of_what_is_gone(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    uint64_t first[2];
    must_open(b);
    must_write_three_segments(b, first);
    must_scan(b);
    must(crema_spool_trim(b->spool, &b->stream_id, first[1] - 1));
    char want[128];
    sprintf(want, "1S 2-%lluL:regressed %lluD %lluD", (unsigned long long)first[1] - 1,
            (unsigned long long)first[1], (unsigned long long)first[1] + 1);
    assert_string_equal(delivered(b, 1), want);
    bench_destroy(b);
}

static void
test_a_removal_that_is_killed_leaves_the_same_stream(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    uint64_t first[2];
    must_open(b);
    must_write_three_segments(b, first);
    crema_spool_writer_close(&b->writer);
    must_scan(b);
    uint64_t hi = must_find(b)->hi;
    /* Eviction collapses to what a removal passes through: StreamInfo and END in one file. */
    (void)crema_spool_evict(b->spool, 0);
    must_open(b);
    must_scan(b);
    assert_true(must_find(b)->closed);
    assert_int_equal(must_find(b)->hi, hi);
    /* ... with an older segment that was still to go. */
    append_bytes(b, first[1], "leftover", 8);
    must_open(b);
    must_scan(b);
    assert_true(must_find(b)->closed);
    assert_int_equal(must_find(b)->hi, hi);
    assert_int_equal(size_of(b, first[1]), -1);
    must(crema_spool_trim(b->spool, &b->stream_id, hi));
    assert_int_equal(crema_spool_count(b->spool), 0);
    assert_int_equal(size_of(b, 1), -1);
    bench_destroy(b);
}

/* ---- eviction */

static void
test_eviction_of_a_closed_stream_leaves_a_loss_and_its_end(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_start_writer(b);
    for (int i = 0; i < 8; i++)
        must_append(b, 100);
    crema_spool_writer_close(&b->writer);
    must_scan(b);
    must(crema_spool_trim(b->spool, &b->stream_id, 3));
    assert_int_equal(crema_spool_evict(b->spool, 1 << 20), 0);
    assert_int_equal(crema_spool_evict(b->spool, 1), 6); /* 4 to 9 */
    assert_int_equal(crema_spool_stats(b->spool).evicted, 6);
    assert_int_equal(must_find(b)->lost, 6);
    assert_string_equal(delivered(b, 4), "4-9L:evicted 10E");
    assert_int_equal(crema_spool_stats(b->spool).bytes, size_of(b, 1));
    assert_int_equal(crema_spool_evict(b->spool, 1), 0); /* nothing is left to give */
    must_open(b);
    must_scan(b);
    assert_true(must_find(b)->closed);
    assert_string_equal(delivered(b, 4), "4-9L:evicted 10E");
    bench_destroy(b);
}

static void
test_eviction_takes_closed_streams_first_and_never_the_newest_segment(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    uint64_t first[2];
    must_open(b);
    must_start_writer(b);
    for (int i = 0; i < 4; i++)
        must_append_big(b);
    crema_spool_writer_close(&b->writer);
    crema_id_t closed_id = b->stream_id;
    b->stream_id = crema_random_id();
    must_write_three_segments(b, first);
    must_scan(b);
    off_t open_bytes = size_of(b, 1) + size_of(b, first[0]) + size_of(b, first[1]);
    assert_int_equal(crema_spool_evict(b->spool, (uint64_t)open_bytes + 1000), 4);
    assert_true(crema_spool_find(b->spool, &closed_id)->lost == 4);
    assert_int_equal(must_find(b)->lost, 0);
    uint64_t given_up = crema_spool_evict(b->spool, 0);
    assert_int_equal(given_up, first[1] - 2); /* all but the StreamInfo and the newest segment */
    assert_true(size_of(b, first[1]) > 0);
    must_append(b, 1);
    must_scan(b);
    char want[128];
    sprintf(want, "1S 2-%lluL:evicted %lluD %lluD %lluD", (unsigned long long)first[1] - 1,
            (unsigned long long)first[1], (unsigned long long)first[1] + 1,
            (unsigned long long)first[1] + 2);
    assert_string_equal(delivered(b, 1), want);
    bench_destroy(b);
}

/* Closed streams of one large record each, older ones first, in files of that user. */
static void
must_close_streams(bench_t *b, unsigned n, uint32_t uid, crema_id_t *ret_ids)
{
    for (unsigned i = 0; i < n; i++) {
        crema_id_t run_id = b->run_id;
        Crema__StreamInfo info = {.run_id = crema_id_field(&run_id),
                                  .kind = CREMA_STREAM_WORKER,
                                  .t_mono_ns = 1,
                                  .t_real_ns = i + 1};
        ret_ids[i] = crema_random_id();
        must(crema_spool_writer_open(b->dir, &ret_ids[i], &info, uid, &b->writer));
        must_append_big(b);
        crema_spool_writer_close(&b->writer);
    }
}

static uint64_t
lost_of(const bench_t *b, const crema_id_t *ids, unsigned n)
{
    uint64_t lost = 0;
    for (unsigned i = 0; i < n; i++)
        lost += crema_spool_find(b->spool, &ids[i])->lost;
    return lost;
}

static void
test_eviction_takes_from_who_has_more_than_a_share(void **state)
{
    (void)state;
    if (geteuid() != 0)
        not_tested_here(MISSING_OTHER_USERS);
    bench_t *b = bench_new();
    crema_id_t modest[2], greedy[8];
    char path[PATH_MAX];
    must_open(b);
    must_close_streams(b, 2, 4711, modest); /* the oldest: it is theirs that would go first */
    must_close_streams(b, 8, 4712, greedy);
    must_scan(b);
    const uint64_t held = crema_spool_stats(b->spool).bytes, each = held / 10;
    assert_int_equal(crema_spool_evict(b->spool, 13 * each / 2), 4);
    assert_int_equal(lost_of(b, modest, 2), 0);
    assert_int_equal(lost_of(b, greedy, 8), 4);
    /* A file that is not a stream causes no eviction. */
    snprintf(path, sizeof path, "%s/sp-%032x-%016x", b->dir, 1, 1);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    const uint32_t magic = CREMA_FRAME_MAGIC; /* or nobody would look further */
    assert_true(fd >= 0 && write(fd, &magic, sizeof magic) == sizeof magic);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    close(fd);
    must_scan(b);
    assert_true(crema_spool_stats(b->spool).bytes > 1 << 20);
    assert_int_equal(crema_spool_evict(b->spool, 7 * each), 0);
    bench_destroy(b);
}

/* ---- lock and identity */

static void
test_one_reader_holds_the_lock(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    crema_spool_t *other;
    must(crema_spool_open(b->dir, &other));
    assert_int_equal(crema_spool_lock(other), CREMA_EBUSY);
    must(crema_spool_lock(b->spool)); /* it is ours already */
    crema_spool_close(&b->spool);
    must(crema_spool_lock(other));
    crema_spool_close(&other);
    crema_spool_close(&other);
    assert_int_equal(crema_spool_open("/proc/0/spool", &other), CREMA_ENOENT);
    bench_destroy(b);
}

static void
test_the_identity_is_made_once(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    crema_id_t one, two;
    must_open(b);
    must(crema_spool_agent_id(b->spool, &one));
    must_open(b);
    must(crema_spool_agent_id(b->spool, &two));
    assert_true(crema_id_equal(&one, &two));
    assert_false(crema_id_is_zero(&one));
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/agent_id", b->dir);
    assert_int_equal(truncate(path, 7), 0); /* a power cut */
    must(crema_spool_agent_id(b->spool, &two));
    assert_false(crema_id_equal(&one, &two));
    must(crema_spool_agent_id(b->spool, &one));
    assert_true(crema_id_equal(&one, &two));
    must_scan(b);
    assert_int_equal(crema_spool_stats(b->spool).foreign_files, 0);
    bench_destroy(b);
}

static void
test_files_that_vanish_take_their_stream_along(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_start_writer(b);
    must_scan(b);
    assert_int_equal(crema_spool_count(b->spool), 1);
    char path[PATH_MAX];
    path_of(b, 1, path);
    unlink(path);
    must_scan(b);
    assert_int_equal(crema_spool_count(b->spool), 0);
    bench_destroy(b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_segment_of_another_user_is_not_of_the_stream),
        cmocka_unit_test(test_a_file_of_another_user_does_not_keep_a_dead_writers_stream_open),
        cmocka_unit_test(test_a_living_writer_is_not_closed_whatever_its_tail),
        cmocka_unit_test(test_without_the_lock_nothing_is_closed),
        cmocka_unit_test_teardown(test_a_killed_process_is_closed_for, children_end),
        cmocka_unit_test_teardown(test_a_forked_child_can_neither_append_nor_close, children_end),
        cmocka_unit_test(test_closing_survives_a_kill_between_its_steps),
        cmocka_unit_test(test_a_writer_between_two_segments_is_alive),
        cmocka_unit_test(test_committed_segments_go_and_the_name_of_the_run_stays),
        cmocka_unit_test(test_a_store_that_forgot_gets_a_loss_of_what_is_gone),
        cmocka_unit_test(test_a_removal_that_is_killed_leaves_the_same_stream),
        cmocka_unit_test(test_eviction_of_a_closed_stream_leaves_a_loss_and_its_end),
        cmocka_unit_test(test_eviction_takes_closed_streams_first_and_never_the_newest_segment),
        cmocka_unit_test(test_eviction_takes_from_who_has_more_than_a_share),
        cmocka_unit_test(test_one_reader_holds_the_lock),
        cmocka_unit_test(test_the_identity_is_made_once),
        cmocka_unit_test(test_files_that_vanish_take_their_stream_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
