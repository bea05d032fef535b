/* crema_keys - CURVE certificates and who may connect.
 *
 * A key directory (mode 0700) holds `server.key`, `server.key_secret`, `client.key`, `client.key_secret`: CZMQ certificates (zconfig format,
 * secrets mode 0600). Servers (aggregator, sink) hold the server's secret and admit the client's public key; agents, the aggregator
 * towards the sink, and collectors hold the client's secret and the server's public key. Without keys only loopback and ipc endpoints may be
 * bound. The ZAP handler is bound before any server socket: CURVE without one admits every key. */
#ifndef CREMA_KEYS_H
#define CREMA_KEYS_H

#include <stdbool.h>

#include "crema_error.h"

typedef struct crema_keys crema_keys_t;
typedef struct _zsock_t zsock_t;

/* Makes a directory with fresh pairs; CREMA_EBUSY if it holds keys already (they are kept). CREMA_ENOENT: its parent is missing;
 * CREMA_ECONFIG: libzmq has no CURVE; CREMA_EIO, CREMA_ENOSPC: errno says why, and no key is left. */
CREMA_MUST_CHECK crema_err_t crema_keys_make(const char *dir);

/* Loads what is there; a secret or a directory that others may read is refused (CREMA_ECONFIG). `dir` NULL: CREMA_OK and *ret_self NULL: no
 * keys. *ret_why is a constant sentence without full stop, written on failure. */
CREMA_MUST_CHECK crema_err_t crema_keys_load(const char *dir, bool server, crema_keys_t **ret_self,
                                             const char **ret_why);
void crema_keys_destroy(crema_keys_t **self_p);

/* Before bind / connect. `self` NULL leaves the socket plain. */
void crema_keys_serve(const crema_keys_t *self, zsock_t *sock);
void crema_keys_connect(const crema_keys_t *self, zsock_t *sock);

/* True for ipc://, inproc:// and tcp:// on 127.0.0.0/8, localhost or [::1]. */
bool crema_keys_is_local(const char *endpoint);

/* The ZAP handler: a REP socket on inproc://zeromq.zap.01 for the caller's loop; call crema_zap_handle when it is readable. One a process.
 * It admits the client's key and nobody else; a message's "User-Id" is its sender's public key in Z85.
 *
 * crema_zap_new() proves over a loopback socket that a stranger is refused and a known key gets in: CREMA_ENET if not, so that a server
 * fails closed. CREMA_EBUSY: there is a handler already; CREMA_EINVAL: client keys. `keys` NULL: CREMA_OK and *ret_self NULL. */
typedef struct crema_zap crema_zap_t;
CREMA_MUST_CHECK crema_err_t crema_zap_new(const crema_keys_t *keys, crema_zap_t **ret_self);
void crema_zap_destroy(crema_zap_t **self_p);
zsock_t *crema_zap_socket(crema_zap_t *self);
void crema_zap_handle(crema_zap_t *self);
unsigned long crema_zap_refused(const crema_zap_t *self);

#endif
