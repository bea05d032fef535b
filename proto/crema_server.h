/* crema_server - the listening side of a program: its keys, the handler that checks its clients', and the ROUTER they connect to.
 *
 * What cannot be done is told as one sentence for the user, without the program's name and without full stop. */
#ifndef CREMA_SERVER_H
#define CREMA_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_keys.h"
#include "crema_reactor.h"

typedef struct crema_server crema_server_t;

/* Why `--option endpoint` cannot be listened at with these keys (`keys_dir` may be NULL), as far as that can be known without touching
 * anything: true and the sentence, or false. */
bool crema_server_refuses(const char *option, const char *endpoint, const char *keys_dir,
                          char *ret_why, size_t why_size);

/* Loads the keys, proves the handler, then binds the ROUTER of that role to what `--bind` says. CREMA_ECONFIG: the user's to mend. */
CREMA_MUST_CHECK crema_err_t crema_server_new(crema_socket_role_t role, const char *endpoint,
                                              const char *keys_dir, char *ret_why, size_t why_size,
                                              crema_server_t **ret_self);
void crema_server_destroy(crema_server_t **self_p);

/* Serves the handler of keys from `loop` from now on. The ROUTER is the program's own to read. CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t crema_server_attach(crema_server_t *self, zloop_t *loop);

zsock_t *crema_server_socket(const crema_server_t *self);
const crema_keys_t *crema_server_keys(const crema_server_t *self); /* NULL: none */
const char *crema_server_endpoint(const crema_server_t *self);     /* with the port it has */

/* The error of a bind to `--option endpoint` as a sentence; an endpoint that is none becomes CREMA_ECONFIG. */
crema_err_t crema_server_bind_failed(crema_err_t err, const char *option, const char *endpoint,
                                     char *ret_why, size_t why_size);

/* The one line of JSON on stdout that says where the program listens, for whoever started it; `tap` may be NULL. */
void crema_server_print_ready(const char *program, const char *endpoint, const char *tap);

/* Prints the sentence `format` gives into ret_why and returns err. */
__attribute__((format(printf, 4, 5))) crema_err_t
crema_server_fail(crema_err_t err, char *ret_why, size_t why_size, const char *format, ...);

#endif
