/* Converts the times of a final file to the aggregator's clock, each exactly once. */
#include <stdlib.h>

#include "sink_attempt.h"
#include "sink_seal_impl.h"

static void
s_correct_table(sink_seal_t *self, const crema_table_t *table)
{
    sink_rows_t *rows = sink_tables_rows(self->tables, table->id);
    size_t stream = (size_t)crema_table_column(table, "stream_id");
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        uint8_t *row = sink_rows_at(rows, i);
        size_t number = (size_t)crema_row_get_i64(table, row, stream);
        sink_offset_correct_row(self->offset, &sink_decoder_stream(self->run, number)->agent_id,
                                table, row);
    }
}

static crema_err_t
s_flag_chunks(sink_seal_t *self)
{
    sink_rows_t *rows = sink_tables_rows(self->tables, CREMA_TABLE_CHUNKS);
    size_t n = sink_decoder_streams(self->run);
    bool *known = calloc(n + 1, sizeof *known);
    if (!known)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < n; i++)
        known[i] = sink_offset_known(self->offset, &sink_decoder_stream(self->run, i)->agent_id);
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        crema_chunks_row_t *row = sink_rows_at(rows, i);
        if (!known[row->stream_id])
            row->quality |= SINK_QUALITY_CLOCK;
    }
    free(known);
    return CREMA_OK;
}

crema_err_t
sink_seal_correct_rows(sink_seal_t *self)
{
    for (int t = 0; t < CREMA_TABLE_WIRE_COUNT && sink_offset_applies(self->offset); t++)
        s_correct_table(self, crema_table((crema_table_id_t)t));
    return s_flag_chunks(self);
}

static void
s_widen(sink_rows_t *workers, size_t worker, int64_t t_ns)
{
    if (worker >= sink_rows_count(workers) || t_ns == 0)
        return;
    crema_dict_worker_row_t *row = sink_rows_at(workers, worker);
    if (row->t_first_ns == 0 || t_ns < row->t_first_ns)
        row->t_first_ns = t_ns;
    if (t_ns > row->t_last_ns)
        row->t_last_ns = t_ns;
}

/* Streams of several hosts may have seen a worker, its own and the scheduler's; their times are
 * on one clock by now. */
static void
s_see_workers(const sink_seal_t *self, sink_rows_t *workers)
{
    for (size_t i = 0; i < sink_rows_count(workers); i++) {
        crema_dict_worker_row_t *row = sink_rows_at(workers, i);
        row->t_first_ns = row->t_last_ns = 0;
    }
    for (int t = 0; t < CREMA_TABLE_WIRE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        const sink_rows_t *rows = sink_tables_rows(self->tables, table->id);
        int worker = crema_table_column(table, "worker_id");
        size_t time = t == CREMA_TABLE_ACTIVITIES ? (size_t)crema_table_column(table, "t1_ns") : 0;
        for (size_t i = 0; worker >= 0 && i < sink_rows_count(rows); i++) {
            const uint8_t *row = sink_rows_at(rows, i);
            s_widen(workers, (size_t)crema_row_get_i64(table, row, (size_t)worker),
                    crema_row_get_i64(table, row, time));
        }
    }
}

void
sink_seal_correct_dictionaries(sink_seal_t *self)
{
    const crema_table_t *s = crema_table(CREMA_TABLE_DICT_STREAM);
    sink_rows_t *streams = sink_tables_rows(self->tables, s->id);
    sink_rows_t *workers = sink_tables_rows(self->tables, CREMA_TABLE_DICT_WORKER);
    if (!sink_offset_applies(self->offset))
        return;
    s_see_workers(self, workers);
    for (size_t i = 0; i < sink_decoder_streams(self->run); i++) {
        const sink_stream_t *stream = sink_decoder_stream(self->run, i);
        crema_dict_stream_row_t *row = sink_rows_at(streams, i);
        sink_offset_correct_row(self->offset, &stream->agent_id, s, (uint8_t *)row);
        s_widen(workers, stream->worker, row->t_first_ns);
        if (stream->t_process_ns != 0)
            s_widen(workers, stream->worker,
                    sink_offset_correct(self->offset, &stream->agent_id, stream->t_process_ns));
        if (stream->end == CREMA_END_FINISHED) /* else its agent ended it, later */
            s_widen(workers, stream->worker, row->t_last_ns);
    }
}
