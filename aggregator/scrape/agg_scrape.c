#include "agg_scrape.h"

#include "agg_core_impl.h"

void
agg_scrape_prepare(agg_counts_t *counts)
{
    crema_tally_add(&counts->verdicts, "COMPLETE", 0);
    crema_tally_add(&counts->verdicts, "PARTIAL", 0);
}

void
agg_scrape_count(agg_counts_t *counts, const agg_core_t *core, const crema_id_t *run_id)
{
    Crema__RunState state;
    if (!agg_core_look(core, run_id, &state))
        return;
    crema_tally_add(&counts->verdicts, state.n_reasons == 0 ? "COMPLETE" : "PARTIAL", 1);
    for (size_t i = 0; i < state.n_reasons; i++)
        crema_tally_add(&counts->reasons, state.reasons[i]->code, 1);
}

/* ---- how many agents and runs there are of each kind, and which agents are behind */

#define BEHIND_MAX 20

/* An agent with records that are known to exist and are not durable. */
typedef struct {
    crema_id_t agent_id;
    const char *host; /* borrowed until the next event; "" for streams that no agent lists */
    uint64_t records;
} behind_t;

typedef struct {
    size_t agents[AGG_SESSION_LEFT + 1]; /* by state */
    size_t runs[CREMA_RUN_FAILED + 1];   /* by phase */
    uint64_t backlog;                    /* records of all agents, of runs without a file */
    size_t n_behind;
    behind_t behind[BEHIND_MAX]; /* the most records first */
} census_t;

/* Those with the most records stay. */
static void
s_rank_agent(census_t *census, const behind_t *behind)
{
    size_t at = census->n_behind;
    if (at < BEHIND_MAX)
        census->n_behind++;
    else if (census->behind[--at].records >= behind->records)
        return;
    for (; at > 0 && census->behind[at - 1].records < behind->records; at--)
        census->behind[at] = census->behind[at - 1];
    census->behind[at] = *behind;
}

static void
s_count_members(const agg_core_t *core, const agg_run_t *run, census_t *census)
{
    for (size_t i = 0; i < run->n_members; i++) {
        const agg_member_t *member = run->members[i];
        agg_session_t *session = crema_map_find(core->sessions, &member->agent_id);
        census->backlog += member->sums.missing;
        if (session)
            session->behind += member->sums.missing;
    }
}

/* It costs a look at each agent and at each agent of each run. */
static void
s_take_census(const agg_core_t *core, census_t *ret_census)
{
    size_t cursor = 0;
    *ret_census = (census_t){0};
    for (size_t i = 0; i <= AGG_SESSION_LEFT; i++)
        ret_census->agents[i] = (size_t)core->n_reported[i];
    for (agg_session_t *session; (session = crema_map_next(core->sessions, &cursor)) != NULL;)
        session->behind = 0;
    cursor = 0;
    for (const agg_run_t *run; (run = crema_map_next(core->runs, &cursor)) != NULL;) {
        const crema_run_phase_t phase = run->phase;
        ret_census->runs[phase]++;
        if (phase < CREMA_RUN_SEALED)
            s_count_members(core, run, ret_census);
    }
    cursor = 0;
    for (const agg_session_t *session; (session = crema_map_next(core->sessions, &cursor)) != NULL;)
        if (session->behind > 0)
            s_rank_agent(ret_census, &(behind_t){.agent_id = session->agent_id,
                                                 .host = session->name,
                                                 .records = session->behind});
}

/* ---- the parts of a scrape */

static void
s_expose_census(const agg_scrape_t *self, crema_exposition_t *out)
{
    static const char *const c_phases[] = {"unknown", "open",   "barrier",
                                           "verdict", "sealed", "failed"};
    census_t census;
    s_take_census(self->core, &census);
    for (int i = 0; i <= AGG_SESSION_LEFT; i++)
        crema_expose_one(out, CREMA_SERIES_AGG_AGENTS,
                         agg_session_state_name((agg_session_state_t)i), NULL,
                         (double)census.agents[i]);
    crema_expose(out, CREMA_SERIES_AGG_BACKLOG, (double)census.backlog);
    for (size_t i = 0; i < census.n_behind; i++) {
        char agent[37];
        crema_expose_one(out, CREMA_SERIES_AGG_AGENT_BACKLOG,
                         crema_id_uuid(&census.behind[i].agent_id, agent), census.behind[i].host,
                         (double)census.behind[i].records);
    }
    for (int i = 0; i <= CREMA_RUN_FAILED; i++)
        crema_expose_one(out, CREMA_SERIES_AGG_RUNS, c_phases[i], NULL, (double)census.runs[i]);
}

static void
s_expose_records(const agg_scrape_t *self, const agg_stats_t *stats, crema_exposition_t *out)
{
    crema_expose(out, CREMA_SERIES_AGG_STREAMS, (double)stats->streams);
    crema_expose(out, CREMA_SERIES_AGG_DATA, (double)stats->data_accepted);
    crema_expose(out, CREMA_SERIES_AGG_RECEIVED_BYTES, (double)stats->data_bytes);
    crema_expose(out, CREMA_SERIES_AGG_DATA_DROPPED, (double)stats->data_dropped);
    crema_expose(out, CREMA_SERIES_AGG_REPEATS, (double)stats->repeats);
    crema_expose(out, CREMA_SERIES_AGG_GAPS, (double)stats->gaps_seen);
    crema_expose(out, CREMA_SERIES_AGG_RECORDS, (double)self->counts->put_records);
    crema_expose(out, CREMA_SERIES_AGG_BYTES, (double)self->counts->put_bytes);
    crema_expose(out, CREMA_SERIES_AGG_COMMITTED, (double)stats->committed_records);
    crema_expose(out, CREMA_SERIES_AGG_NACKS, (double)stats->nacks);
    crema_expose(out, CREMA_SERIES_AGG_REPLAYS, (double)stats->replays);
    crema_expose(out, CREMA_SERIES_AGG_CREDIT, (double)self->credit_bytes);
    crema_expose(out, CREMA_SERIES_AGG_CREDIT_GRANTED, (double)stats->credit_granted_b);
    crema_expose(out, CREMA_SERIES_AGG_CREDIT_USED, (double)stats->credit_in_use_b);
    crema_expose(out, CREMA_SERIES_AGG_SPLIT_LEFT, (double)stats->split_left);
}

static void
s_expose_messages(const agg_scrape_t *self, const agg_stats_t *stats, crema_exposition_t *out)
{
    const agg_counts_t *counts = self->counts;
    crema_expose(out, CREMA_SERIES_AGG_MESSAGES, (double)counts->messages);
    crema_expose(out, CREMA_SERIES_AGG_BAD, (double)counts->bad);
    crema_expose(out, CREMA_SERIES_AGG_HELLOS, (double)stats->hellos);
    crema_expose(out, CREMA_SERIES_AGG_FENCES, (double)stats->fences);
    crema_expose(out, CREMA_SERIES_AGG_REFUSED, (double)stats->refused);
    crema_expose(out, CREMA_SERIES_AGG_NO_ROOM, (double)stats->no_room);
    crema_expose(out, CREMA_SERIES_AGG_NOT_ALLOWED, (double)stats->not_allowed);
    crema_expose(out, CREMA_SERIES_AGG_REVOKED, (double)counts->revoked);
    crema_expose(out, CREMA_SERIES_AGG_KEYS_REFUSED, (double)crema_server_refused(self->server));
    crema_expose(out, CREMA_SERIES_AGG_CROWDED, (double)crema_server_crowded(self->server));
    crema_expose(out, CREMA_SERIES_AGG_UNTAKEN, (double)counts->untaken);
    crema_expose(out, CREMA_SERIES_AGG_UNROUTABLE, (double)counts->unroutable);
    crema_expose_one(out, CREMA_SERIES_AGG_DROPPED, "peer", NULL, (double)counts->dropped);
    crema_expose_one(out, CREMA_SERIES_AGG_DROPPED, "sink", NULL, (double)counts->sink_dropped);
}

void
agg_scrape_expose(void *context, crema_exposition_t *out)
{
    const agg_scrape_t *self = context;
    const agg_stats_t stats = agg_core_stats(self->core);
    crema_expose(out, CREMA_SERIES_AGG_HEALTHY, agg_core_has_sink(self->core));
    s_expose_census(self, out);
    s_expose_records(self, &stats, out);
    s_expose_messages(self, &stats, out);
    crema_expose_tally(out, CREMA_SERIES_AGG_VERDICTS, &self->counts->verdicts);
    crema_expose_tally(out, CREMA_SERIES_AGG_REASONS, &self->counts->reasons);
}
