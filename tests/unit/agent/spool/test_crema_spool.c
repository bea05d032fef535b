/* A spool: what is written is read, whatever happens to its files. */
#include "message_parts.h"
#include "spool_bench.h"

static void
damage(const bench_t *b, uint64_t first, off_t at, size_t n)
{
    char path[PATH_MAX];
    path_of(b, first, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    while (n--) {
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at++), 1);
    }
    close(fd);
}

/* ---- writing and reading */

static void
test_records_that_are_written_are_read(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_scan(b);
    assert_int_equal(crema_spool_count(b->spool), 0);
    must_start_writer(b);
    must_append(b, 3);
    must_scan(b);
    const crema_spool_stream_t *stream = must_find(b);
    assert_true(crema_id_equal(&stream->run_id, &b->run_id));
    assert_string_equal(stream->info.worker_name, "tcp://w");
    assert_int_equal(stream->info.pid, 42);
    assert_int_equal(stream->hi, 2);
    assert_int_equal(stream->first_avail, 1);
    assert_false(stream->closed);
    assert_string_equal(delivered(b, 1), "1S 2D");
    assert_string_equal(delivered(b, 3), "");
    must_append(b, 0);
    assert_string_equal(delivered(b, 3), ""); /* known by the next scan only */
    crema_spool_writer_close(&b->writer);
    must_scan(b);
    assert_true(must_find(b)->closed);
    assert_string_equal(delivered(b, 2), "2D 3D 4E");
    assert_int_equal(crema_spool_stats(b->spool).records, 4);
    assert_int_equal(crema_spool_stats(b->spool).bytes, size_of(b, 1));
    bench_destroy(b);
}

static void
test_a_record_larger_than_the_buffer_is_refused(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_start_writer(b);
    must_append(b, 400);
    must_scan(b);
    uint8_t buf[300];
    size_t bytes;
    uint32_t n;
    uint64_t last;
    assert_int_equal(
        crema_spool_read(b->spool, &b->stream_id, 2, buf, sizeof buf, &bytes, &n, &last),
        CREMA_ELIMIT);
    must(crema_spool_read(b->spool, &b->stream_id, 1, buf, sizeof buf, &bytes, &n, &last));
    assert_int_equal(n, 1);
    assert_int_equal(last, 1);
    crema_id_t nobody = crema_random_id();
    assert_int_equal(crema_spool_read(b->spool, &nobody, 1, buf, sizeof buf, &bytes, &n, &last),
                     CREMA_ENOENT);
    bench_destroy(b);
}

static void
test_segments_roll_over_and_pieces_do_not_matter(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_start_writer(b);
    for (int i = 0; i < 400; i++)
        must_append_big(b);
    crema_spool_writer_close(&b->writer);
    must_scan(b);
    assert_true(size_of(b, 1) <= CREMA_SPOOL_SEGMENT_BYTES);
    assert_true(must_find(b)->bytes > CREMA_SPOOL_SEGMENT_BYTES);
    assert_int_equal(must_find(b)->hi, 402);
    char *whole = strdup(delivered_in(b, 1, 70000));
    assert_string_equal(whole, delivered_in(b, 1, 192 << 10));
    assert_non_null(strstr(whole, "399D 400D 401D 402E"));
    free(whole);
    bench_destroy(b);
}

static void
test_a_full_disk_leaves_nothing_of_a_record(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_start_writer(b);
    must_append(b, 10);
    off_t before = size_of(b, 1);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = (rlim_t)before + 20; /* the next write stops in the middle */
    setrlimit(RLIMIT_FSIZE, &limit);
    Crema__DictEntry entry = {.kind = CREMA_DICT_ACTIVITY, .text = "lost", .size_b = -1};
    crema_record_t record = {.type = CREMA_RECORD_DICT,
                             .dict = {.n_entries = 1, .entries = body_entries(1, &entry)}};
    assert_int_equal(crema_spool_writer_append(b->writer, &record, 1), CREMA_ENOSPC);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(size_of(b, 1), before);
    must_append(b, 10);
    crema_spool_writer_close(&b->writer);
    must_scan(b);
    assert_string_equal(delivered(b, 1), "1S 2D 3D 4E");

    uint8_t buf[256];
    size_t bytes;
    uint32_t n;
    uint64_t last;
    must(crema_spool_read(b->spool, &b->stream_id, 4, buf, sizeof buf, &bytes, &n, &last));
    crema_frame_t frame;
    must(crema_frame_decode(buf, bytes, &frame));
    must(crema_record_decode(&frame, b->arena, &record));
    assert_int_equal(record.end.dropped, 1);
    assert_int_equal(record.end.dropped_disk_full, 1); /* EFBIG counts as a full disk */
    assert_int_equal(record.end.reason, CREMA_END_FINISHED);
    bench_destroy(b);
}

/* ---- damage */

static void
test_a_first_segment_that_comes_last_is_read(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    for (int i = 0; i < 800; i++)
        must_append_big(b);
    crema_spool_writer_close(&b->writer);
    char path[PATH_MAX], aside[PATH_MAX + 8];
    path_of(b, 1, path);
    snprintf(aside, sizeof aside, "%s/.aside", b->dir);
    assert_int_equal(rename(path, aside), 0);
    must_open(b);
    must_scan(b);
    assert_true(crema_id_is_zero(&must_find(b)->run_id));
    assert_int_equal(rename(aside, path), 0);
    must_scan(b);
    const crema_spool_stream_t *stream = must_find(b);
    assert_true(crema_id_equal(&stream->run_id, &b->run_id));
    assert_true(stream->closed);
    assert_int_equal(stream->first_avail, 1);
    assert_int_equal(stream->hi, 802);
    bench_destroy(b);
}

static void
test_a_tail_torn_at_every_byte_is_cut_and_closed(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    must_append(b, 20);
    must_append(b, 60);
    kill_writer(b);
    off_t whole = size_of(b, 1);
    char path[PATH_MAX];
    path_of(b, 1, path);
    uint8_t bytes[4096];
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, bytes, sizeof bytes), whole);
    close(fd);
    crema_frame_t frame;
    off_t second, third;
    must(crema_frame_decode(bytes, (size_t)whole, &frame));
    second = (off_t)crema_frame_bytes(&frame);
    must(crema_frame_decode(bytes + second, (size_t)(whole - second), &frame));
    third = second + (off_t)crema_frame_bytes(&frame);
    for (off_t cut = second; cut <= whole; cut++) {
        unlink(path);
        append_bytes(b, 1, bytes, (size_t)cut);
        must_open(b);
        must_scan(b);
        const char *want = cut < third ? "1S 2E" : cut < whole ? "1S 2D 3E" : "1S 2D 3D 4E";
        assert_string_equal(delivered(b, 1), want);
        uint64_t torn = (uint64_t)(cut < third ? cut - second : cut < whole ? cut - third : 0);
        crema_spool_stats_t stats = crema_spool_stats(b->spool);
        assert_int_equal(stats.torn_bytes, torn);
        assert_int_equal(stats.torn_bytes > 0, torn > 0);
        assert_int_equal(stats.io_errors, 0);
        /* The next reader finds a stream that is closed, and leaves it so. */
        off_t closed = size_of(b, 1);
        must_open(b);
        must_scan(b);
        assert_string_equal(delivered(b, 1), want);
        assert_int_equal(size_of(b, 1), closed);
        assert_int_equal(crema_spool_stats(b->spool).torn_bytes, 0);
    }
    bench_destroy(b);
}

static void
test_before_its_first_record_is_whole_a_file_is_left_alone(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    kill_writer(b);
    off_t whole = size_of(b, 1);
    char path[PATH_MAX];
    path_of(b, 1, path);
    for (off_t cut = whole - 1; cut >= 0; cut--) {
        assert_int_equal(truncate(path, cut), 0);
        must_open(b);
        must_scan(b);
        assert_int_equal(size_of(b, 1), cut);
        assert_int_equal(must_find(b)->hi, 0);
        assert_false(must_find(b)->closed);
        assert_int_equal(crema_spool_stats(b->spool).foreign_files, 1);
    }
    bench_destroy(b);
}

static void
test_a_flipped_bit_costs_one_record_and_is_found(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    off_t start[8];
    for (int i = 2; i < 7; i++) {
        start[i] = size_of(b, 1);
        must_append(b, 30);
    }
    start[7] = size_of(b, 1);
    crema_spool_writer_close(&b->writer);
    for (int i = 2; i < 7; i++)
        for (off_t at = start[i]; at < start[i + 1]; at++) {
            damage(b, 1, at, 1);
            must_open(b);
            must_scan(b);
            char want[128];
            char *out = want + sprintf(want, "1S ");
            for (int k = 2; k < 7; k++)
                out += k == i ? sprintf(out, "%d-%dL:corrupt ", k, k) : sprintf(out, "%dD ", k);
            strcpy(out, "7E");
            assert_string_equal(delivered(b, 1), want);
            char *once = strdup(delivered_in(b, 1, 100));
            assert_string_equal(once, want);
            free(once);
            assert_int_equal(crema_spool_stats(b->spool).corrupt, 1);
            assert_int_equal(must_find(b)->lost, 1);
            damage(b, 1, at, 1); /* back again */
        }
    bench_destroy(b);
}

static void
test_a_loss_is_the_same_bytes_each_time(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    must_append(b, 30);
    off_t at = size_of(b, 1);
    must_append(b, 30);
    must_append(b, 30);
    must_append(b, 30);
    crema_spool_writer_close(&b->writer);
    damage(b, 1, at + 4, 1);
    damage(b, 1, at + 100, 1);
    uint8_t first[4096], again[4096];
    size_t n_first, n_again;
    uint32_t n;
    uint64_t last;
    must_open(b);
    must_scan(b);
    must(crema_spool_read(b->spool, &b->stream_id, 1, first, sizeof first, &n_first, &n, &last));
    must(crema_spool_read(b->spool, &b->stream_id, 1, again, sizeof again, &n_again, &n, &last));
    assert_int_equal(n_first, n_again);
    assert_memory_equal(first, again, n_first);
    must_open(b);
    must_scan(b);
    /* Another reader, piece by piece. */
    size_t done = 0;
    for (uint64_t from = 1; from <= must_find(b)->hi; from = last + 1) {
        must(crema_spool_read(b->spool, &b->stream_id, from, again + done, 100, &n_again, &n,
                              &last));
        done += n_again;
    }
    assert_int_equal(done, n_first);
    assert_memory_equal(first, again, n_first);
    bench_destroy(b);
}

static void
test_damage_in_an_older_segment_is_a_loss_up_to_the_next(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    uint64_t second = 0;
    char path[PATH_MAX];
    for (uint64_t seq = 2; second == 0; seq++) {
        must_append_big(b);
        path_of(b, seq, path);
        if (access(path, F_OK) == 0)
            second = seq;
    }
    crema_spool_writer_close(&b->writer);
    path_of(b, 1, path);
    assert_int_equal(truncate(path, size_of(b, 1) - 60000), 0);
    must_open(b);
    must_scan(b);
    char want[128];
    sprintf(want, "%lluD %llu-%lluL:corrupt %lluD %lluE", (unsigned long long)second - 3,
            (unsigned long long)second - 2, (unsigned long long)second - 1,
            (unsigned long long)second, (unsigned long long)second + 1);
    assert_string_equal(delivered(b, second - 3), want);
    assert_int_equal(must_find(b)->lost, 2);
    bench_destroy(b);
}

static void
test_a_file_that_shrinks_under_the_reader_loses_what_was_cut(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_start_writer(b);
    must_append(b, 30);
    off_t kept = size_of(b, 1);
    must_append(b, 30);
    must_append(b, 30);
    must_scan(b);
    assert_string_equal(delivered(b, 1), "1S 2D 3D 4D");
    char path[PATH_MAX];
    path_of(b, 1, path);
    assert_int_equal(truncate(path, kept + 5), 0);
    assert_string_equal(delivered(b, 1), "1S 2D 3-4L:corrupt");
    must_scan(b);
    assert_int_equal(must_find(b)->hi, 4);
    assert_string_equal(delivered(b, 1), "1S 2D 3-4L:corrupt");
    must_append(b, 30); /* lands behind five bytes of garbage */
    must_scan(b);
    assert_string_equal(delivered(b, 1), "1S 2D 3-4L:corrupt 5D");
    bench_destroy(b);
}

static void
test_foreign_files_are_counted_and_left_alone(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_start_writer(b);
    must_append(b, 1);
    static const char *const names[] = {"core", "sp-", "sp-zz",
                                        "sp-00112233445566778899AABBCCDDEEFF-0000000000000001",
                                        "sp-00112233445566778899aabbccddeeff-0000000000000000",
                                        "sp-00112233445566778899aabbccddeeff-0000000000000001.bak",
                                        /* a segment by its name, but nothing of the kind inside */
                                        "sp-00112233445566778899aabbccddeeff-0000000000000001",
                                        "sp-00112233445566778899aabbccddeefe-0000000000000007"};
    const size_t n = sizeof names / sizeof *names;
    char path[PATH_MAX];
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", b->dir, names[i]);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_int_equal(write(fd, "not a record of any kind, but long enough", 41), 41);
        close(fd);
    }
    snprintf(path, sizeof path, "%s/sp-00112233445566778899aabbccddee00-0000000000000001", b->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    must_open(b);
    for (int i = 0; i < 3; i++)
        must_scan(b);
    assert_int_equal(crema_spool_stats(b->spool).foreign_files, n + 1);
    assert_int_equal(crema_spool_evict(b->spool, 0), 0);
    assert_string_equal(delivered(b, 1), "1S 2D");
    for (size_t i = 0; i < n; i++) {
        char other[PATH_MAX];
        snprintf(other, sizeof other, "%s/%s", b->dir, names[i]);
        struct stat st;
        assert_int_equal(stat(other, &st), 0);
        assert_int_equal(st.st_size, 41);
    }
    assert_int_equal(rmdir(path), 0);
    bench_destroy(b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_that_are_written_are_read),
        cmocka_unit_test(test_a_record_larger_than_the_buffer_is_refused),
        cmocka_unit_test(test_segments_roll_over_and_pieces_do_not_matter),
        cmocka_unit_test(test_a_full_disk_leaves_nothing_of_a_record),
        cmocka_unit_test(test_a_first_segment_that_comes_last_is_read),
        cmocka_unit_test(test_a_tail_torn_at_every_byte_is_cut_and_closed),
        cmocka_unit_test(test_before_its_first_record_is_whole_a_file_is_left_alone),
        cmocka_unit_test(test_a_flipped_bit_costs_one_record_and_is_found),
        cmocka_unit_test(test_a_loss_is_the_same_bytes_each_time),
        cmocka_unit_test(test_damage_in_an_older_segment_is_a_loss_up_to_the_next),
        cmocka_unit_test(test_a_file_that_shrinks_under_the_reader_loses_what_was_cut),
        cmocka_unit_test(test_foreign_files_are_counted_and_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
