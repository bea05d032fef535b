/* crema_keys - the CURVE certificates of one role, and which connections may do without.
 *
 * A key directory (mode 0700, made by crema_keys_make.h) holds ROLE.key_secret and ROLE.key,
 * CZMQ certificates (zconfig format, secrets mode 0600); the directory of a connecting role also
 * holds server.key. Servers are the aggregator and the sink. Without keys only loopback and ipc
 * endpoints may be bound. */
#ifndef CREMA_KEYS_H
#define CREMA_KEYS_H

#include <stdbool.h>

#include "crema_error.h"
#include "crema_principal.h"

typedef struct crema_keys crema_keys_t;
typedef struct _zsock_t zsock_t;

/* Loads the pair of that role from `dir`, or from `dir`/ROLE if that exists. A secret or
 * directory that other users may read is refused (CREMA_ECONFIG). `dir` NULL: CREMA_OK and
 * *ret_self NULL: no keys. On failure *ret_why is a constant sentence without a full stop. */
CREMA_MUST_CHECK crema_err_t crema_keys_load(const char *dir, crema_as_t as,
                                             crema_keys_t **ret_self, const char **ret_why);
void crema_keys_destroy(crema_keys_t **self_p);

/* The directory used, and our public key. */
const char *crema_keys_dir(const crema_keys_t *self);
const char *crema_keys_public(const crema_keys_t *self); /* Z85 */
crema_as_t crema_keys_as(const crema_keys_t *self);

/* Call before bind or connect. `domain` is one of those below. `self` NULL leaves the socket
 * unencrypted. */
#define CREMA_DOMAIN_SERVICE "crema" /* admits those that take part */
#define CREMA_DOMAIN_TAP "crema-tap" /* admits monitors alone */
void crema_keys_serve(const crema_keys_t *self, zsock_t *sock, const char *domain);
void crema_keys_connect(const crema_keys_t *self, zsock_t *sock);

/* As crema_keys_serve(), but reports failure: false if libzmq does not know the option that
 * refuses connections when no handler is present. */
CREMA_MUST_CHECK bool crema_keys_secure(const crema_keys_t *self, zsock_t *sock,
                                        const char *domain);

/* True for ipc://, inproc:// and tcp:// on 127.0.0.0/8, localhost or [::1]. */
bool crema_keys_is_local(const char *endpoint);

#endif
