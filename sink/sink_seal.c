#include "sink_seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sink_attempt.h"
#include "sink_cell.h"
#include "sink_seal_impl.h"
#include "sink_summary.h"

crema_err_t
sink_seal_fail(sink_seal_t *self, crema_err_t err, const char *what)
{
    snprintf(self->why, self->why_size, "%s: %s", what, crema_err_text(err));
    return err;
}

/* ---- from the journal to rows */

static crema_err_t
s_on_row(void *context, crema_table_id_t table, const uint8_t *row)
{
    return sink_tables_add(((sink_seal_t *)context)->tables, table, row);
}

static crema_err_t
s_on_run(void *context, crema_msg_type_t type, const crema_run_msg_t *msg)
{
    return sink_decoder_msg(((sink_seal_t *)context)->run, type, msg);
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    return sink_decoder_put(((sink_seal_t *)context)->run, put);
}

static crema_err_t
s_on_clock(void *context, const crema_clock_sample_t *sample)
{
    sink_seal_t *self = context;
    crema_err_t err = sink_offset_add(self->offset, sample);
    return err == CREMA_OK ? sink_decoder_clock(self->run, sample) : err;
}

/* Messages first, so that every record is decoded by the rules that were known in the end. */
static crema_err_t
s_read(sink_seal_t *self, const char *journal_dir)
{
    const sink_journal_visitor_t messages = {.context = self, .run = s_on_run};
    const sink_journal_visitor_t records = {.context = self, .put = s_on_put, .clock = s_on_clock};
    crema_err_t err = sink_journal_read(journal_dir, &messages, &self->report);
    if (err == CREMA_OK)
        err = sink_journal_read(journal_dir, &records, &self->report);
    if (err == CREMA_OK)
        err = sink_decoder_finish(self->run);
    return err == CREMA_OK ? err : sink_seal_fail(self, err, "the journal cannot be read");
}

/* ---- rows in their final form */

/* Times onto the sink's clock, and a mark at chunks whose clock nobody compared. */
static void
s_correct_times(sink_seal_t *self)
{
    for (int t = 0; t < CREMA_TABLE_WIRE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        sink_rows_t *rows = sink_tables_rows(self->tables, table->id);
        size_t stream = sink_cell_column(table, "stream_id");
        for (size_t i = 0; i < sink_rows_count(rows); i++) {
            uint8_t *row = sink_rows_at(rows, i);
            size_t number = (size_t)crema_row_get_i64(table, row, stream);
            const crema_id_t *agent = &sink_decoder_stream(self->run, number)->agent_id;
            sink_offset_correct_row(self->offset, agent, table, row);
            if (t == CREMA_TABLE_CHUNKS && !sink_offset_known(self->offset, agent))
                sink_cell_set(table, row, "quality",
                              sink_cell_int(table, row, "quality") | SINK_QUALITY_CLOCK);
        }
    }
}

/* First and last times of streams and workers likewise. A worker's are those of its stream's host. */
static void
s_correct_dictionaries(sink_seal_t *self)
{
    const crema_table_t *s = crema_table(CREMA_TABLE_DICT_STREAM);
    const crema_table_t *w = crema_table(CREMA_TABLE_DICT_WORKER);
    sink_rows_t *workers = sink_tables_rows(self->tables, w->id);
    for (size_t i = 0; i < sink_decoder_streams(self->run); i++) {
        const sink_stream_t *stream = sink_decoder_stream(self->run, i);
        uint8_t *row = sink_rows_at(sink_tables_rows(self->tables, s->id), i);
        sink_offset_correct_row(self->offset, &stream->agent_id, s, row);
        if (stream->worker < sink_rows_count(workers))
            sink_offset_correct_row(self->offset, &stream->agent_id, w,
                                    sink_rows_at(workers, stream->worker));
    }
}

/* coffea's report comes as attributes; its numbers are rows of /custom too, where the other users' metrics are. */
static crema_err_t
s_add_coffea_report(sink_seal_t *self)
{
    static const struct {
        const char *name, *unit;
    } units[] = {{"coffea.bytesread", "bytes"},
                 {"coffea.entries", "count"},
                 {"coffea.processtime", "seconds"},
                 {"coffea.chunks", "count"},
                 {"coffea.n_columns", "count"}};
    enum { KIND_TOTAL = 2 };
    const crema_table_t *t = crema_table(CREMA_TABLE_CUSTOM);
    const sink_told_t *told = sink_decoder_told(self->run);
    sink_dict_t *dict = sink_decoder_dict(self->run);
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < sizeof units / sizeof *units && err == CREMA_OK; i++) {
        const char *text = sink_texts_find(sink_told_attributes(told), units[i].name);
        char *end = NULL;
        double value = text ? strtod(text, &end) : 0;
        if (!text || end == text || *end != '\0')
            continue;
        uint32_t unit, metric;
        crema_dict_entry_t entry = {.kind = CREMA_DICT_UNIT, .text = units[i].unit};
        err = sink_dict_entry(dict, &entry, SINK_DICT_NONE, &unit);
        entry = (crema_dict_entry_t){.kind = CREMA_DICT_METRIC, .text = units[i].name};
        if (err == CREMA_OK)
            err = sink_dict_entry(dict, &entry, unit, &metric);
        if (err != CREMA_OK)
            break;
        uint8_t row[SINK_ROW_BYTES_MAX];
        crema_row_clear(t, row);
        sink_cell_set(t, row, "t_ns", sink_told_end_ns(told));
        sink_cell_set_real(t, row, "value", value);
        sink_cell_set(t, row, "metric_id", metric);
        sink_cell_set(t, row, "unit_id", unit);
        sink_cell_set(t, row, "kind", KIND_TOTAL);
        err = sink_tables_add(self->tables, t->id, row);
    }
    return err;
}

static crema_err_t
s_shape(sink_seal_t *self)
{
    sink_offset_settle(self->offset);
    s_correct_times(self);
    crema_err_t err = s_add_coffea_report(self);
    if (err == CREMA_OK)
        err = sink_tables_add_dict(self->tables, sink_decoder_dict(self->run));
    if (err == CREMA_OK) {
        s_correct_dictionaries(self);
        err = sink_tables_sort(self->tables);
    }
    return err == CREMA_OK ? err : sink_seal_fail(self, err, "the rows cannot be put in order");
}

static crema_err_t
s_summarize(sink_seal_t *self)
{
    crema_err_t err = sink_facts_new(self->tables, self->run, &self->facts);
    if (err == CREMA_OK)
        err = sink_budget_new(self->facts, &self->budget);
    if (err == CREMA_OK)
        err = sink_model_new(self->facts, sink_ratio(self->budget->alloc_s, self->budget->wall_s),
                             &self->model);
    if (err == CREMA_OK)
        err = sink_verdict_new(self->run, self->facts, self->report.damaged_bytes, &self->verdict);
    if (err == CREMA_OK) {
        const sink_summary_t summary = {
            .tables = self->tables,
            .run = self->run,
            .facts = self->facts,
            .budget = self->budget,
            .model = self->model,
            .partial = strcmp(sink_verdict_word(self->verdict), "COMPLETE") != 0,
        };
        err = sink_summary_fill(&summary);
    }
    return err == CREMA_OK ? err : sink_seal_fail(self, err, "the summaries cannot be made");
}

/* ---- the whole of it */

static crema_err_t
s_paths(sink_seal_t *self, const char *output_path)
{
    char uuid[37];
    crema_id_uuid(&self->report.run_id, uuid);
    int n = output_path ? snprintf(self->path, sizeof self->path, "%s", output_path)
                        : snprintf(self->path, sizeof self->path, "%s.h5", uuid);
    if (n < 0 || (size_t)n + sizeof ".tmp" > sizeof self->path)
        return sink_seal_fail(self, CREMA_EINVAL, "the path of the file is too long");
    memcpy(self->temporary, self->path, (size_t)n);
    memcpy(self->temporary + n, ".tmp", sizeof ".tmp");
    const char *slash = strrchr(self->path, '/');
    if (!slash)
        strcpy(self->dir, ".");
    else if (slash == self->path)
        strcpy(self->dir, "/");
    else
        snprintf(self->dir, sizeof self->dir, "%.*s", (int)(slash - self->path), self->path);
    return CREMA_OK;
}

static crema_err_t
s_begin(sink_seal_t *self, const char *journal_dir, const char *output_path)
{
    const sink_journal_visitor_t nothing = {.context = self};
    crema_err_t err = sink_journal_read(journal_dir, &nothing, &self->report);
    if (err != CREMA_OK)
        return sink_seal_fail(self, err, journal_dir);
    err = s_paths(self, output_path);
    if (err == CREMA_OK)
        err = sink_tables_new(self->dir, &self->tables);
    if (err == CREMA_OK)
        err = sink_decoder_new(s_on_row, self, &self->run);
    if (err == CREMA_OK)
        err = sink_offset_new(&self->offset);
    if (err == CREMA_OK)
        err = sink_attributes_new(&self->attributes);
    return err;
}

static void
s_end(sink_seal_t *self)
{
    crema_err_t ignored = sink_h5_close(&self->file, NULL);
    (void)ignored;
    sink_attributes_destroy(&self->attributes);
    sink_verdict_destroy(&self->verdict);
    sink_model_destroy(&self->model);
    sink_budget_destroy(&self->budget);
    sink_facts_destroy(&self->facts);
    sink_offset_destroy(&self->offset);
    sink_decoder_destroy(&self->run);
    sink_tables_destroy(&self->tables);
}

crema_err_t
sink_seal_journal(const char *journal_dir, const char *output_path, sink_seal_result_t *ret_result,
                  char *ret_why, size_t why_size)
{
    sink_seal_t self = {.why = ret_why, .why_size = why_size};
    sink_seal_result_t *result = calloc(1, sizeof *result);
    if (!result)
        return CREMA_ENOMEM;
    if (why_size > 0)
        ret_why[0] = '\0';
    crema_err_t err = s_begin(&self, journal_dir, output_path);
    if (err == CREMA_OK)
        err = s_read(&self, journal_dir);
    if (err == CREMA_OK)
        err = s_shape(&self);
    if (err == CREMA_OK)
        err = s_summarize(&self);
    if (err == CREMA_OK)
        err = sink_seal_describe(&self);
    if (err == CREMA_OK)
        err = sink_seal_make_file(&self, result);
    if (err == CREMA_OK)
        *ret_result = *result;
    else if (self.temporary[0])
        unlink(self.temporary);
    if (err != CREMA_OK && why_size > 0 && ret_why[0] == '\0')
        snprintf(ret_why, why_size, "%s", crema_err_text(err));
    s_end(&self);
    free(result);
    return err;
}
