#include "sink_tombs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_frame.h"
#include "sink_fs.h"
#include "sink_segment.h"

#define FILE_NAME "tombstones"
#define FILE_BYTES_MAX ((size_t)1 << 30) /* 20 million runs, each in a frame of its own */
#define FRAME_BYTES_MAX ((size_t)CREMA_FRAME_HEADER_BYTES + SINK_TOMBS_AT_ONCE * CREMA_ID_BYTES)

/* ---- reading */

crema_err_t
sink_tombs_read(const char *dir, sink_ids_t *runs, size_t *ret_frames)
{
    char path[PATH_MAX];
    uint8_t *bytes = NULL;
    size_t size = 0, offset = 0, frames = 0, skipped;
    crema_frame_t frame;
    crema_err_t err =
        sink_fs_read(sink_fs_path(dir, FILE_NAME, path), FILE_BYTES_MAX, &bytes, &size);
    if (err == CREMA_ENOENT)
        err = CREMA_OK;
    while (err == CREMA_OK &&
           sink_segment_next(bytes, size, &offset, &frame, &skipped) == CREMA_OK) {
        const size_t n = frame.type == SINK_TOMBSTONES_FRAME ? frame.len / CREMA_ID_BYTES : 0;
        frames++;
        for (size_t i = 0; err == CREMA_OK && i < n; i++) {
            crema_id_t id;
            memcpy(id.bytes, frame.body + i * CREMA_ID_BYTES, CREMA_ID_BYTES);
            err = sink_ids_append(runs, &id);
        }
    }
    free(bytes);
    sink_ids_sort(runs);
    *ret_frames = frames;
    return err;
}

/* ---- writing */

static size_t
s_encode(const crema_id_t *run_ids, size_t n, uint8_t *out)
{
    const crema_frame_t frame = {.type = SINK_TOMBSTONES_FRAME,
                                 .len = (uint32_t)(n * CREMA_ID_BYTES),
                                 .body = run_ids->bytes};
    crema_frame_encode(&frame, out);
    return crema_frame_bytes(&frame);
}

/* Appends at the end; a failed append is undone. */
static crema_err_t
s_append(const char *dir, const uint8_t *bytes, size_t size)
{
    char path[PATH_MAX];
    int fd = open(sink_fs_path(dir, FILE_NAME, path),
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sink_fs_error(errno);
    struct stat st;
    crema_failpoint("sink.before_tombs_write");
    crema_err_t err = fstat(fd, &st) == 0 ? sink_fs_write(fd, bytes, size) : sink_fs_error(errno);
    crema_failpoint("sink.before_tombs_fdatasync");
    if (err == CREMA_OK && fdatasync(fd) != 0)
        err = CREMA_EIO;
    else if (err != CREMA_OK && ftruncate(fd, st.st_size) != 0)
        err = CREMA_EIO;
    crema_failpoint("sink.after_tombs_fdatasync");
    int why = errno;
    close(fd);
    errno = why;
    if (err == CREMA_OK && sink_fs_sync_dir(dir) != CREMA_OK)
        err = CREMA_EIO; /* whether what was written lasts is not known */
    return err;
}

crema_err_t
sink_tombs_add(const char *dir, const crema_id_t *run_ids, size_t n)
{
    assert(n <= SINK_TOMBS_AT_ONCE);
    uint8_t *bytes = malloc(FRAME_BYTES_MAX);
    crema_err_t err = bytes ? s_append(dir, bytes, s_encode(run_ids, n, bytes)) : CREMA_ENOMEM;
    free(bytes);
    return err;
}

crema_err_t
sink_tombs_replace(const char *dir, const sink_ids_t *runs)
{
    const size_t frames = (runs->n + SINK_TOMBS_AT_ONCE - 1) / SINK_TOMBS_AT_ONCE;
    uint8_t *bytes = malloc(frames ? frames * FRAME_BYTES_MAX : 1);
    size_t used = 0;
    if (!bytes)
        return CREMA_ENOMEM;
    for (size_t at = 0, n; at < runs->n; at += n) {
        n = runs->n - at < SINK_TOMBS_AT_ONCE ? runs->n - at : SINK_TOMBS_AT_ONCE;
        used += s_encode(runs->ids + at, n, bytes + used);
    }
    crema_err_t err = sink_fs_replace(dir, FILE_NAME, bytes, used);
    free(bytes);
    return err;
}
