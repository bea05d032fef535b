#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "crema_random.h"
#include "sink_fs.h"
#include "sink_put.h"
#include "sink_segment.h"
#include "sink_store_private.h"
#include "sink_tombs.h"

#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

/* ---- the store's own files */

static crema_err_t
s_lock(sink_store_t *self)
{
    char path[PATH_MAX];
    crema_err_t err = sink_fs_join(self->dir, "lock", path);
    if (err != CREMA_OK)
        return err;
    self->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (self->lock_fd < 0)
        return sink_fs_error(errno);
    if (flock(self->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return CREMA_OK;
    return errno == EWOULDBLOCK ? CREMA_EBUSY : CREMA_EIO;
}

/* A file of one STORE frame. CREMA_ENOENT: there is none; CREMA_EMAGIC: it holds something else. */
static crema_err_t
s_read_frame(sink_store_t *self, const char *name, uint8_t *body, size_t body_bytes)
{
    char path[PATH_MAX];
    uint8_t *bytes;
    size_t size;
    crema_err_t err = sink_fs_join(self->dir, name, path);
    if (err == CREMA_OK)
        err = sink_fs_read(path, 4096, &bytes, &size);
    if (err != CREMA_OK)
        return err;
    crema_frame_t frame;
    if (crema_frame_decode(bytes, size, &frame) == CREMA_OK && frame.type == SINK_STORE_FRAME &&
        frame.len == body_bytes)
        memcpy(body, frame.body, body_bytes);
    else
        err = CREMA_EMAGIC;
    free(bytes);
    return err;
}

static crema_err_t
s_write_frame(sink_store_t *self, const char *name, const uint8_t *body, size_t body_bytes)
{
    uint8_t bytes[CREMA_FRAME_HEADER_BYTES + 64];
    crema_frame_t frame = {
        .type = SINK_STORE_FRAME,
        .len = (uint32_t)body_bytes,
        .body = body,
    };
    crema_frame_encode(&frame, bytes);
    return sink_fs_replace(self->dir, name, bytes, crema_frame_bytes(&frame));
}

static crema_err_t
s_identify(sink_store_t *self)
{
    crema_err_t err = s_read_frame(self, "store", self->store_id.bytes, CREMA_ID_BYTES);
    if (err == CREMA_ENOENT) {
        self->store_id = crema_random_id();
        err = s_write_frame(self, "store", self->store_id.bytes, CREMA_ID_BYTES);
    }
    if (err != CREMA_OK)
        return err;
    uint8_t body[8] = {0};
    err = s_read_frame(self, "generation", body, sizeof body);
    if (err != CREMA_OK && err != CREMA_ENOENT)
        return err;
    self->generation = crema_get_u64(body) + 1;
    crema_put_u64(body, self->generation);
    return s_write_frame(self, "generation", body, sizeof body);
}

/* ---- recovery */

typedef struct {
    sink_store_t *store;
    sink_store_run_t *run;
} recovery_t;

static crema_err_t
s_on_old_put(void *context, const sink_journal_put_t *put)
{
    recovery_t *recovery = context;
    uint64_t last;
    bool closed;
    recovery->run->shown.late = recovery->run->shown.revision > 0;
    if (sink_put_last(put->frames, put->frames_bytes, &last, &closed) != CREMA_OK)
        return CREMA_OK;
    return sink_commit_restore(recovery->store->watermarks, &put->stream_id,
                               &recovery->run->shown.run_id, last, closed);
}

static crema_err_t
s_on_old_run(void *context, crema_msg_type_t type, const crema_run_msg_t *msg)
{
    recovery_t *recovery = context;
    bool is_cost = msg->n_attributes > 0 && crema_cost_is(msg->keys[0]);
    if (!is_cost) /* sink_store_cost() */
        sink_store_note_message(recovery->run, type, sink_store_fingerprint(type, msg));
    return CREMA_OK;
}

static crema_err_t
s_on_old_sealed(void *context, const sink_journal_sealed_t *sealed)
{
    recovery_t *recovery = context;
    recovery->run->shown.revision = sealed->revision;
    recovery->run->shown.t_sealed_ns = sealed->t_real_ns;
    recovery->run->shown.late = false;
    return CREMA_OK;
}

/* Everything before a SEALED was durable when it was written; the newest pages of any other journal are not to be trusted before they were
 * written anew, which the opening does. */
static crema_err_t
s_recover_run(sink_store_t *self, sink_store_run_t *run, const char *path)
{
    recovery_t recovery = {self, run};
    sink_journal_visitor_t visitor = {
        .context = &recovery,
        .put = s_on_old_put,
        .run = s_on_old_run,
        .sealed = s_on_old_sealed,
    };
    sink_journal_report_t report;
    crema_err_t err = sink_journal_read(path, &visitor, &report);
    if (err == CREMA_ENOENT || err == CREMA_EMAGIC) /* made, and killed before the first frame */
        return sink_store_open_journal(self, run);
    if (err != CREMA_OK)
        return err;
    self->report.runs++;
    self->report.frames += report.frames;
    self->report.bytes += report.bytes;
    self->report.damaged_bytes += report.damaged_bytes;
    self->report.missing_frames += report.missing_frames;
    run->bytes = report.bytes;
    if (run->shown.revision > 0 && !run->shown.late)
        return CREMA_OK;
    return sink_store_open_journal(self, run);
}

static crema_err_t
s_recover_entry(sink_store_t *self, const char *name)
{
    crema_id_t run_id;
    sink_store_run_t *run;
    char path[PATH_MAX], canonical[37];
    if (!crema_id_parse(name, &run_id) || strcmp(crema_id_uuid(&run_id, canonical), name) != 0)
        return CREMA_OK;
    crema_err_t err = sink_fs_join(self->dir, name, path);
    if (err != CREMA_OK)
        return err;
    if (sink_store_run(self, &run_id)) { /* its tombstones were written, then the sink was killed */
        sink_store_remove_dir(path);
        return CREMA_OK;
    }
    err = sink_store_add_run(self, &run_id, &run);
    if (err == CREMA_OK)
        err = s_recover_run(self, run, path);
    if (err == CREMA_EMAGIC) { /* another store's: nothing may be appended to it */
        self->report.foreign++;
        run->shown.freed = true;
        err = CREMA_OK;
    }
    return err;
}

static crema_err_t
s_recover(sink_store_t *self)
{
    DIR *stream = opendir(self->dir);
    if (!stream)
        return sink_fs_error(errno);
    crema_err_t err = CREMA_OK;
    struct dirent *entry;
    while (err == CREMA_OK && (entry = readdir(stream)))
        err = s_recover_entry(self, entry->d_name);
    closedir(stream);
    sink_commit_durable(self->watermarks);
    self->report.streams = sink_commit_stats(self->watermarks).streams;
    return err;
}

static crema_err_t
s_on_tombs(void *context, const crema_id_t *run_id, int64_t revision, const sink_tomb_t *tombs,
           size_t n)
{
    sink_store_t *self = context;
    sink_store_run_t *run = sink_store_run(self, run_id);
    crema_err_t err = run ? CREMA_OK : sink_store_add_run(self, run_id, &run);
    if (err != CREMA_OK)
        return err;
    run->shown.freed = true;
    run->shown.revision = revision;
    for (size_t i = 0; err == CREMA_OK && i < n; i++)
        err = sink_commit_restore(self->watermarks, &tombs[i].stream_id, run_id, tombs[i].final_seq,
                                  true);
    return err;
}

static crema_err_t
s_read_tombs(sink_store_t *self)
{
    return sink_tombs_read(self->dir, s_on_tombs, self);
}

/* ---- opening and closing */

static crema_err_t
s_explain(crema_err_t err, const char *dir, const char *step, char *ret_why, size_t why_size)
{
    if (err == CREMA_EBUSY)
        snprintf(ret_why, why_size, "the store %s is in use by another crema-sink", dir);
    else if (err == CREMA_EMAGIC)
        snprintf(ret_why, why_size, "%s is no store of crema-sink: %s holds something else", dir,
                 step);
    else if (err == CREMA_ELIMIT)
        snprintf(ret_why, why_size, "the store %s holds more runs or streams than fit: %s", dir,
                 step);
    else if (err == CREMA_EIO || err == CREMA_ENOENT || err == CREMA_ENOSPC)
        snprintf(ret_why, why_size, "the store %s cannot be used (%s): %s", dir, step,
                 strerror(errno));
    else
        snprintf(ret_why, why_size, "the store %s cannot be used (%s): %s", dir, step,
                 crema_err_text(err));
    return err;
}

crema_err_t
sink_store_open(const sink_store_config_t *config, sink_store_report_t *ret_report, char *ret_why,
                size_t why_size, sink_store_t **ret_self)
{
    sink_store_t *self = calloc(1, sizeof *self);
    if (!self)
        return s_explain(CREMA_ENOMEM, config->dir, "memory", ret_why, why_size);
    self->config = *config;
    self->lock_fd = -1;
    self->dir = strdup(config->dir);
    crema_err_t err = self->dir ? crema_arena_new(ARENA_BYTES, &self->arena) : CREMA_ENOMEM;
    if (err == CREMA_OK)
        err = crema_map_new(config->runs_max, &self->runs);
    if (err == CREMA_OK)
        err = sink_commit_new(config->streams_max, &self->watermarks);
    static const struct {
        const char *name;
        crema_err_t (*take)(sink_store_t *self);
    } c_steps[] = {
        {"lock", s_lock},
        {"identity", s_identify},
        {"tombstones", s_read_tombs},
        {"journals", s_recover},
    };
    const char *step = "directory";
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
    *ret_report = self->report;
    *ret_self = self;
    return CREMA_OK;
}

void
sink_store_close(sink_store_t **self_p)
{
    sink_store_t *self = *self_p;
    if (self) {
        size_t cursor = 0;
        sink_store_run_t *run;
        while (self->runs && (run = crema_map_next(self->runs, &cursor))) {
            sink_journal_close(&run->journal);
            free(run);
        }
        crema_map_destroy(&self->runs);
        sink_commit_destroy(&self->watermarks);
        crema_arena_destroy(&self->arena);
        if (self->lock_fd >= 0)
            close(self->lock_fd);
        free(self->dir);
        free(self);
    }
    *self_p = NULL;
}
