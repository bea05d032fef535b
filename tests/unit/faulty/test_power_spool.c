/* A worker's host loses power at any moment of its agent's life. What the far side does not hold
 * is still in the spool if the kernel had written it back; if not, what is found is true, and what
 * is not found is counted. */
#include "must.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "power.h"
#include "record_frames.h"
#include "spool_life.h"

#ifndef POWER_CUTS
#define POWER_CUTS 1500
#endif
#define RECORDS_MAX 16
#define FRAME_MAX 1024

typedef struct {
    uint8_t bytes[FRAME_MAX];
    size_t size; /* 0: there is none of this number */
} written_t;

typedef struct {
    const char *dir; /* for what is found after each cut */
    void (*check)(const spool_life_t *life, const char *found);
    spool_life_t life;
    uint64_t seed, cuts;
    bool is_alive; /* the agent: before, the files are only put there */
} cuts_t;

static written_t s_written[SPOOL_LIFE_STREAMS][RECORDS_MAX];
static struct {
    uint64_t same, losses, ends, nameless;
} s_found;

/* ---- what the writers wrote */

static void
s_note_file(const char *dir, const char *name)
{
    static uint8_t bytes[64 << 10];
    crema_id_t id;
    char hex[CREMA_ID_HEX_CHARS + 1] = "", path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    memcpy(hex, name + 3, CREMA_ID_HEX_CHARS);
    size_t stream = 0;
    for (; stream < SPOOL_LIFE_STREAMS; stream++) {
        id = frames_id((uint8_t)(stream + 1));
        char want[CREMA_ID_HEX_CHARS + 1];
        if (strcmp(crema_id_hex(&id, want), hex) == 0)
            break;
    }
    assert_true(stream < SPOOL_LIFE_STREAMS);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, bytes, sizeof bytes);
    assert_true(n > 0);
    crema_frame_t frame;
    for (size_t at = 0; crema_frame_decode(bytes + at, (size_t)n - at, &frame) == CREMA_OK;) {
        written_t *written = &s_written[stream][frame.seq];
        assert_true(frame.seq < RECORDS_MAX && crema_frame_bytes(&frame) <= FRAME_MAX);
        written->size = crema_frame_bytes(&frame);
        memcpy(written->bytes, bytes + at, written->size);
        at += written->size;
    }
    close(fd);
}

static bool
s_is_segment(const char *name)
{
    return strncmp(name, "sp-", 3) == 0;
}

/* Calls `fn` for each segment; how many there are. */
static size_t
s_each_segment(const char *dir, void (*fn)(const char *dir, const char *name))
{
    size_t n = 0;
    DIR *files = opendir(dir);
    assert_non_null(files);
    for (const struct dirent *file; (file = readdir(files));)
        if (s_is_segment(file->d_name)) {
            if (fn)
                fn(dir, file->d_name);
            n++;
        }
    closedir(files);
    return n;
}

static void
s_sync(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    close(fd);
}

static void
s_sync_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    s_sync(path, O_RDWR);
}

/* ---- what is found */

/* The kernel had written everything back: nothing may be missing that the far side does not
 * hold. */
static void
must_have_all_that_is_owed(const spool_life_t *life, const char *found)
{
    spool_life_t after = *life;
    spool_life_check(life, found);
    must(spool_life_serve(&after, found));
}

static void
must_be_true(size_t stream, const uint8_t *bytes, size_t size, uint64_t first, uint64_t last)
{
    uint64_t due = first;
    for (size_t at = 0; at < size;) {
        crema_frame_t frame;
        must(crema_frame_decode(bytes + at, size - at, &frame));
        assert_int_equal(frame.type == CREMA_RECORD_LOSS || frame.seq == due, true);
        due = frame.seq + 1;
        const written_t *written =
            frame.seq < RECORDS_MAX ? &s_written[stream][frame.seq] : &s_written[stream][0];
        bool is_same = written->size == crema_frame_bytes(&frame) &&
                       memcmp(written->bytes, bytes + at, written->size) == 0;
        if (!is_same && frame.type != CREMA_RECORD_LOSS && frame.type != CREMA_RECORD_END)
            fail_msg("stream %zu: record %llu is not what was written", stream,
                     (unsigned long long)frame.seq);
        s_found.same += is_same;
        s_found.losses += frame.type == CREMA_RECORD_LOSS;
        s_found.ends += !is_same && frame.type == CREMA_RECORD_END;
        at += crema_frame_bytes(&frame);
    }
    assert_int_equal(due, last + 1);
}

static void
s_read_all(crema_spool_t *spool, size_t stream, uint64_t first)
{
    static uint8_t buf[64 << 10];
    crema_id_t id = frames_id((uint8_t)(stream + 1));
    for (;;) {
        const crema_spool_stream_t *held = crema_spool_find(spool, &id);
        size_t bytes;
        uint32_t n;
        uint64_t last;
        if (!held || held->hi < first)
            break;
        must(crema_spool_read(spool, &id, first, buf, sizeof buf, &bytes, &n, &last));
        assert_true(n > 0);
        must_be_true(stream, buf, bytes, first, last);
        must(crema_spool_trim(spool, &id, last));
        first = last + 1;
    }
    must(crema_spool_find(spool, &id) ? crema_spool_trim(spool, &id, UINT64_MAX) : CREMA_OK);
}

/* Any part of it may be missing: what is there is read as it was written, up to an END, and no
 * file stays that nobody counts. */
static void
must_find_nothing_false(const spool_life_t *life, const char *found)
{
    crema_spool_t *spool;
    crema_spool_fault_t fault;
    must(crema_spool_open(found, &spool));
    must(crema_spool_lock(spool));
    must(crema_spool_scan(spool));
    must(crema_spool_scan(spool));
    for (size_t i = 0; i < SPOOL_LIFE_STREAMS; i++) {
        crema_id_t id = frames_id((uint8_t)(i + 1));
        const crema_spool_stream_t *held = crema_spool_find(spool, &id);
        if (!held || crema_id_is_zero(&held->run_id))
            continue;
        assert_true(
            held->closed); /* its writer is gone, and no record follows that nobody knows of */
        s_read_all(spool, i, life->durable[i] + 1);
        assert_null(crema_spool_find(spool, &id));
    }
    must(crema_spool_scan(spool));
    if (s_each_segment(found, NULL) > 0) {
        s_found.nameless++;
        assert_true(crema_spool_faults(spool, &fault, 1) > 0 ||
                    crema_spool_stats(spool).foreign_files > 0);
    }
    crema_spool_close(&spool);
}

/* ---- cuts */

static void
s_cut(void *context)
{
    cuts_t *self = context;
    char target[PATH_MAX];
    if (!self->is_alive)
        return;
    snprintf(target, sizeof target, "%s/%llu", self->dir, (unsigned long long)++self->seed);
    power_cut(self->seed, target);
    self->check(&self->life, target);
    self->cuts++;
}

static void
s_live_and_cut(cuts_t *self, bool is_synced)
{
    char *dir = scratch_make_in_memory(32), *after = scratch_make_in_memory(32);
    self->dir = after;
    self->life = (spool_life_t){0};
    self->is_alive = false;
    power_watch(dir, s_cut, self);
    spool_life_write(dir);
    s_each_segment(dir, s_note_file);
    if (is_synced) {
        s_each_segment(dir, s_sync_file);
        s_sync(dir, O_RDONLY | O_DIRECTORY);
    }
    self->is_alive = true;
    must(spool_life_serve(&self->life, dir));
    s_cut(self);
    power_forget();
    scratch_remove(&after);
    scratch_remove(&dir);
}

static void
test_power_cuts_take_nothing_that_is_owed(void **state)
{
    (void)state;
    cuts_t cuts = {.check = must_have_all_that_is_owed};
    while (cuts.cuts < POWER_CUTS)
        s_live_and_cut(&cuts, true);
    print_message("%llu power cuts of a spool that was written back\n",
                  (unsigned long long)cuts.cuts);
}

static void
test_power_cuts_leave_nothing_false(void **state)
{
    (void)state;
    cuts_t cuts = {.check = must_find_nothing_false};
    while (cuts.cuts < POWER_CUTS)
        s_live_and_cut(&cuts, false);
    print_message("%llu power cuts of one that was not: %llu records as written, %llu LOSS, %llu "
                  "new END, %llu times segments without a StreamInfo\n",
                  (unsigned long long)cuts.cuts, (unsigned long long)s_found.same,
                  (unsigned long long)s_found.losses, (unsigned long long)s_found.ends,
                  (unsigned long long)s_found.nameless);
    assert_true(s_found.same && s_found.losses && s_found.ends && s_found.nameless);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_cuts_take_nothing_that_is_owed),
        cmocka_unit_test(test_power_cuts_leave_nothing_false),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
