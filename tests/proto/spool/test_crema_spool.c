#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "crema_frame.h"
#include "crema_random.h"
#include "crema_spool.h"

/* A spool directory, its reader, and one writer's stream. */
typedef struct {
    char dir[64];
    crema_spool_t *spool;
    crema_id_t stream_id, run_id;
    crema_spool_writer_t *writer;
    crema_arena_t *arena;
} bench_t;

static void
must(crema_err_t err)
{
    assert_string_equal(crema_err_name(err), "CREMA_OK");
}

static bench_t *
bench_new(void)
{
    bench_t *b = calloc(1, sizeof *b);
    strcpy(b->dir, "/tmp/crema-spool-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    b->stream_id = crema_random_id();
    b->run_id = crema_random_id();
    must(crema_arena_new(1 << 21, &b->arena));
    return b;
}

static void
path_of(const bench_t *b, uint64_t first, char path[PATH_MAX])
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    snprintf(path, PATH_MAX, "%s/sp-%s-%016llx", b->dir, crema_id_hex(&b->stream_id, hex),
             (unsigned long long)first);
}

static void
bench_destroy(bench_t *b)
{
    crema_spool_writer_close(&b->writer);
    crema_spool_close(&b->spool);
    crema_arena_destroy(&b->arena);
    DIR *dir = opendir(b->dir);
    const struct dirent *item;
    while ((item = readdir(dir)))
        (void)unlinkat(dirfd(dir), item->d_name, 0);
    closedir(dir);
    assert_int_equal(rmdir(b->dir), 0);
    free(b);
}

static void
must_open(bench_t *b)
{
    crema_spool_close(&b->spool);
    must(crema_spool_open(b->dir, &b->spool));
    must(crema_spool_lock(b->spool));
}

static void
must_scan(bench_t *b)
{
    must(crema_spool_scan(b->spool));
}

static void
must_start_writer(bench_t *b)
{
    crema_stream_info_t info = {.run_id = b->run_id,
                                .kind = CREMA_STREAM_WORKER,
                                .host = "host",
                                .pid = 42,
                                .worker_uuid = "uuid",
                                .worker_name = "tcp://w",
                                .nthreads = 2,
                                .memory_limit_b = -1,
                                .t_real_ns = 1000000,
                                .t_mono_ns = 1000,
                                .boot_id = "boot"};
    must(crema_spool_writer_open(b->dir, &b->stream_id, &info, &b->writer));
}

/* A dictionary entry with a text of that length: a record of known weight. */
static void
must_append(bench_t *b, size_t text_bytes)
{
    char text[CREMA_NAME_MAX + 1];
    assert_true(text_bytes <= CREMA_NAME_MAX);
    memset(text, 'x', text_bytes);
    text[text_bytes] = '\0';
    crema_dict_entry_t entry = {
        .kind = CREMA_DICT_ACTIVITY, .text = text, .memory_limit_b = -1, .size_b = -1};
    crema_record_t record = {.type = CREMA_RECORD_DICT, .dict = {.n = 1, .entries = &entry}};
    must(crema_spool_writer_append(b->writer, &record, 2000));
}

/* Fills whole segments. */
static void
must_append_big(bench_t *b)
{
    enum { N = 100 };
    static char text[CREMA_NAME_MAX + 1];
    memset(text, 'y', CREMA_NAME_MAX);
    crema_dict_entry_t entries[N];
    for (uint32_t i = 0; i < N; i++)
        entries[i] = (crema_dict_entry_t){
            .kind = CREMA_DICT_FILE, .id = i, .text = text, .memory_limit_b = -1, .size_b = -1};
    crema_record_t record = {.type = CREMA_RECORD_DICT, .dict = {.n = N, .entries = entries}};
    must(crema_spool_writer_append(b->writer, &record, 2000));
}

static const crema_spool_stream_t *
must_find(const bench_t *b)
{
    const crema_spool_stream_t *stream = crema_spool_find(b->spool, &b->stream_id);
    assert_non_null(stream);
    return stream;
}

/* What a killed writer leaves: its lock is free and there is no END, here because it is cut off again. */
static void
kill_writer(bench_t *b)
{
    crema_spool_writer_close(&b->writer);
    char path[PATH_MAX];
    must_open(b);
    must_scan(b);
    const crema_spool_stream_t *stream = must_find(b);
    assert_true(stream->closed);
    uint8_t buf[256];
    size_t bytes;
    uint32_t n;
    uint64_t last;
    must(crema_spool_read(b->spool, &b->stream_id, stream->hi, buf, sizeof buf, &bytes, &n, &last));
    uint64_t first = 1;
    for (uint64_t i = stream->hi; i > 1; i--) {
        path_of(b, i, path);
        if (access(path, F_OK) == 0) {
            first = i;
            break;
        }
    }
    path_of(b, first, path);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - (off_t)bytes), 0);
    crema_spool_close(&b->spool);
}

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

static void
append_bytes(const bench_t *b, uint64_t first, const void *bytes, size_t n)
{
    char path[PATH_MAX];
    path_of(b, first, path);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

static off_t
size_of(const bench_t *b, uint64_t first)
{
    char path[PATH_MAX];
    struct stat st;
    path_of(b, first, path);
    return stat(path, &st) == 0 ? st.st_size : -1;
}

/* What a delivery from `from` on brings: "1R 2D 3-5L:corrupt 6E". Reads in pieces of `size`. */
static const char *
delivered_in(bench_t *b, uint64_t from, size_t size)
{
    static char text[1 << 20];
    static const char *const reasons[] = {"unknown",   "evicted",    "corrupt", "torn_tail",
                                          "regressed", "agent_gone", "invalid", "disk_full"};
    uint8_t *buf = malloc(size);
    char *out = text;
    *out = '\0';
    for (;;) {
        size_t bytes, at = 0;
        uint32_t n;
        uint64_t last;
        must(crema_spool_read(b->spool, &b->stream_id, from, buf, size, &bytes, &n, &last));
        if (n == 0)
            break;
        for (uint32_t i = 0; i < n; i++) {
            crema_frame_t frame;
            crema_record_t record;
            must(crema_frame_decode(buf + at, bytes - at, &frame));
            must(crema_record_decode(&frame, b->arena, &record));
            at += crema_frame_bytes(&frame);
            if (record.type == CREMA_RECORD_LOSS) {
                assert_int_equal(record.loss.first, from);
                assert_int_equal(record.loss.last, frame.seq);
                out += sprintf(out, "%llu-%lluL:%s ", (unsigned long long)record.loss.first,
                               (unsigned long long)record.loss.last, reasons[record.loss.reason]);
            } else {
                assert_int_equal(frame.seq, from);
                out +=
                    sprintf(out, "%llu%c ", (unsigned long long)frame.seq, " SDBEL"[record.type]);
            }
            from = frame.seq + 1;
        }
        assert_int_equal(at, bytes);
        assert_int_equal(last, from - 1);
    }
    free(buf);
    if (out > text)
        out[-1] = '\0';
    return text;
}

static const char *
delivered(bench_t *b, uint64_t from)
{
    return delivered_in(b, from, 200000);
}

/* ---- writing and reading */

static void
test_what_is_written_is_read(void **state)
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
    crema_dict_entry_t entry = {.kind = CREMA_DICT_ACTIVITY, .text = "lost", .size_b = -1};
    crema_record_t record = {.type = CREMA_RECORD_DICT, .dict = {.n = 1, .entries = &entry}};
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
        assert_int_equal(stats.torn_tails, torn > 0);
        assert_int_equal(stats.io_errors, 0);
        /* The next reader finds a stream that is closed, and leaves it so. */
        off_t closed = size_of(b, 1);
        must_open(b);
        must_scan(b);
        assert_string_equal(delivered(b, 1), want);
        assert_int_equal(size_of(b, 1), closed);
        assert_int_equal(crema_spool_stats(b->spool).torn_tails, 0);
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

/* ---- whose writer is gone */

/* Or whoever may write in the same directory could go on with, or end, a stream of somebody else. */
static void
test_a_segment_of_another_user_is_not_of_the_stream(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can give files away */
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
    assert_int_equal(crema_spool_stats(b->spool).torn_tails, 0);
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
    pid_t pid = fork();
    if (pid == 0) {
        must_start_writer(b);
        must_append(b, 5);
        (void)!write(ready[1], "r", 1);
        pause();
        _exit(0);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    must_scan(b);
    assert_string_equal(delivered(b, 1), "1S 2D");
    assert_false(must_find(b)->closed);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
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
    close(ready[1]);
    bench_destroy(b);
}

static void
test_a_forked_child_can_neither_append_nor_close(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    must_open(b);
    must_start_writer(b);
    pid_t pid = fork();
    if (pid == 0) {
        crema_record_t record = {.type = CREMA_RECORD_END};
        bool refused = crema_spool_writer_append(b->writer, &record, 1) == CREMA_EINVAL;
        crema_spool_writer_close(&b->writer);
        _exit(refused ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
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
    assert_int_equal(crema_spool_open("/nonexistent/spool", &other), CREMA_ENOENT);
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
        cmocka_unit_test(test_what_is_written_is_read),
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
        cmocka_unit_test(test_a_segment_of_another_user_is_not_of_the_stream),
        cmocka_unit_test(test_a_living_writer_is_not_closed_whatever_its_tail),
        cmocka_unit_test(test_without_the_lock_nothing_is_closed),
        cmocka_unit_test(test_a_killed_process_is_closed_for),
        cmocka_unit_test(test_a_forked_child_can_neither_append_nor_close),
        cmocka_unit_test(test_closing_survives_a_kill_between_its_steps),
        cmocka_unit_test(test_a_writer_between_two_segments_is_alive),
        cmocka_unit_test(test_committed_segments_go_and_the_name_of_the_run_stays),
        cmocka_unit_test(test_a_store_that_forgot_gets_a_loss_of_what_is_gone),
        cmocka_unit_test(test_a_removal_that_is_killed_leaves_the_same_stream),
        cmocka_unit_test(test_eviction_of_a_closed_stream_leaves_a_loss_and_its_end),
        cmocka_unit_test(test_eviction_takes_closed_streams_first_and_never_the_newest_segment),
        cmocka_unit_test(test_one_reader_holds_the_lock),
        cmocka_unit_test(test_the_identity_is_made_once),
        cmocka_unit_test(test_files_that_vanish_take_their_stream_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
