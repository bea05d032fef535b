/* crema_health - a file that is recent while a program works, for health checks of a supervisor;
 * and the watchdog of a service manager (crema_notify.h), which is notified while the program's
 * loop turns, healthy or not.
 *
 * Each program defines in its --help what healthy means. It reports once per second: the file is
 * touched if all is well, and removed if not. If the program hangs or was killed, the file
 * becomes old. */
#ifndef CREMA_HEALTH_H
#define CREMA_HEALTH_H

#include <stdbool.h>

#define CREMA_HEALTH_MS 1000 /* between two words */

/* NULL: no file was requested. A file that cannot be written is logged: a health check finds it
 * old or missing. */
void crema_health_report(const char *path, bool healthy);

#endif
