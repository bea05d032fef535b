#include "agent_watch.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#define EVENTS (IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_DELETE_SELF | IN_MOVE_SELF)

struct agent_watch {
    int fd;
    bool gone;
};

crema_err_t
agent_watch_new(const char *dir, agent_watch_t **ret_self)
{
    agent_watch_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (self->fd < 0 || inotify_add_watch(self->fd, dir, EVENTS | IN_ONLYDIR) < 0) {
        agent_watch_destroy(&self);
        return CREMA_EIO;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agent_watch_destroy(agent_watch_t **self_p)
{
    agent_watch_t *self = *self_p;
    if (self && self->fd >= 0)
        close(self->fd);
    free(self);
    *self_p = NULL;
}

int
agent_watch_fd(const agent_watch_t *self)
{
    return self->fd;
}

bool
agent_watch_changed(agent_watch_t *self)
{
    union {
        struct inotify_event first;
        char bytes[4096 + NAME_MAX + 1];
    } events;
    bool changed = false;
    ssize_t n;
    while ((n = read(self->fd, &events, sizeof events)) > 0) {
        changed = true;
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *)(events.bytes + at);
            self->gone |= (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0;
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
    return changed;
}

bool
agent_watch_is_sound(const agent_watch_t *self)
{
    return !self->gone;
}
