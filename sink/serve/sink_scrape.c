#include <unistd.h>

#include "crema_life.h"
#include "sink_private.h"

void
sink_scrape_prepare(sink_t *self)
{
    crema_tally_add(&self->counts.verdicts, "COMPLETE", 0);
    crema_tally_add(&self->counts.verdicts, "PARTIAL", 0);
}

void
sink_scrape_count(sink_t *self, const Crema__Sealed *sealed)
{
    crema_tally_add(&self->counts.verdicts, sealed->verdict, 1);
    for (size_t i = 0; i < sealed->n_reasons; i++)
        crema_tally_add(&self->counts.reasons, sealed->reasons[i]->code, 1);
}

bool
sink_scrape_is_healthy(const sink_t *self)
{
    return self->space != SINK_SPACE_FULL && access(self->config.store_dir, W_OK | X_OK) == 0;
}

/* ---- the parts of a scrape */

static void
s_expose_intake(const sink_t *self, crema_exposition_t *out)
{
    const counts_t *counts = &self->counts;
    const sink_commit_stats_t marks = sink_commit_stats(sink_store_watermarks(self->store));
    crema_expose(out, CREMA_SERIES_SINK_HEALTHY, sink_scrape_is_healthy(self));
    crema_expose(out, CREMA_SERIES_SINK_AGGREGATORS, (double)sink_peers_count(self->peers));
    crema_expose(out, CREMA_SERIES_SINK_MESSAGES, (double)counts->messages);
    crema_expose(out, CREMA_SERIES_SINK_BAD, (double)counts->bad);
    crema_expose(out, CREMA_SERIES_SINK_PUTS, (double)counts->puts);
    crema_expose(out, CREMA_SERIES_SINK_RECEIVED, (double)counts->records);
    crema_expose(out, CREMA_SERIES_SINK_RECORDS, (double)marks.appended);
    crema_expose(out, CREMA_SERIES_SINK_UNCOMMITTED, (double)marks.uncommitted);
    crema_expose(out, CREMA_SERIES_SINK_COMMITS, (double)counts->commits);
    crema_expose(out, CREMA_SERIES_SINK_COMMITTED_BYTES, (double)counts->committed_bytes);
    crema_expose_histogram(out, CREMA_SERIES_SINK_LATENCY, &counts->latency);
    crema_expose_histogram(out, CREMA_SERIES_SINK_SYNC, &counts->sync);
    crema_expose(out, CREMA_SERIES_SINK_REPEATS, (double)marks.repeats);
    crema_expose(out, CREMA_SERIES_SINK_GAPS, (double)marks.gaps);
    crema_expose(out, CREMA_SERIES_SINK_REFUSED, (double)counts->refused);
    crema_expose(out, CREMA_SERIES_SINK_FULL, (double)counts->full);
    crema_expose(out, CREMA_SERIES_SINK_NOT_ALLOWED, (double)counts->not_allowed);
    crema_expose(out, CREMA_SERIES_SINK_KEYS_REFUSED, (double)crema_server_refused(self->server));
    crema_expose(out, CREMA_SERIES_SINK_CROWDED, (double)crema_server_crowded(self->server));
    crema_expose(out, CREMA_SERIES_SINK_UNTAKEN, (double)sink_peers_stats(self->peers).untaken);
    crema_expose(out, CREMA_SERIES_SINK_STREAMS, (double)marks.streams);
}

static void
s_expose_runs(const sink_t *self, crema_exposition_t *out)
{
    const crema_series_t series = CREMA_SERIES_SINK_RUNS;
    const sink_store_census_t census = sink_store_census(self->store);
    for (int life = CREMA_LIFE_OPEN; life < CREMA_LIFE_CLOSED; life++)
        crema_expose_one(out, series, crema_life_name((crema_life_t)life), NULL,
                         (double)census.live[life]);
    crema_expose_one(out, series, "resting", NULL, (double)census.resting);
    crema_expose_one(out, series, "unread", NULL, (double)census.unread);
    crema_expose_one(out, series, "set_aside", NULL, (double)census.aside);
    crema_expose_one(out, series, "freed", NULL, (double)census.freed);
}

static void
s_expose_store(const sink_t *self, crema_exposition_t *out)
{
    crema_expose(out, CREMA_SERIES_SINK_JOURNAL, (double)sink_store_bytes(self->store));
    crema_expose(out, CREMA_SERIES_SINK_RESTING, (double)sink_store_resting_bytes(self->store));
    crema_expose(out, CREMA_SERIES_SINK_STORE_FREE, (double)self->free_b);
    crema_expose(out, CREMA_SERIES_SINK_SHORT, self->space != SINK_SPACE_FREE);
    crema_expose(out, CREMA_SERIES_SINK_NO_SPACE, self->space == SINK_SPACE_FULL);
}

static void
s_expose_files(const sink_t *self, crema_exposition_t *out)
{
    const counts_t *counts = &self->counts;
    const sink_store_report_t report = sink_store_report(self->store);
    size_t running, waiting;
    sink_sealing_count(self->sealing, &running, &waiting);
    crema_expose_one(out, CREMA_SERIES_SINK_SEALING, "running", NULL, (double)running);
    crema_expose_one(out, CREMA_SERIES_SINK_SEALING, "waiting", NULL, (double)waiting);
    crema_expose_tally(out, CREMA_SERIES_SINK_VERDICTS, &counts->verdicts);
    crema_expose_tally(out, CREMA_SERIES_SINK_REASONS, &counts->reasons);
    crema_expose(out, CREMA_SERIES_SINK_SEAL_FAILED, (double)counts->seal_failed);
    crema_expose(out, CREMA_SERIES_SINK_DAMAGED, (double)report.damaged_bytes);
    crema_expose(out, CREMA_SERIES_SINK_MISSING, (double)report.missing_frames);
    crema_expose(out, CREMA_SERIES_SINK_LATE, (double)report.refused_records);
}

void
sink_scrape_expose(void *context, crema_exposition_t *out)
{
    const sink_t *self = context;
    s_expose_intake(self, out);
    s_expose_runs(self, out);
    s_expose_store(self, out);
    s_expose_files(self, out);
}
