/* crema_principal - the owner of a connection: the role of its key, the key's name and its
 * fingerprint. Pure: text and comparisons.
 *
 * The ZAP handler writes it to the "User-Id" of every message as "ROLE NAME FINGERPRINT"; a
 * server reads it there. Without keys connections cannot be distinguished: the role is then ANY,
 * which may send everything, and the fingerprint is zero. */
#ifndef CREMA_PRINCIPAL_H
#define CREMA_PRINCIPAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_wire.h"

typedef enum {
    CREMA_AS_ANY, /* a connection without keys */
    CREMA_AS_AGGREGATOR,
    CREMA_AS_AGENT,
    CREMA_AS_CLIENT,
    CREMA_AS_MONITOR, /* listens to the aggregator's tap, which publishes every run */
    CREMA_AS_SERVER,  /* aggregator and sink as seen by those that connect; never in a User-Id */
    CREMA_AS_COUNT,
} crema_as_t;

#define CREMA_PRINCIPAL_NAME_MAX 64
#define CREMA_PRINCIPAL_TEXT_MAX 128 /* a User-Id with its NUL */

typedef struct {
    crema_as_t as;
    crema_id_t key; /* the first 16 bytes of the public key; zero: no keys */
    char name[CREMA_PRINCIPAL_NAME_MAX + 1]; /* name given by the server's operator */
    crema_id_t run_id; /* an agent of this run only, named "run-" and its id; zero: of any run */
} crema_principal_t;

const char *
crema_as_name(crema_as_t as); /* "aggregator", "agent", "client", "monitor", "server"; "any" */
/* False for any other word. */
bool crema_as_parse(const char *word, crema_as_t *ret_as);

/* The principal of an agent of that run with that public key. */
crema_principal_t crema_principal_of_run(const crema_id_t *run_id, const uint8_t public_key[32]);

/* True for 1 to CREMA_PRINCIPAL_NAME_MAX letters, digits, '_', '-', '.' or '@', the first a letter
 * or a digit. */
bool crema_principal_is_name(const char *name);

/* The fingerprint of a public key of 32 bytes. */
crema_id_t crema_principal_key(const uint8_t public_key[32]);

/* The User-Id; returns `text`. */
char *crema_principal_print(const crema_principal_t *self, char text[CREMA_PRINCIPAL_TEXT_MAX]);

/* Parses a User-Id. `text` NULL or empty: no key, role ANY. CREMA_EINVAL: not a User-Id of
 * crema. */
CREMA_MUST_CHECK crema_err_t crema_principal_parse(const char *text, crema_principal_t *ret_self);

/* True if that role may send this type of message to a server. */
bool crema_principal_may_send(const crema_principal_t *self, crema_msg_type_t type);

/* True if both have the same key; always true without keys. */
bool crema_principal_is_same(const crema_principal_t *a, const crema_principal_t *b);

#endif
