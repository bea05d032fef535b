#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "crema_arena.h"
#include "sink_store_private.h"

#define GIB ((uint64_t)1 << 30)
#define ANSWERS_READ 256 /* files per call of sink_store_redundant() */

/* ---- the store's content */

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

sink_store_report_t
sink_store_report(const sink_store_t *self)
{
    sink_store_report_t report = self->report;
    for (const crema_link_t *at = self->unread.next; at != &self->unread; at = at->next)
        report.unread++;
    report.refused_records = sink_refused_records(&self->refused);
    return report;
}

const sink_run_t *
sink_store_next(const sink_store_t *self, size_t *cursor)
{
    return *cursor < self->n_live ? &self->live[(*cursor)++]->shown : NULL;
}

size_t
sink_store_live(const sink_store_t *self)
{
    return self->n_live;
}

size_t
sink_store_known(const sink_store_t *self)
{
    return crema_map_count(self->runs) + self->freed.n;
}

sink_store_census_t
sink_store_census(const sink_store_t *self)
{
    const sink_store_report_t report = sink_store_report(self);
    sink_store_census_t census = {
        .unread = (size_t)report.unread,
        .aside = (size_t)report.aside,
        .resting = self->n_resting,
        .freed = self->freed.n,
    };
    for (size_t i = 0; i < self->n_live; i++)
        census.live[self->live[i]->shown.state.life]++;
    return census;
}

static sink_store_run_t *
s_find_oldest(const sink_store_t *self)
{
    sink_store_run_t *oldest = NULL;
    size_t cursor = 0;
    for (sink_store_run_t *run; (run = crema_map_next(self->runs, &cursor)) != NULL;)
        if (run->stage == SINK_STAGE_RESTING && (!oldest || sink_store_is_older(run, oldest)))
            oldest = run;
    return oldest;
}

const sink_run_t *
sink_store_oldest(sink_store_t *self, int64_t *ret_sealed_for_ns)
{
    if (self->n_resting == 0)
        return NULL;
    if (!self->oldest)
        self->oldest = s_find_oldest(self);
    *ret_sealed_for_ns = self->age_ns - self->oldest->shown.state.age_sealed_ns;
    return &self->oldest->shown;
}

static bool
s_has_complete_file(const sink_store_t *self, const sink_store_run_t *run)
{
    uint8_t *bytes;
    size_t size;
    crema_msg_t msg;
    crema_arena_t *arena = NULL;
    bool is_complete = false;
    if (sink_store_answer(self, &run->shown.run_id, &bytes, &size) != CREMA_OK)
        return false;
    if (crema_arena_new(CREMA_ARENA_FACTOR * (size + CREMA_WIRE_HEADER_BYTES), &arena) ==
            CREMA_OK &&
        crema_wire_decode_kept(bytes, size, arena, &msg) == CREMA_OK &&
        msg.type == CREMA_MSG_SEALED)
        is_complete = msg.sealed.revision == run->shown.state.revision &&
                      strcmp(msg.sealed.verdict, "COMPLETE") == 0;
    crema_arena_destroy(&arena);
    free(bytes);
    return is_complete;
}

const sink_run_t *
sink_store_redundant(sink_store_t *self, bool *ret_complete)
{
    sink_store_run_t *found = NULL;
    size_t cursor = 0, n_read = 0;
    bool all_known = true;
    for (sink_store_run_t *run; (run = crema_map_next(self->runs, &cursor)) != NULL;) {
        bool is_sealed = run->stage == SINK_STAGE_RESTING ||
                         (run->stage == SINK_STAGE_LIVE && sink_store_is_over(&run->shown));
        if (!is_sealed)
            continue;
        bool is_busy = run->stage == SINK_STAGE_LIVE && sink_store_is_unsynced(run);
        if (is_busy || (!run->verdict_read && n_read >= ANSWERS_READ)) {
            all_known = false; /* a COMPLETE one may be among those that cannot be taken yet */
            continue;
        }
        if (!run->verdict_read) {
            run->is_complete = s_has_complete_file(self, run);
            run->verdict_read = true;
            n_read++;
        }
        if (!found || run->is_complete > found->is_complete ||
            (run->is_complete == found->is_complete && sink_store_is_older(run, found)))
            found = run;
    }
    if (!found || !(found->is_complete || all_known))
        return NULL;
    *ret_complete = found->is_complete;
    return &found->shown;
}

static bool
s_is_awaited(const sink_run_t *run)
{
    return run->state.life == CREMA_LIFE_OPEN ||
           (run->state.life == CREMA_LIFE_ENDED && !run->state.seal_asked);
}

const sink_run_t *
sink_store_silent(sink_store_t *self, int64_t after_ns, int64_t mono_ns)
{
    const sink_run_t *silent = NULL;
    for (size_t i = 0; i < self->n_live; i++) {
        sink_store_run_t *run = self->live[i];
        if (!s_is_awaited(&run->shown)) {
            run->heard_ns = 0;
        } else if (run->heard_ns == 0 || run->heard_news != run->shown.news) {
            run->heard_ns = mono_ns;
            run->heard_news = run->shown.news;
        }
        if (run->heard_ns > 0 && mono_ns - run->heard_ns >= after_ns)
            silent = &run->shown;
    }
    return silent;
}

void
sink_store_heard(sink_store_t *self, const crema_id_t *run_id, int64_t mono_ns)
{
    sink_store_run_t *run = sink_store_run(self, run_id);
    if (run && run->heard_ns > 0)
        run->heard_ns = mono_ns;
}

uint64_t
sink_store_bytes(const sink_store_t *self)
{
    return self->bytes;
}

uint64_t
sink_store_resting_bytes(const sink_store_t *self)
{
    return self->resting_bytes;
}

/* ---- streams of runs */

/* A freed run accepts nothing. What the sender has beyond its committed number counts as lost. */
static crema_err_t
s_refuse(sink_store_t *self, const crema_stream_row_t *asked, crema_stream_row_t *ret_row)
{
    uint64_t first = asked->committed < UINT64_MAX ? asked->committed + 1 : UINT64_MAX;
    char uuid[37];
    bool is_new;
    if (first < asked->first_avail)
        first = asked->first_avail;
    crema_err_t err = sink_refused_note(&self->refused, &asked->run_id, &asked->stream_id, first,
                                        asked->hi, &is_new);
    if (err != CREMA_OK)
        return err;
    if (is_new)
        sink_store_tell(self, SINK_STORE_REFUSED, &asked->run_id,
                        "numbers %llu to %llu of stream %s arrived after the run was sealed and "
                        "its journal removed; those that its file does not contain are lost",
                        (unsigned long long)first, (unsigned long long)asked->hi,
                        crema_id_uuid(&asked->stream_id, uuid));
    *ret_row = (crema_stream_row_t){
        .stream_id = asked->stream_id,
        .run_id = asked->run_id,
        .hi = asked->hi,
        .committed = asked->hi,
        .recv_next = asked->hi + 1,
        .flags = CREMA_STREAM_FLAG_REFUSED | (asked->flags & CREMA_STREAM_FLAG_CLOSED),
    };
    return CREMA_OK;
}

static void
s_write_refused(void *context)
{
    sink_store_t *self = context;
    sink_refused_write(&self->refused, self->dir);
}

static crema_err_t
s_end_refusing(sink_store_t *self, sink_store_job_t *job)
{
    (void)job;
    sink_refused_end(&self->refused);
    return CREMA_OK;
}

crema_err_t
sink_store_keep_refused(sink_store_t *self)
{
    bool begins = false;
    if (self->refusing.busy)
        return CREMA_EAGAIN;
    crema_err_t err = sink_refused_begin(&self->refused, &begins);
    if (!begins)
        return err;
    sink_store_begin_job(self, &self->refusing, s_write_refused, self, s_end_refusing);
    return CREMA_EAGAIN;
}

crema_err_t
sink_store_stream(sink_store_t *self, const crema_stream_row_t *asked, crema_stream_row_t *ret_row)
{
    sink_store_run_t *run = NULL;
    const sink_run_t *shown = sink_store_find(self, &asked->run_id);
    if (shown && shown->freed)
        return s_refuse(self, asked, ret_row);
    crema_err_t err = shown ? sink_store_take_run(self, &asked->run_id, &run) : CREMA_OK;
    if (err != CREMA_OK)
        return err;
    if (run && run->shown.is_crowded) /* its sender would repeat what is refused again */
        return CREMA_EAGAIN;
    crema_stream_row_t row;
    bool known = sink_commit_get(self->watermarks, &asked->stream_id, &row);
    if (known && sink_store_is_held(self, &asked->run_id))
        return CREMA_EAGAIN;
    if (known && !crema_id_equal(&row.run_id, &asked->run_id))
        return CREMA_EPROTO;
    row.run_id = asked->run_id;
    *ret_row = row;
    return CREMA_OK;
}

typedef struct {
    crema_stream_row_t *rows;
    size_t n;
} gathered_t;

static void
s_on_stream(void *context, const crema_stream_row_t *row)
{
    gathered_t *gathered = context;
    gathered->rows[gathered->n++] = *row;
}

crema_err_t
sink_store_open_streams(const sink_store_t *self, crema_stream_row_t **ret_rows, size_t *ret_n)
{
    size_t n = 0;
    if (!crema_list_is_empty(&self->unread))
        return CREMA_EAGAIN;
    for (size_t i = 0; i < self->n_live; i++) {
        const sink_run_t *run = &self->live[i]->shown;
        if (sink_store_is_over(run))
            continue;
        if (run->is_renewing)
            return CREMA_EAGAIN;
        n += sink_commit_count(self->watermarks, &run->run_id);
    }
    gathered_t gathered = {calloc(n ? n : 1, sizeof *gathered.rows), 0};
    if (!gathered.rows)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < self->n_live; i++)
        if (!sink_store_is_over(&self->live[i]->shown))
            sink_commit_each(self->watermarks, &self->live[i]->shown.run_id, s_on_stream,
                             &gathered);
    *ret_rows = gathered.rows;
    *ret_n = gathered.n;
    return CREMA_OK;
}

bool
sink_store_is_pending(const sink_store_t *self, const crema_id_t *run_id)
{
    const sink_store_run_t *run = sink_store_run(self, run_id);
    return run && sink_store_is_unsynced(run);
}

bool
sink_store_may_seal(const sink_store_t *self, const crema_id_t *run_id)
{
    const sink_store_run_t *run = sink_store_run(self, run_id);
    return run && run->durable.seal_asked && run->durable.said_seal == run->shown.state.said_seal;
}

/* ---- space */

/* Fill level of the disk by share and by absolute reserve: a tenth of a large disk is room
 * enough for many runs. */
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
    uint64_t limit = (uint64_t)self->config.limit_bytes, used = self->bytes;
    if (limit && limit - (used < limit ? used : limit) < *ret_free_b)
        *ret_free_b = limit - (used < limit ? used : limit);
    if (limit && space == SINK_SPACE_FREE && used >= limit - limit / 10)
        space = SINK_SPACE_SHORT;
    if (self->n_stuck > 0 || (limit && used >= limit - limit / 20))
        space = SINK_SPACE_FULL;
    return space;
}
