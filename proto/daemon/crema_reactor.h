/* crema_reactor - common parts of the three programs' loops: signals as events, and sockets with
 * the options that delivery depends on. The loop itself is CZMQ's zloop, whose own handling of
 * signals knows no SIGHUP and no SIGCHLD.
 *
 * A program starts like this, in this order, before any other thread or socket exists:
 *
 *     int signals;                                           SIGINT, SIGTERM, SIGHUP, SIGCHLD and
 *     crema_err_t err = crema_signals_new(&signals);         SIGUSR1 are readable from it
 *     zsock_t *sock = zsock_new(ZMQ_DEALER);
 *     crema_socket_prepare(sock, CREMA_ROLE_AGENT);          then crema_keys_connect()
 *     err = crema_socket_connect(sock, "tcp://127.0.0.1:5700"); */
#ifndef CREMA_REACTOR_H
#define CREMA_REACTOR_H

#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct _zsock_t zsock_t;
typedef struct _zloop_t zloop_t;

/* Lets this process, and what it starts, use the files it makes whatever the umask (0777, 0277)
 * is: it then takes no rights from their owner. */
void crema_umask_begin(void);

/* ---- signals */

/* Blocks SIGINT, SIGTERM, SIGHUP, SIGCHLD and SIGUSR1 in the calling thread, ignores SIGPIPE and
 * SIGXFSZ, disables CZMQ's own handlers and raises the limit of open files to the maximum. *ret_fd
 * is a non-blocking, close-on-exec signalfd. */
CREMA_MUST_CHECK crema_err_t crema_signals_new(int *ret_fd);

/* The next pending signal, or 0. Several children that end together give one SIGCHLD: reap until
 * there is none. */
int crema_signals_read(int fd);

/* Restores what a started program expects: no blocked signals, SIGPIPE at its default. The first
 * is for posix_spawn of crema's own programs, which still ignore SIGXFSZ (it initializes the
 * attributes, the caller destroys them), the second for between fork and exec of any other. */
CREMA_MUST_CHECK crema_err_t crema_signals_spawn_attr(posix_spawnattr_t *ret_attr);
void crema_signals_restore(void);

/* ---- loop */

/* A loop that ignores signals; it ends when a handler returns -1. NULL: out of memory. A timer
 * that a handler of a timer ends may still fire in the same turn, more than once if the loop is
 * late: its handler compares the id, and what it needs is not freed in the loop. */
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

/* Binds and returns the full endpoint ("tcp://127.0.0.1:41233" for port *, which the system
 * chooses). An ipc path is locked first and created for this user only, since libzmq would
 * silently take it over from a running server. CREMA_EBUSY: another socket listens there;
 * CREMA_EINVAL: not an endpoint; CREMA_EIO: see errno. */
CREMA_MUST_CHECK crema_err_t crema_socket_bind(zsock_t *sock, const char *endpoint,
                                               char *ret_endpoint, size_t size);

/* Connects in the background; the order in which the two sides start does not matter.
 * CREMA_EINVAL: not an endpoint. */
CREMA_MUST_CHECK crema_err_t crema_socket_connect(zsock_t *sock, const char *endpoint);

/* Sends bytes from malloc() as one part of a message, without copying and without waiting. They
 * belong to libzmq or are freed: *bytes_p becomes NULL. CREMA_EAGAIN: not sent, see errno. */
CREMA_MUST_CHECK crema_err_t crema_socket_send(zsock_t *sock, uint8_t **bytes_p, size_t size);

#endif
