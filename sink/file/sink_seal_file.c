/* The final file: written under a temporary name, closed, synced, verified, renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_log.h"
#include "sink_both.h"
#include "sink_filter.h"
#include "sink_fs.h"
#include "sink_grid.h"
#include "sink_kept.h"
#include "sink_scratch.h"
#include "sink_seal_impl.h"

static crema_err_t
s_fail_h5(sink_seal_t *self, crema_err_t err)
{
    if (self->file)
        snprintf(self->why, self->why_size, "%s", sink_h5_why(self->file));
    return err;
}

/* ---- tables and grid */

static sink_seal_stage_t
s_stage(const crema_table_t *table)
{
    if (table->kind == CREMA_KIND_SUMMARY)
        return SINK_SEAL_SUMMARIES;
    if (table->id == CREMA_TABLE_ACTIVITIES)
        return SINK_SEAL_ACTIVITIES;
    return strcmp(table->path, "dict/") < 0 ? SINK_SEAL_CHUNKS : SINK_SEAL_ROWS;
}

/* The rows of the chunk that `row` is in. */
static uint32_t
s_sum_chunk(const crema_table_t *table, const sink_rows_t *rows, size_t row)
{
    const size_t chunk = table->final_chunk_rows, first = row / chunk * chunk;
    const size_t left = sink_rows_count(rows) - first, n = left < chunk ? left : chunk;
    return sink_filter_sum(0, sink_rows_at(rows, first), n * crema_table_row_bytes(table));
}

/* What is stored must hold the rows, and is read again once the file was closed. */
static crema_err_t
s_sum_table(sink_seal_t *self, const crema_table_t *table, const sink_rows_t *rows)
{
    const size_t n = sink_rows_count(rows);
    sink_seal_sum_t *sum = &self->sums[table->id];
    bool equal;
    if (n == 0 || table->final_chunk_rows == 0)
        return CREMA_OK;
    crema_err_t err =
        sink_h5_compare_chunks(self->file, table, sink_rows_at(rows, 0), n, &equal, &sum->chunks);
    sum->first = s_sum_chunk(table, rows, 0);
    sum->last = s_sum_chunk(table, rows, n - 1);
    if (err == CREMA_OK && !equal) {
        snprintf(self->file_why, sizeof self->file_why,
                 "the file was written but reads back differently");
        err = CREMA_EH5;
    }
    return err;
}

static crema_err_t
s_write_tables(sink_seal_t *self, sink_seal_stage_t stage)
{
    const char *basis = sink_offset_applies(self->offset) ? "corrected" : "source";
    crema_err_t err = CREMA_OK;
    for (int t = 0; t < CREMA_TABLE_COUNT && err == CREMA_OK; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        sink_rows_t *rows = sink_tables_rows(self->tables, table->id);
        if (s_stage(table) != stage)
            continue;
        const size_t n = sink_rows_count(rows);
        const uint8_t *first = n > 0 ? sink_rows_at(rows, 0) : NULL;
        err = sink_h5_write_table(self->file, table, n, first, basis);
        if (err == CREMA_OK)
            err = s_sum_table(self, table, rows);
    }
    return err;
}

crema_err_t
sink_seal_create(sink_seal_t *self)
{
    return sink_h5_create_final(self->temporary, &self->file, self->file_why);
}

crema_err_t
sink_seal_write_rows(sink_seal_t *self, sink_seal_stage_t stage)
{
    crema_err_t err = s_write_tables(self, stage);
    if (err != CREMA_OK && !self->file_why[0])
        snprintf(self->file_why, sizeof self->file_why, "%s", sink_h5_why(self->file));
    return err;
}

/* How many rows are lost is not known, but whether there are some. */
static crema_err_t
s_note_lost(sink_seal_t *self)
{
    crema_err_t err = CREMA_OK;
    if (strcmp(sink_verdict_word(self->verdict), "COMPLETE") == 0)
        return CREMA_OK;
    for (int t = 0; t < CREMA_TABLE_COUNT && err == CREMA_OK; t++)
        if (crema_table((crema_table_id_t)t)->kind == CREMA_KIND_STREAM)
            err = sink_h5_set_lost(self->file, crema_table((crema_table_id_t)t), -1);
    return err;
}

static crema_err_t
s_begin_grid(sink_seal_t *self, const sink_axis_t *axis)
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
        err = sink_h5_grid_begin(self->file, times, axis->n, names, n, crema_grid_variables,
                                 CREMA_GRID_COUNT);
    free(names);
    free(times);
    return err;
}

static crema_err_t
s_write_variables(sink_seal_t *self, const sink_axis_t *axis,
                  double *const values[CREMA_GRID_PER_WORKER])
{
    size_t n_workers = self->facts->n_workers;
    crema_err_t err = CREMA_OK;
    sink_grid_workers(self->facts, axis, 0, n_workers, values);
    for (size_t v = 0; v < CREMA_GRID_PER_WORKER && n_workers > 0 && err == CREMA_OK; v++)
        err = sink_h5_grid_put(self->file, v, 0, n_workers, values[v]);
    for (int v = CREMA_GRID_PER_WORKER; v < CREMA_GRID_COUNT && err == CREMA_OK; v++) {
        sink_grid_sum(self->facts, axis, (crema_grid_t)v, values[0]);
        err = sink_h5_grid_put(self->file, (size_t)v, 0, 1, values[0]);
    }
    return err;
}

static crema_err_t
s_write_grid(sink_seal_t *self)
{
    sink_axis_t axis = sink_axis(self->facts->t0_ns, self->facts->t1_ns);
    double *values[CREMA_GRID_PER_WORKER] = {NULL};
    crema_err_t err = CREMA_OK;
    for (int v = 0; v < CREMA_GRID_PER_WORKER; v++)
        values[v] = sink_scratch(sink_tables_dir(self->tables),
                                 (self->facts->n_workers + 1) * axis.n, sizeof(double), &err);
    if (err == CREMA_OK)
        err = s_begin_grid(self, &axis);
    if (err == CREMA_OK)
        err = s_write_variables(self, &axis, values);
    for (int v = 0; v < CREMA_GRID_PER_WORKER; v++)
        sink_scratch_free(values[v]);
    return err == CREMA_OK ? err : s_fail_h5(self, err);
}

/* ---- revision */

/* Compares with the existing file and with what the journal says was sealed last, since that file
 * may have been moved or be damaged: equal content keeps its revision, anything else gets the next
 * one. */
static crema_err_t
s_number_revision(sink_seal_t *self, const char *sha, int64_t *ret_revision)
{
    char before[80] = "", older[80] = "", reason[256] = "";
    char why[SINK_H5_WHY_BYTES];
    int64_t revision = 0;
    sink_h5_t *old = NULL;
    bool same = false;
    if (sink_h5_open_regular(self->path, &old, why) == CREMA_OK) {
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
    char sealed[2 * SINK_PAYLOAD_BYTES + 1];
    sink_payload_hex(self->sealed.sha256, sealed);
    if (!same && self->sealed.revision > revision) {
        revision = self->sealed.revision;
        snprintf(before, sizeof before, "%s", sealed);
        same = strcmp(before, sha) == 0;
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

/* ---- checksum */

static int
s_by_path(const void *a, const void *b)
{
    return strcmp((*(const crema_table_t *const *)a)->path,
                  (*(const crema_table_t *const *)b)->path);
}

/* Adds the rows of the tables of these stages. */
static void
s_add_to_checksum(sink_seal_t *self, sink_seal_stage_t first, sink_seal_stage_t last)
{
    const crema_table_t *tables[CREMA_TABLE_COUNT];
    for (int t = 0; t < CREMA_TABLE_COUNT; t++)
        tables[t] = crema_table((crema_table_id_t)t);
    qsort(tables, CREMA_TABLE_COUNT, sizeof tables[0], s_by_path);
    for (int t = 0; t < CREMA_TABLE_COUNT; t++) {
        const sink_rows_t *rows = sink_tables_rows(self->tables, tables[t]->id);
        const sink_seal_stage_t stage = s_stage(tables[t]);
        if (stage >= first && stage <= last && sink_rows_count(rows) > 0)
            sink_payload_add(self->payload, sink_rows_at(rows, 0),
                             sink_rows_count(rows) * crema_table_row_bytes(tables[t]));
    }
}

void
sink_seal_sum(sink_seal_t *self, sink_seal_stage_t stage)
{
    s_add_to_checksum(self, stage, stage);
}

void
sink_seal_drop(sink_seal_t *self, sink_seal_stage_t stage)
{
    for (int t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        if (s_stage(table) == stage && table->final_chunk_rows > 0)
            sink_rows_drop(sink_tables_rows(self->tables, table->id));
    }
}

/* ---- writing and renaming */

static crema_err_t
s_sync_file(const char *path, uint64_t *ret_bytes)
{
    struct stat stat = {0};
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
s_close_file(sink_seal_t *self)
{
    char why[SINK_H5_WHY_BYTES];
    crema_err_t err = sink_h5_close(&self->file, why);
    if (err != CREMA_OK)
        snprintf(self->why, self->why_size, "%s", why);
    return err;
}

static crema_err_t
s_write(sink_seal_t *self)
{
    crema_err_t err = s_note_lost(self);
    if (err == CREMA_OK)
        err = s_write_tables(self, SINK_SEAL_SUMMARIES);
    if (err != CREMA_OK)
        return s_fail_h5(self, err);
    return s_write_grid(self);
}

typedef struct {
    sink_seal_t *seal;
    uint8_t *sha256;
    crema_err_t written;
} writing_t;

static void
s_on_write(void *context)
{
    writing_t *self = context;
    self->written = s_write(self->seal);
}

static void
s_on_checksum(void *context)
{
    writing_t *self = context;
    s_add_to_checksum(self->seal, SINK_SEAL_ROWS, SINK_SEAL_SUMMARIES);
    sink_payload_end(&self->seal->payload, self->sha256);
    sink_seal_drop(self->seal, SINK_SEAL_ROWS);
}

/* One core writes, the other one takes the checksum. */
static crema_err_t
s_write_and_sum(sink_seal_t *self, sink_seal_result_t *result)
{
    writing_t both = {.seal = self, .sha256 = result->sha256};
    sink_both(s_on_write, &both, s_on_checksum, &both);
    return both.written;
}

/* ---- the end */

static crema_err_t
s_put_in_place(sink_seal_t *self)
{
    struct stat st;
    if (lstat(self->path, &st) == 0 && S_ISLNK(st.st_mode))
        crema_log_warn("link_replaced", CREMA_ID("run", &self->report.run_id),
                       CREMA_TEXT("path", self->path),
                       CREMA_TEXT("why", "a link had the name of the run's file; what it led to "
                                         "was neither read nor changed"));
    crema_failpoint("seal.before_rename");
    if (rename(self->temporary, self->path) != 0)
        return sink_seal_fail(self, sink_fs_error(errno), self->path);
    crema_failpoint("seal.after_rename");
    crema_err_t err = sink_fs_sync_dir(self->dir);
    crema_failpoint("seal.after_dir_fsync");
    return err == CREMA_OK ? err : sink_seal_fail(self, err, self->dir);
}

static void
s_fill_result(const sink_seal_t *self, sink_seal_result_t *result)
{
    char *json;
    snprintf(result->verdict, sizeof result->verdict, "%s", sink_verdict_word(self->verdict));
    snprintf(result->path, sizeof result->path, "%s", self->path);
    snprintf(result->reasons_json, sizeof result->reasons_json, "[]");
    if (sink_verdict_json(self->verdict, SINK_VERDICT_ALL, sizeof result->reasons_json, &json) ==
        CREMA_OK) {
        snprintf(result->reasons_json, sizeof result->reasons_json, "%s", json);
        free(json);
    }
    for (int t = 0; t < CREMA_TABLE_WIRE_COUNT; t++)
        result->rows += sink_rows_count(sink_tables_rows(self->tables, (crema_table_id_t)t));
}

/* ---- what is there already */

static bool
s_knows_end(const sink_seal_t *self)
{
    const Crema__Reason *reasons;
    const size_t n = sink_verdict_reasons(self->verdict, &reasons);
    for (size_t i = 0; i < n; i++)
        if (strcmp(reasons[i].code, "run_not_ended") == 0 ||
            strcmp(reasons[i].code, "no_verdict") == 0)
            return false;
    return true;
}

/* "x.restored.h5" for "x.h5", where each of the two files holds what the other does not. */
static crema_err_t
s_step_aside(sink_seal_t *self)
{
    static const char suffix[] = ".h5", aside[] = ".restored.h5";
    size_t n = strlen(self->path);
    if (n >= sizeof suffix && strcmp(self->path + n - strlen(suffix), suffix) == 0)
        n -= strlen(suffix);
    if (n + sizeof aside > sizeof self->path)
        return CREMA_ELIMIT;
    crema_log_warn("run_file_kept", CREMA_ID("run", &self->report.run_id),
                   CREMA_TEXT("path", self->path),
                   CREMA_TEXT("why", "it and the journal each hold what the other lacks; the "
                                     "journal's file is beside it, .restored.h5"));
    strcpy(self->path + n, aside);
    return CREMA_OK;
}

/* A file that holds more than this journal stays, whatever becomes of the journal. result->kept:
 * nothing is left to do. */
static crema_err_t
s_keep_what_holds_more(sink_seal_t *self, sink_seal_result_t *result)
{
    sink_kept_t kept;
    crema_err_t err = sink_kept_compare(self->path, self->tables, s_knows_end(self), &kept);
    if (err != CREMA_OK || !kept.file_has_more)
        return err;
    if (kept.journal_has_more || sink_kept_result(self->path, result) != CREMA_OK)
        return s_step_aside(self);
    crema_log_warn("run_file_kept", CREMA_ID("run", &self->report.run_id),
                   CREMA_TEXT("path", self->path),
                   CREMA_TEXT("why", "it holds more than this journal"));
    return CREMA_OK;
}

crema_err_t
sink_seal_make_file(sink_seal_t *self, sink_seal_result_t *result)
{
    char sha[2 * SINK_PAYLOAD_BYTES + 1];
    crema_err_t err = s_keep_what_holds_more(self, result);
    if (err != CREMA_OK || result->kept)
        return err;
    crema_failpoint("seal.before_write");
    err = s_write_and_sum(self, result);
    sink_payload_hex(result->sha256, sha);
    if (err == CREMA_OK)
        err = s_number_revision(self, sha, &result->revision);
    if (err != CREMA_OK)
        return err;
    err = sink_h5_write_attributes(self->file, self->attributes);
    if (err == CREMA_OK)
        err = sink_h5_write_sums(self->file);
    if (err != CREMA_OK)
        return s_fail_h5(self, err);
    crema_failpoint("seal.before_close");
    err = s_close_file(self);
    crema_failpoint("seal.before_fsync");
    if (err == CREMA_OK && (err = s_sync_file(self->temporary, &result->file_bytes)) != CREMA_OK)
        return sink_seal_fail(self, err, self->temporary);
    crema_failpoint("seal.before_verify");
    if (err == CREMA_OK)
        err = sink_seal_verify(self);
    if (err == CREMA_OK)
        err = s_put_in_place(self);
    if (err == CREMA_OK)
        s_fill_result(self, result);
    return err;
}
