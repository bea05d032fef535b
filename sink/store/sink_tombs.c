#include "sink_tombs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_bytes.h"
#include "crema_failpoint.h"
#include "crema_frame.h"
#include "sink_fs.h"
#include "sink_segment.h"
#include "sink_window.h"

#define FILE_NAME "tombstones"
#define HEAD_BYTES                                                                                 \
    40u /* run_id, 8 bytes that nobody reads, total, number of the first stream in this frame */
#define TOMB_BYTES 24u

#define FRAME_BYTES ((size_t)CREMA_FRAME_HEADER_BYTES + HEAD_BYTES)

/* ---- reading */

/* A run whose frames are being assembled. */
typedef struct {
    crema_id_t run_id;
    uint64_t total, n; /* streams that its frames name */
} gathered_t;

/* True if this frame completes the run. */
static bool
s_gather(gathered_t *run, const crema_frame_t *frame)
{
    crema_id_t run_id;
    memcpy(run_id.bytes, frame->body, CREMA_ID_BYTES);
    uint64_t total = crema_get_u64(frame->body + 24);
    uint64_t start = crema_get_u64(frame->body + 32);
    if (start == 0)
        run->n = 0;
    else if (!crema_id_equal(&run_id, &run->run_id) || total != run->total || start != run->n)
        return false; /* the frames before it are missing */
    run->run_id = run_id;
    run->total = total;
    run->n += (frame->len - HEAD_BYTES) / TOMB_BYTES;
    return run->n == run->total;
}

crema_err_t
sink_tombs_read(const char *dir, sink_ids_t *runs, size_t *ret_n)
{
    char path[PATH_MAX];
    sink_window_t window = {0};
    crema_frame_t frame;
    gathered_t run = {0};
    size_t n = 0;
    crema_err_t err = sink_window_open(sink_fs_path(dir, FILE_NAME, path), &window);
    while (err == CREMA_OK && (err = sink_window_next(&window, &frame)) == CREMA_OK) {
        if (frame.type != SINK_TOMBSTONES_FRAME || frame.len < HEAD_BYTES ||
            !s_gather(&run, &frame))
            continue;
        n++;
        err = sink_ids_append(runs, &run.run_id);
    }
    *ret_n = window.skipped > 0 ? n : (size_t)window.size / FRAME_BYTES;
    sink_window_clear(&window);
    return err == CREMA_ENOENT ? CREMA_OK : err;
}

/* ---- adding */

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
    return err == CREMA_OK ? sink_fs_sync_dir(dir) : err;
}

crema_err_t
sink_tombs_add(const char *dir, const crema_id_t *run_ids, size_t n)
{
    uint8_t *bytes = calloc(n, FRAME_BYTES);
    if (!bytes)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        uint8_t *out = bytes + i * FRAME_BYTES, *body = out + CREMA_FRAME_HEADER_BYTES;
        memcpy(body, run_ids[i].bytes, CREMA_ID_BYTES);
        crema_frame_t frame = {.type = SINK_TOMBSTONES_FRAME, .len = HEAD_BYTES, .body = body};
        crema_frame_encode(&frame, out);
    }
    crema_err_t err = s_append(dir, bytes, n * FRAME_BYTES);
    free(bytes);
    return err;
}

crema_err_t
sink_tombs_clear(const char *dir)
{
    return sink_fs_replace(dir, FILE_NAME, NULL, 0);
}
