#include "crema_json.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_utf8.h"

#define DEPTH_MAX 32

/* ---- writing */

static void
s_add(crema_json_t *self, const char *text, size_t size)
{
    if (self->full || size >= self->size - self->used) {
        self->full = true;
        return;
    }
    memcpy(self->text + self->used, text, size);
    self->used += size;
    self->text[self->used] = '\0';
}

__attribute__((format(printf, 2, 3))) static void
s_addf(crema_json_t *self, const char *format, ...)
{
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    s_add(self, text, (size_t)n);
}

static void
s_add_string(crema_json_t *self, const char *text)
{
    size_t left = strlen(text);
    s_add(self, "\"", 1);
    while (left > 0) {
        size_t step = crema_utf8_step(text, left);
        char escape[CREMA_UTF8_ESCAPE_BYTES];
        if (step == 0)
            s_add(self, "\xef\xbf\xbd", 3);
        else if (*text == '"' || *text == '\\')
            s_add(self, (char[]){'\\', *text}, 2);
        else if (crema_utf8_escape(text, step, escape))
            s_add(self, escape, strlen(escape));
        else
            s_add(self, text, step);
        text += step ? step : 1;
        left -= step ? step : 1;
    }
    s_add(self, "\"", 1);
}

static void
s_key(crema_json_t *self, const char *key)
{
    if (self->comma)
        s_add(self, ",", 1);
    self->comma = true;
    if (!key)
        return;
    s_add_string(self, key);
    s_add(self, ":", 1);
}

crema_json_t
crema_json_begin(char *buf, size_t size)
{
    buf[0] = '\0';
    return (crema_json_t){.text = buf, .size = size};
}

void
crema_json_open(crema_json_t *self, const char *key, char bracket)
{
    s_key(self, key);
    s_add(self, &bracket, 1);
    self->comma = false;
}

void
crema_json_close(crema_json_t *self, char bracket)
{
    s_add(self, &bracket, 1);
    self->comma = true;
}

void
crema_json_text(crema_json_t *self, const char *key, const char *value)
{
    s_key(self, key);
    if (value)
        s_add_string(self, value);
    else
        s_add(self, "null", 4);
}

void
crema_json_int(crema_json_t *self, const char *key, int64_t value)
{
    s_key(self, key);
    s_addf(self, "%" PRId64, value);
}

void
crema_json_real(crema_json_t *self, const char *key, double value)
{
    s_key(self, key);
    if (isfinite(value))
        s_addf(self, "%.17g", value);
    else
        s_add(self, "null", 4);
}

void
crema_json_raw(crema_json_t *self, const char *key, const char *json)
{
    s_key(self, key);
    s_add(self, json, strlen(json));
}

/* ---- reading */

static const char *
s_blank(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* End of the string that starts at `at`; NULL if it is not terminated. */
static const char *
s_skip_string(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && *++at == '\0')
            return NULL;
    return *at == '"' ? at + 1 : NULL;
}

/* End of one value. Brackets are counted without matching their kind, since crema wrote the
 * text. */
static const char *
s_skip(const char *at)
{
    int depth = 0;
    do {
        at = s_blank(at);
        if (*at == '"') {
            at = s_skip_string(at);
            if (!at)
                return NULL;
        } else if (*at == '{' || *at == '[') {
            at++;
            if (++depth > DEPTH_MAX)
                return NULL;
        } else if (*at == '}' || *at == ']') {
            at++;
            depth--;
        } else if (*at == ',' || *at == ':') {
            at++;
        } else {
            size_t n = strcspn(at, ",:{}[]\" \t\r\n");
            if (n == 0)
                return NULL;
            at += n;
        }
    } while (depth > 0);
    return depth == 0 ? at : NULL;
}

/* True if the string at `at` is `key`; crema's keys need no escapes. */
static bool
s_is_key(const char *at, const char *key)
{
    size_t n = strlen(key);
    return strncmp(at + 1, key, n) == 0 && at[n + 1] == '"';
}

const char *
crema_json_find(const char *object, const char *key)
{
    const char *at = object ? s_blank(object) : NULL;
    if (!at || *at != '{')
        return NULL;
    at = s_blank(at + 1);
    while (*at == '"') {
        bool found = s_is_key(at, key);
        at = s_skip_string(at);
        if (!at)
            return NULL;
        at = s_blank(at);
        if (*at != ':')
            return NULL;
        at = s_blank(at + 1);
        if (found)
            return *at ? at : NULL;
        at = s_skip(at);
        if (!at)
            return NULL;
        at = s_blank(at);
        if (*at == ',')
            at = s_blank(at + 1);
    }
    return NULL;
}

const char *
crema_json_first(const char *list)
{
    const char *at = list ? s_blank(list) : NULL;
    if (!at || *at != '[')
        return NULL;
    at = s_blank(at + 1);
    return *at && *at != ']' ? at : NULL;
}

const char *
crema_json_after(const char *element)
{
    const char *at = element ? s_skip(element) : NULL;
    at = at ? s_blank(at) : NULL;
    if (!at || *at != ',')
        return NULL;
    at = s_blank(at + 1);
    return *at ? at : NULL;
}

/* UTF-8 of one code point below U+10000. */
static size_t
s_utf8(unsigned code, char out[3])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

/* One escape or character at *at, which moves behind it; 0 if it is malformed. */
static size_t
s_unescape(const char **at, char out[3])
{
    static const char c_names[] = "\"\\/bfnrt", c_values[] = "\"\\/\b\f\n\r\t";
    const char *text = *at;
    if (*text != '\\') {
        out[0] = *text;
        *at = text + 1;
        return 1;
    }
    const char *name = text[1] ? strchr(c_names, text[1]) : NULL;
    if (name) {
        out[0] = c_values[name - c_names];
        *at = text + 2;
        return 1;
    }
    if (text[1] != 'u')
        return 0;
    unsigned code = 0;
    for (int i = 2; i < 6; i++) {
        if (!isxdigit((unsigned char)text[i]))
            return 0;
        int digit = text[i] <= '9' ? text[i] - '0' : (text[i] | 0x20) - 'a' + 10;
        code = code * 16 + (unsigned)digit;
    }
    *at = text + 6;
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code == 0 ? 0 : s_utf8(surrogate ? 0xfffd : code, out);
}

crema_err_t
crema_json_get_text(const char *value, char *out, size_t size)
{
    if (!value || *value != '"')
        return CREMA_EPROTO;
    size_t used = 0;
    const char *at = value + 1;
    while (*at != '"') {
        char piece[3];
        size_t n = *at ? s_unescape(&at, piece) : 0;
        if (n == 0)
            return CREMA_EPROTO;
        if (n >= size - used)
            return CREMA_ELIMIT;
        memcpy(out + used, piece, n);
        used += n;
    }
    if (used >= size)
        return CREMA_ELIMIT;
    out[used] = '\0';
    return CREMA_OK;
}

crema_err_t
crema_json_get_int(const char *value, int64_t *ret_value)
{
    if (!value || !(*value == '-' || isdigit((unsigned char)*value)))
        return CREMA_EPROTO;
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno != 0 || *end == '\0' || !strchr(",]} \t\r\n", *end))
        return CREMA_EPROTO;
    *ret_value = number;
    return CREMA_OK;
}
