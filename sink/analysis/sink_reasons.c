#include "sink_reasons.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"
#include "crema_note.h"
#include "sink_intern.h"

#define KEY_BYTES 512
#define MORE_BYTES 128 /* size of the element that counts those left out */

struct sink_reasons {
    sink_intern_t *keys;    /* numbers reasons by code and subject */
    Crema__Reason *reasons; /* owns their texts */
    size_t n, room;
};

crema_err_t
sink_reasons_new(sink_reasons_t **ret_self)
{
    sink_reasons_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &self->keys);
    if (err != CREMA_OK)
        sink_reasons_destroy(&self);
    else
        *ret_self = self;
    return err;
}

static void
s_free(Crema__Reason *reason)
{
    free(reason->code);
    free(reason->subject);
    free(reason->text);
}

void
sink_reasons_destroy(sink_reasons_t **self_p)
{
    sink_reasons_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->n; i++)
        s_free(&self->reasons[i]);
    sink_intern_destroy(&self->keys);
    free(self->reasons);
    free(self);
    *self_p = NULL;
}

/* Reasons are equal if code and subject are, however an id is written. */
static size_t
s_key(const char *code, const char *subject, char key[KEY_BYTES])
{
    crema_id_t id;
    char hex[CREMA_ID_HEX_CHARS + 1];
    int n = snprintf(key, KEY_BYTES, "%s %s", code,
                     crema_id_parse(subject, &id) ? crema_id_hex(&id, hex) : subject);
    return n < KEY_BYTES ? (size_t)n : KEY_BYTES - 1;
}

crema_err_t
sink_reasons_add(sink_reasons_t *self, const char *code, const char *subject, uint64_t count,
                 const char *format, ...)
{
    char key[KEY_BYTES];
    uint32_t number;
    bool fresh;
    Crema__Reason *reasons = crema_grow(self->reasons, self->n, &self->room, sizeof *reasons);
    if (!reasons)
        return CREMA_ENOMEM;
    self->reasons = reasons;
    crema_err_t err = sink_intern_add(self->keys, key, s_key(code, subject, key), &number, &fresh);
    if (err != CREMA_OK)
        return err;
    if (!fresh) {
        if (number < self->n && count > self->reasons[number].count)
            self->reasons[number].count = count;
        return CREMA_OK;
    }
    char *text = NULL;
    va_list rest;
    va_start(rest, format);
    if (vasprintf(&text, format, rest) < 0)
        text = NULL;
    va_end(rest);
    Crema__Reason own = crema_reason(strdup(code), strdup(subject), text, count);
    if (!own.code || !own.subject || !own.text) {
        s_free(&own);
        return CREMA_ENOMEM;
    }
    self->reasons[self->n++] = own;
    return CREMA_OK;
}

size_t
sink_reasons_all(const sink_reasons_t *self, const Crema__Reason **ret_reasons)
{
    *ret_reasons = self->reasons;
    return self->n;
}

/* ---- as JSON */

static void
s_put(crema_json_t *json, const Crema__Reason *reason)
{
    crema_json_open(json, NULL, '{');
    crema_json_text(json, "code", reason->code);
    crema_json_text(json, "subject", reason->subject);
    crema_json_int(json, "count", (int64_t)reason->count);
    crema_json_text(json, "text", reason->text);
    crema_json_close(json, '}');
}

/* Replaces the reasons that do not fit. */
static void
s_put_more(crema_json_t *json, char *one, size_t size, size_t n, bool notes)
{
    const Crema__Reason more = crema_reason(notes ? CREMA_NOTE_MORE : "more", "",
                                            notes ? "further notes that did not fit in the list"
                                                  : "further reasons that did not fit in the list",
                                            n);
    crema_json_t single = crema_json_begin(one, size);
    s_put(&single, &more);
    if (!single.full && json->used + single.used + 3 <= size)
        crema_json_raw(json, NULL, one);
}

bool
sink_reasons_put(const sink_reasons_t *self, crema_json_t *json, char *one, size_t size)
{
    for (size_t i = 0; i < self->n; i++) {
        crema_json_t single = crema_json_begin(one, size);
        s_put(&single, &self->reasons[i]);
        bool last = i + 1 == self->n;
        if (single.full || json->used + single.used + (last ? 0 : MORE_BYTES) + 3 > size) {
            s_put_more(json, one, size, self->n - i, crema_note(self->reasons[i].code));
            return false; /* cut between elements: the list stays valid */
        }
        crema_json_raw(json, NULL, one);
    }
    return true;
}
