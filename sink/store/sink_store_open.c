#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "crema_random.h"
#include "sink_fs.h"
#include "sink_segment.h"
#include "sink_store_private.h"
#include "sink_tombs.h"

#define LOCK_TRIES 50
#define LOCK_PAUSE_NS 10000000
#define GENERATION_BYTES 16 /* number of openings, time in service in ns */
#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

/* ---- the store's own files */

/* A sink that was killed while it started a process leaves its lock with that process until this
 * has begun its own program, a moment later. */
static bool
s_take_lock(int fd)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK)
            return false;
        nanosleep(&pause, NULL);
    }
    errno = EWOULDBLOCK;
    return false;
}

static crema_err_t
s_lock(sink_store_t *self)
{
    char path[PATH_MAX];
    self->lock_fd = open(sink_fs_path(self->dir, "lock", path),
                         O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (self->lock_fd < 0)
        return sink_fs_error(errno);
    if (s_take_lock(self->lock_fd))
        return CREMA_OK;
    return errno == EWOULDBLOCK ? CREMA_EBUSY : CREMA_EIO;
}

/* Reads a file of one STORE frame of `body_bytes`. CREMA_ENOENT: there is none; CREMA_EMAGIC: it
 * holds something else. */
static crema_err_t
s_read_frame(const char *dir, const char *name, uint8_t *body, size_t body_bytes)
{
    char path[PATH_MAX];
    uint8_t *bytes;
    size_t size;
    if (!sink_fs_fits(dir, SINK_FS_BELOW_BYTES))
        return sink_fs_error(errno);
    crema_err_t err = sink_fs_read(sink_fs_path(dir, name, path), 4096, &bytes, &size);
    if (err != CREMA_OK)
        return err;
    crema_frame_t frame;
    if (crema_frame_decode(bytes, size, &frame) == CREMA_OK && frame.type == SINK_STORE_FRAME &&
        frame.len == body_bytes)
        memcpy(body, frame.body, frame.len);
    else
        err = CREMA_EMAGIC;
    free(bytes);
    return err;
}

static crema_err_t
s_write_frame(const char *dir, const char *name, const uint8_t *body, size_t body_bytes)
{
    uint8_t bytes[CREMA_FRAME_HEADER_BYTES + 64];
    crema_frame_t frame = {
        .type = SINK_STORE_FRAME,
        .len = (uint32_t)body_bytes,
        .body = body,
    };
    crema_frame_encode(&frame, bytes);
    return sink_fs_replace(dir, name, bytes, crema_frame_bytes(&frame));
}

/* In a thread: of the store it touches what does not change, and `aging_...`. */
static void
s_write_age(void *context)
{
    sink_store_t *self = context;
    uint8_t body[GENERATION_BYTES];
    crema_put_u64(body, self->generation);
    crema_put_u64(body + 8, (uint64_t)self->aging_ns);
    self->aging_err = s_write_frame(self->dir, "generation", body, sizeof body);
}

/* After an error it is tried again: some time in service is lost at a crash, and journals are kept
 * longer. */
static crema_err_t
s_end_age(sink_store_t *self, sink_store_job_t *job)
{
    (void)job;
    if (self->aging_err == CREMA_OK)
        self->age_kept_ns = self->aging_ns;
    return CREMA_OK;
}

void
sink_store_begin_age(sink_store_t *self)
{
    if (self->aging.busy)
        return;
    self->aging_ns = self->age_ns;
    sink_store_begin_job(self, &self->aging, s_write_age, self, s_end_age);
}

/* The same without a thread. */
static crema_err_t
s_keep_age(sink_store_t *self)
{
    self->aging_ns = self->age_ns;
    s_write_age(self);
    s_end_age(self, &self->aging);
    return self->aging_err;
}

static crema_err_t
s_read_identity(const char *dir, crema_id_t *ret_id)
{
    return s_read_frame(dir, "store", ret_id->bytes, CREMA_ID_BYTES);
}

crema_err_t
sink_store_identify(const char *dir, crema_id_t *ret_id, char *ret_why, size_t why_size)
{
    errno = 0;
    crema_err_t err = s_read_identity(dir, ret_id);
    if (err == CREMA_ENOENT || err == CREMA_EMAGIC)
        snprintf(ret_why, why_size,
                 "%s is not a store of crema-sink: %s; give the directory of its --store", dir,
                 access(dir, F_OK) != 0 ? "it is not there"
                 : err == CREMA_EMAGIC  ? "its file \"store\" holds something else"
                                        : "it has no file \"store\"");
    else if (err != CREMA_OK)
        snprintf(ret_why, why_size, "the store %s cannot be read: %s", dir, sink_fs_why(err));
    return err;
}

static crema_err_t
s_identify(sink_store_t *self)
{
    crema_err_t err = s_read_identity(self->dir, &self->store_id);
    if (err == CREMA_ENOENT) {
        self->store_id = crema_random_id();
        err = s_write_frame(self->dir, "store", self->store_id.bytes, CREMA_ID_BYTES);
    }
    if (err != CREMA_OK)
        return err;
    uint8_t body[GENERATION_BYTES] = {0};
    err = s_read_frame(self->dir, "generation", body, sizeof body);
    if (err != CREMA_OK && err != CREMA_ENOENT)
        return err;
    self->generation = crema_get_u64(body) + 1;
    self->age_ns = (int64_t)crema_get_u64(body + 8);
    if (self->age_ns < 1) /* 0 means unknown */
        self->age_ns = 1;
    return s_keep_age(self);
}

/* ---- finding runs by the names of their directories */

/* The sink ended after writing this tombstone, which may have been read from the page cache
 * without being on disk: it is written again. */
static crema_err_t
s_finish_freeing(sink_store_t *self, const crema_id_t *run_id)
{
    char path[PATH_MAX];
    crema_err_t err = sink_tombs_add(self->dir, run_id, 1);
    if (err == CREMA_OK)
        sink_store_remove_dir(sink_store_run_dir(self, run_id, path));
    return err == CREMA_ENOSPC ? CREMA_OK : err; /* retried at the next start */
}

bool
sink_store_is_run_name(const char *name, crema_id_t *ret_run_id)
{
    char canonical[37];
    return crema_id_parse(name, ret_run_id) &&
           strcmp(crema_id_uuid(ret_run_id, canonical), name) == 0;
}

static crema_err_t
s_find_entry(sink_store_t *self, const char *name)
{
    crema_id_t run_id;
    sink_store_run_t *run;
    if (!sink_store_is_run_name(name, &run_id))
        return CREMA_OK;
    if (sink_store_is_freed(self, &run_id))
        return s_finish_freeing(self, &run_id);
    self->report.runs++;
    return sink_store_add_run(self, &run_id, &run);
}

static crema_err_t
s_find_runs(sink_store_t *self)
{
    DIR *stream = opendir(self->dir);
    if (!stream)
        return sink_fs_error(errno);
    crema_err_t err = CREMA_OK;
    struct dirent *entry;
    while (err == CREMA_OK && (errno = 0, entry = readdir(stream)))
        err = s_find_entry(self, entry->d_name);
    if (err == CREMA_OK && errno != 0)
        err = sink_fs_error(errno);
    closedir(stream);
    return err;
}

/* A file that cannot be replaced stays as it is, and it is tried again at the next start. */
static crema_err_t
s_read_tombs(sink_store_t *self)
{
    size_t frames;
    crema_err_t err = sink_tombs_read(self->dir, &self->freed, &frames);
    if (err == CREMA_OK && frames > SINK_TOMBS_FRAMES_MAX) {
        crema_err_t ignored = sink_tombs_replace(self->dir, &self->freed);
        (void)ignored;
    }
    return err;
}

static crema_err_t
s_read_refused(sink_store_t *self)
{
    return sink_refused_read(&self->refused, self->dir);
}

/* ---- opening and closing */

static crema_err_t
s_explain(crema_err_t err, const char *dir, const char *step, char *ret_why, size_t why_size)
{
    if (err == CREMA_EBUSY)
        snprintf(ret_why, why_size,
                 "the store %s is in use by another crema-sink: stop it, or give another --store",
                 dir);
    else if (err == CREMA_EMAGIC)
        snprintf(
            ret_why, why_size,
            "%s is not a store of crema-sink: %s holds something else; give --store a directory "
            "of its own",
            dir, step);
    else if (err == CREMA_ELIMIT)
        snprintf(ret_why, why_size, "the store %s holds more runs or streams than fit: %s", dir,
                 step);
    else
        snprintf(ret_why, why_size, "the store %.256s cannot be used (%s): %s", dir, step,
                 err == CREMA_ENOENT ? strerror(errno) : sink_fs_why(err));
    return err;
}

crema_err_t
sink_store_open(const sink_store_config_t *config, char *ret_why, size_t why_size,
                sink_store_t **ret_self)
{
    sink_store_t *self = calloc(1, sizeof *self);
    if (!self)
        return s_explain(CREMA_ENOMEM, config->dir, "memory", ret_why, why_size);
    self->config = *config;
    self->lock_fd = -1;
    crema_list_init(&self->unread);
    crema_list_init(&self->dirty);
    crema_list_init(&self->scrubbed);
    self->dir = strdup(config->dir);
    crema_err_t err = self->dir ? crema_arena_new(ARENA_BYTES, &self->arena) : CREMA_ENOMEM;
    if (err == CREMA_OK)
        err = crema_map_new(config->runs_max, &self->runs);
    if (err == CREMA_OK)
        err = sink_commit_new(config->streams_max, &self->watermarks);
    if (err == CREMA_OK)
        err = sink_syncs_new(&self->syncs);
    static const struct {
        const char *name;
        crema_err_t (*take)(sink_store_t *self);
    } c_steps[] = {
        {"lock", s_lock},
        {"identity", s_identify},
        {"tombstones", s_read_tombs},
        {"refused", s_read_refused},
        {"journals", s_find_runs},
    };
    const char *step = "directory";
    if (err == CREMA_OK && !sink_fs_fits(config->dir, SINK_FS_BELOW_BYTES))
        err = sink_fs_error(errno);
    if (err == CREMA_OK)
        err = sink_fs_make_dir(config->dir);
    for (size_t i = 0; err == CREMA_OK && i < sizeof c_steps / sizeof *c_steps; i++) {
        step = c_steps[i].name;
        err = c_steps[i].take(self);
    }
    if (err != CREMA_OK) {
        s_explain(err, config->dir, step, ret_why, why_size);
        sink_store_close(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

static void
s_destroy_run(void *value)
{
    sink_store_run_t *run = value;
    sink_journal_close(&run->journal);
    sink_scrub_destroy(&run->scrub);
    free(run->said_writers);
    free(run->cause);
    free(run);
}

void
sink_store_close(sink_store_t **self_p)
{
    sink_store_t *self = *self_p;
    if (self) {
        sink_syncs_destroy(&self->syncs);
        if (self->age_ns > self->age_kept_ns) {
            crema_err_t err = s_keep_age(self);
            (void)err; /* a little time in service is lost */
        }
        crema_map_destroy_all(&self->runs, s_destroy_run);
        free(self->live);
        sink_ids_clear(&self->freed);
        sink_refused_clear(&self->refused);
        sink_commit_destroy(&self->watermarks);
        crema_arena_destroy(&self->arena);
        if (self->lock_fd >= 0)
            close(self->lock_fd);
        free(self->dir);
        free(self);
    }
    *self_p = NULL;
}
