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
#define HEAD_BYTES 40u /* run_id, revision, total, number of the first stream in this frame */
#define TOMB_BYTES 24u
#define SPARE_BYTES_MAX ((size_t)64 << 10)

#define FRAME_BYTES ((size_t)CREMA_FRAME_HEADER_BYTES + HEAD_BYTES)

/* Encodes a run without streams. */
static void
s_encode(uint8_t out[FRAME_BYTES], const crema_id_t *run_id, int64_t revision)
{
    uint8_t *body = out + CREMA_FRAME_HEADER_BYTES;
    memset(body, 0, HEAD_BYTES);
    memcpy(body, run_id->bytes, CREMA_ID_BYTES);
    crema_put_u64(body + 16, (uint64_t)revision);
    crema_frame_t frame = {.type = SINK_TOMBSTONES_FRAME, .len = HEAD_BYTES, .body = body};
    crema_frame_encode(&frame, out);
}

/* ---- reading */

/* A run whose frames are being assembled, and totals. */
typedef struct {
    crema_id_t run_id;
    int64_t revision;
    uint64_t total, n; /* streams that its frames name */
    uint64_t runs;     /* complete runs */
    uint8_t *small;    /* the file without streams */
    size_t small_bytes, room;
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
    run->revision = (int64_t)crema_get_u64(frame->body + 16);
    run->total = total;
    run->n += (frame->len - HEAD_BYTES) / TOMB_BYTES;
    return run->n == run->total;
}

static crema_err_t
s_keep(gathered_t *run)
{
    if (run->small_bytes + FRAME_BYTES > run->room) {
        size_t room = run->room ? 2 * run->room : 64 * FRAME_BYTES;
        uint8_t *grown = realloc(run->small, room);
        if (!grown)
            return CREMA_ENOMEM;
        run->small = grown;
        run->room = room;
    }
    s_encode(run->small + run->small_bytes, &run->run_id, run->revision);
    run->small_bytes += FRAME_BYTES;
    return CREMA_OK;
}

/* Calls `fn` (may be NULL) for each run, or collects the file without streams. */
static crema_err_t
s_read(const char *path, uint64_t size, gathered_t *run, sink_tombs_fn fn, void *context,
       bool *ret_damaged)
{
    sink_window_t window = {.path = path, .size = size};
    crema_frame_t frame;
    crema_err_t err;
    while ((err = sink_window_next(&window, &frame)) == CREMA_OK) {
        if (frame.type != SINK_TOMBSTONES_FRAME || frame.len < HEAD_BYTES || !s_gather(run, &frame))
            continue;
        run->runs++;
        err = fn ? fn(context, &run->run_id, run->revision) : s_keep(run);
        if (err != CREMA_OK)
            break;
    }
    *ret_damaged = window.skipped > 0;
    sink_window_clear(&window);
    return err == CREMA_ENOENT ? CREMA_OK : err;
}

static crema_err_t
s_make_small(const char *dir, const char *path, uint64_t size)
{
    gathered_t run = {0};
    bool damaged;
    crema_err_t err = s_read(path, size, &run, NULL, NULL, &damaged);
    if (err == CREMA_OK)
        err = sink_fs_replace(dir, FILE_NAME, run.small, run.small_bytes);
    free(run.small);
    return err;
}

/* Reads the file and decides whether it should be shrunk. */
static crema_err_t
s_look(const char *dir, sink_tombs_fn fn, void *context, char path[PATH_MAX], uint64_t *ret_size,
       bool *ret_large)
{
    struct stat st;
    bool damaged;
    gathered_t run = {0};
    *ret_large = false;
    crema_err_t err = sink_fs_join(dir, FILE_NAME, path);
    if (err != CREMA_OK)
        return err;
    if (stat(path, &st) != 0)
        return errno == ENOENT ? CREMA_OK : sink_fs_error(errno);
    *ret_size = (uint64_t)st.st_size;
    err = s_read(path, *ret_size, &run, fn, context, &damaged);
    *ret_large = !damaged && *ret_size > 2 * run.runs * FRAME_BYTES + SPARE_BYTES_MAX;
    return err;
}

crema_err_t
sink_tombs_look(const char *dir, sink_tombs_fn fn, void *context)
{
    char path[PATH_MAX];
    uint64_t size;
    bool large;
    return s_look(dir, fn, context, path, &size, &large);
}

crema_err_t
sink_tombs_read(const char *dir, sink_tombs_fn fn, void *context)
{
    char path[PATH_MAX];
    uint64_t size;
    bool large;
    crema_err_t err = s_look(dir, fn, context, path, &size, &large);
    return err == CREMA_OK && large ? s_make_small(dir, path, size) : err;
}

/* ---- adding */

/* Appends at the end; a failed append is undone. */
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
    int why = errno;
    close(fd);
    errno = why;
    return err == CREMA_OK ? sink_fs_sync_dir(dir) : err;
}

crema_err_t
sink_tombs_add(const char *dir, const crema_id_t *run_id, int64_t revision)
{
    uint8_t bytes[FRAME_BYTES];
    s_encode(bytes, run_id, revision);
    return s_append(dir, bytes, sizeof bytes);
}

crema_err_t
sink_tombs_clear(const char *dir)
{
    return sink_fs_replace(dir, FILE_NAME, NULL, 0);
}
