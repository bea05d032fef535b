/* crema_keys - the CURVE certificates of one role, and whether a connection may do without.
 *
 * A key directory (mode 0700, made by crema_keys_make.h) holds ROLE.key_secret and ROLE.key of its role, CZMQ certificates (zconfig format,
 * secrets mode 0600), and those that connect hold server.key beside them. Servers are the aggregator and the sink. Without keys only loopback
 * and ipc endpoints may be bound. */
#ifndef CREMA_KEYS_H
#define CREMA_KEYS_H

#include <stdbool.h>

#include "crema_error.h"
#include "crema_principal.h"

typedef struct crema_keys crema_keys_t;
typedef struct _zsock_t zsock_t;

/* Loads the pair of that role from `dir`, or from `dir`/ROLE if it is there. A secret or a directory that others may read is refused
 * (CREMA_ECONFIG). `dir` NULL: CREMA_OK and *ret_self NULL: no keys. *ret_why is a constant sentence without full stop, written on
 * failure. */
CREMA_MUST_CHECK crema_err_t crema_keys_load(const char *dir, crema_as_t as,
                                             crema_keys_t **ret_self, const char **ret_why);
void crema_keys_destroy(crema_keys_t **self_p);

/* The directory that was used in the end, and the own public key. */
const char *crema_keys_dir(const crema_keys_t *self);
const char *crema_keys_public(const crema_keys_t *self); /* Z85 */
crema_as_t crema_keys_as(const crema_keys_t *self);

/* Before bind / connect. `domain` is one of those below. `self` NULL leaves the socket plain. */
#define CREMA_DOMAIN_SERVICE "crema" /* admits those that take part */
#define CREMA_DOMAIN_TAP "crema-tap" /* admits monitors alone */
void crema_keys_serve(const crema_keys_t *self, zsock_t *sock, const char *domain);
void crema_keys_connect(const crema_keys_t *self, zsock_t *sock);

/* As crema_keys_serve(), with an answer: false if libzmq does not know the option that closes the door when no handler stands there. */
CREMA_MUST_CHECK bool crema_keys_secure(const crema_keys_t *self, zsock_t *sock,
                                        const char *domain);

/* True for ipc://, inproc:// and tcp:// on 127.0.0.0/8, localhost or [::1]. */
bool crema_keys_is_local(const char *endpoint);

#endif
