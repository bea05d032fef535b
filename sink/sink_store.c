#include <dirent.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "sink_fs.h"
#include "sink_put.h"
#include "sink_store_private.h"
#include "sink_tombs.h"

#define GIB ((uint64_t)1 << 30)
#define ANSWER_FILE "sealed" /* in the directory of the journal */

/* ---- runs */

sink_store_run_t *
sink_store_run(const sink_store_t *self, const crema_id_t *run_id)
{
    return crema_map_find(self->runs, run_id);
}

crema_err_t
sink_store_add_run(sink_store_t *self, const crema_id_t *run_id, sink_store_run_t **ret_run)
{
    sink_store_run_t *run = calloc(1, sizeof *run);
    if (!run)
        return CREMA_ENOMEM;
    run->shown.run_id = *run_id;
    crema_err_t err = crema_map_add(self->runs, run_id, run);
    if (err != CREMA_OK) {
        free(run);
        return err;
    }
    *ret_run = run;
    return CREMA_OK;
}

crema_err_t
sink_store_run_dir(const sink_store_t *self, const crema_id_t *run_id, char ret_path[PATH_MAX])
{
    char name[37];
    return sink_fs_join(self->dir, crema_id_uuid(run_id, name), ret_path);
}

crema_err_t
sink_store_open_journal(sink_store_t *self, sink_store_run_t *run)
{
    char path[PATH_MAX];
    if (run->journal)
        return CREMA_OK;
    crema_err_t err = sink_store_run_dir(self, &run->shown.run_id, path);
    if (err == CREMA_OK)
        err = sink_journal_open(path, &self->store_id, &run->shown.run_id, self->generation,
                                &run->journal);
    if (err == CREMA_OK)
        self->report.torn_bytes += sink_journal_torn_bytes(run->journal);
    return err;
}

/* The run with its journal open, ready to be appended to. */
static crema_err_t
s_take_run(sink_store_t *self, const crema_id_t *run_id, sink_store_run_t **ret_run)
{
    sink_store_run_t *run = sink_store_run(self, run_id);
    if (self->stuck)
        return CREMA_ENOSPC;
    if (crema_id_is_zero(run_id))
        return CREMA_EPROTO;
    crema_err_t err = run ? CREMA_OK : sink_store_add_run(self, run_id, &run);
    if (err != CREMA_OK)
        return err;
    if (run->shown.freed)
        return CREMA_ENOENT;
    err = sink_store_open_journal(self, run);
    if (err == CREMA_OK)
        *ret_run = run;
    return err;
}

uint32_t
sink_store_fingerprint(crema_msg_type_t type, const crema_run_msg_t *msg)
{
    crema_msg_t plain = {.type = type, .run = *msg};
    uint8_t *bytes;
    size_t size;
    plain.run.t_verdict_ns = 0;
    while (plain.run.n_attributes > 0 && crema_cost_is(msg->keys[plain.run.n_attributes - 1]))
        plain.run.n_attributes--; /* they come last */
    if (crema_wire_encode(&plain, &bytes, &size) != CREMA_OK)
        return 1;
    uint32_t crc =
        libdeflate_crc32(0, bytes + CREMA_WIRE_HEADER_BYTES, size - CREMA_WIRE_HEADER_BYTES);
    free(bytes);
    return crc ? crc : 1;
}

uint32_t *
sink_store_said(sink_store_run_t *run, crema_msg_type_t type)
{
    switch (type) {
    case CREMA_MSG_RUN_OPEN:
        return &run->said_open;
    case CREMA_MSG_RUN_END:
        return &run->said_end;
    case CREMA_MSG_RUN_SEAL:
        return &run->said_seal;
    default:
        return NULL;
    }
}

void
sink_store_note_message(sink_store_run_t *run, crema_msg_type_t type, uint32_t fingerprint)
{
    *sink_store_said(run, type) = fingerprint;
    if (type != CREMA_MSG_RUN_SEAL)
        return;
    run->shown.seal_asked = true;
    run->shown.late = run->shown.revision > 0;
}

void
sink_store_remove_dir(const char *path)
{
    DIR *stream = opendir(path);
    if (!stream)
        return;
    struct dirent *entry;
    while ((entry = readdir(stream))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        crema_failpoint("sink.before_journal_unlink");
        (void)unlinkat(dirfd(stream), entry->d_name, 0);
        crema_failpoint("sink.after_journal_unlink");
    }
    closedir(stream);
    crema_failpoint("sink.before_journal_rmdir");
    (void)rmdir(path);
}

crema_id_t
sink_store_id(const sink_store_t *self)
{
    return self->store_id;
}

sink_commit_t *
sink_store_watermarks(sink_store_t *self)
{
    return self->watermarks;
}

const sink_run_t *
sink_store_find(const sink_store_t *self, const crema_id_t *run_id)
{
    const sink_store_run_t *run = sink_store_run(self, run_id);
    return run ? &run->shown : NULL;
}

const sink_run_t *
sink_store_next(const sink_store_t *self, size_t *cursor)
{
    const sink_store_run_t *run = crema_map_next(self->runs, cursor);
    return run ? &run->shown : NULL;
}

/* ---- streams of runs */

typedef struct {
    const sink_store_t *store;
    const sink_store_run_t *only; /* NULL: of every run that has no final file, or news since */
    crema_stream_row_t *rows;
    size_t n, room;
    bool failed; /* out of memory */
} gathered_t;

static bool
s_is_wanted(const gathered_t *gathered, const sink_store_run_t *run)
{
    if (gathered->only)
        return run == gathered->only;
    return run && !run->shown.freed && (run->shown.revision == 0 || run->shown.late);
}

static void
s_on_stream(void *context, const crema_stream_row_t *row)
{
    gathered_t *gathered = context;
    if (gathered->failed || !s_is_wanted(gathered, sink_store_run(gathered->store, &row->run_id)))
        return;
    if (gathered->n == gathered->room) {
        size_t room = gathered->room ? 2 * gathered->room : 64;
        crema_stream_row_t *grown = realloc(gathered->rows, room * sizeof *grown);
        gathered->failed = grown == NULL;
        if (!grown)
            return;
        gathered->rows = grown;
        gathered->room = room;
    }
    gathered->rows[gathered->n++] = *row;
}

static crema_err_t
s_gather(gathered_t *gathered)
{
    sink_commit_each(gathered->store->watermarks, s_on_stream, gathered);
    return gathered->failed ? CREMA_ENOMEM : CREMA_OK;
}

crema_err_t
sink_store_open_streams(const sink_store_t *self, crema_stream_row_t **ret_rows, size_t *ret_n)
{
    gathered_t gathered = {.store = self};
    crema_err_t err = s_gather(&gathered);
    if (err != CREMA_OK) {
        free(gathered.rows);
        return err;
    }
    *ret_rows = gathered.rows;
    *ret_n = gathered.n;
    return CREMA_OK;
}

/* ---- taking */

static void
s_note_news(sink_store_run_t *run, int64_t t_real_ns)
{
    run->shown.news++;
    run->shown.t_news_ns = t_real_ns;
    run->shown.late = run->shown.revision > 0;
}

/* Appends what is new of a checked PUT, `skip` leading numbers left out. */
static crema_err_t
s_append(sink_store_t *self, sink_store_run_t *run, const crema_data_t *put,
         const sink_put_range_t *range, uint32_t skip, int64_t t_real_ns)
{
    sink_put_rest_t rest = {
        .frames = put->frames,
        .frames_bytes = put->frames_bytes,
        .n = range->frames,
        .first_seq = put->first_seq,
    };
    crema_err_t err = CREMA_OK;
    if (skip > 0)
        err = sink_put_cut(put, put->first_seq + skip, self->arena, &rest);
    if (err != CREMA_OK)
        return err;
    sink_journal_put_t entry = {
        .stream_id = put->stream_id,
        .agent_id = put->agent_id,
        .first_seq = rest.first_seq,
        .n = rest.n,
        .late = run->shown.seal_asked,
        .frames = rest.frames,
        .frames_bytes = rest.frames_bytes,
        .t_recv_ns = t_real_ns,
    };
    err = sink_journal_put(run->journal, &entry);
    free(rest.owned);
    return err;
}

crema_err_t
sink_store_put(sink_store_t *self, const crema_data_t *put, int64_t t_real_ns,
               sink_store_put_t *ret_put)
{
    sink_put_range_t range;
    crema_stream_row_t known;
    sink_store_run_t *run;
    crema_err_t err = sink_put_check(put, self->arena, &range);
    if (err == CREMA_OK && sink_commit_get(self->watermarks, &put->stream_id, &known) &&
        !crema_id_equal(&known.run_id, &put->run_id))
        err = CREMA_EPROTO;
    if (err == CREMA_OK)
        err = s_take_run(self, &put->run_id, &run);
    uint32_t skip = 0;
    sink_store_put_t answer = {0};
    if (err == CREMA_OK)
        err = sink_commit_put(self->watermarks, &put->stream_id, &put->run_id, put->first_seq,
                              (uint32_t)(range.last_seq - put->first_seq + 1), &answer.decision,
                              &skip, &answer.next);
    if (err == CREMA_OK && answer.decision == SINK_PUT_APPEND) {
        err = s_append(self, run, put, &range, skip, t_real_ns);
        if (err == CREMA_OK) {
            sink_commit_written(self->watermarks, &put->stream_id, range.last_seq, range.closed);
            run->dirty = true;
            s_note_news(run, t_real_ns);
        }
    }
    if (err == CREMA_OK)
        *ret_put = answer;
    return err;
}

crema_err_t
sink_store_run_msg(sink_store_t *self, crema_msg_type_t type, const crema_run_msg_t *msg,
                   int64_t t_real_ns, bool *ret_new)
{
    sink_store_run_t *run;
    crema_err_t err = s_take_run(self, &msg->run_id, &run);
    if (err != CREMA_OK)
        return err;
    if (!sink_store_said(run, type))
        return CREMA_EINVAL;
    uint32_t fingerprint = sink_store_fingerprint(type, msg);
    bool new = *sink_store_said(run, type) != fingerprint;
    if (new) {
        err = sink_journal_run(run->journal, type, msg, t_real_ns);
        if (err != CREMA_OK)
            return err;
        sink_store_note_message(run, type, fingerprint);
        if (type == CREMA_MSG_RUN_SEAL)
            s_note_news(run, t_real_ns);
        run->dirty = true;
    }
    *ret_new = new;
    return CREMA_OK;
}

crema_err_t
sink_store_cost(sink_store_t *self, const crema_id_t *run_id, const crema_cost_t *cost,
                int64_t t_real_ns)
{
    crema_cost_words_t words;
    sink_store_run_t *run;
    crema_cost_tell(cost, "sink", &words);
    const crema_run_msg_t msg = {.run_id = *run_id,
                                 .n_attributes = CREMA_COST_WORDS,
                                 .keys = words.keys,
                                 .values = words.values};
    crema_err_t err = s_take_run(self, run_id, &run);
    if (err == CREMA_OK)
        err = sink_journal_run(run->journal, CREMA_MSG_RUN_OPEN, &msg, t_real_ns);
    if (err == CREMA_OK)
        run->dirty = true;
    return err;
}

crema_err_t
sink_store_clock(sink_store_t *self, const crema_clock_sample_t *sample, int64_t t_real_ns)
{
    sink_store_run_t *run;
    crema_err_t err = s_take_run(self, &sample->run_id, &run);
    if (err == CREMA_OK)
        err = sink_journal_clock(run->journal, sample, t_real_ns);
    if (err == CREMA_OK)
        run->dirty = true;
    return err;
}

crema_err_t
sink_store_sealed(sink_store_t *self, const crema_id_t *run_id, const sink_journal_sealed_t *sealed,
                  int64_t t_real_ns)
{
    sink_store_run_t *run;
    crema_err_t err = s_take_run(self, run_id, &run);
    if (err == CREMA_OK)
        err = sink_journal_sealed(run->journal, sealed, t_real_ns);
    if (err != CREMA_OK)
        return err;
    run->dirty = true;
    run->shown.revision = sealed->revision;
    run->shown.t_sealed_ns = t_real_ns;
    run->shown.late = false;
    return CREMA_OK;
}

crema_err_t
sink_store_keep_answer(sink_store_t *self, const crema_id_t *run_id, const uint8_t *bytes,
                       size_t size)
{
    char dir[PATH_MAX];
    crema_err_t err = sink_store_run_dir(self, run_id, dir);
    return err == CREMA_OK ? sink_fs_replace(dir, ANSWER_FILE, bytes, size) : err;
}

crema_err_t
sink_store_answer(const sink_store_t *self, const crema_id_t *run_id, uint8_t **ret_bytes,
                  size_t *ret_size)
{
    char dir[PATH_MAX], path[PATH_MAX];
    crema_err_t err = sink_store_run_dir(self, run_id, dir);
    if (err == CREMA_OK)
        err = sink_fs_join(dir, ANSWER_FILE, path);
    return err == CREMA_OK ? sink_fs_read(path, CREMA_WIRE_MESSAGE_MAX, ret_bytes, ret_size) : err;
}

/* ---- committing */

size_t
sink_store_pending_bytes(const sink_store_t *self)
{
    size_t cursor = 0, bytes = 0;
    const sink_store_run_t *run;
    while ((run = crema_map_next(self->runs, &cursor)))
        if (run->dirty)
            bytes += sink_journal_pending_bytes(run->journal);
    return bytes;
}

crema_err_t
sink_store_commit(sink_store_t *self, sink_store_group_fn fn, void *context)
{
    size_t cursor = 0;
    sink_store_run_t *run;
    crema_err_t err = CREMA_OK;
    while ((run = crema_map_next(self->runs, &cursor))) {
        crema_err_t one = run->dirty ? sink_journal_sync(run->journal) : CREMA_OK;
        if (one == CREMA_EIO)
            return CREMA_EIO;
        if (one != CREMA_OK)
            err = one;
    }
    self->stuck = err != CREMA_OK;
    if (err != CREMA_OK)
        return err;
    sink_commit_durable(self->watermarks);
    cursor = 0;
    while ((run = crema_map_next(self->runs, &cursor))) {
        if (run->dirty && fn)
            fn(context, &run->shown, run->journal);
        run->dirty = false;
    }
    return CREMA_OK;
}

/* ---- space */

static uint64_t
s_journal_bytes(const sink_store_t *self)
{
    size_t cursor = 0;
    uint64_t bytes = 0;
    const sink_store_run_t *run;
    while ((run = crema_map_next(self->runs, &cursor)))
        bytes += run->journal ? sink_journal_bytes(run->journal) : run->bytes;
    return bytes;
}

/* How full the disk is, held against a share and an absolute reserve: a tenth of a large disk is room enough for many runs. */
static sink_space_t
s_disk(const sink_store_t *self, uint64_t *ret_free_b)
{
    struct statvfs fs;
    *ret_free_b = UINT64_MAX;
    if (statvfs(self->dir, &fs) != 0)
        return SINK_SPACE_FREE;
    uint64_t all = (uint64_t)fs.f_blocks * fs.f_frsize, left = (uint64_t)fs.f_bavail * fs.f_frsize;
    *ret_free_b = left;
    if (left < all / 20 && left < GIB)
        return SINK_SPACE_FULL;
    return left < all / 10 && left < 2 * GIB ? SINK_SPACE_SHORT : SINK_SPACE_FREE;
}

sink_space_t
sink_store_space(sink_store_t *self, uint64_t *ret_free_b)
{
    sink_space_t space = s_disk(self, ret_free_b);
    uint64_t limit = (uint64_t)self->config.limit_bytes, used = limit ? s_journal_bytes(self) : 0;
    if (limit && limit - (used < limit ? used : limit) < *ret_free_b)
        *ret_free_b = limit - (used < limit ? used : limit);
    if (limit && space == SINK_SPACE_FREE && used >= limit - limit / 10)
        space = SINK_SPACE_SHORT;
    if (self->stuck || (limit && used >= limit - limit / 20))
        space = SINK_SPACE_FULL;
    return space;
}

crema_err_t
sink_store_free(sink_store_t *self, const crema_id_t *run_id)
{
    sink_store_run_t *run = sink_store_run(self, run_id);
    if (!run || run->shown.revision == 0 || run->shown.late || run->dirty || run->shown.freed)
        return CREMA_EINVAL;
    char path[PATH_MAX];
    crema_err_t err = sink_store_run_dir(self, run_id, path);
    if (err != CREMA_OK)
        return err;
    gathered_t gathered = {.store = self, .only = run};
    err = s_gather(&gathered);
    sink_tomb_t *tombs = err == CREMA_OK ? calloc(gathered.n + 1, sizeof *tombs) : NULL;
    for (size_t i = 0; tombs && i < gathered.n; i++)
        tombs[i] = (sink_tomb_t){gathered.rows[i].stream_id, gathered.rows[i].committed};
    if (err == CREMA_OK)
        err = tombs ? sink_tombs_add(self->dir, run_id, run->shown.revision, tombs, gathered.n)
                    : CREMA_ENOMEM;
    free(tombs);
    free(gathered.rows);
    if (err != CREMA_OK)
        return err;
    run->shown.freed = true;
    run->bytes = 0;
    sink_journal_close(&run->journal);
    sink_store_remove_dir(path);
    return CREMA_OK;
}
