/* crema_server - the listening side of a program: its keys, the handler that checks its clients'
 * keys, and the ROUTER they connect to.
 *
 * Errors are returned as one sentence for the user, without the program's name and without a
 * full stop. */
#ifndef CREMA_SERVER_H
#define CREMA_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_keyring.h"
#include "crema_keys.h"
#include "crema_principal.h"
#include "crema_reactor.h"

typedef struct crema_server crema_server_t;

/* Checks, without side effects, whether `--option endpoint` may be bound with these keys
 * (`keys_dir` may be NULL): true and a sentence if not. Without keys no other host may connect,
 * nor other users of this one unless requested. */
bool crema_server_refuses(const char *option, const char *endpoint, const char *keys_dir,
                          bool insecure, char *ret_why, size_t why_size);

/* The same for an endpoint to connect to: without keys nothing is sent unencrypted to other
 * hosts unless requested. */
bool crema_server_refuses_to_send(const char *option, const char *endpoint, const char *keys_dir,
                                  bool insecure, char *ret_why, size_t why_size);

/* Loads the keys, tests the handler, then binds the ROUTER of that role to `--bind`.
 * CREMA_ECONFIG: for the user to fix. */
CREMA_MUST_CHECK crema_err_t crema_server_new(crema_socket_role_t role, const char *endpoint,
                                              const char *keys_dir, char *ret_why, size_t why_size,
                                              crema_server_t **ret_self);
void crema_server_destroy(crema_server_t **self_p);

/* Runs the key handler in `loop`, and shuts down connections beyond this many per address, also
 * those to the bound socket `also` unless it is NULL. The program reads the ROUTER itself, and
 * destroys the loop and `also` after the server. CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t crema_server_attach(crema_server_t *self, zloop_t *loop,
                                                 size_t connections_each_max, zsock_t *also);

/* The keys it admits; NULL without keys. */
crema_keyring_t *crema_server_ring(const crema_server_t *self);
/* Checks for added and revoked keys: each second, and in any case at SIGHUP. True: check every
 * connection again. */
bool crema_server_refresh(crema_server_t *self, bool in_any_case);
/* See crema_zap_set_patient(). */
void crema_server_set_patient(crema_server_t *self, bool patient);
unsigned long
crema_server_refused(const crema_server_t *self); /* connections with an unknown key */

unsigned long crema_server_crowded(const crema_server_t *self); /* connections shut down */

zsock_t *crema_server_socket(const crema_server_t *self);
const crema_keys_t *crema_server_keys(const crema_server_t *self); /* NULL: none */
const char *crema_server_endpoint(const crema_server_t *self);     /* with the port it has */

/* Describes the failure to bind `--option endpoint`; CREMA_ECONFIG for an invalid endpoint. */
crema_err_t crema_server_bind_failed(crema_err_t err, const char *option, const char *endpoint,
                                     char *ret_why, size_t why_size);

/* Prints the ready line: one line of JSON on stdout with the endpoints; `tap` and `metrics` may
 * be NULL. */
void crema_server_print_ready(const char *program, const char *endpoint, const char *tap,
                              const char *metrics);

/* Prints the sentence to ret_why and returns err. */
__attribute__((format(printf, 4, 5))) crema_err_t
crema_server_fail(crema_err_t err, char *ret_why, size_t why_size, const char *format, ...);

#endif
