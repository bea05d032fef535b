#include "sink_tombs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_bytes.h"
#include "crema_failpoint.h"
#include "crema_frame.h"
#include "sink_fs.h"
#include "sink_segment.h"

#define FILE_NAME "tombstones"
#define FILE_BYTES_MAX ((size_t)1 << 30)
#define HEAD_BYTES 40u /* run_id, revision, total, number of the first in this frame */
#define TOMB_BYTES 24u
#define TOMBS_PER_FRAME ((CREMA_FRAME_BODY_MAX - HEAD_BYTES) / TOMB_BYTES)

/* ---- reading */

/* A run whose frames are being put together. */
typedef struct {
    crema_id_t run_id;
    int64_t revision;
    uint64_t total;
    sink_tomb_t *tombs;
    size_t n;
} gathered_t;

static crema_err_t
s_gather(gathered_t *run, const crema_frame_t *frame)
{
    crema_id_t run_id;
    memcpy(run_id.bytes, frame->body, CREMA_ID_BYTES);
    uint64_t total = crema_get_u64(frame->body + 24);
    uint64_t start = crema_get_u64(frame->body + 32);
    if (start == 0)
        run->n = 0;
    else if (!crema_id_equal(&run_id, &run->run_id) || total != run->total || start != run->n)
        return CREMA_OK; /* the frames before it are gone */
    run->run_id = run_id;
    run->revision = (int64_t)crema_get_u64(frame->body + 16);
    run->total = total;
    size_t n = (frame->len - HEAD_BYTES) / TOMB_BYTES;
    sink_tomb_t *grown = realloc(run->tombs, (run->n + n + 1) * sizeof *grown);
    if (!grown)
        return CREMA_ENOMEM;
    run->tombs = grown;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = frame->body + HEAD_BYTES + i * TOMB_BYTES;
        memcpy(grown[run->n].stream_id.bytes, at, CREMA_ID_BYTES);
        grown[run->n++].final_seq = crema_get_u64(at + CREMA_ID_BYTES);
    }
    return CREMA_OK;
}

crema_err_t
sink_tombs_read(const char *dir, sink_tombs_fn fn, void *context)
{
    char path[PATH_MAX];
    uint8_t *bytes;
    size_t size, offset = 0, skipped;
    crema_err_t err = sink_fs_join(dir, FILE_NAME, path);
    if (err == CREMA_OK)
        err = sink_fs_read(path, FILE_BYTES_MAX, &bytes, &size);
    if (err != CREMA_OK)
        return err == CREMA_ENOENT ? CREMA_OK : err;
    gathered_t run = {0};
    crema_frame_t frame;
    while (err == CREMA_OK &&
           sink_segment_next(bytes, size, &offset, &frame, &skipped) == CREMA_OK) {
        if (frame.type != SINK_TOMBSTONES_FRAME || frame.len < HEAD_BYTES)
            continue;
        err = s_gather(&run, &frame);
        if (err == CREMA_OK && run.n == run.total)
            err = fn(context, &run.run_id, run.revision, run.tombs, run.n);
    }
    free(run.tombs);
    free(bytes);
    return err;
}

/* ---- adding */

static size_t
s_encode_frame(uint8_t *out, const crema_id_t *run_id, int64_t revision, size_t total,
               const sink_tomb_t *tombs, size_t start, size_t n)
{
    uint8_t *body = out + CREMA_FRAME_HEADER_BYTES;
    memcpy(body, run_id->bytes, CREMA_ID_BYTES);
    crema_put_u64(body + 16, (uint64_t)revision);
    crema_put_u64(body + 24, total);
    crema_put_u64(body + 32, start);
    for (size_t i = 0; i < n; i++) {
        const sink_tomb_t *tomb = &tombs[start + i];
        uint8_t *at = body + HEAD_BYTES + i * TOMB_BYTES;
        memcpy(at, tomb->stream_id.bytes, CREMA_ID_BYTES);
        crema_put_u64(at + CREMA_ID_BYTES, tomb->final_seq);
    }
    crema_frame_t frame = {
        .type = SINK_TOMBSTONES_FRAME,
        .len = (uint32_t)(HEAD_BYTES + n * TOMB_BYTES),
        .body = body,
    };
    crema_frame_encode(&frame, out);
    return crema_frame_bytes(&frame);
}

/* Appends at the end; undone if it fails. */
static crema_err_t
s_append(const char *dir, const uint8_t *bytes, size_t size)
{
    char path[PATH_MAX];
    crema_err_t err = sink_fs_join(dir, FILE_NAME, path);
    if (err != CREMA_OK)
        return err;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sink_fs_error(errno);
    struct stat st;
    crema_failpoint("sink.before_tombs_write");
    err = fstat(fd, &st) == 0 ? sink_fs_write(fd, bytes, size) : sink_fs_error(errno);
    crema_failpoint("sink.before_tombs_fdatasync");
    if (err == CREMA_OK && fdatasync(fd) != 0)
        err = CREMA_EIO;
    else if (err != CREMA_OK && ftruncate(fd, st.st_size) != 0)
        err = CREMA_EIO;
    crema_failpoint("sink.after_tombs_fdatasync");
    close(fd);
    return err == CREMA_OK ? sink_fs_sync_dir(dir) : err;
}

crema_err_t
sink_tombs_add(const char *dir, const crema_id_t *run_id, int64_t revision,
               const sink_tomb_t *tombs, size_t n)
{
    size_t frames = n / TOMBS_PER_FRAME + 1, size = 0;
    uint8_t *bytes = malloc(frames * (CREMA_FRAME_HEADER_BYTES + HEAD_BYTES) + n * TOMB_BYTES);
    if (!bytes)
        return CREMA_ENOMEM;
    for (size_t i = 0, done = 0; i < frames && (done < n || i == 0); i++) {
        size_t part = n - done < TOMBS_PER_FRAME ? n - done : TOMBS_PER_FRAME;
        size += s_encode_frame(bytes + size, run_id, revision, n, tombs, done, part);
        done += part;
    }
    crema_err_t err = s_append(dir, bytes, size);
    free(bytes);
    return err;
}
