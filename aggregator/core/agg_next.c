#include <stdio.h>
#include <string.h>

#include "agg_core_impl.h"
#include "agg_messages.h"

/* Each function below produces at most one action and returns whether it did. */

static bool
s_to_peer(agg_core_t *self, agg_peer_t peer, crema_msg_type_t type, agg_action_t *ret_action)
{
    self->msg.type = type;
    self->msg.session = self->config.session;
    *ret_action = (agg_action_t){.type = AGG_TO_PEER, .peer = peer, .msg = &self->msg};
    return true;
}

static bool
s_to_sink(agg_core_t *self, crema_msg_type_t type, agg_action_t *ret_action)
{
    self->msg.type = type;
    *ret_action = (agg_action_t){.type = AGG_TO_SINK, .msg = &self->msg};
    return true;
}

/* Removes the lowest event from *bits. */
static agg_event_t
s_take_event(uint32_t *bits)
{
    unsigned event = (unsigned)__builtin_ctz(*bits);
    *bits &= *bits - 1;
    return (agg_event_t)event;
}

/* ---------------------------------------------------------------- records and short answers */

static bool
s_say_put(agg_core_t *self, agg_action_t *ret_action)
{
    agg_piece_t piece;
    if (!self->putting)
        return false;
    if (!agg_frames_take(&self->put_frames, &piece)) {
        self->putting = false;
        return false;
    }
    self->msg.put = self->put;
    self->msg.put.first_seq = piece.first;
    self->msg.put.n = piece.n;
    self->msg.put.frames = (ProtobufCBinaryData){piece.size, (uint8_t *)piece.bytes};
    self->stats.puts++;
    return s_to_sink(self, CREMA_MSG_PUT, ret_action);
}

static bool
s_say_reply(agg_core_t *self, agg_action_t *ret_action)
{
    if (self->n_replies == 0)
        return false;
    const agg_reply_t *reply = &self->reply;
    self->reply = self->replies[0];
    self->n_replies--;
    memmove(self->replies, self->replies + 1, self->n_replies * sizeof *reply);
    self->msg = reply->msg;
    if (reply->msg.type == CREMA_MSG_RUN_STATE) {
        Crema__RunState *state = &self->msg.run_state;
        state->run_id = crema_id_field(&reply->run_id);
        state->error = (char *)agg_refusal_text(self, state->refusal);
        state->trouble = (char *)agg_sink_trouble(self);
        state->t_now_ns = self->real_ns;
    }
    return s_to_peer(self, reply->peer, reply->msg.type, ret_action);
}

/* ---------------------------------------------------------------- agents */

static void
s_add_row(agg_core_t *self, const agg_stream_t *stream)
{
    const crema_stream_row_t row = agg_stream_row(stream);
    crema_stream_table_add(self->table, &row);
}

static Crema__StreamTable *
s_take_acks(agg_core_t *self, agg_session_t *session)
{
    agg_stream_t *stream;
    crema_stream_table_clear(self->table);
    while (crema_stream_table_rows(self->table) < CREMA_WIRE_TABLE_ROWS_SENT &&
           (stream = CREMA_LIST_FIRST(&session->acks, agg_stream_t, ack)) != NULL) {
        crema_list_remove(&stream->ack);
        s_add_row(self, stream);
    }
    return crema_stream_table_sent(self->table);
}

static bool
s_say_welcome(agg_core_t *self, agg_session_t *session, agg_action_t *ret_action)
{
    session->want_welcome = false;
    if (agg_sink_takes(self))
        agg_credit_grant(self->credit, &session->account);
    self->msg.welcome = (Crema__Welcome){
        .credit_total_b = session->account.total_b,
        .max_batch_b = CREMA_WIRE_BATCH_MAX,
        .table = s_take_acks(self, session),
    };
    return s_to_peer(self, session->peer, CREMA_MSG_WELCOME, ret_action);
}

static bool
s_say_ack(agg_core_t *self, agg_session_t *session, int64_t mono_ns, agg_action_t *ret_action)
{
    session->want_ack = false;
    if (agg_sink_takes(self))
        agg_credit_grant(self->credit, &session->account);
    self->msg.ack = (Crema__Ack){
        .table = s_take_acks(self, session),
        .credit_total_b = session->account.total_b,
        .hb_no = session->ack_hb_no,
        .t1_mono_ns = session->ack_t1_ns,
        .t2_mono_ns = session->ack_t2_ns,
        .t3_mono_ns = mono_ns,
    };
    if (session->ack_hb_no == 0)
        self->msg.ack.t3_mono_ns = 0;
    session->ack_hb_no = 0;
    session->ack_t1_ns = session->ack_t2_ns = 0;
    s_to_peer(self, session->peer, CREMA_MSG_ACK, ret_action);
    if (session->leaving && crema_list_is_empty(&session->acks))
        agg_session_end(self, session);
    return true;
}

static bool
s_say_dismiss(agg_core_t *self, agg_session_t *session, agg_action_t *ret_action)
{
    session->want_dismiss = false;
    self->stats.fences++;
    self->msg.fence.reason = CREMA_FENCE_DISMISSED;
    self->msg.fence.retry_after_ms = 0;
    self->msg.fence.run_id = crema_id_field(&session->dismissed_run_id);
    return s_to_peer(self, session->peer, CREMA_MSG_FENCE, ret_action);
}

static bool
s_say_clock(agg_core_t *self, agg_session_t *session, agg_action_t *ret_action)
{
    self->msg.clock = session->clock;
    self->msg.clock.run_id = crema_id_field(&session->clock_runs[--session->n_clock_runs]);
    return s_to_sink(self, CREMA_MSG_CLOCK, ret_action);
}

static void
s_explain_refused(agg_core_t *self, const agg_session_t *session, agg_action_t *action)
{
    const crema_stream_row_t *row = &session->refused;
    char hex[CREMA_ID_HEX_CHARS + 1], user[40] = "a user that its agent did not state";
    if (row->user)
        snprintf(user, sizeof user, "uid %u", row->user - 1);
    snprintf(self->text, sizeof self->text,
             "stream %s belongs to %s, the key that opened the run is bound to another one",
             crema_id_hex(&row->stream_id, hex), user);
    action->run_id = row->run_id;
    action->detail = self->text;
}

static bool
s_say_for_session(agg_core_t *self, agg_session_t *session, int64_t mono_ns,
                  agg_action_t *ret_action)
{
    if (session->events) {
        *ret_action = (agg_action_t){
            .type = AGG_EVENT,
            .event = s_take_event(&session->events),
            .agent_id = session->agent_id,
            .subject = session->name,
            .detail = agg_session_state_name(session->reported),
        };
        if (ret_action->event == AGG_EVENT_STREAM_REFUSED)
            s_explain_refused(self, session, ret_action);
        return true;
    }
    if (session->n_clock_runs > 0)
        return s_say_clock(self, session, ret_action);
    if (!session->is_open)
        return false;
    if (session->want_welcome)
        return s_say_welcome(self, session, ret_action);
    if (!session->ack_waits && (session->want_ack || !crema_list_is_empty(&session->acks)))
        return s_say_ack(self, session, mono_ns, ret_action);
    return session->want_dismiss && s_say_dismiss(self, session, ret_action);
}

static bool
s_say_sessions(agg_core_t *self, int64_t mono_ns, agg_action_t *ret_action)
{
    agg_session_t *session;
    while ((session = CREMA_LIST_FIRST(&self->sessions_out, agg_session_t, out)) != NULL) {
        if (s_say_for_session(self, session, mono_ns, ret_action))
            return true;
        crema_list_remove(&session->out);
    }
    return false;
}

/* ---------------------------------------------------------------- streams */

static bool
s_say_replay(agg_core_t *self, const agg_stream_t *stream, agg_action_t *ret_action)
{
    if (!stream->session || !stream->session->is_open)
        return false;
    self->stats.replays++;
    self->msg.replay.stream_id = crema_id_field(&stream->stream_id);
    self->msg.replay.from_seq = stream->at.next;
    return s_to_peer(self, stream->session->peer, CREMA_MSG_REPLAY, ret_action);
}

/* Checks the streams where something changed, or all after a tick. */
static bool
s_say_due(agg_core_t *self, int64_t mono_ns, agg_action_t *ret_action)
{
    agg_stream_t *stream;
    while ((stream = CREMA_LIST_FIRST(&self->due, agg_stream_t, due)) != NULL) {
        const agg_position_t was = stream->at;
        agg_stream_due_t due = agg_stream_due(stream, agg_sink_takes(self), mono_ns);
        agg_stream_follow(self, stream, &was, mono_ns);
        crema_list_remove(&stream->due);
        if (due == AGG_STREAM_ASK_SINK)
            crema_list_append(&self->opens, &stream->open);
        else if (due == AGG_STREAM_ASK_SENDER && s_say_replay(self, stream, ret_action))
            return true;
        else if (due == AGG_STREAM_ASK_SENDER) /* another aggregator may have delivered it */
            crema_list_append(&self->opens, &stream->open);
    }
    return false;
}

static bool
s_say_open(agg_core_t *self, agg_action_t *ret_action)
{
    agg_stream_t *stream;
    if (self->want_list) {
        self->want_list = self->want_ping = false;
        return s_to_sink(self, CREMA_MSG_OPEN, ret_action);
    }
    crema_stream_table_clear(self->table);
    while (crema_stream_table_rows(self->table) < CREMA_WIRE_TABLE_ROWS_SENT &&
           (stream = CREMA_LIST_FIRST(&self->opens, agg_stream_t, open)) != NULL) {
        crema_list_remove(&stream->open);
        s_add_row(self, stream);
    }
    bool is_empty = crema_stream_table_rows(self->table) == 0;
    if (is_empty &&
        self->want_ping) { /* one stream at a time: anything missed is corrected eventually */
        stream = crema_map_next(self->streams, &self->ping_cursor);
        if (stream)
            s_add_row(self, stream);
        else
            self->ping_cursor = 0;
    } else if (is_empty) {
        return false;
    }
    self->want_ping = false;
    self->msg.open.table = crema_stream_table_sent(self->table);
    return s_to_sink(self, CREMA_MSG_OPEN, ret_action);
}

/* ---------------------------------------------------------------- runs */

static bool
s_say_barrier(agg_core_t *self, agg_run_t *run, agg_action_t *ret_action)
{
    const agg_member_t *member;
    while ((member = agg_run_ask(run)) != NULL) {
        const agg_session_t *session = crema_map_find(self->sessions, &member->agent_id);
        if (!session || !session->is_open)
            continue;
        self->msg.barrier.barrier_id = run->barrier_id;
        self->msg.barrier.run_id = crema_id_field(&run->run_id);
        return s_to_peer(self, session->peer, CREMA_MSG_BARRIER, ret_action);
    }
    return false;
}

static bool
s_say_run_state(agg_core_t *self, agg_run_t *run, agg_action_t *ret_action)
{
    run->want_state = false;
    Crema__RunState *state = &self->msg.run_state;
    *state = agg_run_report(self, run);
    state->t_now_ns = self->real_ns;
    state->trouble = (char *)agg_run_trouble(self, run);
    state->writers_kept = agg_writers_kept(run);
    state->waiting_for = self->waiting;
    size_t members = state->phase == CREMA_RUN_BARRIER ? run->n_members : 0;
    for (size_t i = 0; i < members && state->n_waiting_for < AGG_WAITING_MAX; i++) {
        const agg_member_t *member = run->members[i];
        const agg_session_t *session = crema_map_find(self->sessions, &member->agent_id);
        if (session && !member->settled)
            self->waiting[state->n_waiting_for++] = (char *)session->name;
    }
    return s_to_peer(self, run->watcher, CREMA_MSG_RUN_STATE, ret_action);
}

static bool
s_say_run_event(agg_run_t *run, agg_action_t *ret_action)
{
    if (!run->events)
        return false;
    const Crema__RunState state = agg_run_state(run);
    *ret_action = (agg_action_t){
        .type = AGG_EVENT,
        .event = s_take_event(&run->events),
        .run_id = run->run_id,
        .subject = state.path,
        .detail = state.n_reasons ? state.reasons[0]->code : NULL,
    };
    return true;
}

/* Passes a message of the run's client on if it is wanted. */
static bool
s_pass_on(agg_core_t *self, const agg_run_t *run, bool *want, crema_msg_type_t type,
          const crema_msg_t *msg, agg_action_t *ret_action)
{
    if (!*want)
        return false;
    *want = false;
    self->msg = *msg;
    self->msg.run_open.owner = crema_id_field(&run->opened_by.key);
    return s_to_sink(self, type, ret_action);
}

static bool
s_say_writers(agg_core_t *self, agg_run_t *run, agg_action_t *ret_action)
{
    const Crema__RunWriters *part = agg_writers_take(run);
    if (!part)
        return false;
    self->msg.run_writers = *part;
    self->msg.run_writers.owner = crema_id_field(&run->opened_by.key);
    return s_to_sink(self, CREMA_MSG_RUN_WRITERS, ret_action);
}

static bool
s_say_for_run(agg_core_t *self, agg_run_t *run, agg_action_t *ret)
{
    if (s_say_run_event(run, ret) || s_say_barrier(self, run, ret))
        return true;
    if (s_pass_on(self, run, &run->want_admit, CREMA_MSG_RUN_OPEN, run->open_msg, ret)) {
        ret->type = AGG_ADMIT_KEY;
        return true;
    }
    return s_pass_on(self, run, &run->want_open, CREMA_MSG_RUN_OPEN, run->open_msg, ret) ||
           s_say_writers(self, run, ret) ||
           s_pass_on(self, run, &run->want_end, CREMA_MSG_RUN_END, run->end_msg, ret) ||
           s_pass_on(self, run, &run->want_seal, CREMA_MSG_RUN_SEAL, &run->seal, ret) ||
           (run->want_state && s_say_run_state(self, run, ret));
}

static bool
s_say_runs(agg_core_t *self, agg_action_t *ret_action)
{
    agg_run_t *run;
    while ((run = CREMA_LIST_FIRST(&self->runs_out, agg_run_t, out)) != NULL) {
        if (s_say_for_run(self, run, ret_action))
            return true;
        crema_list_remove(&run->out);
    }
    return false;
}

static bool
s_say_sink_event(agg_core_t *self, agg_action_t *ret_action)
{
    if (!self->sink_events)
        return false;
    *ret_action = (agg_action_t){.type = AGG_EVENT, .event = s_take_event(&self->sink_events)};
    return true;
}

bool
agg_core_next(agg_core_t *self, int64_t mono_ns, agg_action_t *ret_action)
{
    self->msg = (crema_msg_t){0};
    return s_say_put(self, ret_action) || s_say_reply(self, ret_action) ||
           s_say_sink_event(self, ret_action) || s_say_sessions(self, mono_ns, ret_action) ||
           s_say_due(self, mono_ns, ret_action) || s_say_open(self, ret_action) ||
           s_say_runs(self, ret_action);
}
