/* The cost of measuring, as every part of crema reports it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_cost.h"
#include "sink_summary.h"

/* Cost of one part; NaN and -1: not reported. */
typedef struct {
    double cpu_s;
    int64_t n, bytes_b, records;
    bool shared; /* it served other runs too */
} cost_t;

typedef enum { HOOK, AGENT, AGGREGATOR, SINK, PARTS } part_t;
static const char *const s_names[PARTS + 1] = {"hook", "agent", "aggregator", "sink", "all"};

/* Cumulative totals in /heartbeats, sorted by time: the last one of each stream counts. */
static crema_err_t
s_take_heartbeats(const sink_summary_t *self, cost_t *costs)
{
    const sink_rows_t *rows = sink_tables_rows(self->tables, CREMA_TABLE_HEARTBEATS);
    size_t n = sink_decoder_streams(self->run);
    const crema_heartbeats_row_t **last = calloc(n + 1, sizeof *last);
    if (!last)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_heartbeats_row_t *row = sink_rows_at(rows, i);
        if (row->stream_id < n && !isnan(row->cost_s))
            last[row->stream_id] = row;
    }
    for (size_t i = 0; i < n; i++) {
        if (!last[i])
            continue;
        cost_t *to =
            &costs[sink_decoder_stream(self->run, i)->kind == CREMA_STREAM_AGENT ? AGENT : HOOK];
        int64_t written_b = last[i]->written_b, sent = last[i]->sent;
        to->cpu_s = (isnan(to->cpu_s) ? 0 : to->cpu_s) + last[i]->cost_s;
        to->n = (to->n < 0 ? 0 : to->n) + 1;
        to->bytes_b = (to->bytes_b < 0 ? 0 : to->bytes_b) + (written_b > 0 ? written_b : 0);
        to->records = (to->records < 0 ? 0 : to->records) + (sent > 0 ? sent : 0);
    }
    free(last);
    return CREMA_OK;
}

static const char *
s_find(const void *context, const char *key)
{
    return sink_texts_find(context, key);
}

/* The cost a daemon reported with the end of the run. */
static void
s_take_reported(const sink_summary_t *self, const char *part, cost_t *cost)
{
    crema_cost_t given;
    if (crema_cost_read(part, s_find, sink_meta_attributes(sink_decoder_meta(self->run)), &given))
        *cost = (cost_t){given.cpu_s, 1, given.bytes, given.records, given.shared};
}

static crema_err_t
s_put(const sink_summary_t *self, const char *part, const cost_t *cost, bool complete)
{
    crema_status_t status = isnan(cost->cpu_s)           ? CREMA_STATUS_UNAVAILABLE
                            : self->partial || !complete ? CREMA_STATUS_INCOMPLETE
                            : cost->shared               ? CREMA_STATUS_ESTIMATED
                                                         : CREMA_STATUS_OK;
    crema_monitor_row_t row = {
        .status = status,
        .n = cost->n < 0 ? 0 : cost->n,
        .cpu_s = cost->cpu_s,
        .bytes_b = cost->bytes_b,
        .records = cost->records,
        .cpu_s_per_chunk = sink_ratio(cost->cpu_s, (double)self->facts->n_chunks),
        .fraction = sink_ratio(cost->cpu_s, self->budget->alloc_s),
    };
    SINK_TEXT(row.part, part);
    return sink_tables_add(self->tables, CREMA_TABLE_MONITOR, &row);
}

crema_err_t
sink_summary_monitor(const sink_summary_t *self)
{
    const cost_t unknown = {NAN, -1, -1, -1, false};
    cost_t costs[PARTS] = {unknown, unknown, unknown, unknown};
    cost_t all = {NAN, 0, -1, -1, false}; /* bytes and records pass through every part: no sum */
    crema_err_t err = s_take_heartbeats(self, costs);
    s_take_reported(self, "aggregator", &costs[AGGREGATOR]);
    s_take_reported(self, "sink", &costs[SINK]);
    bool complete = true;
    for (int i = 0; i < PARTS && err == CREMA_OK; i++) {
        err = s_put(self, s_names[i], &costs[i], true);
        complete = complete && !isnan(costs[i].cpu_s);
        if (isnan(costs[i].cpu_s))
            continue;
        all.cpu_s = (isnan(all.cpu_s) ? 0 : all.cpu_s) + costs[i].cpu_s;
        all.n += costs[i].n;
        all.shared = all.shared || costs[i].shared;
    }
    return err == CREMA_OK ? s_put(self, s_names[PARTS], &all, complete) : err;
}
