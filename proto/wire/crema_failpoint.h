/* crema_failpoint - named moments at which a test kills the program: before and after it writes, syncs, sends, renames, removes.
 *
 * Only in builds with CREMA_FAILPOINTS, which are for tests; elsewhere a point is nothing. There FAILPOINT=name:k in the environment has the
 * program kill itself with SIGKILL when it comes to that point for the k-th time, after one line on standard error. (It is no CREMA_... variable:
 * those are options, and a sink keeps them from the process that seals.) */
#ifndef CREMA_FAILPOINT_H
#define CREMA_FAILPOINT_H

#include "crema_wire.h"

#ifdef CREMA_FAILPOINTS

/* `name` is one of the table in crema_failpoint.c. */
void crema_failpoint(const char *name);

/* The point `<name>.<message>`, such as aggregator.before_send.PUT. */
void crema_failpoint_message(const char *name, crema_msg_type_t type);

/* The i-th name of the table; NULL behind the last. */
const char *crema_failpoint_name(size_t i);

#else
#define crema_failpoint(name) ((void)0)
#define crema_failpoint_message(name, type) ((void)0)
#endif

#endif
