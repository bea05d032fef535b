#include "agent_scrape.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* 1 for the state that it is in, 0 for all others. */
static void
s_expose_state(crema_exposition_t *out, crema_series_t series, const char *const *names, size_t n,
               const char *state)
{
    for (size_t i = 0; i < n; i++)
        crema_expose_one(out, series, names[i], NULL, strcmp(names[i], state) == 0);
}

static void
s_expose_session(const agent_scrape_t *self, crema_exposition_t *out)
{
    static const char *const c_states[] = {
        [CREMA_SESSION_INIT] = "init",        [CREMA_SESSION_BACKOFF] = "backoff",
        [CREMA_SESSION_HELLO_SENT] = "hello", [CREMA_SESSION_STREAMING] = "streaming",
        [CREMA_SESSION_STALLED] = "stalled",  [CREMA_SESSION_DRAINING] = "draining",
        [CREMA_SESSION_BYE_SENT] = "bye",     [CREMA_SESSION_CLOSED] = "closed",
    };
    const crema_session_stats_t stats = crema_session_stats(agent_delivery_session(self->delivery));
    const int64_t silent_ns = self->now_ns - agent_delivery_heard_ns(self->delivery);
    s_expose_state(out, CREMA_SERIES_AGENT_SESSION, c_states, COUNT(c_states),
                   c_states[crema_session_state(agent_delivery_session(self->delivery))]);
    crema_expose(out, CREMA_SERIES_AGENT_SILENCE, (double)silent_ns * 1e-9);
    crema_expose(out, CREMA_SERIES_AGENT_DIALS, (double)stats.dials);
    crema_expose(out, CREMA_SERIES_AGENT_WELCOMES, (double)stats.welcomes);
    crema_expose(out, CREMA_SERIES_AGENT_HEARTBEATS, (double)stats.heartbeats);
    crema_expose(out, CREMA_SERIES_AGENT_FENCES, (double)stats.fences);
    crema_expose(out, CREMA_SERIES_AGENT_RECORDS, (double)stats.sent_records);
    crema_expose(out, CREMA_SERIES_AGENT_BYTES, (double)stats.sent_bytes);
    crema_expose(out, CREMA_SERIES_AGENT_COMMITTED, (double)stats.committed_records);
    crema_expose(out, CREMA_SERIES_AGENT_REWINDS, (double)stats.rewinds);
    crema_expose(out, CREMA_SERIES_AGENT_REPLAYS, (double)stats.replays);
    crema_expose(out, CREMA_SERIES_AGENT_BACKLOG, (double)agent_delivery_remaining(self->delivery));
}

static void
s_expose_spool(const agent_scrape_t *self, crema_exposition_t *out)
{
    const crema_spool_stats_t stats = crema_spool_stats(self->spool);
    crema_expose(out, CREMA_SERIES_AGENT_STREAMS, (double)crema_spool_count(self->spool));
    crema_expose(out, CREMA_SERIES_AGENT_SPOOL_RECORDS, (double)stats.records);
    crema_expose(out, CREMA_SERIES_AGENT_SPOOL, (double)stats.bytes);
    crema_expose(out, CREMA_SERIES_AGENT_EVICTED, (double)stats.evicted);
    crema_expose(out, CREMA_SERIES_AGENT_CORRUPT, (double)stats.corrupt);
    crema_expose(out, CREMA_SERIES_AGENT_TORN, (double)stats.torn_bytes);
    crema_expose(out, CREMA_SERIES_AGENT_IO, (double)stats.io_errors);
    crema_expose(out, CREMA_SERIES_AGENT_UNREADABLE,
                 (double)crema_spool_faults(self->spool, NULL, 0));
    crema_expose(out, CREMA_SERIES_AGENT_FOREIGN, (double)stats.foreign_files);
}

void
agent_scrape_expose(const agent_scrape_t *self, crema_exposition_t *out)
{
    static const char *const c_phases[] = AGENT_SCRAPE_PHASES;
    crema_expose(out, CREMA_SERIES_AGENT_HEALTHY, self->healthy);
    s_expose_state(out, CREMA_SERIES_AGENT_PHASE, c_phases, COUNT(c_phases), self->phase);
    crema_expose(out, CREMA_SERIES_AGENT_SPOOL_LIMIT, (double)self->spool_limit_b);
    if (self->delivery)
        s_expose_session(self, out);
    if (self->spool)
        s_expose_spool(self, out);
}
