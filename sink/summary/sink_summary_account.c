/* Completeness of streams, the count of workers over time, and the table of columns itself. */
#include <stdlib.h>

#include "crema_columns_doc.h"
#include "sink_summary.h"

/* Records that the aggregator says exist and that never came, by stream. */
static void
s_count_missing(const sink_decoder_t *run, uint64_t *missing)
{
    Crema__Reason *const *reasons;
    size_t n = sink_meta_reasons(sink_decoder_meta(run), &reasons);
    for (size_t i = 0; i < n; i++) {
        const sink_stream_t *stream = sink_decoder_find(run, reasons[i]->subject);
        if (stream && !stream->closed && reasons[i]->count > missing[stream->row])
            missing[stream->row] = reasons[i]->count;
    }
}

static crema_err_t
s_put_completeness(const sink_summary_t *self, const sink_stream_t *stream, uint64_t missing)
{
    uint64_t lost = stream->lost + stream->dropped + stream->torn;
    uint64_t expected = stream->received + lost + missing;
    crema_completeness_row_t row = {
        .stream_id = stream->row,
        .expected = (int64_t)expected,
        .received = (int64_t)stream->received,
        .lost = (int64_t)lost,
        .recovered = 0,
        .duplicates = (int64_t)stream->repeats,
        .late = (int64_t)stream->late,
        .fraction = sink_ratio((double)stream->received, (double)expected),
        .closed = stream->closed,
    };
    return sink_tables_add(self->tables, CREMA_TABLE_COMPLETENESS, &row);
}

crema_err_t
sink_summary_completeness(const sink_summary_t *self)
{
    size_t n = sink_decoder_streams(self->run);
    uint64_t *missing = calloc(n + 1, sizeof *missing);
    crema_err_t err = missing ? CREMA_OK : CREMA_ENOMEM;
    if (err == CREMA_OK)
        s_count_missing(self->run, missing);
    for (size_t i = 0; i < n && err == CREMA_OK; i++)
        err = s_put_completeness(self, sink_decoder_stream(self->run, i), missing[i]);
    free(missing);
    return err;
}

/* One row per limit, so that zeros are visible. */
crema_err_t
sink_summary_limits(const sink_summary_t *self)
{
    const crema_limits_t *limits = sink_decoder_limits(self->run);
    crema_err_t err = CREMA_OK;
    for (int i = 0; i < CREMA_LIMIT_COUNT && err == CREMA_OK; i++) {
        const crema_limit_t *limit = crema_limit((crema_limit_id_t)i);
        crema_limits_row_t row = {
            .limit = (int64_t)limits->limit[i],
            .met = (int64_t)limits->met[i],
        };
        SINK_TEXT(row.name, limit->name);
        SINK_TEXT(row.part, limit->part);
        SINK_TEXT(row.unit, limit->unit);
        SINK_TEXT(row.lost, limit->lost);
        err = sink_tables_add(self->tables, CREMA_TABLE_LIMITS, &row);
    }
    return err;
}

crema_err_t
sink_summary_counts(const sink_summary_t *self)
{
    const sink_sweep_t *sweep = &self->facts->sweep;
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < sweep->n_counts && err == CREMA_OK; i++) {
        const sink_step_t *step = &sweep->counts[i];
        crema_worker_count_row_t row = {
            .t_ns = step->t_ns,
            .n_workers = step->workers,
            .n_threads = step->threads,
        };
        err = sink_tables_add(self->tables, CREMA_TABLE_WORKER_COUNT, &row);
    }
    return err;
}

crema_err_t
sink_summary_columns(sink_tables_t *tables)
{
    for (int i = 0; i < CREMA_TABLE_COUNT; i++) {
        const crema_table_t *table = crema_table((crema_table_id_t)i);
        for (size_t c = 0; c < table->n_columns; c++) {
            const crema_column_t *column = &table->columns[c];
            if (column->size == 0)
                continue;
            char dtype[CREMA_DTYPE_TEXT];
            crema_schema_columns_row_t row;
            SINK_TEXT(row.table, table->path);
            SINK_TEXT(row.column, column->name);
            SINK_TEXT(row.dtype, crema_column_dtype(column, dtype));
            SINK_TEXT(row.units, column->units);
            SINK_TEXT(row.labels, column->labels ? column->labels : "");
            SINK_TEXT(row.description, column->meaning);
            crema_err_t err = sink_tables_add(tables, CREMA_TABLE_SCHEMA_COLUMNS, &row);
            if (err != CREMA_OK)
                return err;
        }
    }
    return CREMA_OK;
}
