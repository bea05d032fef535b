#include <stdlib.h>

#include "sink_put.h"
#include "sink_store_private.h"

/* ---- reading a journal */

typedef struct {
    sink_store_t *store;
    sink_store_run_t *run;
    uint64_t strays;  /* entries of streams that belong to another run */
    crema_id_t stray; /* the first of these streams */
} recovery_t;

/* Skips what belongs to another run and takes the rest. */
static crema_err_t
s_pass_strays(recovery_t *self, const crema_id_t *stream_id, crema_err_t err)
{
    if (err != CREMA_EPROTO)
        return err;
    if (self->strays++ == 0)
        self->stray = *stream_id;
    return CREMA_OK;
}

static void
s_report_strays(const recovery_t *self)
{
    char uuid[37];
    if (self->strays > 0)
        sink_store_tell(self->store, SINK_STORE_STRAYS, &self->run->shown.run_id,
                        "%llu entries of its journal are of streams that another run has, the "
                        "first of %s: they are left where they are, and more of them is refused",
                        (unsigned long long)self->strays, crema_id_uuid(&self->stray, uuid));
}

static crema_err_t
s_on_state(void *context, const sink_journal_state_t *state)
{
    sink_journal_state_t *taken = &((recovery_t *)context)->run->shown.state;
    *taken = *state;
    if (taken->life >= CREMA_LIFE_COUNT)
        taken->life = CREMA_LIFE_OPEN;
    return CREMA_OK;
}

static crema_err_t
s_on_mark(void *context, const sink_journal_mark_t *mark)
{
    recovery_t *recovery = context;
    crema_err_t err =
        sink_commit_restore(recovery->store->watermarks, &mark->stream_id,
                            &recovery->run->shown.run_id, mark->committed, mark->hi, mark->closed);
    return s_pass_strays(recovery, &mark->stream_id, err);
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    recovery_t *recovery = context;
    uint64_t last;
    bool closed;
    recovery->run->shown.state.late = recovery->run->shown.state.revision > 0;
    sink_store_note_life(recovery->run, CREMA_LIFE_NEWS);
    if (sink_put_last(put->frames, put->frames_bytes, &last, &closed) != CREMA_OK)
        return CREMA_OK;
    crema_err_t err =
        sink_commit_restore_put(recovery->store->watermarks, &put->stream_id,
                                &recovery->run->shown.run_id, put->first_seq, last, closed);
    return s_pass_strays(recovery, &put->stream_id, err);
}

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    recovery_t *recovery = context;
    const Crema__RunOpen *open = &msg->run_open;
    /* This program's cost is journaled as a RUN_OPEN before the RUN_SEAL, which may name the
     * aggregator's cost. */
    bool is_cost =
        msg->type == CREMA_MSG_RUN_OPEN && open->n_keys > 0 && crema_cost_is_key(open->keys[0]);
    if (!is_cost)
        sink_store_note_message(recovery->run, msg, sink_store_fingerprint(msg));
    return CREMA_OK;
}

static crema_err_t
s_on_writers(void *context, const Crema__RunWriters *msg)
{
    recovery_t *recovery = context;
    bool new;
    recovery->run->shown.state.late = recovery->run->shown.state.revision > 0;
    return sink_store_note_writers(recovery->run, msg, &new);
}

static crema_err_t
s_on_sealed(void *context, const sink_journal_sealed_t *sealed)
{
    recovery_t *recovery = context;
    recovery->run->shown.state.revision = sealed->revision;
    recovery->run->shown.state.t_sealed_ns = sealed->t_real_ns;
    recovery->run->shown.state.late = false;
    sink_store_note_life(recovery->run, CREMA_LIFE_FILE);
    recovery->run->shown.state.age_sealed_ns = 0;
    return CREMA_OK;
}

crema_err_t
sink_store_read_journal(sink_store_t *self, sink_store_run_t *run, const char *path,
                        sink_journal_report_t *ret_report, char ret_where[PATH_MAX],
                        sink_journal_t **ret_journal)
{
    recovery_t recovery = {.store = self, .run = run};
    const sink_journal_visitor_t visitor = {
        .context = &recovery,
        .put = s_on_put,
        .run = s_on_run,
        .sealed = s_on_sealed,
        .writers = s_on_writers,
        .state = s_on_state,
        .mark = s_on_mark,
    };
    if (!ret_journal)
        return sink_journal_look(path, &visitor, ret_report, ret_where);
    crema_err_t err = sink_journal_open(path, &self->store_id, &run->shown.run_id, self->generation,
                                        &visitor, ret_report, ret_where, ret_journal);
    if (err == CREMA_OK)
        s_report_strays(&recovery);
    return err;
}

/* ---- writing a checkpoint */

typedef struct {
    sink_journal_mark_t *marks;
    size_t n;
} marks_t;

static void
s_on_row(void *context, const crema_stream_row_t *row)
{
    marks_t *marks = context;
    if (row->hi == 0) /* all of it is pending */
        return;
    marks->marks[marks->n++] = (sink_journal_mark_t){
        .stream_id = row->stream_id,
        .committed = row->committed,
        .hi = row->hi,
        .closed = (row->flags & CREMA_STREAM_FLAG_CLOSED) != 0,
    };
}

static crema_err_t
s_on_head(void *context, const crema_id_t *run_id, sink_journal_state_t *ret_state,
          sink_journal_mark_t **ret_marks)
{
    const sink_store_t *self = context;
    size_t n = sink_commit_count(self->watermarks, run_id);
    marks_t marks = {calloc(n ? n : 1, sizeof *marks.marks), 0};
    if (!marks.marks)
        return CREMA_ENOMEM;
    sink_commit_each(self->watermarks, run_id, s_on_row, &marks);
    *ret_state = sink_store_run(self, run_id)->durable;
    ret_state->n_marks = marks.n;
    *ret_marks = marks.marks;
    return CREMA_OK;
}

sink_journal_head_t
sink_store_head(sink_store_t *self)
{
    return (sink_journal_head_t){self, s_on_head};
}
