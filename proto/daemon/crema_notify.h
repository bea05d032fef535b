/* crema_notify - what a program says to the service manager that started it, by the protocol of sd_notify(3): a datagram to the socket that
 * NOTIFY_SOCKET names. Without that variable each of these is nothing.
 *
 * The variable is taken out of the environment with the first word, so no child speaks for its parent. */
#ifndef CREMA_NOTIFY_H
#define CREMA_NOTIFY_H

#include <stdbool.h>

/* Whether there is a service manager that listens. */
bool crema_notify_is_heard(void);
/* The program does its work from now on. */
void crema_notify_ready(void);
/* The program's loop turns: to be said at least twice in the manager's WatchdogSec. `status` is what `systemctl status` shows. */
void crema_notify_alive(const char *status);
/* It ends by itself or was asked to. */
void crema_notify_stopping(void);

#endif
