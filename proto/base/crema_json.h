/* crema_json - writes a line of JSON into a bounded buffer, and reads JSON as far as crema's own
 * lines need it. Not jansson or yyjson: both refuse text that is not UTF-8, as names of hosts and
 * files may be, and would be one more library in each package for two lines of output. */
#ifndef CREMA_JSON_H
#define CREMA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

/* ---- writing: one object, or a list of several */

typedef struct {
    char *text; /* always a terminated string */
    size_t size, used;
    bool comma; /* a value was written in the innermost object or list */
    bool full;  /* something did not fit: the text is not valid JSON */
} crema_json_t;

/* Begins an empty text in buf[size], size at least 1. */
crema_json_t crema_json_begin(char *buf, size_t size);

/* '{' '}' '[' ']'; the key (NULL in a list) belongs to an opening bracket. */
void crema_json_open(crema_json_t *self, const char *key, char bracket);
void crema_json_close(crema_json_t *self, char bracket);

/* NULL is written as null. Control characters are escaped; bytes that are not UTF-8 become
 * U+FFFD. */
void crema_json_text(crema_json_t *self, const char *key, const char *value);
void crema_json_int(crema_json_t *self, const char *key, int64_t value);
/* NaN and infinities become null. */
void crema_json_real(crema_json_t *self, const char *key, double value);
/* `json` is already valid JSON. */
void crema_json_raw(crema_json_t *self, const char *key, const char *json);

/* ---- reading: positions in a text; NULL if missing or malformed */

/* The value of a key in the object that starts at `object`. */
const char *crema_json_find(const char *object, const char *key);

/* The first element of the list that starts at `list`, and the one after `element`. */
const char *crema_json_first(const char *list);
const char *crema_json_after(const char *element);

/* Copies a text value, unescaped. CREMA_EPROTO: not a text; CREMA_ELIMIT: longer than out[size]. */
CREMA_MUST_CHECK crema_err_t crema_json_get_text(const char *value, char *out, size_t size);
/* CREMA_EPROTO: not an integer, or one that may be cut off by the end of the text. */
CREMA_MUST_CHECK crema_err_t crema_json_get_int(const char *value, int64_t *ret_value);

#endif
