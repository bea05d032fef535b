/* crema_server - the listening side of a program: its keys, the handler that checks its clients', and the ROUTER they connect to.
 *
 * What cannot be done is told as one sentence for the user, without the program's name and without full stop. */
#ifndef CREMA_SERVER_H
#define CREMA_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_keys.h"
#include "crema_principal.h"
#include "crema_reactor.h"

typedef struct crema_server crema_server_t;

/* Why `--option endpoint` cannot be listened at with these keys (`keys_dir` may be NULL), as far as that can be known without touching
 * anything: true and the sentence, or false. Without keys no other host can connect, nor, unless that was asked for, other users of this one. */
bool crema_server_refuses(const char *option, const char *endpoint, const char *keys_dir,
                          bool insecure, char *ret_why, size_t why_size);

/* The same of what connects: without keys nothing goes in the clear to other hosts, unless that was asked for. */
bool crema_server_refuses_to_send(const char *option, const char *endpoint, const char *keys_dir,
                                  bool insecure, char *ret_why, size_t why_size);

/* Loads the keys, proves the handler, then binds the ROUTER of that role to what `--bind` says. CREMA_ECONFIG: the user's to mend. */
CREMA_MUST_CHECK crema_err_t crema_server_new(crema_socket_role_t role, const char *endpoint,
                                              const char *keys_dir, char *ret_why, size_t why_size,
                                              crema_server_t **ret_self);
void crema_server_destroy(crema_server_t **self_p);

/* Serves the handler of keys from `loop` from now on, and shuts down connections beyond so many of one address, to the port of `also`
 * too unless that is NULL. The ROUTER is the program's own to read. CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t crema_server_attach(crema_server_t *self, zloop_t *loop,
                                                 size_t connections_each_max, const char *also);

/* Whether that connection's key still may connect; everybody where there are no keys. */
bool crema_server_admits(const crema_server_t *self, const crema_principal_t *principal);
/* See crema_keyring_user(); 0 where there are no keys. */
uint32_t crema_server_user(const crema_server_t *self, const crema_id_t *key);
/* Whether a key with this fingerprint is admitted; all are where there are no keys. */
bool crema_server_knows(const crema_server_t *self, const crema_id_t *key);
/* Looks whether keys were added or revoked: each second, and in any case at SIGHUP. True: ask anew for everybody who is connected. */
bool crema_server_refresh(crema_server_t *self, bool in_any_case);
/* The keys that the last refreshes found gone, one at a time; false: no more. */
bool crema_server_revoked(crema_server_t *self, crema_id_t *ret_key);
/* See crema_zap_set_patient(). */
void crema_server_set_patient(crema_server_t *self, bool patient);
/* Admits the agents of a run; see crema_keyring_lend(). CREMA_OK without keys. */
CREMA_MUST_CHECK crema_err_t crema_server_lend(crema_server_t *self, const crema_id_t *run_id,
                                               const crema_id_t *owner,
                                               const uint8_t public_key[32]);
unsigned long
crema_server_refused(const crema_server_t *self); /* connections with an unknown key */

unsigned long crema_server_crowded(const crema_server_t *self); /* connections shut down */

zsock_t *crema_server_socket(const crema_server_t *self);
const crema_keys_t *crema_server_keys(const crema_server_t *self); /* NULL: none */
const char *crema_server_endpoint(const crema_server_t *self);     /* with the port it has */

/* The error of a bind to `--option endpoint` as a sentence; an endpoint that is none becomes CREMA_ECONFIG. */
crema_err_t crema_server_bind_failed(crema_err_t err, const char *option, const char *endpoint,
                                     char *ret_why, size_t why_size);

/* The one line of JSON on stdout that says where the program listens, for whoever started it; `tap` and `metrics` may be NULL. */
void crema_server_print_ready(const char *program, const char *endpoint, const char *tap,
                              const char *metrics);

/* Prints the sentence `format` gives into ret_why and returns err. */
__attribute__((format(printf, 4, 5))) crema_err_t
crema_server_fail(crema_err_t err, char *ret_why, size_t why_size, const char *format, ...);

#endif
