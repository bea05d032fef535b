#include "sink_report.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_json.h"

#define SHA256_BYTES 32
#define TEXT_MAX 512

typedef struct {
    char code[64], subject[TEXT_MAX], text[TEXT_MAX];
} reason_texts_t;

struct sink_report {
    char error[2048]; /* empty: success */
    char path[PATH_MAX];
    char verdict[16];
    sink_journal_sealed_t journal;
    size_t n_reasons;
    Crema__Reason *reasons[SINK_REPORT_REASONS_MAX]; /* each is in `rows` */
    Crema__Reason rows[SINK_REPORT_REASONS_MAX];
    reason_texts_t texts[SINK_REPORT_REASONS_MAX];
};

/* ---- writing */

void
sink_report_result(const sink_seal_result_t *result, char *out)
{
    char hex[2 * SHA256_BYTES + 1];
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", result->sha256[i]);
    crema_json_t json = crema_json_begin(out, SINK_REPORT_BYTES);
    crema_json_open(&json, NULL, '{');
    crema_json_text(&json, "path", result->path);
    crema_json_text(&json, "verdict", result->verdict);
    crema_json_int(&json, "revision", result->revision);
    crema_json_text(&json, "sha256", hex);
    crema_json_int(&json, "file_bytes", (int64_t)result->file_bytes);
    crema_json_int(&json, "rows", (int64_t)result->rows);
    crema_json_raw(&json, "reasons", result->reasons_json[0] ? result->reasons_json : "[]");
    crema_json_close(&json, '}');
}

void
sink_report_error(const char *why, char *out)
{
    crema_json_t json = crema_json_begin(out, SINK_REPORT_BYTES);
    crema_json_open(&json, NULL, '{');
    crema_json_text(&json, "error", why);
    crema_json_close(&json, '}');
}

/* ---- reading */

/* Copies as much of a text value as fits; an empty text if there is none. */
static void
s_text(const char *object, const char *key, char *out, size_t size)
{
    out[0] = '\0';
    if (crema_json_get_text(crema_json_find(object, key), out, size) != CREMA_OK)
        out[0] = '\0';
}

/* Adds the reason whose texts are the next ones. */
static void
s_add_reason(sink_report_t *self, uint64_t count)
{
    const size_t i = self->n_reasons++;
    const reason_texts_t *texts = &self->texts[i];
    self->rows[i] = crema_reason(texts->code, texts->subject, texts->text, count);
    self->reasons[i] = &self->rows[i];
}

static void
s_parse_reasons(sink_report_t *self, const char *list)
{
    uint64_t more = 0;
    for (const char *at = crema_json_first(list); at; at = crema_json_after(at)) {
        if (self->n_reasons == SINK_REPORT_REASONS_MAX - 1 && crema_json_after(at))
            more++;
        if (more > 0)
            continue;
        reason_texts_t *texts = &self->texts[self->n_reasons];
        int64_t count = 0;
        s_text(at, "code", texts->code, sizeof texts->code);
        s_text(at, "subject", texts->subject, sizeof texts->subject);
        s_text(at, "text", texts->text, sizeof texts->text);
        if (crema_json_get_int(crema_json_find(at, "count"), &count) != CREMA_OK || count < 0)
            count = 0;
        s_add_reason(self, (uint64_t)count);
    }
    if (more == 0)
        return;
    reason_texts_t *texts = &self->texts[self->n_reasons];
    strcpy(texts->code, "more");
    snprintf(texts->text, sizeof texts->text, "%llu more reasons are in the file",
             (unsigned long long)more + 1);
    s_add_reason(self, more + 1);
}

bool
sink_report_sha256(const char *hex, uint8_t out[SHA256_BYTES])
{
    if (strspn(hex, "0123456789abcdef") != (size_t)2 * SHA256_BYTES)
        return false;
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        const char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static crema_err_t
s_parse(sink_report_t *self, const char *line)
{
    s_text(line, "error", self->error, sizeof self->error);
    if (self->error[0])
        return CREMA_OK;
    int64_t bytes = 0;
    char hex[2 * SHA256_BYTES + 1];
    s_text(line, "sha256", hex, sizeof hex);
    s_text(line, "path", self->path, sizeof self->path);
    s_text(line, "verdict", self->verdict, sizeof self->verdict);
    crema_err_t err =
        crema_json_get_int(crema_json_find(line, "revision"), &self->journal.revision);
    if (err == CREMA_OK)
        err = crema_json_get_int(crema_json_find(line, "file_bytes"), &bytes);
    if (err == CREMA_OK && !sink_report_sha256(hex, self->journal.sha256))
        err = CREMA_EPROTO;
    self->journal.file_bytes = (uint64_t)bytes;
    const char *reasons =
        crema_json_find(line, "reasons"); /* the last field: if it is there, the line is complete */
    s_parse_reasons(self, reasons);
    return err == CREMA_OK && (!self->path[0] || !self->verdict[0] || !reasons) ? CREMA_EPROTO
                                                                                : err;
}

crema_err_t
sink_report_parse(const char *line, sink_report_t **ret_self)
{
    sink_report_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = s_parse(self, line);
    if (err != CREMA_OK) {
        sink_report_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_report_destroy(sink_report_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

const char *
sink_report_why(const sink_report_t *self)
{
    return self->error[0] ? self->error : NULL;
}

Crema__Sealed
sink_report_sealed(const sink_report_t *self, const crema_id_t *run_id)
{
    return (Crema__Sealed){
        .run_id = crema_id_field(run_id),
        .path = (char *)self->path,
        .verdict = (char *)self->verdict,
        .error = (char *)self->error,
        .revision = self->journal.revision,
        .n_reasons = self->n_reasons,
        .reasons = (Crema__Reason **)self->reasons,
    };
}

sink_journal_sealed_t
sink_report_journal(const sink_report_t *self)
{
    return self->journal;
}
