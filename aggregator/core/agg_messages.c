#include "agg_messages.h"

#include <stdlib.h>

#include "agg_core_impl.h"
#include "agg_verdict.h"
#include "crema_text.h"

#define HELLOS_PER_SECOND 1000.0
#define NOT_READY_MS 300 /* the sink's list of streams is incomplete */
#define NO_ROOM_MS 5000
#define ABUSES_MAX 3
#define ABUSE_RETRY_MS 5000
#define ACTIVE_NS (10 * AGG_S)  /* an agent that sent within this time counts as active */
#define REFUSED_NS (60 * AGG_S) /* between two events about refused streams of one agent */
#define PING_NS (1500 * AGG_MS) /* of silence; what is under way is asked about sooner */
#define FULL_DEFAULT_NS AGG_S
#define TROUBLE_NS (3 * AGG_S)
#define FULL_AGAIN_NS (10 * AGG_S) /* a sink that stays full is reported once */

static void
s_not_admitted(agg_core_t *core, agg_peer_t peer, uint32_t retry_after_ms)
{
    agg_reply(core, peer,
              &(crema_msg_t){.type = CREMA_MSG_WELCOME, .welcome.retry_after_ms = retry_after_ms});
}

static void
s_fence_session(agg_core_t *core, agg_session_t *session)
{
    agg_session_end(core, session);
    agg_session_note(core, session, AGG_EVENT_AGENT_FENCED);
}

/* ---------------------------------------------------------------- stream tables and their parts */

/* Refuses a stream. The run continues without it, and so does the agent, which serves other runs
 * too. */
static void
s_refuse_row(agg_core_t *core, agg_session_t *session, const crema_stream_row_t *row,
             int64_t now_ns)
{
    core->stats.not_allowed++;
    if (session->refused_ns && now_ns - session->refused_ns < REFUSED_NS)
        return;
    session->refused_ns = now_ns;
    session->refused = *row;
    agg_session_note(core, session, AGG_EVENT_STREAM_REFUSED);
}

typedef enum { BROUGHT, NO_ROOM, OTHER_USER, OTHER_KEY, RUN_IS_OVER } brought_t;

/* The stream that the sender brings, created if necessary; only with BROUGHT. */
static brought_t
s_bring(agg_core_t *core, const crema_stream_row_t *row, int64_t now_ns, agg_stream_t **ret_stream)
{
    if (!agg_key_may_bring(core, &row->run_id))
        return OTHER_KEY;
    if (!agg_key_may_have_written(core, &row->stream_id, &row->run_id, row->user))
        return OTHER_USER;
    *ret_stream = agg_stream_bring(core, &row->stream_id, &row->run_id, now_ns);
    if (!*ret_stream)
        return NO_ROOM;
    return agg_key_has_stream(core, *ret_stream) ? BROUGHT : OTHER_KEY;
}

static void
s_take_row(agg_core_t *core, agg_session_t *session, const crema_stream_row_t *row, int64_t now_ns)
{
    agg_stream_t *stream;
    brought_t brought = s_bring(core, row, now_ns, &stream);
    core->stats.not_allowed += brought == OTHER_KEY;
    session->table_refused |= brought == NO_ROOM;
    if (brought == OTHER_USER)
        s_refuse_row(core, session, row, now_ns);
    if (brought != BROUGHT)
        return;
    const agg_position_t was = stream->at;
    agg_stream_attach(core, stream, session, now_ns);
    stream->table = session->table;
    stream->user = row->user;
    stream->interval_ns = agg_session_interval_ns(session);
    agg_stream_announce(stream, row->hi, row->flags & CREMA_STREAM_FLAG_CLOSED, now_ns);
    agg_stream_follow(core, stream, &was, now_ns);
    crema_list_append(&session->acks, &stream->ack);
}

/* Takes a part of the agent's table. True after the last one; after a gap everything is ignored
 * until the next part 0. */
static bool
s_take_table(agg_core_t *core, agg_session_t *session, uint16_t flags,
             const Crema__StreamTable *table, int64_t now_ns)
{
    unsigned part = flags >> CREMA_WIRE_PART_SHIFT;
    if (part == 0) {
        session->table++;
        session->part = 0;
        session->table_refused = false;
    }
    if (part != session->part) {
        session->part = UINT32_MAX;
        return false;
    }
    session->part++;
    for (size_t i = 0; i < crema_stream_table_rows(table); i++) {
        const crema_stream_row_t row = crema_stream_table_row(table, i);
        if (!crema_id_is_zero(&row.run_id)) /* a stream without a run cannot be delivered */
            s_take_row(core, session, &row, now_ns);
    }
    if (flags & CREMA_WIRE_FLAG_MORE)
        return false;
    if (!session->table_refused)
        session->whole_table = session->table;
    return true;
}

/* False if a row of the last table found no room: then it lists less than the agent holds, and
 * does not answer a barrier. */
static bool
s_is_whole(const agg_session_t *session)
{
    return session->whole_table == session->table;
}

/* ---------------------------------------------------------------- HELLO */

static bool
s_may_admit(agg_core_t *core, agg_session_t *session, int64_t now_ns)
{
    return agg_owner_may_say_hello(session->owner, HELLOS_PER_SECOND, now_ns) &&
           agg_tokens_take(&core->hellos, HELLOS_PER_SECOND, now_ns);
}

static bool
s_bind(agg_core_t *core, agg_session_t *session, agg_peer_t peer)
{
    crema_id_t key = agg_peer_key(peer);
    agg_session_t *other = crema_map_find(core->connections, &key);
    agg_session_end(core, session);
    if (other && other != session)
        agg_session_end(core, other);
    session->peer = peer;
    return crema_map_add(core->connections, &key, session) == CREMA_OK &&
           agg_credit_open(core->credit, &session->account) == CREMA_OK;
}

static agg_session_t *
s_no_room(agg_core_t *core, agg_peer_t peer)
{
    core->stats.refused++;
    core->stats.no_room++;
    s_not_admitted(core, peer, NO_ROOM_MS);
    return NULL;
}

/* Decides on part 0 of a HELLO whether its sender is admitted. */
static agg_session_t *
s_admit(agg_core_t *core, agg_peer_t peer, const Crema__Hello *hello, int64_t now_ns)
{
    if (hello->ver_min > CREMA_WIRE_VERSION || hello->ver_max < CREMA_WIRE_VERSION_MIN) {
        agg_fence(core, peer, CREMA_FENCE_VERSION, 0);
        return NULL;
    }
    agg_session_t *session = agg_session_get(core, crema_id_of(hello->agent_id), now_ns);
    if (!session)
        return s_no_room(core, peer);
    if (!agg_key_has_agent(core, session)) {
        agg_refuse_principal(core, peer);
        return NULL;
    }
    const crema_id_t *serves = crema_id_of(hello->run_id);
    if (agg_session_serve(core, session, &core->from.run_id, serves) != CREMA_OK)
        return s_no_room(core, peer);
    if (!core->sink_known || !s_may_admit(core, session, now_ns)) {
        /* The agent is there: a barrier waits for it, or will. */
        if (!session->is_open) {
            session->heard_ns = now_ns;
            agg_runs_on_session(core, session, now_ns);
        }
        s_not_admitted(core, peer, core->sink_known ? 1000 : NOT_READY_MS);
        return NULL;
    }
    if (!agg_credit_has_room(core->credit, &session->account))
        return s_no_room(core, peer);
    uint32_t retry_after_ms = 0;
    agg_peer_t old_peer = session->peer;
    bool had_session = session->is_open;
    switch (agg_session_on_hello(session, hello, now_ns, &retry_after_ms)) {
    case AGG_HELLO_TOO_OFTEN:
        agg_fence(core, peer, CREMA_FENCE_QUOTA, retry_after_ms);
        return NULL;
    case AGG_HELLO_CLONE:
        if (had_session)
            agg_fence(core, old_peer, CREMA_FENCE_CLONE, 0);
        agg_fence(core, peer, CREMA_FENCE_CLONE, 0);
        s_fence_session(core, session);
        return NULL;
    case AGG_HELLO_SUPERSEDES:
        if (had_session && old_peer != peer)
            agg_fence(core, old_peer, CREMA_FENCE_SUPERSEDED, 0);
        break;
    case AGG_HELLO_ADMIT:
        break;
    }
    if (!s_bind(core, session, peer)) {
        agg_session_end(core, session);
        return s_no_room(core, peer);
    }
    return session;
}

static void
s_on_hello(agg_core_t *core, agg_peer_t peer, const crema_msg_t *msg, int64_t now_ns)
{
    crema_id_t key = agg_peer_key(peer);
    bool first = msg->flags >> CREMA_WIRE_PART_SHIFT == 0;
    core->stats.hellos += first;
    agg_session_t *session =
        first ? s_admit(core, peer, &msg->hello, now_ns) : crema_map_find(core->connections, &key);
    if (!session)
        return;
    if (!s_take_table(core, session, msg->flags, msg->hello.table, now_ns))
        return;
    if (s_is_whole(session))
        crema_offset_reset(session->offset);
    agg_session_take_faults(session, msg->hello.n_faults, msg->hello.faults);
    session->is_open = session->want_welcome = true;
    bool returned =
        session->reported == AGG_SESSION_SUSPECT || session->reported == AGG_SESSION_LOST;
    agg_session_set_reported(core, session, AGG_SESSION_LIVE);
    agg_session_plan(core, session, now_ns);
    agg_session_note(core, session, returned ? AGG_EVENT_AGENT_RETURNED : AGG_EVENT_AGENT_WELCOMED);
    agg_runs_on_session(core, session, now_ns);
}

/* ---------------------------------------------------------------- within a session */

static void
s_on_heartbeat(agg_core_t *core, agg_session_t *session, const crema_msg_t *msg, int64_t now_ns)
{
    const Crema__Heartbeat *heartbeat = &msg->heartbeat;
    if (!s_take_table(core, session, msg->flags, heartbeat->table, now_ns))
        return;
    agg_session_on_heartbeat(session, heartbeat->hb_ivl_ms, now_ns);
    agg_session_plan(core, session, now_ns);
    agg_session_take_faults(session, heartbeat->n_faults, heartbeat->faults);
    agg_session_follow_clock(core, session, heartbeat, now_ns);
    session->ack_hb_no = heartbeat->hb_no;
    session->ack_t1_ns = heartbeat->t1_mono_ns;
    session->ack_t2_ns = now_ns;
    session->want_ack = true;
    session->ack_waits = agg_session_awaits_commit(session);
    agg_session_out(core, session);
    if (s_is_whole(session))
        agg_runs_on_answer(core, session, heartbeat->barrier_seen, now_ns);
    session->want_dismiss = session->dismissed && agg_session_is_dismissable(session);
}

static void
s_on_bye(agg_core_t *core, agg_session_t *session, const crema_msg_t *msg, int64_t now_ns)
{
    if (!s_take_table(core, session, msg->flags, msg->bye.table, now_ns))
        return;
    agg_session_take_faults(session, msg->bye.n_faults, msg->bye.faults);
    bool drained = s_is_whole(session) && msg->bye.reason == 0 && msg->bye.n_faults == 0;
    agg_session_on_bye(session, drained);
    agg_session_set_reported(core, session, drained ? AGG_SESSION_LEFT : AGG_SESSION_LEAVING);
    agg_session_plan(core, session, now_ns);
    session->leaving = session->want_ack = true;
    session->ack_waits = false;
    agg_session_note(core, session, AGG_EVENT_AGENT_LEFT);
    agg_runs_on_bye(core, session, now_ns);
}

static void
s_put(agg_core_t *core, const agg_session_t *session, agg_stream_t *stream, const Crema__Data *data,
      uint64_t from)
{
    core->putting = true;
    core->put = (Crema__Put){.stream_id = data->stream_id,
                             .run_id = data->run_id,
                             .agent_id = crema_id_field(&session->agent_id)};
    core->put_frames = (agg_frames_t){data->frames.data, data->frames.len, data->first_seq};
    agg_frames_skip(&core->put_frames, from);
    agg_split_take(core, stream->run, crema_id_of(data->stream_id), core->put_frames);
}

static void
s_note_late(agg_core_t *core, agg_run_t *run)
{
    if (run->phase < CREMA_RUN_VERDICT || run->late_reported)
        return;
    run->late_reported = true;
    run->events |= 1u << AGG_EVENT_RUN_LATE;
    agg_run_out(core, run);
}

/* True if the sender's key was admitted for that run, and nothing of the run is missing any more:
 * the key brings no further record. */
static bool
s_is_over(const agg_core_t *core, const crema_id_t *run_id)
{
    if (crema_id_is_zero(run_id) || !crema_id_equal(&core->from.run_id, run_id))
        return false;
    const agg_run_t *run = crema_map_find(core->runs, run_id);
    return run && run->phase >= CREMA_RUN_VERDICT && !agg_run_wants_answers(run);
}

/* Takes what continues the stream, and passes it on to the sink. */
static crema_err_t
s_take_data(agg_core_t *core, agg_session_t *session, agg_stream_t *stream, const Crema__Data *data,
            int64_t now_ns)
{
    uint64_t last, from;
    const agg_position_t was = stream->at;
    crema_err_t err =
        agg_frames_check(data->frames.data, data->frames.len, data->n, data->first_seq, &last);
    if (err == CREMA_OK) {
        agg_stream_attach(core, stream, session, now_ns);
        agg_stream_announce(stream, data->hi, data->flags & CREMA_STREAM_FLAG_CLOSED, now_ns);
        err = agg_stream_take(stream, data->first_seq, last, data->frames.len, now_ns, &from);
    } else {
        core->stats.bad_messages++;
    }
    if (err == CREMA_OK) {
        agg_run_heard(core, stream->run, now_ns);
        agg_owner_add_bytes(stream->run, data->frames.len);
        s_note_late(core, stream->run);
        s_put(core, session, stream, data, from);
    }
    agg_stream_follow(core, stream, &was, now_ns);
    return err;
}

static void
s_on_data(agg_core_t *core, agg_session_t *session, const Crema__Data *data, int64_t now_ns)
{
    /* 1. The credit, which is used whether the records are taken or not. */
    const size_t bytes = data->frames.len;
    bool within = agg_credit_receive(core->credit, &session->account, bytes);
    agg_session_sent(core, session, now_ns);
    if (!within && session->account.abuses >= ABUSES_MAX) {
        agg_fence(core, session->peer, CREMA_FENCE_CREDIT_ABUSE, ABUSE_RETRY_MS);
        s_fence_session(core, session);
        return;
    }
    /* 2. The stream, if its agent may bring it. */
    agg_stream_t *stream = crema_map_find(core->streams, crema_id_of(data->stream_id));
    const crema_stream_row_t row = {.stream_id = *crema_id_of(data->stream_id),
                                    .run_id = *crema_id_of(data->run_id),
                                    .user = stream ? stream->user : 0};
    brought_t brought =
        s_is_over(core, &row.run_id) ? RUN_IS_OVER : s_bring(core, &row, now_ns, &stream);
    /* 3. The records, if they continue it. */
    crema_err_t err = CREMA_ELIMIT;
    if (brought == BROUGHT)
        err = s_take_data(core, session, stream, data, now_ns);
    if (err == CREMA_OK) {
        core->stats.data_accepted++;
        core->stats.data_bytes += bytes;
        return;
    }
    /* 4. Otherwise they are dropped. A sender with the wrong key is fenced; an agent that serves
     * other users too is not fenced for one of them. */
    core->stats.data_dropped++;
    core->stats.repeats += err == CREMA_EREPEAT;
    core->stats.gaps_seen += err == CREMA_EGAP;
    core->stats.not_allowed += brought == OTHER_USER;
    agg_credit_release(core->credit, &session->account, bytes);
    if (brought == RUN_IS_OVER)
        s_refuse_row(core, session, &row, now_ns);
    if (brought == OTHER_KEY) {
        agg_refuse_principal(core, session->peer);
        s_fence_session(core, session);
    }
}

void
agg_sessions_on_message(agg_core_t *core, agg_peer_t peer, const crema_msg_t *msg, int64_t now_ns)
{
    if (msg->type == CREMA_MSG_HELLO) {
        s_on_hello(core, peer, msg, now_ns);
        return;
    }
    crema_id_t key = agg_peer_key(peer);
    agg_session_t *session = crema_map_find(core->connections, &key);
    if (!session || !session->is_open || session->leaving || msg->session != core->config.session) {
        agg_fence(core, peer, CREMA_FENCE_UNKNOWN, 0);
        return;
    }
    session->heard_ns = now_ns;
    if (session->reported == AGG_SESSION_SUSPECT) {
        agg_session_set_reported(core, session, AGG_SESSION_LIVE);
        agg_session_plan(core, session, now_ns);
        agg_session_note(core, session, AGG_EVENT_AGENT_RETURNED);
        agg_runs_on_session(core, session, now_ns);
    }
    if (msg->type == CREMA_MSG_DATA)
        s_on_data(core, session, &msg->data, now_ns);
    else if (msg->type == CREMA_MSG_HEARTBEAT)
        s_on_heartbeat(core, session, msg, now_ns);
    else
        s_on_bye(core, session, msg, now_ns);
}

/* ---------------------------------------------------------------- time */

static void
s_follow_state(agg_core_t *core, agg_session_t *session, agg_session_state_t state)
{
    if (state == session->reported)
        return;
    if (state == AGG_SESSION_SUSPECT)
        agg_session_note(core, session, AGG_EVENT_AGENT_SUSPECT);
    else if (state == AGG_SESSION_LOST)
        agg_session_note(core, session, AGG_EVENT_AGENT_LOST);
    if (state == AGG_SESSION_LOST) /* what was reserved for it is free; it begins another session */
        agg_session_end(core, session);
    agg_session_set_reported(core, session, state);
}

/* Checks only agents whose state may have changed with time. */
void
agg_sessions_on_tick(agg_core_t *core, int64_t now_ns)
{
    agg_session_t *session;
    while ((session = agg_session_next_due(core, now_ns)) != NULL) {
        agg_session_state_t state = agg_session_state(session, now_ns);
        core->stats.agents_looked_at++;
        s_follow_state(core, session, state);
        if (state == AGG_SESSION_EXPIRED ||
            (state == AGG_SESSION_LEFT &&
             agg_session_silent_ns(session, now_ns) >= AGG_SESSION_LEFT_NS))
            agg_session_forget(core, session);
        else
            agg_session_plan(core, session, now_ns);
    }
    agg_credit_set_active(core->credit, agg_session_senders(core, now_ns, ACTIVE_NS));
}

void
agg_sessions_on_revoked(agg_core_t *core, const crema_id_t *key)
{
    size_t cursor = 0;
    for (agg_session_t *session; (session = crema_map_next(core->sessions, &cursor)) != NULL;) {
        if (!session->has_key || !crema_id_equal(&session->key, key))
            continue;
        session->has_key = false; /* the spool may return with another key */
        for (crema_link_t *link = session->streams.next; link != &session->streams;
             link = link->next)
            CREMA_LIST_ITEM(link, agg_stream_t, of_session)->has_key = false;
        if (session->is_open) {
            s_fence_session(core, session);
        }
    }
}

/* ---------------------------------------------------------------- the sink */

static void
s_note_sink_event(agg_core_t *core, agg_event_t event)
{
    core->sink_events |= 1u << event;
}

/* Credit is available again: acknowledges all agents at once. */
static void
s_pass_on_agents(agg_core_t *core)
{
    size_t cursor = 0;
    for (agg_session_t *session; (session = crema_map_next(core->sessions, &cursor)) != NULL;) {
        session->want_ack = session->is_open;
        agg_session_out(core, session);
    }
}

/* The sink restarted: what it had not synced is lost, and only it knows what that was. */
static void
s_on_boot(agg_core_t *core, uint64_t boot, int64_t now_ns)
{
    core->sink_boot = boot;
    core->sink_full = false;
    if (!core->sink_known)
        core->want_list = true;
    size_t cursor = 0;
    for (agg_stream_t *stream; (stream = crema_map_next(core->streams, &cursor)) != NULL;) {
        const agg_position_t was = stream->at;
        agg_stream_resync(stream, now_ns);
        agg_stream_follow(core, stream, &was, now_ns);
    }
    agg_runs_on_sink_up(core, now_ns);
    s_note_sink_event(core, AGG_EVENT_SINK_UP);
}

static void
s_on_state(agg_core_t *core, const crema_msg_t *msg, int64_t now_ns)
{
    const Crema__StreamTable *table = msg->state.table;
    for (size_t i = 0; i < crema_stream_table_rows(table); i++) {
        const crema_stream_row_t row = crema_stream_table_row(table, i);
        agg_stream_t *stream = agg_stream_get(core, &row.stream_id, &row.run_id, now_ns);
        if (!stream)
            continue;
        const agg_position_t was = stream->at;
        agg_stream_on_state(stream, row.committed, row.recv_next,
                            row.flags & CREMA_STREAM_FLAG_CLOSED, now_ns);
        agg_stream_follow(core, stream, &was, now_ns);
    }
    if (core->sink_full && msg->state.free_b > core->full_free_b) {
        core->sink_full = false;
        s_pass_on_agents(core);
    }
    if (!core->sink_known && !(msg->flags & CREMA_WIRE_FLAG_MORE)) {
        core->sink_known = true;
        core->sink_has_past = crema_map_count(core->streams) + crema_map_count(core->runs) > 0;
        core->want_list = false;
        core->sink_known_ns = now_ns;
    }
}

static void
s_on_committed(agg_core_t *core, const Crema__StreamTable *table, int64_t now_ns)
{
    for (size_t i = 0; i < crema_stream_table_rows(table); i++) {
        const crema_stream_row_t row = crema_stream_table_row(table, i);
        agg_stream_t *stream = crema_map_find(core->streams, &row.stream_id);
        if (!stream)
            continue;
        const agg_position_t was = stream->at;
        agg_stream_commit(stream, row.committed, row.flags & CREMA_STREAM_FLAG_CLOSED, now_ns);
        agg_stream_follow(core, stream, &was, now_ns);
    }
}

static void
s_on_nack(agg_core_t *core, const crema_id_t *stream_id, int64_t now_ns)
{
    agg_stream_t *stream = crema_map_find(core->streams, stream_id);
    core->stats.nacks++;
    if (!stream || stream->at.next == 0)
        return; /* already being asked about */
    const agg_position_t was = stream->at;
    agg_stream_resync(stream, now_ns);
    agg_stream_follow(core, stream, &was, now_ns);
}

static void
s_note_trouble(agg_core_t *core, const char *why)
{
    const char *text = why && *why ? why : "the sink has no space for records";
    crema_text_copy(core->trouble, sizeof core->trouble, text);
}

const char *
agg_sink_trouble(const agg_core_t *core)
{
    if (core->sink_silent)
        return "the sink does not answer the aggregator";
    return core->trouble;
}

const char *
agg_run_trouble(const agg_core_t *core, const agg_run_t *run)
{
    const char *trouble = agg_sink_trouble(core);
    if (agg_run_state(run).phase >= CREMA_RUN_SEALED)
        return "";
    if (trouble[0] || !run->is_full)
        return trouble;
    return "this run has reached the sink's limit of bytes per run (--run-limit); further records "
           "of it are lost and counted";
}

static void
s_on_full(agg_core_t *core, const crema_msg_t *msg, int64_t now_ns)
{
    if (msg->full.run_id.len > 0) {
        agg_run_t *run = crema_map_find(core->runs, crema_id_of(msg->full.run_id));
        if (run)
            run->is_full = true;
        return;
    }
    int64_t wait = msg->full.retry_after_ms ? msg->full.retry_after_ms * AGG_MS : FULL_DEFAULT_NS;
    if (now_ns - core->full_heard_ns >= FULL_AGAIN_NS || core->full_heard_ns == 0)
        s_note_sink_event(core, AGG_EVENT_SINK_FULL);
    core->full_heard_ns = now_ns;
    core->sink_full = true;
    s_note_trouble(core, msg->full.why);
    core->full_until_ns = now_ns + wait;
    core->full_free_b = msg->full.free_b;
}

/* The sink reports a run that another aggregator opened; t_end_ns is set if it is sealed. */
static void
s_on_run(agg_core_t *core, const Crema__RunOpen *msg, int64_t now_ns)
{
    const crema_id_t *run_id = crema_id_of(msg->run_id), *owner = crema_id_of(msg->owner);
    agg_run_t *run = crema_map_find(core->runs, run_id);
    bool is_open = msg->t_end_ns == 0;
    if (!run && is_open)
        run = agg_run_get(core, run_id, now_ns);
    if (!run || (run->has_opener && crema_id_equal(&run->opened_by.key, owner)))
        return;
    if (run->has_opener) { /* another key sent messages about it before the sink reported it */
        run->was_asked = run->has_watcher = run->want_open = run->want_end = run->want_seal =
            run->want_admit = false;
        agg_run_forget_client(run);
        agg_writers_discard(core, run, now_ns);
        agg_owner_leave(core, run);
        agg_run_follow_phase(core, run, now_ns);
    }
    core->from = (crema_principal_t){.as = CREMA_AS_CLIENT, .key = *owner};
    run->has_opener = false;
    agg_owner_take(core, run, 0);
}

void
agg_sink_on_message(agg_core_t *core, const crema_msg_t *msg, int64_t now_ns)
{
    if (msg->session == 0) {
        core->stats.bad_messages++;
        return;
    }
    core->sink_heard_ns = now_ns;
    if (core->sink_silent) {
        core->sink_silent = false;
        s_note_sink_event(core, AGG_EVENT_SINK_UP);
        s_pass_on_agents(core);
    }
    if (msg->session != core->sink_boot)
        s_on_boot(core, msg->session, now_ns);
    switch (msg->type) {
    case CREMA_MSG_STATE:
        s_on_state(core, msg, now_ns);
        break;
    case CREMA_MSG_COMMITTED:
        s_on_committed(core, msg->committed.table, now_ns);
        break;
    case CREMA_MSG_NACK:
        s_on_nack(core, crema_id_of(msg->nack.stream_id), now_ns);
        break;
    case CREMA_MSG_FULL:
        s_on_full(core, msg, now_ns);
        break;
    case CREMA_MSG_RUN_LISTED:
        agg_writers_on_listed(core, &msg->run_listed);
        break;
    case CREMA_MSG_SEALED:
        agg_runs_on_sealed(core, &msg->sealed, now_ns);
        break;
    case CREMA_MSG_RUN_OPEN:
        s_on_run(core, &msg->run_open, now_ns);
        break;
    default:
        core->stats.bad_messages++;
    }
}

int64_t
agg_core_ping_ns(const agg_core_t *core)
{
    bool is_asked = core->sink_pinged_ns > core->sink_heard_ns;
    return (is_asked ? core->sink_pinged_ns : core->sink_heard_ns) + PING_NS;
}

void
agg_sink_on_tick(agg_core_t *core, int64_t now_ns)
{
    if (core->sink_heard_ns == 0)
        core->sink_heard_ns = now_ns;
    if (!core->sink_silent && now_ns - core->sink_heard_ns >= core->config.sink_silence_ns) {
        core->sink_silent = true;
        s_note_sink_event(core, AGG_EVENT_SINK_SILENT);
    }
    /* The sink repeats FULL each second while it is full: being asked again in between does not
     * end it. */
    if (core->trouble[0] && now_ns - core->full_heard_ns >= TROUBLE_NS)
        core->trouble[0] = '\0';
    if (core->sink_full && now_ns >= core->full_until_ns) {
        core->sink_full = false; /* try again; it will send FULL if it still is */
        s_pass_on_agents(core);
    }
    if (core->sink_unasked) {
        core->sink_unasked = false;
        core->want_list = !core->sink_known;
    }
    if (now_ns >= agg_core_ping_ns(core)) {
        core->sink_pinged_ns = now_ns;
        core->want_list = !core->sink_known;
        core->want_ping = core->sink_known;
    }
}
