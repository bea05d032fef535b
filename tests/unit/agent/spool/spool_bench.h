/* spool_bench - a spool directory with one writer and one reader, and what damages it. */
#ifndef SPOOL_BENCH_H
#define SPOOL_BENCH_H

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crema_frame.h"
#include "crema_random.h"
#include "crema_spool.h"
#include "message_parts.h"
#include "must.h"
#include "record_frames.h"

/* A spool directory, its reader, and one writer's stream. */
typedef struct {
    char dir[SCRATCH_BYTES];
    crema_spool_t *spool;
    crema_id_t stream_id, run_id;
    crema_spool_writer_t *writer;
    crema_arena_t *arena;
} bench_t;

static inline bench_t *
bench_new(void)
{
    bench_t *b = calloc(1, sizeof *b);
    scratch_template("spool", b->dir);
    assert_non_null(mkdtemp(b->dir));
    b->stream_id = crema_random_id();
    b->run_id = crema_random_id();
    must(crema_arena_new(1 << 21, &b->arena));
    return b;
}

static inline void
path_of(const bench_t *b, uint64_t first, char path[PATH_MAX])
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    snprintf(path, PATH_MAX, "%s/sp-%s-%016llx", b->dir, crema_id_hex(&b->stream_id, hex),
             (unsigned long long)first);
}

static inline void
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

static inline void
must_open(bench_t *b)
{
    crema_spool_close(&b->spool);
    must(crema_spool_open(b->dir, &b->spool));
    must(crema_spool_lock(b->spool));
}

static inline void
must_scan(bench_t *b)
{
    must(crema_spool_scan(b->spool));
}

static inline void
must_start_writer(bench_t *b)
{
    Crema__StreamInfo info = {.run_id = body_id(b->run_id),
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
    must(crema_spool_writer_open(b->dir, &b->stream_id, &info, CREMA_SPOOL_SELF, &b->writer));
}

/* A dictionary entry with a text of that length: a record of known weight. */
static inline void
must_append(bench_t *b, size_t text_bytes)
{
    char text[CREMA_NAME_MAX + 1];
    assert_true(text_bytes <= CREMA_NAME_MAX);
    memset(text, 'x', text_bytes);
    text[text_bytes] = '\0';
    Crema__DictEntry entry = {
        .kind = CREMA_DICT_ACTIVITY, .text = text, .memory_limit_b = -1, .size_b = -1};
    crema_record_t record = {.type = CREMA_RECORD_DICT,
                             .dict = {.n_entries = 1, .entries = body_entries(1, &entry)}};
    must(crema_spool_writer_append(b->writer, &record, 2000));
}

/* Fills whole segments. */
static inline void
must_append_big(bench_t *b)
{
    enum { N = 100 };
    static char text[CREMA_NAME_MAX + 1];
    memset(text, 'y', CREMA_NAME_MAX);
    Crema__DictEntry entries[N];
    for (uint32_t i = 0; i < N; i++)
        entries[i] = (Crema__DictEntry){
            .kind = CREMA_DICT_FILE, .id = i, .text = text, .memory_limit_b = -1, .size_b = -1};
    crema_record_t record = {.type = CREMA_RECORD_DICT,
                             .dict = {.n_entries = N, .entries = body_entries(N, entries)}};
    must(crema_spool_writer_append(b->writer, &record, 2000));
}

static inline const crema_spool_stream_t *
must_find(const bench_t *b)
{
    const crema_spool_stream_t *stream = crema_spool_find(b->spool, &b->stream_id);
    assert_non_null(stream);
    return stream;
}

/* What a killed writer leaves: its lock is free and there is no END, here because it is cut off
 * again. */
static inline void
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

static inline void
append_bytes(const bench_t *b, uint64_t first, const void *bytes, size_t n)
{
    char path[PATH_MAX];
    path_of(b, first, path);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

static inline off_t
size_of(const bench_t *b, uint64_t first)
{
    char path[PATH_MAX];
    struct stat st;
    path_of(b, first, path);
    return stat(path, &st) == 0 ? st.st_size : -1;
}

/* What a delivery from `from` on brings: "1R 2D 3-5L:corrupt 6E". Reads in pieces of `size`. */
static inline const char *
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

static inline const char *
delivered(bench_t *b, uint64_t from)
{
    return delivered_in(b, from, 200000);
}

#endif
