#include "agent_link.h"

#include <stdlib.h>

#include <czmq.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "crema_reactor.h"

/* Messages taken in one turn of the loop, so that signals and timers get theirs. */
#define TURN_MAX 64

struct agent_link {
    zloop_t *loop;
    const char *endpoint;
    const crema_keys_t *keys;
    agent_link_handler_t handler;
    zsock_t *sock; /* NULL: hung up */
};

crema_err_t
agent_link_new(zloop_t *loop, const char *endpoint, const crema_keys_t *keys,
               const agent_link_handler_t *handler, agent_link_t **ret_self)
{
    agent_link_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->loop = loop;
    self->endpoint = endpoint;
    self->keys = keys;
    self->handler = *handler;
    *ret_self = self;
    return CREMA_OK;
}

void
agent_link_destroy(agent_link_t **self_p)
{
    if (!*self_p)
        return;
    agent_link_hang_up(*self_p);
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
        if (got >= 0)
            self->handler.on_message(self->handler.context, zmq_msg_data(&msg), (size_t)got);
        zmq_msg_close(&msg);
        if (got < 0)
            break;
    }
    self->handler.on_turn(self->handler.context); /* last: it may end this reader */
    return 0;
}

crema_err_t
agent_link_dial(agent_link_t *self)
{
    agent_link_hang_up(self);
    zsock_t *sock = zsock_new(ZMQ_DEALER);
    if (!sock)
        return CREMA_ENOMEM;
    crema_socket_prepare(sock, CREMA_ROLE_AGENT);
    crema_keys_connect(self->keys, sock);
    crema_err_t err = crema_socket_connect(sock, self->endpoint);
    if (err == CREMA_OK && zloop_reader(self->loop, sock, s_on_readable, self) != 0)
        err = CREMA_ENOMEM;
    if (err != CREMA_OK) {
        zsock_destroy(&sock);
        return err;
    }
    zloop_reader_set_tolerant(self->loop, sock);
    self->sock = sock;
    return CREMA_OK;
}

void
agent_link_hang_up(agent_link_t *self)
{
    if (!self->sock)
        return;
    zloop_reader_end(self->loop, self->sock);
    zsock_destroy(&self->sock);
}

/* libzmq hands the bytes to its own thread, by means that ThreadSanitizer does not see. */
#ifdef __SANITIZE_THREAD__
#define HAND_OVER(bytes) __tsan_release(bytes)
#define TAKE_OVER(bytes) __tsan_acquire(bytes)
#else
#define HAND_OVER(bytes) ((void)(bytes))
#define TAKE_OVER(bytes) ((void)(bytes))
#endif

static void
s_free(void *bytes, void *hint)
{
    (void)hint;
    TAKE_OVER(bytes);
    free(bytes);
}

crema_err_t
agent_link_send(agent_link_t *self, uint8_t **bytes_p, size_t size)
{
    uint8_t *bytes = *bytes_p;
    *bytes_p = NULL;
    if (!self->sock) {
        free(bytes);
        return CREMA_EAGAIN;
    }
    HAND_OVER(bytes);
    zmq_msg_t msg;
    if (zmq_msg_init_data(&msg, bytes, size, s_free, NULL) != 0) {
        free(bytes);
        return CREMA_ENOMEM;
    }
    if (zmq_msg_send(&msg, zsock_resolve(self->sock), ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&msg);
        return CREMA_EAGAIN;
    }
    return CREMA_OK;
}
