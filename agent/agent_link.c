#include "agent_link.h"

#include <stdlib.h>

#include <czmq.h>

#include "agent_reach.h"
#include "crema_log.h"
#include "crema_reactor.h"

/* Messages per turn of the loop, so that signals and timers get a turn. */
#define TURN_MAX 64
#define SILENCE_MS 10000 /* silence on the way over Dask before another search */

struct agent_link {
    zloop_t *loop;
    agent_link_handler_t handler;
    agent_reach_t *reach;
    zsock_t *sock;        /* NULL: hung up, or still searching */
    int silence_timer;    /* -1: not over Dask, or expired */
    bool heard;           /* since the socket was found */
    int logged_over_dask; /* last logged: 1 if it goes over Dask, 0 if directly; -1: nothing yet */
};

static void s_on_found(void *context, zsock_t *sock, const char *endpoint, bool over_dask);

crema_err_t
agent_link_new(zloop_t *loop, const char *endpoints, const char *way_dir, const crema_keys_t *keys,
               const agent_link_handler_t *handler, agent_link_t **ret_self)
{
    agent_link_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->loop = loop;
    self->handler = *handler;
    self->silence_timer = self->logged_over_dask = -1;
    const agent_reach_config_t reach = {endpoints, way_dir, keys, s_on_found, self};
    crema_err_t err = agent_reach_new(loop, &reach, &self->reach);
    if (err != CREMA_OK) {
        free(self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agent_link_destroy(agent_link_t **self_p)
{
    if (!*self_p)
        return;
    agent_link_hang_up(*self_p);
    agent_reach_destroy(&(*self_p)->reach);
    free(*self_p);
    *self_p = NULL;
}

static int
s_on_readable(zloop_t *loop, zsock_t *sock, void *arg)
{
    (void)loop;
    agent_link_t *self = arg;
    for (int i = 0; i < TURN_MAX; i++) {
        zmq_msg_t msg;
        zmq_msg_init(&msg);
        int got = zmq_msg_recv(&msg, zsock_resolve(sock), ZMQ_DONTWAIT);
        self->heard = self->heard || got >= 0;
        if (got >= 0)
            self->handler.on_message(self->handler.context, zmq_msg_data(&msg), (size_t)got);
        zmq_msg_close(&msg);
        if (got < 0)
            break;
    }
    self->handler.on_turn(self->handler.context); /* last: it may destroy this reader */
    return 0;
}

crema_err_t
agent_link_dial(agent_link_t *self)
{
    agent_link_hang_up(self);
    return agent_reach_begin(self->reach);
}

static int
s_on_silence(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
    agent_link_t *self = arg;
    self->silence_timer = -1;
    if (!self->heard) {
        crema_err_t err = agent_link_dial(self);
        if (err != CREMA_OK) /* the session dials again */
            crema_log_warn("dial_failed", CREMA_TEXT("why", crema_err_text(err)));
    }
    return 0;
}

/* Logs the way when it is first found and when it changes. */
static void
s_log_way(agent_link_t *self, const char *endpoint, bool over_dask)
{
    if (self->logged_over_dask == over_dask)
        return;
    self->logged_over_dask = over_dask;
    if (over_dask)
        crema_log_warn("goes_over_dask",
                       CREMA_TEXT("why", "no address of the aggregator proved itself within 1 s"));
    else
        crema_log_info("connects", CREMA_TEXT("endpoint", endpoint));
}

static void
s_on_found(void *context, zsock_t *sock, const char *endpoint, bool over_dask)
{
    agent_link_t *self = context;
    self->heard = false;
    if (over_dask)
        self->silence_timer = zloop_timer(self->loop, SILENCE_MS, 1, s_on_silence, self);
    if ((over_dask && self->silence_timer < 0) ||
        zloop_reader(self->loop, sock, s_on_readable, self) != 0) {
        zsock_destroy(&sock); /* out of memory; the session dials again */
        return;
    }
    zloop_reader_set_tolerant(self->loop, sock);
    self->sock = sock;
    s_log_way(self, endpoint, over_dask);
    self->handler.on_found(self->handler.context, over_dask);
}

void
agent_link_hang_up(agent_link_t *self)
{
    agent_reach_end(self->reach);
    if (self->silence_timer >= 0)
        zloop_timer_end(self->loop, self->silence_timer);
    self->silence_timer = -1;
    if (!self->sock)
        return;
    zloop_reader_end(self->loop, self->sock);
    zsock_destroy(&self->sock);
}

crema_err_t
agent_link_send(agent_link_t *self, uint8_t **bytes_p, size_t size)
{
    if (self->sock)
        return crema_socket_send(self->sock, bytes_p, size);
    free(*bytes_p);
    *bytes_p = NULL;
    return CREMA_EAGAIN;
}
