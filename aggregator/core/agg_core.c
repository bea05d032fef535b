#include "agg_core_impl.h"
#include "agg_messages.h"
#include "agg_verdict.h"

#include <stdlib.h>

#define SWEEP_NS AGG_S

static crema_err_t
s_make_parts(agg_core_t *self)
{
    const agg_config_t *config = &self->config;
    crema_err_t err = crema_map_new(config->agents_max, &self->sessions);
    if (err == CREMA_OK)
        err = crema_map_new(config->agents_max, &self->connections);
    if (err == CREMA_OK)
        err = crema_map_new(config->streams_max, &self->streams);
    if (err == CREMA_OK)
        err = crema_map_new(config->runs_max, &self->runs);
    if (err == CREMA_OK)
        err = crema_map_new(config->runs_max + config->agents_max + 1, &self->owners);
    if (err == CREMA_OK)
        err = agg_credit_new((uint64_t)config->credit_pool_b, &self->credit);
    if (err == CREMA_OK)
        err = agg_awaited_init(&self->awaited);
    if (err == CREMA_OK)
        err = agg_lists_new(&self->serving);
    if (err == CREMA_OK)
        err = crema_arena_new(CREMA_RECORD_ARENA_BYTES, &self->record_arena);
    return err == CREMA_OK ? crema_stream_table_new(CREMA_WIRE_TABLE_ROWS_SENT, &self->table) : err;
}

crema_err_t
agg_core_new(const agg_config_t *config, agg_core_t **ret_self)
{
    if (config->session == 0 || config->credit_pool_b < 0 || config->barrier_retries < 1 ||
        config->barrier_cap_ns < 1 || config->sink_silence_ns < 1 || config->abandon_after_ns < 1 ||
        config->owner_runs_max < 1 || config->owner_bytes_max < 1)
        return CREMA_EINVAL;
    agg_core_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->config = *config;
    self->want_list = true;
    agg_sessions_init(self);
    crema_list_init(&self->runs_out);
    crema_list_init(&self->ending);
    crema_list_init(&self->filing);
    crema_list_init(&self->over);
    for (int age = 0; age < AGG_AGES; age++)
        crema_list_init(&self->ages[age]);
    crema_list_init(&self->due);
    crema_list_init(&self->opens);
    crema_list_init(&self->watched);
    crema_err_t err = s_make_parts(self);
    if (err != CREMA_OK) {
        agg_core_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

/* The first value of a map, which may be NULL. */
static void *
s_any(const crema_map_t *map)
{
    size_t cursor = 0;
    return map ? crema_map_next(map, &cursor) : NULL;
}

void
agg_core_destroy(agg_core_t **self_p)
{
    agg_core_t *self = *self_p;
    if (!self)
        return;
    for (agg_run_t *run; (run = s_any(self->runs)) != NULL;)
        agg_run_forget(self, run); /* with its streams: each belongs to a run */
    for (agg_session_t *session; (session = s_any(self->sessions)) != NULL;)
        agg_session_forget(self, session);
    crema_map_destroy(&self->streams);
    crema_map_destroy(&self->sessions);
    crema_map_destroy(&self->runs);
    crema_map_destroy(&self->owners);
    crema_map_destroy(&self->connections);
    agg_credit_destroy(&self->credit);
    agg_lists_destroy(&self->awaited.of_agents);
    agg_lists_destroy(&self->serving);
    crema_arena_destroy(&self->record_arena);
    free(self->table);
    free(self);
    *self_p = NULL;
}

bool
agg_core_on_peer(agg_core_t *self, agg_peer_t peer, const crema_principal_t *from,
                 const crema_msg_t *msg, int64_t mono_ns, int64_t real_ns)
{
    bool takes_run = false;
    self->real_ns = real_ns;
    self->from = *from;
    if (!crema_principal_may_send(from, msg->type)) {
        agg_refuse_principal(self, peer);
        return false;
    }
    switch (msg->type) {
    case CREMA_MSG_HELLO:
    case CREMA_MSG_DATA:
    case CREMA_MSG_HEARTBEAT:
    case CREMA_MSG_BYE:
        agg_sessions_on_message(self, peer, msg, mono_ns);
        break;
    case CREMA_MSG_RUN_OPEN:
    case CREMA_MSG_RUN_END:
    case CREMA_MSG_RUN_QUERY:
    case CREMA_MSG_RUN_WRITERS:
        takes_run = agg_runs_on_message(self, peer, msg, mono_ns);
        break;
    default:
        self->stats.bad_messages++;
        return false;
    }
    agg_runs_decide(self, mono_ns, real_ns);
    return takes_run;
}

void
agg_core_on_bad(agg_core_t *self, agg_peer_t peer, crema_err_t why)
{
    self->stats.bad_messages++;
    if (why == CREMA_EVERSION)
        agg_fence(self, peer, CREMA_FENCE_VERSION, 0);
}

void
agg_core_on_sink(agg_core_t *self, const crema_msg_t *msg, int64_t mono_ns, int64_t real_ns)
{
    self->real_ns = real_ns;
    agg_sink_on_message(self, msg, mono_ns);
    agg_runs_decide(self, mono_ns, real_ns);
}

void
agg_core_on_revoked(agg_core_t *self, const crema_id_t *key, int64_t mono_ns, int64_t real_ns)
{
    self->real_ns = real_ns;
    agg_sessions_on_revoked(self, key);
    agg_runs_on_revoked(self, key, mono_ns);
    agg_runs_decide(self, mono_ns, real_ns);
}

void
agg_core_on_tick(agg_core_t *self, int64_t mono_ns, int64_t real_ns)
{
    self->real_ns = real_ns;
    agg_sink_on_tick(self, mono_ns);
    agg_streams_on_tick(self, mono_ns);
    agg_sessions_on_tick(self, mono_ns);
    agg_runs_on_tick(self, mono_ns);
    if (mono_ns - self->swept_ns >= SWEEP_NS) {
        self->swept_ns = mono_ns;
        agg_streams_sweep(self);
    }
    agg_runs_decide(self, mono_ns, real_ns);
}

bool
agg_core_is_quiet(const agg_core_t *self)
{
    return crema_list_is_empty(&self->ending) && crema_list_is_empty(&self->filing) &&
           crema_list_is_empty(&self->watched) && crema_list_is_empty(&self->awaited.recovered) &&
           self->sink_known && !self->sink_full &&
           (self->sink_pinged_ns <= self->sink_heard_ns || self->sink_silent);
}

int64_t
agg_core_sink_silent_ns(const agg_core_t *self, int64_t now_ns)
{
    return self->sink_heard_ns ? now_ns - self->sink_heard_ns : 0;
}

bool
agg_core_is_first(const agg_core_t *self)
{
    return self->sink_known && !self->sink_has_past;
}

void
agg_core_not_sent(agg_core_t *self)
{
    self->sink_unasked = !self->sink_known;
}

agg_stats_t
agg_core_stats(const agg_core_t *self)
{
    agg_stats_t stats = self->stats;
    stats.agents_live = self->n_reported[AGG_SESSION_LIVE];
    stats.agents_suspect = self->n_reported[AGG_SESSION_SUSPECT];
    stats.agents_lost = self->n_reported[AGG_SESSION_LOST] + self->n_reported[AGG_SESSION_EXPIRED];
    stats.streams = crema_map_count(self->streams);
    stats.credit_granted_b = agg_credit_granted_b(self->credit);
    stats.credit_in_use_b = agg_credit_in_use_b(self->credit);
    return stats;
}

bool
agg_core_look(const agg_core_t *self, const crema_id_t *run_id, Crema__RunState *ret_state)
{
    const agg_run_t *run = crema_map_find(self->runs, run_id);
    if (!run)
        return false;
    *ret_state = agg_run_report(self, run);
    return true;
}

const agg_rollup_t *
agg_core_split(const agg_core_t *self, const crema_id_t *run_id)
{
    const agg_run_t *run = crema_map_find(self->runs, run_id);
    return run ? run->rollup : NULL;
}

const agg_rollup_t *
agg_core_next_split(const agg_core_t *self, size_t *cursor, Crema__RunState *ret_state)
{
    const agg_run_t *run;
    while ((run = crema_map_next(self->runs, cursor)) != NULL)
        if (run->rollup) {
            *ret_state = agg_run_report(self, run);
            return run->rollup;
        }
    return NULL;
}

bool
agg_core_has_sink(const agg_core_t *self)
{
    return self->sink_known && !self->sink_silent;
}

bool
agg_core_forget_finished(agg_core_t *self, const crema_id_t *owner)
{
    const agg_owner_t *found = crema_map_find(self->owners, owner);
    return found && agg_runs_make_room(self, found);
}

const char *
agg_event_name(agg_event_t event)
{
#define X(event, name) name,
    static const char *const names[] = {AGG_EVENTS(X)};
#undef X
    return (size_t)event < AGG_EVENT_COUNT ? names[event] : "?";
}
