#include <stdlib.h>

#include "agg_core_private.h"

#define HELLOS_PER_SECOND 1000.0
#define NOT_READY_MS 300 /* the sink's list of streams is incomplete */
#define NO_ROOM_MS 5000
#define ABUSES_MAX 3
#define ABUSE_RETRY_MS 5000
#define ACTIVE_NS (10 * AGG_S)  /* an agent that sent within this time counts as active */
#define REFUSED_NS (60 * AGG_S) /* between two events about refused streams of one agent */

static uint32_t
s_bit(agg_event_t event)
{
    return 1u << event;
}

static void
s_note_event(agg_core_t *self, agg_client_t *client, agg_event_t event)
{
    client->events |= s_bit(event);
    agg_client_out(self, client);
}

static void
s_not_admitted(agg_core_t *self, agg_peer_t peer, uint32_t retry_after_ms)
{
    agg_reply(self, peer,
              &(crema_msg_t){.type = CREMA_MSG_WELCOME, .welcome.retry_after_ms = retry_after_ms});
}

/* ---------------------------------------------------------------- stream tables and their parts */

typedef enum { TABLE_PART, TABLE_WHOLE, TABLE_BROKEN } table_t;

/* Checks the sequence of parts: after a gap everything is ignored until the next part 0. */
static table_t
s_follow_parts(agg_client_t *client, uint16_t flags)
{
    unsigned part = flags >> CREMA_WIRE_PART_SHIFT;
    if (part == 0) {
        client->table++;
        client->part = 0;
        client->table_refused = false;
    }
    if (part != client->part) {
        client->part = UINT32_MAX;
        return TABLE_BROKEN;
    }
    client->part++;
    return flags & CREMA_WIRE_FLAG_MORE ? TABLE_PART : TABLE_WHOLE;
}

/* Refuses a stream. The run continues without it, and so does the agent, which serves other runs
 * too. */
static void
s_refuse_row(agg_core_t *self, agg_client_t *client, const crema_stream_row_t *row, int64_t now_ns)
{
    self->stats.not_allowed++;
    if (client->refused_ns && now_ns - client->refused_ns < REFUSED_NS)
        return;
    client->refused_ns = now_ns;
    client->refused = *row;
    s_note_event(self, client, AGG_EVENT_STREAM_REFUSED);
}

static void
s_take_rows(agg_core_t *self, agg_client_t *client, const Crema__StreamTable *table, int64_t now_ns)
{
    for (size_t i = 0; i < crema_stream_table_rows(table); i++) {
        const crema_stream_row_t row = crema_stream_table_row(table, i);
        if (crema_id_is_zero(&row.run_id))
            continue; /* a stream without a run cannot be delivered */
        if (!agg_key_may_bring(self, &row.run_id)) {
            self->stats.not_allowed++;
            continue;
        }
        if (!agg_key_may_have_written(self, &row.stream_id, &row.run_id, row.user)) {
            s_refuse_row(self, client, &row, now_ns);
            continue;
        }
        agg_flow_t *flow = agg_flow_bring(self, &row.stream_id, &row.run_id, now_ns);
        if (!flow) {
            client->table_refused = true;
            continue;
        }
        if (!agg_key_has_flow(self, flow)) {
            self->stats.not_allowed++;
            continue;
        }
        agg_flow_attach(self, flow, client, now_ns);
        flow->listed = client->table;
        flow->user = row.user;
        crema_stream_set_interval(flow->line, agg_agent_interval_ns(client->agent));
        crema_stream_announce(flow->line, row.hi, row.flags & CREMA_STREAM_FLAG_CLOSED, now_ns);
        agg_flow_follow(self, flow, now_ns);
        crema_list_append(&client->acks, &flow->ack);
    }
}

/* A table with a row that found no room lists less than the agent holds, so it does not answer a
 * barrier. */
static bool
s_is_whole(agg_client_t *client, table_t table)
{
    if (table != TABLE_WHOLE || client->table_refused)
        return false;
    client->whole_table = client->table;
    return true;
}

/* ---------------------------------------------------------------- HELLO */

static bool
s_may_admit(agg_core_t *self, agg_client_t *client, int64_t now_ns)
{
    if (!agg_owner_may_say_hello(client->payer, HELLOS_PER_SECOND, now_ns))
        return false;
    self->hello_tokens += (double)(now_ns - self->hello_ns) / AGG_S * HELLOS_PER_SECOND;
    self->hello_ns = now_ns;
    if (self->hello_tokens > HELLOS_PER_SECOND)
        self->hello_tokens = HELLOS_PER_SECOND;
    if (self->hello_tokens < 1)
        return false;
    self->hello_tokens -= 1;
    return true;
}

static bool
s_bind(agg_core_t *self, agg_client_t *client, agg_peer_t peer)
{
    crema_id_t key = agg_peer_key(peer);
    agg_client_t *other = crema_map_find(self->peers, &key);
    agg_client_end_session(self, client);
    if (other && other != client)
        agg_client_end_session(self, other);
    client->peer = peer;
    return crema_map_add(self->peers, &key, client) == CREMA_OK &&
           agg_credit_open(self->credit, &client->account) == CREMA_OK;
}

/* Decides on part 0 of a HELLO whether its sender is admitted. */
static agg_client_t *
s_admit(agg_core_t *self, agg_peer_t peer, const Crema__Hello *hello, int64_t now_ns)
{
    if (hello->ver_min > CREMA_WIRE_VERSION || hello->ver_max < CREMA_WIRE_VERSION_MIN) {
        agg_fence(self, peer, CREMA_FENCE_VERSION, 0);
        return NULL;
    }
    agg_client_t *client = agg_client_get(self, crema_id_of(hello->agent_id), now_ns);
    if (!client) {
        self->stats.refused++;
        self->stats.no_room++;
        s_not_admitted(self, peer, NO_ROOM_MS);
        return NULL;
    }
    if (!agg_key_has_agent(self, client)) {
        agg_refuse_principal(self, peer);
        return NULL;
    }
    client->serves = *crema_id_of(hello->run_id);
    if (!self->sink_known || !s_may_admit(self, client, now_ns)) {
        /* The agent is there: a barrier waits for it, or will. */
        if (!client->has_session) {
            agg_agent_on_heard(client->agent, now_ns);
            agg_runs_on_client(self, client, now_ns);
        }
        s_not_admitted(self, peer, self->sink_known ? 1000 : NOT_READY_MS);
        return NULL;
    }
    if (!agg_credit_has_room(self->credit, &client->account)) {
        self->stats.refused++;
        self->stats.no_room++;
        s_not_admitted(self, peer, NO_ROOM_MS);
        return NULL;
    }
    uint32_t retry_after_ms = 0;
    agg_peer_t old_peer = client->peer;
    bool had_session = client->has_session;
    switch (agg_agent_on_hello(client->agent, hello, now_ns, &retry_after_ms)) {
    case AGG_HELLO_TOO_OFTEN:
        agg_fence(self, peer, CREMA_FENCE_QUOTA, retry_after_ms);
        return NULL;
    case AGG_HELLO_CLONE:
        if (had_session)
            agg_fence(self, old_peer, CREMA_FENCE_CLONE, 0);
        agg_fence(self, peer, CREMA_FENCE_CLONE, 0);
        agg_client_end_session(self, client);
        s_note_event(self, client, AGG_EVENT_AGENT_FENCED);
        return NULL;
    case AGG_HELLO_SUPERSEDES:
        if (had_session && old_peer != peer)
            agg_fence(self, old_peer, CREMA_FENCE_SUPERSEDED, 0);
        break;
    case AGG_HELLO_ADMIT:
        break;
    }
    if (!s_bind(self, client, peer)) {
        agg_client_end_session(self, client);
        s_not_admitted(self, peer, NO_ROOM_MS);
        return NULL;
    }
    return client;
}

static void
s_on_hello(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg, int64_t now_ns)
{
    crema_id_t key = agg_peer_key(peer);
    bool first = msg->flags >> CREMA_WIRE_PART_SHIFT == 0;
    self->stats.hellos += first;
    agg_client_t *client =
        first ? s_admit(self, peer, &msg->hello, now_ns) : crema_map_find(self->peers, &key);
    if (!client)
        return;
    table_t table = s_follow_parts(client, msg->flags);
    if (table == TABLE_BROKEN)
        return;
    s_take_rows(self, client, msg->hello.table, now_ns);
    if (table == TABLE_PART)
        return;
    if (s_is_whole(client, table))
        crema_offset_reset(client->offset);
    agg_client_take_faults(client, msg->hello.n_faults, msg->hello.faults);
    client->has_session = client->want_welcome = true;
    bool returned = client->reported == AGG_AGENT_SUSPECT || client->reported == AGG_AGENT_LOST;
    agg_client_set_reported(self, client, AGG_AGENT_LIVE);
    agg_client_plan(self, client, now_ns);
    s_note_event(self, client, returned ? AGG_EVENT_AGENT_RETURNED : AGG_EVENT_AGENT_WELCOMED);
    agg_runs_on_client(self, client, now_ns);
}

/* ---------------------------------------------------------------- within a session */

static void
s_on_heartbeat(agg_core_t *self, agg_client_t *client, const crema_msg_t *msg, int64_t now_ns)
{
    const Crema__Heartbeat *heartbeat = &msg->heartbeat;
    table_t table = s_follow_parts(client, msg->flags);
    if (table == TABLE_BROKEN)
        return;
    s_take_rows(self, client, heartbeat->table, now_ns);
    if (table == TABLE_PART)
        return;
    agg_agent_on_heartbeat(client->agent, heartbeat->hb_ivl_ms, now_ns);
    agg_client_plan(self, client, now_ns);
    agg_client_take_faults(client, heartbeat->n_faults, heartbeat->faults);
    agg_client_follow_clock(self, client, heartbeat, now_ns);
    client->ack_hb_no = heartbeat->hb_no;
    client->ack_t1_ns = heartbeat->t1_mono_ns;
    client->ack_t2_ns = now_ns;
    client->want_ack = true;
    client->ack_waits = agg_client_awaits_commit(client);
    agg_client_out(self, client);
    if (s_is_whole(client, table))
        agg_runs_on_answer(self, client, heartbeat->barrier_seen, now_ns);
    client->want_dismiss = client->dismissed && agg_client_is_dismissable(client);
}

static void
s_on_bye(agg_core_t *self, agg_client_t *client, const crema_msg_t *msg, int64_t now_ns)
{
    table_t table = s_follow_parts(client, msg->flags);
    if (table == TABLE_BROKEN)
        return;
    s_take_rows(self, client, msg->bye.table, now_ns);
    if (table == TABLE_PART)
        return;
    agg_client_take_faults(client, msg->bye.n_faults, msg->bye.faults);
    bool drained = s_is_whole(client, table) && msg->bye.reason == 0 && msg->bye.n_faults == 0;
    agg_agent_on_bye(client->agent, drained);
    agg_client_set_reported(self, client, drained ? AGG_AGENT_LEFT : AGG_AGENT_LEAVING);
    agg_client_plan(self, client, now_ns);
    client->leaving = client->want_ack = true;
    client->ack_waits = false;
    s_note_event(self, client, AGG_EVENT_AGENT_LEFT);
    agg_runs_on_bye(self, client, now_ns);
}

static void
s_put(agg_core_t *self, const agg_client_t *client, agg_flow_t *flow, const Crema__Data *data,
      uint64_t from)
{
    self->putting = true;
    self->put = (Crema__Put){.stream_id = data->stream_id,
                             .run_id = data->run_id,
                             .agent_id = crema_id_field(agg_agent_id(client->agent))};
    self->put_frames = (agg_frames_t){data->frames.data, data->frames.len, data->first_seq};
    agg_frames_skip(&self->put_frames, from);
    agg_split_take(self, flow->entry, crema_id_of(data->stream_id), self->put_frames);
}

static void
s_note_late(agg_core_t *self, agg_entry_t *entry)
{
    if (entry->run->phase < CREMA_RUN_VERDICT || entry->late_reported)
        return;
    entry->late_reported = true;
    entry->events |= s_bit(AGG_EVENT_RUN_LATE);
    agg_entry_out(self, entry);
}

/* Refuses DATA of another key's run or agent. */
static void
s_refuse_data(agg_core_t *self, agg_client_t *client, const Crema__Data *data)
{
    self->stats.data_dropped++;
    agg_credit_release(self->credit, &client->account, data->frames.len);
    agg_refuse_principal(self, client->peer);
    agg_client_end_session(self, client);
    s_note_event(self, client, AGG_EVENT_AGENT_FENCED);
}

/* True if the stream was listed before the owner of the run was known. The agent is not fenced:
 * it serves other users too. */
static bool
s_is_of_another_user(const agg_core_t *self, const Crema__Data *data)
{
    const crema_id_t *stream_id = crema_id_of(data->stream_id);
    const agg_flow_t *flow = crema_map_find(self->flows, stream_id);
    return !agg_key_may_have_written(self, stream_id, crema_id_of(data->run_id),
                                     flow ? flow->user : 0);
}

static void
s_on_data(agg_core_t *self, agg_client_t *client, const Crema__Data *data, int64_t now_ns)
{
    const crema_id_t *stream_id = crema_id_of(data->stream_id), *run_id = crema_id_of(data->run_id);
    uint64_t last = 0, from = 0;
    bool within = agg_credit_receive(self->credit, &client->account, data->frames.len);
    agg_due_sent(self, client, now_ns);
    if (!within && client->account.abuses >= ABUSES_MAX) {
        agg_fence(self, client->peer, CREMA_FENCE_CREDIT_ABUSE, ABUSE_RETRY_MS);
        agg_client_end_session(self, client);
        s_note_event(self, client, AGG_EVENT_AGENT_FENCED);
        return;
    }
    bool allowed = agg_key_may_bring(self, run_id);
    if (allowed && s_is_of_another_user(self, data)) {
        self->stats.not_allowed++;
        self->stats.data_dropped++;
        agg_credit_release(self->credit, &client->account, data->frames.len);
        return;
    }
    if (allowed && agg_key_is_over(self, run_id)) {
        const crema_stream_row_t row = {.stream_id = *stream_id, .run_id = *run_id};
        self->stats.data_dropped++;
        agg_credit_release(self->credit, &client->account, data->frames.len);
        s_refuse_row(self, client, &row, now_ns);
        return;
    }
    agg_flow_t *flow = allowed ? agg_flow_bring(self, stream_id, run_id, now_ns) : NULL;
    if (!allowed || (flow && !agg_key_has_flow(self, flow))) {
        s_refuse_data(self, client, data);
        return;
    }
    crema_err_t err = CREMA_ELIMIT;
    if (flow && agg_frames_check(data->frames.data, data->frames.len, data->n, data->first_seq,
                                 &last) == CREMA_OK) {
        agg_flow_attach(self, flow, client, now_ns);
        crema_stream_announce(flow->line, data->hi, data->flags & CREMA_STREAM_FLAG_CLOSED, now_ns);
        err = crema_stream_take(flow->line, data->first_seq, last, data->frames.len, now_ns, &from);
    } else {
        self->stats.bad_messages += flow != NULL;
    }
    if (err == CREMA_OK) {
        self->stats.data_accepted++;
        self->stats.data_bytes += data->frames.len;
        agg_ages_heard(self, flow->entry, now_ns);
        agg_owner_add_bytes(flow->entry, data->frames.len);
        s_note_late(self, flow->entry);
        s_put(self, client, flow, data, from);
    } else {
        self->stats.data_dropped++;
        self->stats.repeats += err == CREMA_EREPEAT;
        self->stats.gaps_seen += err == CREMA_EGAP;
        agg_credit_release(self->credit, &client->account, data->frames.len);
    }
    if (flow)
        agg_flow_follow(self, flow, now_ns);
}

void
agg_agents_on_message(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg, int64_t now_ns)
{
    if (msg->type == CREMA_MSG_HELLO) {
        s_on_hello(self, peer, msg, now_ns);
        return;
    }
    crema_id_t key = agg_peer_key(peer);
    agg_client_t *client = crema_map_find(self->peers, &key);
    if (!client || !client->has_session || client->leaving ||
        msg->session != self->config.session) {
        agg_fence(self, peer, CREMA_FENCE_UNKNOWN, 0);
        return;
    }
    agg_agent_on_heard(client->agent, now_ns);
    if (client->reported == AGG_AGENT_SUSPECT) {
        agg_client_set_reported(self, client, AGG_AGENT_LIVE);
        agg_client_plan(self, client, now_ns);
        s_note_event(self, client, AGG_EVENT_AGENT_RETURNED);
        agg_runs_on_client(self, client, now_ns);
    }
    if (msg->type == CREMA_MSG_DATA)
        s_on_data(self, client, &msg->data, now_ns);
    else if (msg->type == CREMA_MSG_HEARTBEAT)
        s_on_heartbeat(self, client, msg, now_ns);
    else
        s_on_bye(self, client, msg, now_ns);
}

/* ---------------------------------------------------------------- time */

static void
s_follow_state(agg_core_t *self, agg_client_t *client, agg_agent_state_t state)
{
    if (state == client->reported)
        return;
    if (state == AGG_AGENT_SUSPECT)
        s_note_event(self, client, AGG_EVENT_AGENT_SUSPECT);
    else if (state == AGG_AGENT_LOST)
        s_note_event(self, client, AGG_EVENT_AGENT_LOST);
    if (state == AGG_AGENT_LOST) /* what was reserved for it is free; it begins another session */
        agg_client_end_session(self, client);
    agg_client_set_reported(self, client, state);
}

/* Checks only agents whose state may have changed with time. */
void
agg_agents_on_tick(agg_core_t *self, int64_t now_ns)
{
    agg_client_t *client;
    while ((client = agg_due_next(self, now_ns)) != NULL) {
        agg_agent_state_t state = agg_agent_state(client->agent, now_ns);
        self->stats.agents_looked_at++;
        s_follow_state(self, client, state);
        if (state == AGG_AGENT_EXPIRED ||
            (state == AGG_AGENT_LEFT && agg_agent_silent_ns(client->agent, now_ns) >= AGG_LEFT_NS))
            agg_client_free(self, client);
        else
            agg_client_plan(self, client, now_ns);
    }
    agg_credit_set_active(self->credit, agg_due_senders(self, now_ns, ACTIVE_NS));
}
