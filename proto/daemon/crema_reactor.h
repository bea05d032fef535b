/* crema_reactor - what the three programs' loops have in common: signals as events, sockets with the options that delivery rests on.
 *
 * A program starts like this, in this order, before any other thread or socket exists:
 *
 *     int signals;
 *     crema_err_t err = crema_signals_new(&signals);         SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1 are readable from it
 *     zsock_t *sock = zsock_new(ZMQ_DEALER);
 *     crema_socket_prepare(sock, CREMA_ROLE_AGENT);          then crema_keys_connect()
 *     err = crema_socket_connect(sock, "tcp://127.0.0.1:5700");
 */
#ifndef CREMA_REACTOR_H
#define CREMA_REACTOR_H

#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct _zsock_t zsock_t;
typedef struct _zloop_t zloop_t;

/* ---- signals */

/* Blocks SIGINT, SIGTERM, SIGHUP, SIGCHLD and SIGUSR1 in the calling thread, ignores SIGPIPE, keeps CZMQ's own handlers out and raises the limit
 * of open files to what is allowed. *ret_fd is a non-blocking, close-on-exec signalfd. */
CREMA_MUST_CHECK crema_err_t crema_signals_new(int *ret_fd);

/* The next signal that waits, or 0. Several children that end together are one SIGCHLD: reap until there is none. */
int crema_signals_read(int fd);

/* What a started program expects: nothing blocked, SIGPIPE at its default. The first for posix_spawn (the attributes are initialised
 * here, the caller destroys them), the second between fork and exec. */
CREMA_MUST_CHECK crema_err_t crema_signals_spawn_attr(posix_spawnattr_t *ret_attr);
void crema_signals_restore(void);

/* ---- loop */

/* A loop that no signal handler interrupts; it ends when a handler returns -1. NULL: out of memory. */
zloop_t *crema_loop_new(void);

/* ---- sockets */

typedef enum {
    CREMA_ROLE_AGENT,  /* DEALER of an agent, to the aggregator */
    CREMA_ROLE_AGENTS, /* ROUTER of the aggregator, for agents and collectors */
    CREMA_ROLE_SINK,   /* DEALER of the aggregator, to the sink */
    CREMA_ROLE_STORE,  /* ROUTER of the sink, for aggregators */
    CREMA_ROLE_TAP,    /* XPUB of the aggregator: lossy */
    CREMA_ROLE_COUNT,
} crema_socket_role_t;

/* Sets every option of the role, before bind or connect. */
void crema_socket_prepare(zsock_t *sock, crema_socket_role_t role);

/* Binds and gives the endpoint in full ("tcp://127.0.0.1:41233" for port *). A free port asked for by * comes from the system. An
 * ipc path is locked first and made for this user only, since libzmq would silently take it from a living server. CREMA_EBUSY: another
 * socket listens there; CREMA_EINVAL: not an endpoint; CREMA_EIO: errno says why. */
CREMA_MUST_CHECK crema_err_t crema_socket_bind(zsock_t *sock, const char *endpoint,
                                               char *ret_endpoint, size_t size);

/* Connects in the background; whoever starts first does not matter. CREMA_EINVAL: not an endpoint. */
CREMA_MUST_CHECK crema_err_t crema_socket_connect(zsock_t *sock, const char *endpoint);

#endif
