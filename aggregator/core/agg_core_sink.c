#include "agg_core_private.h"
#include "crema_text.h"

#define PING_NS (1500 * AGG_MS) /* of silence; what is under way is asked about sooner */
#define FULL_DEFAULT_NS AGG_S
#define TROUBLE_NS (3 * AGG_S)
#define FULL_NEWS_NS (10 * AGG_S) /* a sink that stays full is reported once */

static void
s_note_event(agg_core_t *self, agg_event_t event)
{
    self->sink_events |= 1u << event;
}

/* Credit is available again: acknowledges all agents at once. */
static void
s_pass_on_agents(agg_core_t *self)
{
    size_t cursor = 0;
    for (agg_client_t *client; (client = crema_map_next(self->clients, &cursor)) != NULL;) {
        client->want_ack = client->has_session;
        agg_client_out(self, client);
    }
}

/* The sink restarted: what it had not synced is lost, and only it knows what that was. */
static void
s_on_boot(agg_core_t *self, uint64_t boot, int64_t now_ns)
{
    self->sink_boot = boot;
    self->sink_full = false;
    if (!self->sink_known)
        self->want_list = true;
    size_t cursor = 0;
    for (agg_flow_t *flow; (flow = crema_map_next(self->flows, &cursor)) != NULL;) {
        crema_stream_resync(flow->line, now_ns);
        agg_flow_follow(self, flow, now_ns);
    }
    agg_runs_on_sink_up(self, now_ns);
    s_note_event(self, AGG_EVENT_SINK_UP);
}

static void
s_on_state(agg_core_t *self, const crema_msg_t *msg, int64_t now_ns)
{
    const Crema__StreamTable *table = msg->state.table;
    for (size_t i = 0; i < crema_stream_table_rows(table); i++) {
        const crema_stream_row_t row = crema_stream_table_row(table, i);
        agg_flow_t *flow = agg_flow_get(self, &row.stream_id, &row.run_id, now_ns);
        if (!flow)
            continue;
        crema_stream_on_state(flow->line, row.committed, row.recv_next,
                              row.flags & CREMA_STREAM_FLAG_CLOSED, now_ns);
        agg_flow_follow(self, flow, now_ns);
    }
    if (self->sink_full && msg->state.free_b > self->full_free_b) {
        self->sink_full = false;
        s_pass_on_agents(self);
    }
    if (!self->sink_known && !(msg->flags & CREMA_WIRE_FLAG_MORE)) {
        self->sink_known = true;
        self->sink_has_past = crema_map_count(self->flows) + crema_map_count(self->entries) > 0;
        self->want_list = false;
        self->sink_known_ns = now_ns;
    }
}

static void
s_on_committed(agg_core_t *self, const Crema__StreamTable *table, int64_t now_ns)
{
    for (size_t i = 0; i < crema_stream_table_rows(table); i++) {
        const crema_stream_row_t row = crema_stream_table_row(table, i);
        agg_flow_t *flow = crema_map_find(self->flows, &row.stream_id);
        if (!flow)
            continue;
        crema_stream_commit(flow->line, row.committed, row.flags & CREMA_STREAM_FLAG_CLOSED,
                            now_ns);
        agg_flow_follow(self, flow, now_ns);
    }
}

static void
s_on_nack(agg_core_t *self, const crema_id_t *stream_id, int64_t now_ns)
{
    agg_flow_t *flow = crema_map_find(self->flows, stream_id);
    self->stats.nacks++;
    if (!flow || flow->row.recv_next == 0)
        return; /* already being asked about */
    crema_stream_resync(flow->line, now_ns);
    agg_flow_follow(self, flow, now_ns);
}

static void
s_note_trouble(agg_core_t *self, const char *why)
{
    const char *text = why && *why ? why : "the sink has no space for records";
    crema_text_copy(self->trouble, sizeof self->trouble, text);
}

const char *
agg_sink_trouble(const agg_core_t *self)
{
    if (self->sink_silent)
        return "the sink does not answer the aggregator";
    return self->trouble;
}

const char *
agg_run_trouble(const agg_core_t *self, const agg_entry_t *entry)
{
    const char *trouble = agg_sink_trouble(self);
    if (agg_run_state(entry->run).phase >= CREMA_RUN_SEALED)
        return "";
    if (trouble[0] || !entry->is_full)
        return trouble;
    return "this run has reached the sink's limit of bytes per run (--run-limit); further records "
           "of it are lost and counted";
}

static void
s_on_full(agg_core_t *self, const crema_msg_t *msg, int64_t now_ns)
{
    if (msg->full.run_id.len > 0) {
        agg_entry_t *entry = crema_map_find(self->entries, crema_id_of(msg->full.run_id));
        if (entry)
            entry->is_full = true;
        return;
    }
    int64_t wait = msg->full.retry_after_ms ? msg->full.retry_after_ms * AGG_MS : FULL_DEFAULT_NS;
    if (now_ns - self->full_heard_ns >= FULL_NEWS_NS || self->full_heard_ns == 0)
        s_note_event(self, AGG_EVENT_SINK_FULL);
    self->full_heard_ns = now_ns;
    self->sink_full = true;
    s_note_trouble(self, msg->full.why);
    self->full_until_ns = now_ns + wait;
    self->full_free_b = msg->full.free_b;
}

void
agg_sink_on_message(agg_core_t *self, const crema_msg_t *msg, int64_t now_ns)
{
    if (msg->session == 0) {
        self->stats.bad_messages++;
        return;
    }
    self->sink_heard_ns = now_ns;
    if (self->sink_silent) {
        self->sink_silent = false;
        s_note_event(self, AGG_EVENT_SINK_UP);
        s_pass_on_agents(self);
    }
    if (msg->session != self->sink_boot)
        s_on_boot(self, msg->session, now_ns);
    switch (msg->type) {
    case CREMA_MSG_STATE:
        s_on_state(self, msg, now_ns);
        break;
    case CREMA_MSG_COMMITTED:
        s_on_committed(self, msg->committed.table, now_ns);
        break;
    case CREMA_MSG_NACK:
        s_on_nack(self, crema_id_of(msg->nack.stream_id), now_ns);
        break;
    case CREMA_MSG_FULL:
        s_on_full(self, msg, now_ns);
        break;
    case CREMA_MSG_RUN_LISTED:
        agg_writers_on_listed(self, &msg->run_listed);
        break;
    case CREMA_MSG_SEALED:
        agg_runs_on_sealed(self, &msg->sealed, now_ns);
        break;
    case CREMA_MSG_RUN_OPEN:
        agg_key_learn(self, &msg->run_open, now_ns);
        break;
    default:
        self->stats.bad_messages++;
    }
}

int64_t
agg_core_ping_ns(const agg_core_t *self)
{
    bool is_asked = self->sink_pinged_ns > self->sink_heard_ns;
    return (is_asked ? self->sink_pinged_ns : self->sink_heard_ns) + PING_NS;
}

void
agg_sink_on_tick(agg_core_t *self, int64_t now_ns)
{
    if (self->sink_heard_ns == 0)
        self->sink_heard_ns = now_ns;
    if (!self->sink_silent && now_ns - self->sink_heard_ns >= self->config.sink_silence_ns) {
        self->sink_silent = true;
        s_note_event(self, AGG_EVENT_SINK_SILENT);
    }
    /* The sink repeats FULL each second while it is full: being asked again in between does not
     * end it. */
    if (self->trouble[0] && now_ns - self->full_heard_ns >= TROUBLE_NS)
        self->trouble[0] = '\0';
    if (self->sink_full && now_ns >= self->full_until_ns) {
        self->sink_full = false; /* try again; it will send FULL if it still is */
        s_pass_on_agents(self);
    }
    if (self->sink_unasked) {
        self->sink_unasked = false;
        self->want_list = !self->sink_known;
    }
    if (now_ns >= agg_core_ping_ns(self)) {
        self->sink_pinged_ns = now_ns;
        self->want_list = !self->sink_known;
        self->want_ping = self->sink_known;
    }
}
