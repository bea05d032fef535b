#include "sink_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_json.h"
#include "sink_intern.h"

#define REASONS_MAX 8192
#define TEXT_BYTES 256
#define KEY_BYTES 512

typedef struct {
    char *code, *subject, *text;
} owned_t;

struct sink_verdict {
    sink_intern_t *keys; /* number of a reason by code and subject */
    crema_reason_t *reasons;
    owned_t *owned;
    size_t n;
    int64_t loss;
};

void
sink_verdict_destroy(sink_verdict_t **self_p)
{
    sink_verdict_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->n; i++) {
        free(self->owned[i].code);
        free(self->owned[i].subject);
        free(self->owned[i].text);
    }
    sink_intern_destroy(&self->keys);
    free(self->reasons);
    free(self->owned);
    free(self);
    *self_p = NULL;
}

/* ---- collecting */

/* What makes two reasons the same: the code and whom it is about, however an id is written. */
static size_t
s_key(const char *code, const char *subject, char key[KEY_BYTES])
{
    crema_id_t id;
    char hex[CREMA_ID_HEX_CHARS + 1];
    int n = snprintf(key, KEY_BYTES, "%s %s", code,
                     crema_id_parse(subject, &id) ? crema_id_hex(&id, hex) : subject);
    return n < KEY_BYTES ? (size_t)n : KEY_BYTES - 1;
}

/* A reason that is known already keeps its place; the larger count stands. */
static crema_err_t
s_add(sink_verdict_t *self, const char *code, const char *subject, uint64_t count, const char *text)
{
    char key[KEY_BYTES];
    uint32_t number;
    bool fresh;
    crema_err_t err = sink_intern_add(self->keys, key, s_key(code, subject, key), &number, &fresh);
    if (err == CREMA_ELIMIT)
        return CREMA_OK; /* as many as anybody will read */
    if (err != CREMA_OK)
        return err;
    if (!fresh) {
        if (number < self->n && count > self->reasons[number].count)
            self->reasons[number].count = count;
        return CREMA_OK;
    }
    owned_t owned = {strdup(code), strdup(subject), strdup(text)};
    if (!owned.code || !owned.subject || !owned.text) {
        free(owned.code);
        free(owned.subject);
        free(owned.text);
        return CREMA_ENOMEM;
    }
    self->owned[self->n] = owned;
    self->reasons[self->n++] = (crema_reason_t){
        .code = owned.code, .subject = owned.subject, .text = owned.text, .count = count};
    return CREMA_OK;
}

/* What the aggregator said, less streams that have ended since. */
static crema_err_t
s_take_told(sink_verdict_t *self, const sink_decoder_t *run)
{
    const crema_reason_t *reasons;
    size_t n = sink_told_reasons(sink_decoder_told(run), &reasons);
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < n && err == CREMA_OK; i++) {
        const sink_stream_t *stream = sink_decoder_find(run, reasons[i].subject);
        if (strcmp(reasons[i].code, "stream_not_closed") == 0 && stream && stream->closed)
            continue;
        err = s_add(self, reasons[i].code, reasons[i].subject, reasons[i].count, reasons[i].text);
    }
    return err;
}

static crema_err_t
s_take_stream(sink_verdict_t *self, const sink_decoder_t *run, const sink_stream_t *stream)
{
    const char *worker = sink_dict_text(sink_decoder_dict(run), CREMA_DICT_WORKER, stream->worker);
    uint64_t lost = stream->lost + stream->dropped + stream->torn;
    char uuid[37], text[TEXT_BYTES];
    crema_id_uuid(&stream->id, uuid);
    crema_err_t err = CREMA_OK;
    self->loss += (int64_t)lost;
    if (!stream->closed) {
        snprintf(text, sizeof text, "the last record of %s is not known",
                 worker[0] ? worker : "this stream");
        err = s_add(self, "stream_not_closed", uuid, 0, text);
    }
    if (err == CREMA_OK && lost > 0) {
        snprintf(text, sizeof text, "%llu records of %s are lost; /gaps says which and why",
                 (unsigned long long)lost, worker[0] ? worker : "this stream");
        err = s_add(self, "records_lost", uuid, lost, text);
    }
    bool of_tasks = stream->kind == CREMA_STREAM_WORKER || stream->kind == CREMA_STREAM_SCHEDULER;
    if (err == CREMA_OK && stream->closed && stream->end == CREMA_END_WRITER_GONE && of_tasks) {
        snprintf(text, sizeof text, "%s was killed; what it did after its last record is not known",
                 worker[0] ? worker : "the writer");
        err = s_add(self, "writer_killed", worker[0] ? worker : uuid, 0, text);
    }
    return err;
}

static crema_err_t
s_take_workers(sink_verdict_t *self, const sink_decoder_t *run, const sink_facts_t *facts)
{
    crema_err_t err = CREMA_OK;
    for (uint32_t i = 0; i < facts->n_workers && err == CREMA_OK; i++) {
        const char *worker = sink_dict_text(sink_decoder_dict(run), CREMA_DICT_WORKER, i);
        char text[TEXT_BYTES];
        if (!facts->is_member[i] || facts->has_stream[i])
            continue;
        snprintf(text, sizeof text, "%s was in the cluster and recorded nothing", worker);
        err = s_add(self, "worker_without_stream", worker, 0, text);
    }
    return err;
}

crema_err_t
sink_verdict_new(const sink_decoder_t *run, const sink_facts_t *facts, uint64_t damaged_bytes,
                 sink_verdict_t **ret_self)
{
    sink_verdict_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->reasons = calloc(REASONS_MAX, sizeof *self->reasons);
    self->owned = calloc(REASONS_MAX, sizeof *self->owned);
    crema_err_t err = self->reasons && self->owned ? CREMA_OK : CREMA_ENOMEM;
    if (err == CREMA_OK)
        err = sink_intern_new(REASONS_MAX, &self->keys);
    if (err == CREMA_OK)
        err = s_take_told(self, run);
    for (size_t i = 0; i < sink_decoder_streams(run) && err == CREMA_OK; i++)
        err = s_take_stream(self, run, sink_decoder_stream(run, i));
    if (err == CREMA_OK)
        err = s_take_workers(self, run, facts);
    if (err == CREMA_OK && damaged_bytes > 0) {
        char text[TEXT_BYTES];
        snprintf(text, sizeof text, "%llu bytes of the journal cannot be read",
                 (unsigned long long)damaged_bytes);
        err = s_add(self, "records_lost", "journal", 0, text);
    }
    if (err == CREMA_OK && !sink_told_ended(sink_decoder_told(run)))
        err = s_add(self, "run_not_ended", "run", 0, "nobody said that the run is over");
    if (err != CREMA_OK)
        sink_verdict_destroy(&self);
    else
        *ret_self = self;
    return err;
}

/* ---- telling */

const char *
sink_verdict_word(const sink_verdict_t *self)
{
    return self->n == 0 ? "COMPLETE" : "PARTIAL";
}

size_t
sink_verdict_reasons(const sink_verdict_t *self, const crema_reason_t **ret_reasons)
{
    *ret_reasons = self->reasons;
    return self->n;
}

static void
s_put(crema_json_t *json, const crema_reason_t *reason)
{
    crema_json_open(json, NULL, '{');
    crema_json_text(json, "code", reason->code);
    crema_json_text(json, "subject", reason->subject);
    crema_json_int(json, "count", (int64_t)reason->count);
    crema_json_text(json, "text", reason->text);
    crema_json_close(json, '}');
}

crema_err_t
sink_verdict_json(const sink_verdict_t *self, size_t size, char **ret_json)
{
    char *text = malloc(size), *one = malloc(size);
    if (!text || !one || size < 3) {
        free(text);
        free(one);
        return CREMA_ENOMEM;
    }
    crema_json_t json = crema_json_begin(text, size);
    crema_json_open(&json, NULL, '[');
    for (size_t i = 0; i < self->n; i++) {
        crema_json_t single = crema_json_begin(one, size);
        s_put(&single, &self->reasons[i]);
        if (single.full || json.used + single.used + 3 > size)
            break; /* between elements: the list stays well-formed */
        crema_json_raw(&json, NULL, one);
    }
    crema_json_close(&json, ']');
    free(one);
    *ret_json = text;
    return CREMA_OK;
}

int64_t
sink_verdict_loss(const sink_verdict_t *self)
{
    return self->loss;
}
