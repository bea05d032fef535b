#include <stdio.h>
#include <string.h>

#include "agg_core_private.h"

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

static Crema__StreamTable *
s_take_acks(agg_core_t *self, agg_client_t *client)
{
    agg_flow_t *flow;
    crema_stream_table_clear(self->table);
    while (crema_stream_table_rows(self->table) < CREMA_WIRE_TABLE_ROWS_SENT &&
           (flow = CREMA_LIST_FIRST(&client->acks, agg_flow_t, ack)) != NULL) {
        crema_list_remove(&flow->ack);
        crema_stream_table_add(self->table, &flow->row);
    }
    return crema_stream_table_sent(self->table);
}

static bool
s_say_welcome(agg_core_t *self, agg_client_t *client, agg_action_t *ret_action)
{
    client->want_welcome = false;
    if (agg_sink_takes(self))
        agg_credit_grant(self->credit, &client->account);
    self->msg.welcome = (Crema__Welcome){
        .credit_total_b = client->account.total_b,
        .max_batch_b = CREMA_WIRE_BATCH_MAX,
        .table = s_take_acks(self, client),
    };
    return s_to_peer(self, client->peer, CREMA_MSG_WELCOME, ret_action);
}

static bool
s_say_ack(agg_core_t *self, agg_client_t *client, int64_t mono_ns, agg_action_t *ret_action)
{
    client->want_ack = false;
    if (agg_sink_takes(self))
        agg_credit_grant(self->credit, &client->account);
    self->msg.ack = (Crema__Ack){
        .table = s_take_acks(self, client),
        .credit_total_b = client->account.total_b,
        .hb_no = client->ack_hb_no,
        .t1_mono_ns = client->ack_t1_ns,
        .t2_mono_ns = client->ack_t2_ns,
        .t3_mono_ns = mono_ns,
    };
    if (client->ack_hb_no == 0)
        self->msg.ack.t3_mono_ns = 0;
    client->ack_hb_no = 0;
    client->ack_t1_ns = client->ack_t2_ns = 0;
    s_to_peer(self, client->peer, CREMA_MSG_ACK, ret_action);
    if (client->leaving && crema_list_is_empty(&client->acks))
        agg_client_end_session(self, client);
    return true;
}

static bool
s_say_dismiss(agg_core_t *self, agg_client_t *client, agg_action_t *ret_action)
{
    client->want_dismiss = false;
    self->stats.fences++;
    self->msg.fence.reason = CREMA_FENCE_DISMISSED;
    self->msg.fence.retry_after_ms = 0;
    self->msg.fence.run_id = crema_id_field(&client->dismissed_run_id);
    return s_to_peer(self, client->peer, CREMA_MSG_FENCE, ret_action);
}

static bool
s_say_clock(agg_core_t *self, agg_client_t *client, agg_action_t *ret_action)
{
    self->msg.clock = client->clock;
    self->msg.clock.run_id = crema_id_field(&client->clock_runs[--client->n_clock_runs]);
    return s_to_sink(self, CREMA_MSG_CLOCK, ret_action);
}

static void
s_explain_refused(agg_core_t *self, const agg_client_t *client, agg_action_t *action)
{
    const crema_stream_row_t *row = &client->refused;
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
s_say_for_client(agg_core_t *self, agg_client_t *client, int64_t mono_ns, agg_action_t *ret_action)
{
    if (client->events) {
        *ret_action = (agg_action_t){
            .type = AGG_EVENT,
            .event = s_take_event(&client->events),
            .agent_id = *agg_agent_id(client->agent),
            .subject = agg_agent_name(client->agent),
            .detail = agg_agent_state_name(client->reported),
        };
        if (ret_action->event == AGG_EVENT_STREAM_REFUSED)
            s_explain_refused(self, client, ret_action);
        return true;
    }
    if (client->n_clock_runs > 0)
        return s_say_clock(self, client, ret_action);
    if (!client->has_session)
        return false;
    if (client->want_welcome)
        return s_say_welcome(self, client, ret_action);
    if (!client->ack_waits && (client->want_ack || !crema_list_is_empty(&client->acks)))
        return s_say_ack(self, client, mono_ns, ret_action);
    return client->want_dismiss && s_say_dismiss(self, client, ret_action);
}

static bool
s_say_clients(agg_core_t *self, int64_t mono_ns, agg_action_t *ret_action)
{
    agg_client_t *client;
    while ((client = CREMA_LIST_FIRST(&self->clients_out, agg_client_t, out)) != NULL) {
        if (s_say_for_client(self, client, mono_ns, ret_action))
            return true;
        crema_list_remove(&client->out);
    }
    return false;
}

/* ---------------------------------------------------------------- streams */

static bool
s_say_replay(agg_core_t *self, const agg_flow_t *flow, agg_action_t *ret_action)
{
    if (!flow->client || !flow->client->has_session)
        return false;
    self->stats.replays++;
    self->msg.replay.stream_id = crema_id_field(&flow->row.stream_id);
    self->msg.replay.from_seq = flow->row.recv_next;
    return s_to_peer(self, flow->client->peer, CREMA_MSG_REPLAY, ret_action);
}

/* Checks the streams where something changed, or all after a tick. */
static bool
s_say_due(agg_core_t *self, int64_t mono_ns, agg_action_t *ret_action)
{
    agg_flow_t *flow;
    while ((flow = CREMA_LIST_FIRST(&self->due, agg_flow_t, due)) != NULL) {
        crema_stream_due_t due = crema_stream_due(flow->line, agg_sink_takes(self), mono_ns);
        agg_flow_follow(self, flow, mono_ns);
        crema_list_remove(&flow->due);
        if (due == CREMA_STREAM_ASK_SINK)
            crema_list_append(&self->opens, &flow->open);
        else if (due == CREMA_STREAM_ASK_SENDER && s_say_replay(self, flow, ret_action))
            return true;
        else if (due == CREMA_STREAM_ASK_SENDER) /* another aggregator may have delivered it */
            crema_list_append(&self->opens, &flow->open);
    }
    return false;
}

static bool
s_say_open(agg_core_t *self, agg_action_t *ret_action)
{
    agg_flow_t *flow;
    if (self->want_list) {
        self->want_list = self->want_ping = false;
        return s_to_sink(self, CREMA_MSG_OPEN, ret_action);
    }
    crema_stream_table_clear(self->table);
    while (crema_stream_table_rows(self->table) < CREMA_WIRE_TABLE_ROWS_SENT &&
           (flow = CREMA_LIST_FIRST(&self->opens, agg_flow_t, open)) != NULL) {
        crema_list_remove(&flow->open);
        crema_stream_table_add(self->table, &flow->row);
    }
    bool is_empty = crema_stream_table_rows(self->table) == 0;
    if (is_empty &&
        self->want_ping) { /* one stream at a time: anything missed is corrected eventually */
        flow = crema_map_next(self->flows, &self->ping_cursor);
        if (flow)
            crema_stream_table_add(self->table, &flow->row);
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
s_say_barrier(agg_core_t *self, agg_entry_t *entry, agg_action_t *ret_action)
{
    const agg_member_t *member;
    while ((member = agg_run_ask(entry->run)) != NULL) {
        const agg_client_t *client = crema_map_find(self->clients, &member->agent_id);
        if (!client || !client->has_session)
            continue;
        self->msg.barrier.barrier_id = entry->run->barrier_id;
        self->msg.barrier.run_id = crema_id_field(&entry->run->run_id);
        return s_to_peer(self, client->peer, CREMA_MSG_BARRIER, ret_action);
    }
    return false;
}

static bool
s_say_run_state(agg_core_t *self, agg_entry_t *entry, agg_action_t *ret_action)
{
    entry->want_state = false;
    Crema__RunState *state = &self->msg.run_state;
    *state = agg_entry_state(self, entry);
    state->t_now_ns = self->real_ns;
    state->trouble = (char *)agg_run_trouble(self, entry);
    state->writers_kept = agg_writers_kept(entry);
    state->waiting_for = self->waiting;
    size_t members = state->phase == CREMA_RUN_BARRIER ? entry->run->n_members : 0;
    for (size_t i = 0; i < members && state->n_waiting_for < AGG_WAITING_MAX; i++) {
        const agg_member_t *member = entry->run->members[i];
        const agg_client_t *client = crema_map_find(self->clients, &member->agent_id);
        if (client && !member->settled)
            self->waiting[state->n_waiting_for++] = (char *)agg_agent_name(client->agent);
    }
    return s_to_peer(self, entry->watcher, CREMA_MSG_RUN_STATE, ret_action);
}

/* A message of the run's client, as it is passed on. */
static void
s_fill_run(agg_core_t *self, const agg_entry_t *entry, const crema_msg_t *msg)
{
    self->msg = *msg;
    self->msg.run_open.owner = crema_id_field(&entry->opened_by.key);
}

static bool
s_say_for_run(agg_core_t *self, agg_entry_t *entry, agg_action_t *ret_action)
{
    if (entry->events) {
        const Crema__RunState state = agg_run_state(entry->run);
        *ret_action = (agg_action_t){
            .type = AGG_EVENT,
            .event = s_take_event(&entry->events),
            .run_id = entry->run->run_id,
            .subject = state.path,
            .detail = state.n_reasons ? state.reasons[0]->code : NULL,
        };
        return true;
    }
    if (s_say_barrier(self, entry, ret_action))
        return true;
    if (entry->want_lend) {
        entry->want_lend = false;
        s_fill_run(self, entry, entry->run->open_msg);
        *ret_action = (agg_action_t){.type = AGG_LEND, .msg = &self->msg};
        return true;
    }
    if (entry->want_open) {
        entry->want_open = false;
        s_fill_run(self, entry, entry->run->open_msg);
        return s_to_sink(self, CREMA_MSG_RUN_OPEN, ret_action);
    }
    const Crema__RunWriters *part = agg_writers_take(entry);
    if (part) {
        self->msg.run_writers = *part;
        self->msg.run_writers.owner = crema_id_field(&entry->opened_by.key);
        return s_to_sink(self, CREMA_MSG_RUN_WRITERS, ret_action);
    }
    if (entry->want_end) {
        entry->want_end = false;
        s_fill_run(self, entry, entry->run->end_msg);
        return s_to_sink(self, CREMA_MSG_RUN_END, ret_action);
    }
    if (entry->want_seal) {
        entry->want_seal = false;
        s_fill_run(self, entry, &entry->run->seal);
        return s_to_sink(self, CREMA_MSG_RUN_SEAL, ret_action);
    }
    return entry->want_state && s_say_run_state(self, entry, ret_action);
}

static bool
s_say_runs(agg_core_t *self, agg_action_t *ret_action)
{
    agg_entry_t *entry;
    while ((entry = CREMA_LIST_FIRST(&self->runs_out, agg_entry_t, out)) != NULL) {
        if (s_say_for_run(self, entry, ret_action))
            return true;
        crema_list_remove(&entry->out);
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
           s_say_sink_event(self, ret_action) || s_say_clients(self, mono_ns, ret_action) ||
           s_say_due(self, mono_ns, ret_action) || s_say_open(self, ret_action) ||
           s_say_runs(self, ret_action);
}
