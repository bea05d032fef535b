/* crema_notify - notifications to the service manager that started the program, by the protocol
 * of sd_notify(3): datagrams to the socket named by NOTIFY_SOCKET. Without that variable these
 * functions do nothing.
 *
 * The first call removes the variable from the environment, so that children cannot notify in
 * their parent's name. */
#ifndef CREMA_NOTIFY_H
#define CREMA_NOTIFY_H

#include <stdbool.h>

/* True if a service manager listens. */
bool crema_notify_is_heard(void);
/* The program has started its work. */
void crema_notify_ready(void);
/* The program's loop turns: call it at least twice per WatchdogSec of the manager. `status` is
 * shown by `systemctl status`. */
void crema_notify_alive(const char *status);
/* The program is ending. */
void crema_notify_stopping(void);

#endif
