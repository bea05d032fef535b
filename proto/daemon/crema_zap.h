/* crema_zap - the ZAP handler of a server: a REP socket on inproc://zeromq.zap.01 for the
 * caller's loop; call crema_zap_handle when it is readable. One per process, bound before any
 * server socket, since CURVE without a handler admits every key. Not CZMQ's zauth: it is a thread
 * that knows neither roles nor the end of a key.
 *
 * It admits the keys of its ring (crema_keyring.h) only; a message's "User-Id" is a
 * crema_principal_t as text. */
#ifndef CREMA_ZAP_H
#define CREMA_ZAP_H

#include <stdbool.h>

#include "crema_error.h"
#include "crema_keyring.h"
#include "crema_keys.h"

typedef struct crema_zap crema_zap_t;

/* Tests over a loopback socket that an unknown key is refused and a known one admitted:
 * CREMA_ENET if not, so that a server fails closed. CREMA_EBUSY: there is a handler already;
 * CREMA_EINVAL: not a server's keys. The ring is borrowed. `keys` NULL: CREMA_OK and *ret_self
 * NULL. */
CREMA_MUST_CHECK crema_err_t crema_zap_new(const crema_keys_t *keys, crema_keyring_t *ring,
                                           crema_zap_t **ret_self);
void crema_zap_destroy(crema_zap_t **self_p);
zsock_t *crema_zap_socket(crema_zap_t *self);

/* While `patient`, an unknown key is asked to try again soon instead of being refused: agents of
 * a run may reconnect before the key in its RUN_OPEN is known. */
void crema_zap_set_patient(crema_zap_t *self, bool patient);

/* Answers one request. */
void crema_zap_handle(crema_zap_t *self);

/* Number of refused connections; the address of the last one, "" if none. */
unsigned long crema_zap_refused(const crema_zap_t *self);
const char *crema_zap_refused_address(const crema_zap_t *self);

#endif
