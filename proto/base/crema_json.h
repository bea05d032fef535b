/* crema_json - a line of JSON: written into a bounded buffer, and read again as far as crema's own lines need it. */
#ifndef CREMA_JSON_H
#define CREMA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

/* ---- writing: one object, or several in a list */

typedef struct {
    char *text; /* always a terminated string */
    size_t size, used;
    bool comma; /* a value was written in the innermost object or list */
    bool full;  /* something did not fit: the text is not valid JSON */
} crema_json_t;

/* Begins an empty text in buf[size], size at least 1. */
crema_json_t crema_json_begin(char *buf, size_t size);

/* '{' '}' '[' ']'; the key, NULL within a list, goes before an opening one. */
void crema_json_open(crema_json_t *self, const char *key, char bracket);
void crema_json_close(crema_json_t *self, char bracket);

/* A NULL text is written as null. Control characters are escaped; what is not UTF-8 becomes U+FFFD. */
void crema_json_text(crema_json_t *self, const char *key, const char *value);
void crema_json_int(crema_json_t *self, const char *key, int64_t value);
/* Not a number and infinite become null. */
void crema_json_real(crema_json_t *self, const char *key, double value);
/* Text that is JSON already. */
void crema_json_raw(crema_json_t *self, const char *key, const char *json);

/* ---- reading: positions in a text; NULL for what is not there or not well formed */

/* The value of a key in the object that starts at `object`. */
const char *crema_json_find(const char *object, const char *key);

/* The first element of the list that starts at `list`, and the one after `element`. */
const char *crema_json_first(const char *list);
const char *crema_json_after(const char *element);

/* Copies a text value, unescaped. CREMA_EPROTO: not a text; CREMA_ELIMIT: longer than out[size]. */
CREMA_MUST_CHECK crema_err_t crema_json_get_text(const char *value, char *out, size_t size);
/* CREMA_EPROTO: not an integer, or one that the end of the text may have cut. */
CREMA_MUST_CHECK crema_err_t crema_json_get_int(const char *value, int64_t *ret_value);

#endif
