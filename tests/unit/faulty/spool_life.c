#include "spool_life.h"

#include "must.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message_parts.h"
#include "record_frames.h"

#define RECORDS 8 /* of each stream, in segments that begin at 1, 4 and 7 */
#define ROUNDS 6
#define STEPS 9
#define FIRST_BYTES 130 /* a StreamInfo and what fits */
#define STEP_BYTES 70   /* one record */

void (*spool_life_pause)(int paused);

static void
s_pause(int paused)
{
    if (spool_life_pause)
        spool_life_pause(paused);
}

static crema_id_t
s_id(size_t stream)
{
    return frames_id((uint8_t)(stream + 1));
}

/* ---- the files */

static void
s_add_record(frames_t *frames, size_t stream, uint64_t seq)
{
    if (seq > 1) {
        frames_add_dicts(frames, seq, seq);
        return;
    }
    crema_record_t info = {.type = CREMA_RECORD_STREAM,
                           .stream = {.run_id = body_id(frames_id(0x77)),
                                      .kind = CREMA_STREAM_WORKER,
                                      .host = "host",
                                      .pid = (int32_t)stream + 1,
                                      .worker_uuid = "uuid",
                                      .worker_name = "name",
                                      .boot_id = "boot",
                                      .memory_limit_b = -1}};
    frames_add(frames, &info, 1);
}

static void
s_write_segment(const char *dir, size_t stream, uint64_t first, uint64_t last, bool is_torn)
{
    static frames_t frames;
    char hex[CREMA_ID_HEX_CHARS + 1], path[512];
    crema_id_t id = s_id(stream);
    frames_clear(&frames);
    for (uint64_t seq = first; seq <= last; seq++)
        if (stream == 0 && seq == RECORDS)
            frames_add_end(&frames, seq);
        else
            s_add_record(&frames, stream, seq);
    snprintf(path, sizeof path, "%s/sp-%s-%016llx", dir, crema_id_hex(&id, hex),
             (unsigned long long)first);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, frames.bytes, frames.size), frames.size);
    if (is_torn)
        assert_int_equal(write(fd, frames.bytes, 20), 20);
    close(fd);
}

void
spool_life_write(const char *dir)
{
    for (size_t i = 0; i < SPOOL_LIFE_STREAMS; i++) {
        s_write_segment(dir, i, 1, 3, false);
        s_write_segment(dir, i, 4, 6, false);
        s_write_segment(dir, i, 7, RECORDS, i == 2);
    }
}

/* ---- the life */

static void
s_take(spool_life_t *self, size_t stream, const uint8_t *bytes, size_t size, uint64_t first)
{
    uint64_t due = first;
    for (size_t at = 0; at < size;) {
        crema_frame_t frame;
        must(crema_frame_decode(bytes + at, size - at, &frame));
        at += crema_frame_bytes(&frame);
        if (frame.type == CREMA_RECORD_LOSS)
            fail_msg("stream %zu: a LOSS up to %llu of records that are there", stream,
                     (unsigned long long)frame.seq);
        assert_int_equal(frame.seq, due++);
        self->ended[stream] = frame.type == CREMA_RECORD_END;
    }
    self->durable[stream] = due - 1;
}

/* A record at a time, then the rest; each is durable before the spool hears of it. */
static void
s_deliver(spool_life_t *self, crema_spool_t *spool, size_t stream)
{
    static uint8_t buf[64 << 10];
    crema_id_t id = s_id(stream);
    for (int step = 0; step < STEPS; step++) {
        const crema_spool_stream_t *held = crema_spool_find(spool, &id);
        if (!held || crema_id_is_zero(&held->run_id) || held->hi <= self->durable[stream])
            break;
        size_t bytes, small = step == 0 ? FIRST_BYTES : STEP_BYTES;
        size_t room = step < STEPS - 1 ? small : sizeof buf;
        uint32_t n = 0;
        uint64_t last, first = self->durable[stream] + 1;
        if (crema_spool_read(spool, &id, first, buf, room, &bytes, &n, &last) == CREMA_OK && n > 0)
            s_take(self, stream, buf, bytes, first);
        (void)!crema_spool_trim(spool, &id, self->durable[stream]);
    }
    /* What would not go is asked to go again. */
    if (self->ended[stream])
        (void)!crema_spool_trim(spool, &id, self->durable[stream]);
}

/* "I have read everything": then nothing that is owed may be absent. */
static void
s_check_scan(const spool_life_t *self, const crema_spool_t *spool)
{
    for (size_t i = 0; i < SPOOL_LIFE_STREAMS; i++) {
        crema_id_t id = s_id(i);
        const crema_spool_stream_t *held = crema_spool_find(spool, &id);
        if (self->ended[i])
            continue;
        if (!held || crema_id_is_zero(&held->run_id) || held->hi < RECORDS)
            fail_msg("stream %zu is silently absent", i);
    }
}

static bool
s_is_done(const spool_life_t *self)
{
    for (size_t i = 0; i < SPOOL_LIFE_STREAMS; i++)
        if (!self->ended[i])
            return false;
    return true;
}

crema_err_t
spool_life_serve(spool_life_t *self, const char *dir)
{
    crema_spool_t *spool = NULL;
    crema_err_t err = crema_spool_open(dir, &spool);
    if (err == CREMA_OK)
        err = crema_spool_lock(spool);
    for (int round = 0; err == CREMA_OK && round < ROUNDS; round++) {
        crema_spool_fault_t fault;
        crema_err_t scanned = crema_spool_scan(spool);
        s_pause(1);
        size_t n = crema_spool_faults(spool, &fault, 1);
        assert_true(scanned == CREMA_OK || n > 0);
        if (n == 0)
            s_check_scan(self, spool);
        else
            assert_true(fault.why != 0);
        s_pause(0);
        for (size_t i = 0; i < SPOOL_LIFE_STREAMS; i++)
            s_deliver(self, spool, i);
    }
    if (err == CREMA_OK && !(s_is_done(self) && crema_spool_count(spool) == 0))
        err = CREMA_EAGAIN;
    crema_spool_close(&spool);
    return err;
}

void
spool_life_check(const spool_life_t *self, const char *dir)
{
    static const uint64_t firsts[] = {1, 4, 7, RECORDS + 1};
    for (size_t i = 0; i < SPOOL_LIFE_STREAMS; i++)
        for (size_t k = 0; k < 3; k++) {
            char hex[CREMA_ID_HEX_CHARS + 1], path[512];
            crema_id_t id = s_id(i);
            snprintf(path, sizeof path, "%s/sp-%s-%016llx", dir, crema_id_hex(&id, hex),
                     (unsigned long long)firsts[k]);
            if (self->durable[i] + 1 < firsts[k + 1] && access(path, F_OK) != 0)
                fail_msg("stream %zu: the segment of %llu went, durable are %llu", i,
                         (unsigned long long)firsts[k], (unsigned long long)self->durable[i]);
        }
}
