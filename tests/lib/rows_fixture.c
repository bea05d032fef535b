#define _GNU_SOURCE /* nftw */
#include "rows_fixture.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "row_cell.h"
#include "sink_summary.h"

static void
s_must(crema_err_t err, const char *what)
{
    if (err == CREMA_OK)
        return;
    fprintf(stderr, "rows_fixture: %s: %s\n", what, crema_err_text(err));
    abort();
}

static crema_err_t
s_on_decoded(void *context, crema_table_id_t table, const uint8_t *rows, size_t n)
{
    return sink_tables_append(context, table, rows, n);
}

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    return sink_decoder_msg(context, msg);
}

static crema_err_t
s_on_writers(void *context, const Crema__RunWriters *msg)
{
    return sink_decoder_writers(context, msg);
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    return sink_decoder_put(context, put);
}

static crema_err_t
s_on_clock(void *context, const Crema__ClockSample *sample)
{
    return sink_decoder_clock(context, sample);
}

void
decoded_open(decoded_t *self, const char *journal_dir)
{
    const crema_limits_t limits = crema_limits();
    decoded_open_limited(self, journal_dir, &limits);
}

void
decoded_open_limited(decoded_t *self, const char *journal_dir, const crema_limits_t *limits)
{
    *self = (decoded_t){0};
    s_must(sink_tables_new(".", &self->tables), "tables");
    s_must(sink_decoder_new(s_on_decoded, self->tables, &self->run), "decoder");
    *sink_decoder_limits(self->run) = *limits;
    const sink_journal_visitor_t messages = {
        .context = self->run, .run = s_on_run, .writers = s_on_writers};
    const sink_journal_visitor_t records = {
        .context = self->run, .put = s_on_put, .clock = s_on_clock};
    sink_journal_report_t report;
    s_must(sink_journal_read(journal_dir, &messages, &report), "messages");
    s_must(sink_journal_read(journal_dir, &records, &report), "records");
    s_must(sink_decoder_finish(self->run), "finish");
}

void
decoded_facts(decoded_t *self)
{
    s_must(sink_tables_add_dict(self->tables, sink_decoder_dict(self->run)), "dictionaries");
    s_must(sink_tables_sort(self->tables), "sort");
    s_must(sink_facts_begin(self->tables, self->run, &self->facts), "facts");
    s_must(sink_facts_take_chunks(self->facts, self->tables, self->run), "facts");
    s_must(sink_facts_finish(self->facts, self->tables), "facts");
    s_must(sink_budget_new(self->facts, &self->budget), "budget");
    s_must(sink_model_new(self->facts, sink_ratio(self->budget->alloc_s, self->budget->wall_s),
                          &self->model),
           "model");
}

void
decoded_close(decoded_t *self)
{
    sink_model_destroy(&self->model);
    sink_budget_destroy(&self->budget);
    sink_facts_destroy(&self->facts);
    sink_decoder_destroy(&self->run);
    sink_tables_destroy(&self->tables);
}

static const uint8_t *
s_row(const decoded_t *self, crema_table_id_t table, size_t row)
{
    if (table >= CREMA_TABLE_DICT_STREAM && table <= CREMA_TABLE_DICT_BRANCH)
        return sink_dict_row(sink_decoder_dict(self->run), table, (uint32_t)row);
    if (row >= decoded_count(self, table))
        s_must(CREMA_EINVAL, "no such row");
    return sink_rows_at(sink_tables_rows(self->tables, table), row);
}

size_t
decoded_count(const decoded_t *self, crema_table_id_t table)
{
    if (table >= CREMA_TABLE_DICT_STREAM && table <= CREMA_TABLE_DICT_BRANCH)
        return sink_dict_count(sink_decoder_dict(self->run), table);
    return sink_rows_count(sink_tables_rows(self->tables, table));
}

int64_t
decoded_int(const decoded_t *self, crema_table_id_t table, size_t row, const char *column)
{
    return cell_int(crema_table(table), s_row(self, table, row), column);
}

double
decoded_real(const decoded_t *self, crema_table_id_t table, size_t row, const char *column)
{
    return cell_real(crema_table(table), s_row(self, table, row), column);
}

const char *
decoded_text(const decoded_t *self, crema_table_id_t id, size_t row, const char *column)
{
    return cell_text(crema_table(id), s_row(self, id, row), column);
}

double
decoded_metric(const decoded_t *self, const char *name, int64_t *ret_status)
{
    for (size_t i = 0; i < decoded_count(self, CREMA_TABLE_WORKFLOW); i++) {
        if (strcmp(decoded_text(self, CREMA_TABLE_WORKFLOW, i, "name"), name) != 0)
            continue;
        if (ret_status)
            *ret_status = decoded_int(self, CREMA_TABLE_WORKFLOW, i, "status");
        return decoded_real(self, CREMA_TABLE_WORKFLOW, i, "value");
    }
    s_must(CREMA_ENOENT, name);
    return NAN;
}

static int
s_remove(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

#define SCRATCH_MAX 32

static char s_scratch[SCRATCH_MAX][256];
static size_t s_n_scratch;

static void
s_clean_up(void)
{
    for (size_t i = 0; i < s_n_scratch; i++)
        nftw(s_scratch[i], s_remove, 8, FTW_DEPTH | FTW_PHYS);
}

const char *
scratch_dir(const char *name)
{
    char path[256];
    size_t i = 0;
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/crema-test-%d-%s", base ? base : "/tmp", (int)getpid(), name);
    while (i < s_n_scratch && strcmp(s_scratch[i], path) != 0)
        i++;
    if (i == SCRATCH_MAX)
        s_must(CREMA_ELIMIT, "scratch directories");
    if (s_n_scratch == 0)
        atexit(s_clean_up);
    if (i == s_n_scratch)
        memcpy(s_scratch[s_n_scratch++], path, sizeof path);
    nftw(path, s_remove, 8, FTW_DEPTH | FTW_PHYS);
    return s_scratch[i];
}
