/* Any bytes as segments of a spool, as they are and with checksums made right: listed, read,
 * trimmed, evicted, ended, as an agent does. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "crema_record.h"
#include "crema_spool.h"
#include "fuzz.h"
#include "fuzz_files.h"

static const char c_id[] = "sp-0102030405060708090a0b0c0d0e0f10-";

/* From its first number to its last, and every frame that is given can be decoded. */
static void
s_read(crema_spool_t *spool, const crema_spool_stream_t *stream)
{
    static uint8_t buf[256 << 10];
    const crema_id_t id = stream->stream_id;
    const uint64_t hi = stream->hi;
    for (uint64_t seq = 1, turns = 0; seq <= hi && turns < 1000; turns++) {
        size_t bytes, at = 0;
        uint32_t n;
        uint64_t last, number = 0;
        if (crema_spool_read(spool, &id, seq, buf, sizeof buf, &bytes, &n, &last) != CREMA_OK ||
            n == 0)
            return;
        HOLDS(last >= seq && bytes <= sizeof buf);
        for (uint32_t i = 0; i < n; i++) {
            crema_frame_t frame;
            HOLDS(crema_frame_decode(buf + at, bytes - at, &frame) == CREMA_OK);
            HOLDS(frame.seq > number);
            number = frame.seq;
            at += crema_frame_bytes(&frame);
        }
        HOLDS(at == bytes && number == last);
        if (last == UINT64_MAX)
            return;
        seq = last + 1;
    }
}

static void
s_serve(const char *dir)
{
    crema_spool_t *spool;
    HOLDS(crema_spool_open(dir, &spool) == CREMA_OK);
    HOLDS(crema_spool_lock(spool) == CREMA_OK);
    for (int turn = 0; turn < 2; turn++) {
        HOLDS(crema_spool_scan(spool) == CREMA_OK);
        for (size_t i = 0; i < crema_spool_count(spool); i++)
            s_read(spool, crema_spool_stream(spool, i));
        if (turn == 0)
            (void)crema_spool_evict(spool, 200);
    }
    if (crema_spool_count(spool) > 0) {
        const crema_spool_stream_t *stream = crema_spool_stream(spool, 0);
        const crema_id_t id = stream->stream_id;
        crema_err_t err = crema_spool_trim(spool, &id, stream->hi / 2);
        err = err == CREMA_OK ? crema_spool_trim(spool, &id, UINT64_MAX) : err;
        HOLDS(err == CREMA_OK || err == CREMA_ENOENT || err == CREMA_EIO || err == CREMA_EINVAL);
    }
    crema_spool_close(&spool);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[128], name[128];
    if (size < 2)
        return 0;
    size_t n = size - 2, first = n * data[0] / 255;
    uint8_t *bytes = malloc(n + 1);
    HOLDS(bytes != NULL);
    memcpy(bytes, data + 2, n);
    snprintf(dir, sizeof dir, "%s/spool", fuzz_dir());
    (void)mkdir(dir, 0700);
    for (int repaired = 0; repaired < 2; repaired++) {
        uint32_t frames = 0;
        if (repaired) {
            frames = fuzz_repair_frames(bytes, first, 1);
            (void)fuzz_repair_frames(bytes + first, n - first, frames + 1 + (data[1] & 3));
        }
        snprintf(name, sizeof name, "%s%016x", c_id, 1);
        (void)fuzz_write(dir, name, bytes, first);
        snprintf(name, sizeof name, "%s%016x", c_id, repaired ? frames + 1 + (data[1] & 3) : 2u);
        if (first < n)
            (void)fuzz_write(dir, name, bytes + first, n - first);
        s_serve(dir);
        fuzz_clean(dir);
    }
    free(bytes);
    return 0;
}
