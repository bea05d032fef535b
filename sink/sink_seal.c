#include "sink_seal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_json.h"
#include "crema_split.h"
#include "crema_version.h"
#include "sink_attempt.h"
#include "sink_cell.h"
#include "sink_decoder.h"
#include "sink_fs.h"
#include "sink_grid.h"
#include "sink_h5.h"
#include "sink_journal.h"
#include "sink_offset.h"
#include "sink_summary.h"
#include "sink_tables.h"
#include "sink_verdict.h"

/* verdict_reasons in the file; what does not fit is counted in the result and visible in /summary/completeness. */
#define REASONS_BYTES ((size_t)1 << 20)
#define PREFIXES_BYTES ((size_t)1 << 16)
#define GRID_BLOCK 64 /* workers that are put on the grid at a time */

typedef struct {
    char path[PATH_MAX];      /* of the final file */
    char temporary[PATH_MAX]; /* the same with .tmp */
    char dir[PATH_MAX];
    sink_decoder_t *run;
    sink_tables_t *tables;
    sink_offset_t *offset;
    sink_facts_t *facts;
    sink_budget_t *budget;
    sink_model_t *model;
    sink_verdict_t *verdict;
    sink_attributes_t *attributes;
    sink_h5_t *file;
    sink_journal_report_t report;
    char *why;
    size_t why_size;
} seal_t;

static crema_err_t
s_fail(seal_t *self, crema_err_t err, const char *what)
{
    snprintf(self->why, self->why_size, "%s: %s", what, crema_err_text(err));
    return err;
}

static crema_err_t
s_fail_h5(seal_t *self, crema_err_t err)
{
    if (self->file)
        snprintf(self->why, self->why_size, "%s", sink_h5_why(self->file));
    return err;
}

/* ---- from the journal to rows */

static crema_err_t
s_on_row(void *context, crema_table_id_t table, const uint8_t *row)
{
    return sink_tables_add(((seal_t *)context)->tables, table, row);
}

static crema_err_t
s_on_run(void *context, crema_msg_type_t type, const crema_run_msg_t *msg)
{
    return sink_decoder_msg(((seal_t *)context)->run, type, msg);
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    return sink_decoder_put(((seal_t *)context)->run, put);
}

static crema_err_t
s_on_clock(void *context, const crema_clock_sample_t *sample)
{
    seal_t *self = context;
    crema_err_t err = sink_offset_add(self->offset, sample);
    return err == CREMA_OK ? sink_decoder_clock(self->run, sample) : err;
}

/* Messages first, so that every record is decoded by the rules that were known in the end. */
static crema_err_t
s_read(seal_t *self, const char *journal_dir)
{
    const sink_journal_visitor_t messages = {.context = self, .run = s_on_run};
    const sink_journal_visitor_t records = {.context = self, .put = s_on_put, .clock = s_on_clock};
    crema_err_t err = sink_journal_read(journal_dir, &messages, &self->report);
    if (err == CREMA_OK)
        err = sink_journal_read(journal_dir, &records, &self->report);
    if (err == CREMA_OK)
        err = sink_decoder_finish(self->run);
    return err == CREMA_OK ? err : s_fail(self, err, "the journal cannot be read");
}

/* ---- rows in their final form */

/* Times onto the sink's clock, and a mark at chunks whose clock nobody compared. */
static void
s_correct_times(seal_t *self)
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
s_correct_dictionaries(seal_t *self)
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
s_add_coffea_report(seal_t *self)
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
s_shape(seal_t *self)
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
    return err == CREMA_OK ? err : s_fail(self, err, "the rows cannot be put in order");
}

static crema_err_t
s_summarize(seal_t *self)
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
    return err == CREMA_OK ? err : s_fail(self, err, "the summaries cannot be made");
}

/* ---- attributes */

static crema_err_t
s_describe_software(seal_t *self)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    crema_err_t err = sink_attributes_text(self->attributes, "sink_version", CREMA_VERSION);
    if (err == CREMA_OK)
        err = sink_attributes_text(self->attributes, "libhdf5_version", sink_h5_version());
    if (err == CREMA_OK)
        err = sink_attributes_text(self->attributes, "host_sink", host);
    return err;
}

static crema_err_t
s_describe_split(seal_t *self)
{
    crema_split_rules_t rules = sink_told_rules(sink_decoder_told(self->run));
    char *text = malloc(PREFIXES_BYTES);
    if (!text)
        return CREMA_ENOMEM;
    crema_json_t json = crema_json_begin(text, PREFIXES_BYTES);
    crema_json_open(&json, NULL, '[');
    for (size_t i = 0; i < rules.n_prefixes; i++)
        crema_json_text(&json, NULL, rules.processor_prefixes[i]);
    crema_json_close(&json, ']');
    crema_err_t err =
        sink_attributes_text(self->attributes, "processor_prefixes", json.full ? "[]" : text);
    free(text);
    return err == CREMA_OK
               ? sink_attributes_text(self->attributes, "overhead_rule", CREMA_SPLIT_RULES)
               : err;
}

static crema_err_t
s_describe_verdict(seal_t *self)
{
    sink_attributes_t *a = self->attributes;
    const char *word = sink_verdict_word(self->verdict);
    int64_t open = 0;
    for (size_t i = 0; i < sink_decoder_streams(self->run); i++)
        open += !sink_decoder_stream(self->run, i)->closed;
    char *json;
    crema_err_t err = sink_verdict_json(self->verdict, REASONS_BYTES, &json);
    if (err != CREMA_OK)
        return err;
    err = sink_attributes_text(a, "verdict_reasons", json);
    free(json);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "verdict", word);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "state", "sealed");
    sink_attributes_int(a, "complete", strcmp(word, "COMPLETE") == 0);
    sink_attributes_int(a, "loss_total", sink_verdict_loss(self->verdict));
    sink_attributes_int(a, "n_streams", (int64_t)sink_decoder_streams(self->run));
    sink_attributes_int(a, "n_streams_open", open);
    return err;
}

static void
s_describe_window(seal_t *self)
{
    const sink_facts_t *facts = self->facts;
    int64_t first_ns = 0, last_ns = 0;
    for (size_t i = 0; i < facts->n_busy; i++) {
        if (first_ns == 0 || facts->busy[i].t0_ns < first_ns)
            first_ns = facts->busy[i].t0_ns;
        if (facts->busy[i].t1_ns > last_ns)
            last_ns = facts->busy[i].t1_ns;
    }
    sink_attributes_int(self->attributes, "t_run_start_ns", facts->t0_ns);
    sink_attributes_int(self->attributes, "t_run_end_ns", facts->t1_ns);
    sink_attributes_int(self->attributes, "t_first_task_ns", first_ns);
    sink_attributes_int(self->attributes, "t_last_task_end_ns", last_ns);
}

/* Files and datasets as they were seen, where the collector said nothing. */
static crema_err_t
s_describe_inputs(seal_t *self)
{
    static const struct {
        const char *name;
        crema_table_id_t table;
    } counts[] = {{"n_files", CREMA_TABLE_DICT_FILE}, {"n_datasets", CREMA_TABLE_DICT_DATASET}};
    const sink_texts_t *told = sink_told_attributes(sink_decoder_told(self->run));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!sink_texts_find(told, counts[i].name))
            sink_attributes_int(
                self->attributes, counts[i].name,
                (int64_t)sink_rows_count(sink_tables_rows(self->tables, counts[i].table)));
    return CREMA_OK;
}

static crema_err_t
s_describe(seal_t *self)
{
    char uuid[37], utc[64];
    time_t now = (time_t)(crema_clock_real_ns() / 1000000000);
    struct tm tm;
    strftime(utc, sizeof utc, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    crema_id_uuid(&self->report.run_id, uuid);
    sink_attributes_t *a = self->attributes;
    const sink_texts_t *told = sink_told_attributes(sink_decoder_told(self->run));
    crema_err_t err = sink_attributes_texts(a, told, true);
    if (err == CREMA_OK)
        err = sink_attributes_texts(a, sink_decoder_versions(self->run), false);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "run_id", uuid);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "created_utc", utc);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "clock_correction",
                                   sink_offset_applies(self->offset) ? "applied" : "none");
    if (err == CREMA_OK)
        err = s_describe_software(self);
    if (err == CREMA_OK)
        err = s_describe_split(self);
    if (err == CREMA_OK)
        err = s_describe_verdict(self);
    if (err == CREMA_OK)
        err = s_describe_inputs(self);
    s_describe_window(self);
    return err == CREMA_OK ? err : s_fail(self, err, "the attributes cannot be made");
}

/* ---- the file */

static const uint8_t *
s_rows_from(void *context, uint64_t i, uint64_t *ret_n)
{
    const sink_rows_t *rows = context;
    *ret_n = sink_rows_count(rows) - i;
    return sink_rows_at(rows, i);
}

static crema_err_t
s_write_tables(seal_t *self)
{
    const char *basis = sink_offset_applies(self->offset) ? "corrected" : "source";
    bool some_lost = strcmp(sink_verdict_word(self->verdict), "COMPLETE") != 0;
    for (int t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        sink_rows_t *rows = sink_tables_rows(self->tables, table->id);
        int64_t lost = table->kind == CREMA_KIND_STREAM && some_lost ? -1 : 0;
        crema_err_t err = sink_h5_write_table(self->file, table, sink_rows_count(rows), s_rows_from,
                                              rows, lost, basis);
        if (err != CREMA_OK)
            return s_fail_h5(self, err);
    }
    return CREMA_OK;
}

static const sink_h5_variable_t s_variables[SINK_GRID_COUNT] = {
    [SINK_GRID_CPU_PCT] = {"cpu_pct", "%", "CPU of the process, of one core", true},
    [SINK_GRID_RSS_B] = {"rss_b", "B", "resident memory", true},
    [SINK_GRID_MEMORY_PCT] = {"memory_pct", "%", "resident memory of the limit", true},
    [SINK_GRID_SLOT_BUSY_PCT] = {"slot_busy_pct", "%", "threads running tasks", true},
    [SINK_GRID_BUSY_THREADS] = {"busy_threads", "count", "threads running tasks", true},
    [SINK_GRID_EXECUTING] = {"executing", "count", "tasks running, as sampled", true},
    [SINK_GRID_EVENT_RATE] = {"event_rate", "1/s", "events", true},
    [SINK_GRID_BYTES_RATE] = {"bytes_rate", "B/s", "bytes read", true},
    [SINK_GRID_N_WORKERS] = {"n_workers", "count", "workers present", false},
    [SINK_GRID_N_THREADS] = {"n_threads", "count", "threads present", false},
    [SINK_GRID_BUSY_THREADS_TOTAL] = {"busy_threads_total", "count", "threads running tasks",
                                      false},
    [SINK_GRID_EVENT_RATE_TOTAL] = {"event_rate_total", "1/s", "events, all workers", false},
    [SINK_GRID_DATA_RATE_TOTAL] = {"data_rate_total", "B/s", "bytes read, all workers", false},
};

static crema_err_t
s_begin_grid(seal_t *self, const sink_grid_axis_t *axis)
{
    size_t n = self->facts->n_workers;
    const char **names = calloc(n + 1, sizeof *names);
    int64_t *times = calloc(axis->n, sizeof *times);
    crema_err_t err = names && times ? CREMA_OK : CREMA_ENOMEM;
    for (size_t i = 0; err == CREMA_OK && i < axis->n; i++)
        times[i] = axis->t0_ns + (int64_t)i * axis->step_ns;
    for (uint32_t i = 0; err == CREMA_OK && i < n; i++)
        names[i] = sink_dict_text(sink_decoder_dict(self->run), CREMA_DICT_WORKER, i);
    if (err == CREMA_OK)
        err =
            sink_h5_grid_begin(self->file, times, axis->n, names, n, s_variables, SINK_GRID_COUNT);
    free(names);
    free(times);
    return err;
}

static crema_err_t
s_write_grid_blocks(seal_t *self, const sink_grid_axis_t *axis,
                    double *const values[SINK_GRID_PER_WORKER])
{
    size_t n_workers = self->facts->n_workers;
    crema_err_t err = CREMA_OK;
    for (size_t first = 0; first < n_workers && err == CREMA_OK; first += GRID_BLOCK) {
        size_t n = n_workers - first < GRID_BLOCK ? n_workers - first : GRID_BLOCK;
        sink_grid_workers(self->facts, axis, first, n, values);
        for (size_t v = 0; v < SINK_GRID_PER_WORKER && err == CREMA_OK; v++)
            err = sink_h5_grid_put(self->file, v, first, n, values[v]);
    }
    for (int v = SINK_GRID_PER_WORKER; v < SINK_GRID_COUNT && err == CREMA_OK; v++) {
        sink_grid_sum(self->facts, axis, (sink_grid_variable_t)v, values[0]);
        err = sink_h5_grid_put(self->file, (size_t)v, 0, 1, values[0]);
    }
    return err;
}

static crema_err_t
s_write_grid(seal_t *self)
{
    sink_grid_axis_t axis = sink_grid_axis(self->facts->t0_ns, self->facts->t1_ns);
    double *values[SINK_GRID_PER_WORKER] = {NULL};
    crema_err_t err = CREMA_OK;
    for (int v = 0; v < SINK_GRID_PER_WORKER && err == CREMA_OK; v++)
        if (!(values[v] = calloc(GRID_BLOCK * axis.n, sizeof(double))))
            err = CREMA_ENOMEM;
    if (err == CREMA_OK)
        err = s_begin_grid(self, &axis);
    if (err == CREMA_OK)
        err = s_write_grid_blocks(self, &axis, values);
    for (int v = 0; v < SINK_GRID_PER_WORKER; v++)
        free(values[v]);
    return err == CREMA_OK ? err : s_fail_h5(self, err);
}

/* ---- revision */

static void
s_hex(const uint8_t sha256[SINK_H5_SHA256_BYTES], char text[2 * SINK_H5_SHA256_BYTES + 1])
{
    for (size_t i = 0; i < SINK_H5_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", sha256[i]);
}

/* The file of that name as it is now: the same content again is the same revision, anything else the next one. */
static crema_err_t
s_number_revision(seal_t *self, const char *sha, int64_t *ret_revision)
{
    char before[80] = "", older[80] = "", reason[256] = "";
    char why[SINK_H5_WHY_BYTES];
    int64_t revision = 0;
    sink_h5_t *old = NULL;
    bool same = false;
    if (sink_h5_open(self->path, &old, why) == CREMA_OK) {
        bool known = sink_h5_int(old, "revision", &revision) == CREMA_OK &&
                     sink_h5_text(old, "sha256_payload", before, sizeof before) == CREMA_OK;
        same = known && strcmp(before, sha) == 0;
        if (same && sink_h5_text(old, "prev_sha256_payload", older, sizeof older) != CREMA_OK)
            older[0] = '\0';
        if (same && sink_h5_text(old, "revision_reason", reason, sizeof reason) != CREMA_OK)
            reason[0] = '\0';
        if (!known)
            revision = 0;
        crema_err_t ignored = sink_h5_close(&old, NULL);
        (void)ignored;
    }
    if (!same) {
        snprintf(older, sizeof older, "%s", before);
        snprintf(reason, sizeof reason, "%s", revision > 0 ? "late records" : "");
        revision = revision > 0 ? revision + 1 : 1;
    }
    *ret_revision = revision;
    sink_attributes_int(self->attributes, "revision", revision);
    crema_err_t err = sink_attributes_text(self->attributes, "revision_reason", reason);
    if (err == CREMA_OK)
        err = sink_attributes_text(self->attributes, "prev_sha256_payload", older);
    return err == CREMA_OK ? sink_attributes_text(self->attributes, "sha256_payload", sha) : err;
}

/* ---- writing and putting in place */

static crema_err_t
s_sync_file(const char *path, uint64_t *ret_bytes)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sink_fs_error(errno);
    crema_err_t err = fsync(fd) == 0 && fstat(fd, &stat) == 0 ? CREMA_OK : sink_fs_error(errno);
    close(fd);
    if (err == CREMA_OK)
        *ret_bytes = (uint64_t)stat.st_size;
    return err;
}

static crema_err_t
s_close_file(seal_t *self)
{
    char why[SINK_H5_WHY_BYTES];
    crema_err_t err = sink_h5_close(&self->file, why);
    if (err != CREMA_OK)
        snprintf(self->why, self->why_size, "%s", why);
    return err;
}

/* Tables and grid, closed; then once more for the checksum, which is that of what can be read back. */
static crema_err_t
s_write(seal_t *self)
{
    char why[SINK_H5_WHY_BYTES] = "";
    crema_err_t err = sink_h5_create_final(self->temporary, &self->file, why);
    if (err != CREMA_OK) {
        snprintf(self->why, self->why_size, "%s", why);
        return err;
    }
    err = s_write_tables(self);
    return err == CREMA_OK ? s_write_grid(self) : err;
}

static crema_err_t
s_count_rows(seal_t *self, sink_h5_t *file)
{
    for (int t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        char why[SINK_H5_WHY_BYTES];
        uint64_t rows;
        crema_err_t err = sink_h5_table(file, table, &rows, why);
        if (err != CREMA_OK) {
            snprintf(self->why, self->why_size, "the file was written and reads back wrong: %s",
                     why);
            return CREMA_EH5;
        }
        if (rows != sink_rows_count(sink_tables_rows(self->tables, table->id))) {
            snprintf(self->why, self->why_size,
                     "the file was written and reads back with %llu rows in /%s",
                     (unsigned long long)rows, table->path);
            return CREMA_EH5;
        }
    }
    return CREMA_OK;
}

static crema_err_t
s_verify(seal_t *self, const uint8_t sha256[SINK_H5_SHA256_BYTES])
{
    char why[SINK_H5_WHY_BYTES] = "";
    uint8_t again[SINK_H5_SHA256_BYTES];
    sink_h5_t *file = NULL;
    crema_err_t err = sink_h5_open(self->temporary, &file, why);
    if (err != CREMA_OK) {
        snprintf(self->why, self->why_size, "%s", why);
        return err;
    }
    err = s_count_rows(self, file);
    if (err == CREMA_OK && (err = sink_h5_payload(file, again)) != CREMA_OK)
        snprintf(self->why, self->why_size, "%s", sink_h5_why(file));
    if (err == CREMA_OK && memcmp(again, sha256, sizeof again) != 0) {
        snprintf(self->why, self->why_size, "the file was written and reads back differently");
        err = CREMA_EH5;
    }
    crema_err_t closed = sink_h5_close(&file, NULL);
    return err == CREMA_OK ? closed : err;
}

static crema_err_t
s_put_in_place(seal_t *self)
{
    if (rename(self->temporary, self->path) != 0)
        return s_fail(self, sink_fs_error(errno), self->path);
    crema_err_t err = sink_fs_sync_dir(self->dir);
    return err == CREMA_OK ? err : s_fail(self, err, self->dir);
}

static void
s_fill_result(const seal_t *self, sink_seal_result_t *result)
{
    char *json;
    snprintf(result->verdict, sizeof result->verdict, "%s", sink_verdict_word(self->verdict));
    snprintf(result->path, sizeof result->path, "%s", self->path);
    snprintf(result->reasons_json, sizeof result->reasons_json, "[]");
    if (sink_verdict_json(self->verdict, sizeof result->reasons_json, &json) == CREMA_OK) {
        snprintf(result->reasons_json, sizeof result->reasons_json, "%s", json);
        free(json);
    }
    for (int t = 0; t < CREMA_TABLE_WIRE_COUNT; t++)
        result->rows += sink_rows_count(sink_tables_rows(self->tables, (crema_table_id_t)t));
}

static crema_err_t
s_make_file(seal_t *self, sink_seal_result_t *result)
{
    char sha[2 * SINK_H5_SHA256_BYTES + 1];
    crema_err_t err = s_write(self);
    if (err == CREMA_OK && (err = sink_h5_payload(self->file, result->sha256)) != CREMA_OK)
        return s_fail_h5(self, err);
    s_hex(result->sha256, sha);
    if (err == CREMA_OK)
        err = s_number_revision(self, sha, &result->revision);
    if (err == CREMA_OK &&
        (err = sink_h5_write_attributes(self->file, self->attributes)) != CREMA_OK)
        return s_fail_h5(self, err);
    if (err == CREMA_OK)
        err = s_close_file(self);
    if (err == CREMA_OK && (err = s_sync_file(self->temporary, &result->file_bytes)) != CREMA_OK)
        return s_fail(self, err, self->temporary);
    if (err == CREMA_OK)
        err = s_verify(self, result->sha256);
    return err == CREMA_OK ? s_put_in_place(self) : err;
}

/* ---- the whole of it */

static crema_err_t
s_paths(seal_t *self, const char *output_path)
{
    char uuid[37];
    crema_id_uuid(&self->report.run_id, uuid);
    int n = output_path ? snprintf(self->path, sizeof self->path, "%s", output_path)
                        : snprintf(self->path, sizeof self->path, "%s.h5", uuid);
    if (n < 0 || (size_t)n + sizeof ".tmp" > sizeof self->path)
        return s_fail(self, CREMA_EINVAL, "the path of the file is too long");
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
s_begin(seal_t *self, const char *journal_dir, const char *output_path)
{
    const sink_journal_visitor_t nothing = {.context = self};
    crema_err_t err = sink_journal_read(journal_dir, &nothing, &self->report);
    if (err != CREMA_OK)
        return s_fail(self, err, journal_dir);
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
s_end(seal_t *self)
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
    seal_t self = {.why = ret_why, .why_size = why_size};
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
        err = s_describe(&self);
    if (err == CREMA_OK)
        err = s_make_file(&self, result);
    if (err == CREMA_OK) {
        s_fill_result(&self, result);
        *ret_result = *result;
    } else if (self.temporary[0]) {
        unlink(self.temporary);
    }
    if (err != CREMA_OK && why_size > 0 && ret_why[0] == '\0')
        snprintf(ret_why, why_size, "%s", crema_err_text(err));
    s_end(&self);
    free(result);
    return err;
}
