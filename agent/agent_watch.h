/* agent_watch - reports that something in the spool changed, so that a quiet one need not be
 * looked at.
 *
 * The kernel's notice of a directory (inotify): what processes of this host create in it and
 * write to its files. It is a hint: changes that another host makes on a shared file system
 * are not noticed. */
#ifndef AGENT_WATCH_H
#define AGENT_WATCH_H

#include <stdbool.h>

#include "crema_error.h"

typedef struct agent_watch agent_watch_t;
typedef struct _zloop_t zloop_t;
typedef int agent_watch_fn(void *context); /* -1 ends the loop */

/* The loop is borrowed. CREMA_EIO: the kernel gives no notice, or the user has too many such
 * watches already. */
CREMA_MUST_CHECK crema_err_t agent_watch_new(const char *dir, zloop_t *loop,
                                             agent_watch_fn *on_change, void *context,
                                             agent_watch_t **ret_self);
void agent_watch_destroy(agent_watch_t **self_p);

/* Calls on_change() once, at the next change. */
void agent_watch_listen(agent_watch_t *self);
bool agent_watch_is_listening(const agent_watch_t *self);

/* True if something changed since the last call. */
bool agent_watch_changed(agent_watch_t *self);

/* False once the directory is gone. */
bool agent_watch_is_sound(const agent_watch_t *self);

#endif
