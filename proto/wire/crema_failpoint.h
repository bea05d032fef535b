/* crema_failpoint - named points at which a test kills the program: before and after it writes,
 * syncs, sends, renames, removes.
 *
 * Only in builds with CREMA_FAILPOINTS, which are for tests; elsewhere a point does nothing.
 * With FAILPOINT=name:k in the environment the program kills itself with SIGKILL when it reaches
 * that point for the k-th time, after one line on standard error. (The variable has no CREMA_
 * prefix because those are options, which a sink removes from the environment of its sealing
 * processes.)
 * With SHORT_WAITS=name:milliseconds,... in the environment the named waits, which a test would
 * otherwise sit out, take that long. */
#ifndef CREMA_FAILPOINT_H
#define CREMA_FAILPOINT_H

#include "crema_wire.h"

#ifdef CREMA_FAILPOINTS

/* `name` must be in the table in tests/unit/faulty/crema_failpoint.c. */
void crema_failpoint(const char *name);

/* The point `<name>.<message>`, such as aggregator.before_send.PUT. */
void crema_failpoint_message(const char *name, crema_msg_type_t type);

/* How long to wait: `usual_ns`, unless SHORT_WAITS says otherwise. `name` as above. */
int64_t crema_failpoint_wait(const char *name, int64_t usual_ns);

/* The i-th name of the table; NULL after the last. */
const char *crema_failpoint_name(size_t i);

#else
#define crema_failpoint(name) ((void)0)
#define crema_failpoint_message(name, type) ((void)(type))
#define crema_failpoint_wait(name, usual_ns) (usual_ns)
#endif

#endif
