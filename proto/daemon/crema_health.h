/* crema_health - a file that is young as long as a program does its work: what a supervisor's check of health looks at; and the watchdog of a
 * service manager (crema_notify.h), which hears that the program turns, healthy or not.
 *
 * Each program says in its --help what that work is. It tells once a second: the file is touched when all is well, and removed when it
 * is not. A program that hangs or was killed tells nothing, and the file grows old. */
#ifndef CREMA_HEALTH_H
#define CREMA_HEALTH_H

#include <stdbool.h>

#define CREMA_HEALTH_MS 1000 /* between two words */

/* NULL: nobody asked for a file. One that cannot be written is logged: whoever looks at it finds it old, or finds none. */
void crema_health_tell(const char *path, bool healthy);

#endif
