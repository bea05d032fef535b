/* Verifies a run file against the contract and against itself. */
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_json.h"
#include "crema_metrics.h"
#include "crema_note.h"
#include "crema_print.h"
#include "crema_utf8.h"
#include "sink_attempt.h"
#include "sink_attribute.h"
#include "sink_bound.h"
#include "sink_budget.h"
#include "sink_check_cell.h"
#include "sink_h5.h"
#include "sink_seal.h"

/* Findings of one kind are reported once per table. */
#define BLOCK_ROWS 4096

typedef struct {
    const char *path;
    FILE *out;
    sink_h5_t *file;
    int findings;
    uint64_t rows[CREMA_TABLE_COUNT]; /* 0 where the table is unsound */
    int64_t loss;                     /* sum of /gaps.n_lost */
    int64_t missing;                  /* of /summary/completeness: expected and not received */
    int64_t open_streams;
    int64_t counted, events; /* of /chunks; events are -1 if they are unknown of an attempt */
    bool older;              /* written by an earlier 1.x: later additions may be missing */
    bool newer;              /* by a later 1.x: it may have more labels */
} check_t;

__attribute__((format(printf, 2, 3))) static void
s_find(check_t *self, const char *format, ...)
{
    char what[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    crema_print(self->out, "%s: %s", self->path, what);
    self->findings++;
}

/* ---- attributes */

static crema_err_t
s_check_text(check_t *self, const char *name)
{
    char *text;
    crema_err_t err = sink_h5_whole_text(self->file, name, &text);
    if (err != CREMA_OK)
        return err;
    if (!crema_utf8_valid(text, strlen(text)))
        s_find(self, "attribute %s is not UTF-8", name);
    free(text);
    return CREMA_OK;
}

static void
s_check_attributes(check_t *self)
{
    const sink_attribute_t *contract;
    size_t n = sink_attribute_contract(&contract);
    for (size_t i = 0; i < n; i++) {
        int64_t integer;
        double real;
        crema_err_t err = contract[i].type == SINK_ATTRIBUTE_TEXT
                              ? s_check_text(self, contract[i].name)
                          : contract[i].type == SINK_ATTRIBUTE_REAL
                              ? sink_h5_real(self->file, contract[i].name, &real)
                              : sink_h5_int(self->file, contract[i].name, &integer);
        if (err != CREMA_OK && !self->older)
            s_find(self, "attribute %s is missing or of another type", contract[i].name);
    }
}

static int64_t
s_int(check_t *self, const char *name)
{
    int64_t value;
    return sink_h5_int(self->file, name, &value) == CREMA_OK ? value : INT64_MIN;
}

static void
s_check_number(check_t *self, const char *name, int64_t counted, const char *where)
{
    int64_t said = s_int(self, name);
    if (said != INT64_MIN && said != counted)
        s_find(self, "%s is %lld and %s says %lld", name, (long long)said, where,
               (long long)counted);
}

static void
s_check_window(check_t *self)
{
    const int64_t start_ns = s_int(self, "t_run_start_ns"), end_ns = s_int(self, "t_run_end_ns");
    if (start_ns < 0 || end_ns < start_ns)
        s_find(self, "the run is from t_run_start_ns %lld to t_run_end_ns %lld",
               (long long)start_ns, (long long)end_ns);
}

static void
s_check_verdict(check_t *self)
{
    char verdict[32] = "", *reasons = NULL;
    if (sink_h5_text(self->file, "verdict", verdict, sizeof verdict) != CREMA_OK ||
        sink_h5_whole_text(self->file, "verdict_reasons", &reasons) != CREMA_OK)
        return; /* already reported */
    bool complete = strcmp(verdict, "COMPLETE") == 0;
    bool any_reason = crema_json_first(reasons) != NULL;
    if (!complete && strcmp(verdict, "PARTIAL") != 0)
        s_find(self, "verdict is \"%s\"", verdict);
    else if (complete == any_reason)
        s_find(self, "verdict is %s %s reasons", verdict, any_reason ? "with" : "without");
    if (s_int(self, "complete") != complete)
        s_find(self, "complete does not follow from the verdict");
    if (complete && self->loss > 0)
        s_find(self, "verdict is COMPLETE and /gaps has %lld lost records", (long long)self->loss);
    if (complete && self->missing > 0)
        s_find(self, "verdict is COMPLETE and /summary/completeness lacks %lld records",
               (long long)self->missing);
    if (complete && self->open_streams > 0)
        s_find(self, "verdict is COMPLETE and %lld streams have no end",
               (long long)self->open_streams);
    free(reasons);
}

/* ---- rows */

#define COLUMNS_MAX 64
#define KEYS 3

/* State of one pass over a table. */
typedef struct {
    const crema_table_t *table;
    sink_check_range_t ranges[COLUMNS_MAX];
    bool found[COLUMNS_MAX];   /* a value outside the range */
    sink_intern_t *names;      /* of a dictionary; else NULL */
    size_t keys[KEYS], n_keys; /* columns that the rows are sorted by */
    int64_t previous[KEYS];    /* their values in the row before */
    bool bad_text, bad_order, bad_dense, bad_name;
    uint64_t row;
} pass_t;

static crema_err_t
s_begin(const check_t *self, const crema_table_t *table, pass_t *pass)
{
    *pass = (pass_t){.table = table};
    assert(table->n_columns <= COLUMNS_MAX);
    for (size_t i = 0; i < table->n_columns; i++)
        pass->ranges[i] = sink_check_range(table, i, self->rows, self->older, self->newer);
    const bool is_stream = table->kind == CREMA_KIND_STREAM;
    if (is_stream || table->kind == CREMA_KIND_ACCOUNT)
        pass->n_keys = 1;
    if (is_stream && !self->older) {
        pass->keys[1] = table->n_columns - 1; /* stream_id, seq */
        pass->keys[2] = table->n_columns - 3;
        pass->n_keys = KEYS;
    }
    return table->kind == CREMA_KIND_DICT && !self->older
               ? sink_intern_new(SINK_INTERN_ANY, &pass->names)
               : CREMA_OK;
}

static void
s_find_value(check_t *self, const pass_t *pass, size_t i, int64_t value, double real)
{
    const crema_column_t *column = &pass->table->columns[i];
    const sink_check_range_t *range = &pass->ranges[i];
    const char *path = pass->table->path, *name = column->name;
    const unsigned long long row = pass->row;
    if (range->of != CREMA_TABLE_COUNT)
        s_find(self, "/%s row %llu: %s %lld is not a row of /%s", path, row, name, (long long)value,
               crema_table(range->of)->path);
    else if (column->type == CREMA_T_ENUM)
        s_find(self, "/%s row %llu: %s has no label for %lld", path, row, name, (long long)value);
    else if (column->type == CREMA_T_F64)
        s_find(self, "/%s row %llu: %s is %.17g", path, row, name, real);
    else
        s_find(self, "/%s row %llu: %s is %lld", path, row, name, (long long)value);
}

static void
s_look_at_cell(check_t *self, pass_t *pass, const uint8_t *row, size_t i)
{
    const crema_column_t *column = &pass->table->columns[i];
    if (column->type == CREMA_T_STR) {
        const char *field = (const char *)row + crema_table_offset(pass->table, i);
        if (!pass->bad_text && !sink_check_is_text(field, column->size)) {
            pass->bad_text = true;
            s_find(self, "/%s row %llu: %s is not padded UTF-8", pass->table->path,
                   (unsigned long long)pass->row, column->name);
        }
    } else if (!pass->found[i]) {
        const bool is_real = column->type == CREMA_T_F64;
        int64_t value = is_real ? 0 : crema_row_get_i64(pass->table, row, i);
        double real = is_real ? crema_row_get_f64(pass->table, row, i) : 0;
        pass->found[i] = is_real ? !sink_check_real(&pass->ranges[i], real)
                                 : !sink_check_integer(&pass->ranges[i], value);
        if (pass->found[i])
            s_find_value(self, pass, i, value, real);
    }
}

/* A dictionary has each name once. */
static crema_err_t
s_look_at_name(check_t *self, pass_t *pass, const uint8_t *row)
{
    const char *wrong = NULL;
    if (!pass->names || pass->bad_name)
        return CREMA_OK;
    crema_err_t err = sink_check_name(pass->names, pass->table, row, &wrong);
    pass->bad_name = wrong != NULL;
    if (wrong)
        s_find(self, "/%s row %llu %s", pass->table->path, (unsigned long long)pass->row, wrong);
    return err;
}

/* True if a row is not before the one before it; remembers it. */
static bool
s_is_in_order(pass_t *pass, const uint8_t *row)
{
    int order = 0;
    for (size_t i = 0; i < pass->n_keys; i++) {
        const int64_t now = crema_row_get_i64(pass->table, row, pass->keys[i]);
        if (order == 0)
            order = (now > pass->previous[i]) - (now < pass->previous[i]);
        pass->previous[i] = now;
    }
    return order >= 0 || pass->row == 0;
}

static void
s_check_metric(check_t *self, const crema_workflow_row_t *row)
{
    const struct {
        const char *name;
        int64_t of_rows;
    } metrics[] = {{"num_attempts", (int64_t)self->rows[CREMA_TABLE_CHUNKS]},
                   {"num_chunks", self->counted},
                   {"total_events", self->counted > 0 ? self->events : -1}};
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        if (strncmp(row->name, metrics[i].name, sizeof row->name) == 0 && metrics[i].of_rows > 0 &&
            row->value != (double)metrics[i].of_rows)
            s_find(self, "%s is %.17g and /chunks says %lld", metrics[i].name, row->value,
                   (long long)metrics[i].of_rows);
}

/* Adds up what other tables or attributes say too. */
static void
s_count(check_t *self, const crema_table_t *table, const uint8_t *row)
{
    if (table->id == CREMA_TABLE_CHUNKS) {
        const crema_chunks_row_t *chunk = (const crema_chunks_row_t *)row;
        if (!sink_chunk_returned(chunk->status) || chunk->quality & SINK_QUALITY_SUPERSEDED)
            return;
        self->counted++;
        self->events = self->events < 0 || chunk->n_events < 0
                           ? -1
                           : sink_bound_sum(self->events, (uint64_t)chunk->n_events);
    } else if (table->id == CREMA_TABLE_GAPS) {
        if (((const crema_gaps_row_t *)row)->n_lost > 0)
            self->loss += ((const crema_gaps_row_t *)row)->n_lost;
    } else if (table->id == CREMA_TABLE_COMPLETENESS) {
        const crema_completeness_row_t *stream = (const crema_completeness_row_t *)row;
        if (stream->received >= 0 && stream->expected > stream->received)
            self->missing += stream->expected - stream->received;
    } else if (table->id == CREMA_TABLE_DICT_STREAM) {
        self->open_streams += ((const crema_dict_stream_row_t *)row)->closed == 0;
    } else if (table->id == CREMA_TABLE_WORKFLOW && !self->older && !self->newer) {
        s_check_metric(self, (const crema_workflow_row_t *)row);
    }
}

static crema_err_t
s_look_at_row(check_t *self, pass_t *pass, const uint8_t *row)
{
    const crema_table_t *table = pass->table;
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].size > 0)
            s_look_at_cell(self, pass, row, i);
    if (!s_is_in_order(pass, row) && !pass->bad_order) {
        pass->bad_order = true;
        s_find(self, "/%s row %llu is out of order", table->path, (unsigned long long)pass->row);
    }
    int64_t id =
        table->kind == CREMA_KIND_DICT ? crema_row_get_i64(table, row, 0) : (int64_t)pass->row;
    if (id != (int64_t)pass->row && !pass->bad_dense) {
        pass->bad_dense = true;
        s_find(self, "/%s row %llu has id %lld", table->path, (unsigned long long)pass->row,
               (long long)id);
    }
    s_count(self, table, row);
    return s_look_at_name(self, pass, row);
}

static crema_err_t
s_check_rows(check_t *self, const crema_table_t *table, uint8_t *block)
{
    pass_t pass;
    crema_err_t err = s_begin(self, table, &pass);
    size_t size = crema_table_row_bytes(table);
    for (uint64_t first = 0, n = 0; first < self->rows[table->id] && err == CREMA_OK; first += n) {
        n = self->rows[table->id] - first < BLOCK_ROWS ? self->rows[table->id] - first : BLOCK_ROWS;
        if (sink_h5_read_rows(self->file, table, first, n, block) != CREMA_OK) {
            s_find(self, "%s", sink_h5_why(self->file));
            break;
        }
        for (uint64_t i = 0; i < n && err == CREMA_OK; i++, pass.row++)
            err = s_look_at_row(self, &pass, block + i * size);
    }
    sink_intern_destroy(&pass.names);
    return err;
}

static crema_err_t
s_check_tables(check_t *self)
{
    char why[SINK_H5_WHY_BYTES];
    uint8_t *block = malloc((size_t)BLOCK_ROWS * CREMA_ROW_BYTES_MAX);
    if (!block)
        return CREMA_ENOMEM;
    for (int t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        if (sink_h5_table(self->file, table, &self->rows[t], why) != CREMA_OK) {
            if (!self->older)
                s_find(self, "%s", why);
            self->rows[t] = 0;
        } else if (sink_h5_table_attributes(self->file, table, why) != CREMA_OK) {
            s_find(self, "%s", why);
        }
    }
    crema_err_t err = CREMA_OK;
    for (int t = 0; t < CREMA_TABLE_COUNT && err == CREMA_OK; t++)
        err = s_check_rows(self, crema_table((crema_table_id_t)t), block);
    free(block);
    return err;
}

/* ---- numbers that must agree */

/* Compares a checksum, computed by `compute`, with what an attribute says. */
static void
s_check_sum(check_t *self, crema_err_t (*compute)(sink_h5_t *, uint8_t *), const char *attribute,
            const char *what)
{
    uint8_t sha256[SINK_PAYLOAD_BYTES];
    char text[2 * SINK_PAYLOAD_BYTES + 1], said[2 * SINK_PAYLOAD_BYTES + 2] = "";
    if (compute(self->file, sha256) != CREMA_OK) {
        s_find(self, "%s", sink_h5_why(self->file));
        return;
    }
    sink_payload_hex(sha256, text);
    if (sink_h5_text(self->file, attribute, said, sizeof said) == CREMA_OK &&
        strcmp(said, text) != 0)
        s_find(self, "the %s do not match %s", what, attribute);
}

/* A budget that does not close is printed. Saying nothing of it in the verdict is a finding. */
static void
s_check_residual(check_t *self, double residual_s, double cap_s)
{
    static const char code[] = "\"" CREMA_NOTE_BUDGET_OPEN "\"";
    char *notes = NULL;
    if (!sink_budget_is_open(residual_s, cap_s))
        return;
    const bool is_noted = sink_h5_whole_text(self->file, "verdict_notes", &notes) == CREMA_OK &&
                          strstr(notes, code) != NULL;
    s_find(self, "the time budget does not close: %g s of %g thread-seconds are left over%s",
           residual_s, cap_s, is_noted ? ", as its verdict says" : "");
    self->findings -= is_noted;
    free(notes);
}

static void
s_check_waterfall(check_t *self)
{
    const crema_table_t *w = crema_table(CREMA_TABLE_WATERFALL);
    const crema_table_t *e = crema_table(CREMA_TABLE_EFFICIENCY);
    crema_waterfall_row_t row;
    crema_efficiency_row_t efficiency;
    double sum = 0, residual_s = 0;
    if (self->rows[e->id] != 1) {
        s_find(self, "/%s has %llu rows", e->path, (unsigned long long)self->rows[e->id]);
        return;
    }
    for (uint64_t i = 0; i < self->rows[w->id]; i++) {
        if (sink_h5_read_rows(self->file, w, i, 1, (uint8_t *)&row) != CREMA_OK)
            return;
        sum += isnan(row.thread_seconds)
                   ? 0
                   : row.thread_seconds; /* unknown CPU is contained in what is not CPU */
        if (strcmp(row.category, crema_waterfall_names[CREMA_WATERFALL_RESIDUAL]) == 0)
            residual_s = row.thread_seconds;
    }
    if (sink_h5_read_rows(self->file, e, 0, 1, (uint8_t *)&efficiency) != CREMA_OK)
        return;
    const double cap_s = efficiency.cap_s;
    double off_s = sum > cap_s ? sum - cap_s : cap_s - sum;
    if (!(off_s <= 1e-6 * (cap_s > 1 ? cap_s : 1)))
        s_find(self, "the waterfall sums to %g s and the capacity is %g s", sum, cap_s);
    s_check_residual(self, residual_s, cap_s);
}

/* True if the other checks make sense. */
static bool
s_is_final(check_t *self)
{
    char version[32] = "", state[32] = "";
    crema_err_t err = sink_h5_text(self->file, "format_version", version, sizeof version);
    if (err != CREMA_OK || atoi(version) != SINK_FORMAT_MAJOR) {
        s_find(self, "format version \"%s\" is not %d.x", version, SINK_FORMAT_MAJOR);
        return false;
    }
    const char *minor = strchr(version, '.');
    self->older = minor && atoi(minor + 1) < SINK_FORMAT_MINOR;
    self->newer = minor && atoi(minor + 1) > SINK_FORMAT_MINOR;
    err = sink_h5_text(self->file, "state", state, sizeof state);
    if (err != CREMA_OK || strcmp(state, "sealed") != 0) {
        s_find(self, "state is \"%s\": only a sealed file can be checked", state);
        return false;
    }
    return true;
}

crema_err_t
sink_check_file(const char *path, void *out_file, int *ret_findings)
{
    char why[SINK_H5_WHY_BYTES] = "", format[32] = "";
    check_t self = {.path = path, .out = out_file};
    crema_err_t err = sink_h5_open(path, &self.file, why);
    if (err != CREMA_OK) {
        char *advice =
            strstr(why, " (may use"); /* h5clear would corrupt a file that is being written */
        if (advice)
            *advice = '\0';
        s_find(&self, "%s", why);
        *ret_findings = self.findings;
        return err;
    }
    if (sink_h5_text(self.file, "format", format, sizeof format) != CREMA_OK ||
        strcmp(format, SINK_FORMAT) != 0) {
        s_find(&self, "an HDF5 file, but not a run file of crema");
        err = CREMA_EMAGIC;
    } else if (s_is_final(&self)) {
        s_check_attributes(&self);
        err = s_check_tables(&self);
        s_check_number(&self, "n_streams", (int64_t)self.rows[CREMA_TABLE_DICT_STREAM],
                       "/dict/stream");
        s_check_number(&self, "n_streams_open", self.open_streams, "/dict/stream");
        s_check_number(&self, "loss_total", self.loss, "/gaps");
        s_check_window(&self);
        s_check_verdict(&self);
        s_check_waterfall(&self);
        s_check_sum(&self, sink_h5_payload, "sha256_payload", "tables");
        s_check_sum(&self, sink_h5_grid_sum, SINK_H5_GRID_SUM, "values of /grid");
        if (!self.older)
            s_check_sum(&self, sink_h5_attributes_sum, SINK_H5_ATTRIBUTES_SUM, "attributes");
    }
    crema_err_t closed = sink_h5_close(&self.file, NULL);
    *ret_findings = self.findings;
    return err == CREMA_OK ? closed : err;
}
