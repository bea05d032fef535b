#include "agent_watch.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <czmq.h>

#define EVENTS (IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_DELETE_SELF | IN_MOVE_SELF)
#define FULL_BYTES 4096 /* what a read returns at least while there is more */

struct agent_watch {
    int fd;
    bool gone;
    bool is_listening;
    zloop_t *loop;
    agent_watch_fn *on_change;
    void *context;
};

crema_err_t
agent_watch_new(const char *dir, zloop_t *loop, agent_watch_fn *on_change, void *context,
                agent_watch_t **ret_self)
{
    agent_watch_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->loop = loop;
    self->on_change = on_change;
    self->context = context;
    self->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (self->fd < 0 || inotify_add_watch(self->fd, dir, EVENTS | IN_ONLYDIR) < 0) {
        agent_watch_destroy(&self);
        return CREMA_EIO;
    }
    *ret_self = self;
    return CREMA_OK;
}

static void
s_stop_listening(agent_watch_t *self)
{
    if (self->is_listening)
        zloop_poller_end(self->loop, &(zmq_pollitem_t){.fd = self->fd});
    self->is_listening = false;
}

void
agent_watch_destroy(agent_watch_t **self_p)
{
    agent_watch_t *self = *self_p;
    if (self && self->fd >= 0) {
        s_stop_listening(self);
        close(self->fd);
    }
    free(self);
    *self_p = NULL;
}

static int
s_on_readable(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    (void)loop, (void)item;
    agent_watch_t *self = arg;
    s_stop_listening(self);
    return self->on_change(self->context);
}

void
agent_watch_listen(agent_watch_t *self)
{
    zmq_pollitem_t item = {.fd = self->fd, .events = ZMQ_POLLIN};
    if (!self->is_listening)
        self->is_listening = zloop_poller(self->loop, &item, s_on_readable, self) == 0;
}

bool
agent_watch_is_listening(const agent_watch_t *self)
{
    return self->is_listening;
}

bool
agent_watch_changed(agent_watch_t *self)
{
    union {
        struct inotify_event first;
        char bytes[FULL_BYTES + sizeof(struct inotify_event) + NAME_MAX + 1];
    } events;
    bool changed = false;
    ssize_t n = FULL_BYTES;
    while (n >= FULL_BYTES && (n = read(self->fd, &events, sizeof events)) > 0) {
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
