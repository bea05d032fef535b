#include "sink_kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "crema_id.h"
#include "crema_map.h"
#include "sink_h5.h"
#include "sink_payload.h"

#define BLOCK_ROWS 1024

/* One stream on both sides. */
typedef struct {
    crema_id_t id;
    int64_t in_journal;
    int64_t in_file;
} stream_t;

typedef struct {
    crema_map_t *by_id; /* of the journal: stream_t */
    stream_t *streams;
    size_t n;
} journal_t;

static crema_id_t
s_stream_id(const crema_dict_stream_row_t *row)
{
    char uuid[sizeof row->uuid + 1] = "";
    crema_id_t id = {0};
    memcpy(uuid, row->uuid, sizeof row->uuid);
    return crema_id_parse(uuid, &id) ? id : (crema_id_t){0};
}

/* ---- the journal's side */

static void
s_destroy(journal_t *self)
{
    crema_map_destroy(&self->by_id);
    free(self->streams);
}

static crema_err_t
s_take_journal(journal_t *self, const sink_tables_t *tables)
{
    const sink_rows_t *dict = sink_tables_rows(tables, CREMA_TABLE_DICT_STREAM);
    const sink_rows_t *counts = sink_tables_rows(tables, CREMA_TABLE_COMPLETENESS);
    self->n = (size_t)sink_rows_count(dict);
    self->streams = calloc(self->n + 1, sizeof *self->streams);
    crema_err_t err = self->streams ? crema_map_new(self->n + 1, &self->by_id) : CREMA_ENOMEM;
    for (size_t i = 0; i < self->n && err == CREMA_OK; i++) {
        self->streams[i].id = s_stream_id(sink_rows_at(dict, i));
        err = crema_map_add(self->by_id, &self->streams[i].id, &self->streams[i]);
        if (err == CREMA_EREPEAT)
            err = CREMA_OK;
    }
    for (uint64_t i = 0; err == CREMA_OK && i < sink_rows_count(counts); i++) {
        const crema_completeness_row_t *row = sink_rows_at(counts, i);
        if (row->stream_id < self->n)
            self->streams[row->stream_id].in_journal = row->received;
    }
    return err;
}

/* ---- the file's side */

typedef crema_err_t (*row_fn)(void *context, const void *row);

static crema_err_t
s_each_row(sink_h5_t *file, crema_table_id_t id, row_fn fn, void *context)
{
    const crema_table_t *table = crema_table(id);
    const size_t row_bytes = crema_table_row_bytes(table);
    char why[SINK_H5_WHY_BYTES];
    uint64_t n;
    crema_err_t err = sink_h5_table(file, table, &n, why);
    uint8_t *rows = err == CREMA_OK ? malloc(BLOCK_ROWS * row_bytes) : NULL;
    if (err == CREMA_OK && !rows)
        err = CREMA_ENOMEM;
    for (uint64_t i = 0; err == CREMA_OK && i < n; i += BLOCK_ROWS) {
        const uint64_t block = n - i < BLOCK_ROWS ? n - i : BLOCK_ROWS;
        err = sink_h5_read_rows(file, table, i, block, rows);
        for (uint64_t k = 0; err == CREMA_OK && k < block; k++)
            err = fn(context, rows + k * row_bytes);
    }
    free(rows);
    return err;
}

typedef struct {
    const journal_t *journal;
    stream_t **found; /* by row of the file's /dict/stream; NULL: not in the journal */
    uint64_t n, room;
    bool more; /* of a stream that the journal does not have at all */
} reading_t;

static crema_err_t
s_on_stream(void *context, const void *row)
{
    reading_t *self = context;
    const crema_id_t id = s_stream_id(row);
    if (self->n < self->room)
        self->found[self->n++] = crema_map_find(self->journal->by_id, &id);
    return CREMA_OK;
}

static crema_err_t
s_on_count(void *context, const void *row)
{
    reading_t *self = context;
    const crema_completeness_row_t *count = row;
    if (count->stream_id >= self->n)
        return CREMA_OK;
    if (self->found[count->stream_id])
        self->found[count->stream_id]->in_file = count->received;
    else
        self->more = self->more || count->received > 0;
    return CREMA_OK;
}

static crema_err_t
s_read_streams(sink_h5_t *file, reading_t *reading)
{
    char why[SINK_H5_WHY_BYTES];
    crema_err_t err =
        sink_h5_table(file, crema_table(CREMA_TABLE_DICT_STREAM), &reading->room, why);
    if (err != CREMA_OK)
        return err;
    reading->found = calloc((size_t)reading->room + 1, sizeof(stream_t *));
    if (!reading->found)
        return CREMA_ENOMEM;
    err = s_each_row(file, CREMA_TABLE_DICT_STREAM, s_on_stream, reading);
    if (err == CREMA_OK)
        err = s_each_row(file, CREMA_TABLE_COMPLETENESS, s_on_count, reading);
    free(reading->found);
    return err;
}

/* A file that was made of a journal that did not know the end of its run says so. */
static bool
s_knows_end(sink_h5_t *file)
{
    char *reasons;
    if (sink_h5_whole_text(file, "verdict_reasons", &reasons) != CREMA_OK)
        return false;
    const bool knows = !strstr(reasons, "\"run_not_ended\"") && !strstr(reasons, "\"no_verdict\"");
    free(reasons);
    return knows;
}

crema_err_t
sink_kept_compare(const char *path, const sink_tables_t *tables, bool end_is_known,
                  sink_kept_t *ret_kept)
{
    char why[SINK_H5_WHY_BYTES];
    sink_h5_t *file = NULL;
    journal_t journal = {0};
    sink_kept_t kept = {0};
    *ret_kept = kept;
    if (sink_h5_open_regular(path, &file, why) != CREMA_OK)
        return CREMA_OK;
    reading_t reading = {.journal = &journal};
    crema_err_t err = s_take_journal(&journal, tables);
    crema_err_t read = err == CREMA_OK ? s_read_streams(file, &reading) : err;
    for (size_t i = 0; read == CREMA_OK && i < journal.n; i++) {
        const stream_t *stream = &journal.streams[i];
        kept.file_has_more = kept.file_has_more || stream->in_file > stream->in_journal;
        kept.journal_has_more = kept.journal_has_more || stream->in_journal > stream->in_file;
    }
    if (read == CREMA_OK) {
        kept.file_has_more = kept.file_has_more || reading.more ||
                             (!end_is_known && !kept.journal_has_more && s_knows_end(file));
        *ret_kept = kept;
    }
    s_destroy(&journal);
    crema_err_t ignored = sink_h5_close(&file, NULL);
    (void)ignored;
    return read == CREMA_ENOMEM ? read : err;
}

/* ---- what the file says of itself */

static crema_err_t
s_read_result(sink_h5_t *file, sink_seal_result_t *result)
{
    char sha[2 * SINK_PAYLOAD_BYTES + 1], why[SINK_H5_WHY_BYTES], *reasons = NULL;
    crema_err_t err = sink_h5_int(file, "revision", &result->revision);
    if (err == CREMA_OK)
        err = sink_h5_text(file, "verdict", result->verdict, sizeof result->verdict);
    if (err == CREMA_OK)
        err = sink_h5_text(file, "sha256_payload", sha, sizeof sha);
    if (err == CREMA_OK && !sink_report_sha256(sha, result->sha256))
        err = CREMA_EPROTO;
    if (err == CREMA_OK)
        err = sink_h5_whole_text(file, "verdict_reasons", &reasons);
    if (err == CREMA_OK && strlen(reasons) < sizeof result->reasons_json)
        strcpy(result->reasons_json, reasons);
    free(reasons);
    for (int t = 0; err == CREMA_OK && t < CREMA_TABLE_WIRE_COUNT; t++) {
        uint64_t n = 0;
        if (sink_h5_table(file, crema_table((crema_table_id_t)t), &n, why) == CREMA_OK)
            result->rows += n;
    }
    return err;
}

crema_err_t
sink_kept_result(const char *path, sink_seal_result_t *ret_result)
{
    char why[SINK_H5_WHY_BYTES];
    struct stat st;
    sink_h5_t *file = NULL;
    sink_seal_result_t *result = calloc(1, sizeof *result);
    if (!result)
        return CREMA_ENOMEM;
    crema_err_t err = stat(path, &st) == 0 ? sink_h5_open_regular(path, &file, why) : CREMA_ENOENT;
    if (err == CREMA_OK) {
        result->kept = true;
        result->file_bytes = (uint64_t)st.st_size;
        snprintf(result->path, sizeof result->path, "%s", path);
        snprintf(result->reasons_json, sizeof result->reasons_json, "[]");
        err = s_read_result(file, result);
        crema_err_t ignored = sink_h5_close(&file, NULL);
        (void)ignored;
    }
    if (err == CREMA_OK)
        *ret_result = *result;
    free(result);
    return err;
}
