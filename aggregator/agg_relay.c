#include "agg_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <czmq.h>

#include "crema_bytes.h"
#include "crema_keys.h"
#include "crema_reactor.h"
#include "crema_wire.h"

#define HEAD_BYTES 5
#define FRAME_MAX (HEAD_BYTES + CREMA_WIRE_MESSAGE_MAX)
#define WATCH "inproc://relay-events"

typedef struct {
    zsock_t *sock, *watch; /* a DEALER to the aggregator; its monitor */
    bool over;             /* standard input has ended, or nobody reads standard output */
    size_t in_size;        /* bytes that have arrived of a frame */
    size_t out_size, out_done;
    uint8_t in[FRAME_MAX], out[FRAME_MAX];
} relay_t;

/* ---- standard output: one frame at a time; the next one waits at the aggregator */

static void
s_write(relay_t *self)
{
    while (self->out_done < self->out_size) {
        ssize_t n =
            write(STDOUT_FILENO, self->out + self->out_done, self->out_size - self->out_done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            self->over = self->over || errno != EAGAIN;
            return;
        }
        self->out_done += (size_t)n;
    }
    self->out_size = self->out_done = 0;
}

static void
s_put(relay_t *self, char kind, const void *content, size_t size)
{
    crema_put_u32(self->out, (uint32_t)size);
    self->out[4] = (uint8_t)kind;
    memcpy(self->out + HEAD_BYTES, content, size);
    self->out_size = HEAD_BYTES + size;
    s_write(self);
}

static int
s_refuse(relay_t *self, const char *why)
{
    s_put(self, 'E', why, strlen(why));
    return EXIT_FAILURE;
}

/* ---- standard input */

/* A message is sent once there is a connection for it. */
static void
s_send(relay_t *self, const uint8_t *message, size_t size)
{
    if (zsock_events(self->sock) & ZMQ_POLLOUT) /* also takes note of a connection just made */
        (void)zmq_send(zsock_resolve(self->sock), message, size, ZMQ_DONTWAIT);
}

static void
s_read(relay_t *self)
{
    ssize_t n = read(STDIN_FILENO, self->in + self->in_size, sizeof self->in - self->in_size);
    if (n <= 0) {
        self->over = n == 0 || (errno != EAGAIN && errno != EINTR);
        return;
    }
    self->in_size += (size_t)n;
    size_t at = 0;
    while (self->in_size - at >= HEAD_BYTES) {
        size_t size = crema_get_u32(self->in + at);
        if (size > CREMA_WIRE_MESSAGE_MAX) {
            self->over = true; /* what follows could not be told from the content of this frame */
            return;
        }
        if (self->in_size - at - HEAD_BYTES < size)
            break;
        s_send(self, self->in + at + HEAD_BYTES, size);
        at += HEAD_BYTES + size;
    }
    self->in_size -= at;
    memmove(self->in, self->in + at, self->in_size);
}

/* ---- from the aggregator */

static void
s_receive(relay_t *self)
{
    zmq_msg_t message;
    zmq_msg_init(&message);
    int size = zmq_msg_recv(&message, zsock_resolve(self->sock), ZMQ_DONTWAIT);
    if (size >= 0 && size <= (int)CREMA_WIRE_MESSAGE_MAX)
        s_put(self, 'M', zmq_msg_data(&message), (size_t)size);
    zmq_msg_close(&message);
}

static void
s_on_event(relay_t *self)
{
    zmsg_t *message = zmsg_recv_nowait(self->watch);
    const zframe_t *first = message ? zmsg_first(message) : NULL;
    uint16_t event = 0;
    if (first && zframe_size((zframe_t *)first) >= sizeof event)
        memcpy(&event, zframe_data((zframe_t *)first), sizeof event);
    zmsg_destroy(&message);
    if (event)
        s_put(self, event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ? 'C' : 'D', "", 0);
}

/* ---- the program */

/* A peer that is only silent is found by messages that do not come: the kernel, and a restarted
 * host, find the others. */
static bool
s_connect(relay_t *self, const char *endpoint, const crema_keys_t *keys)
{
    const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
    self->sock = zsock_new(ZMQ_DEALER);
    self->watch = zsock_new(ZMQ_PAIR);
    if (!self->sock || !self->watch)
        return false;
    crema_socket_prepare(self->sock, CREMA_ROLE_AGENT);
    zsock_set_handshake_ivl(self->sock, 3000);
    zsock_set_reconnect_ivl(self->sock, 100);
    zsock_set_reconnect_ivl_max(self->sock, 1000);
    zsock_set_heartbeat_ivl(self->sock, 1000);
    zsock_set_heartbeat_timeout(self->sock, 3000);
    zsock_set_heartbeat_ttl(self->sock, 3000);
    crema_keys_connect(keys, self->sock);
    return zmq_socket_monitor(zsock_resolve(self->sock), WATCH, events) == 0 &&
           zsock_connect(self->watch, WATCH) == 0 &&
           crema_socket_connect(self->sock, endpoint) == CREMA_OK;
}

static int
s_serve(relay_t *self, const char *endpoint, const char *keys_dir, int signals)
{
    crema_keys_t *keys = NULL;
    const char *why = NULL;
    char text[1024];
    crema_err_t err = crema_keys_load(keys_dir, CREMA_AS_CLIENT, &keys, &why);
    if (err != CREMA_OK) {
        snprintf(text, sizeof text, "keys in %s cannot be used: %s", keys_dir,
                 why ? why : crema_err_text(err));
        return s_refuse(self, text);
    }
    bool good = s_connect(self, endpoint, keys);
    crema_keys_destroy(&keys);
    if (!good) {
        snprintf(text, sizeof text, "%s is not an endpoint such as tcp://127.0.0.1:5700", endpoint);
        return s_refuse(self, text);
    }
    while (!self->over) {
        const short more = self->out_size == 0 ? ZMQ_POLLIN : 0;
        zmq_pollitem_t items[] = {
            {.fd = signals, .events = ZMQ_POLLIN},
            {.fd = STDIN_FILENO, .events = ZMQ_POLLIN},
            {.fd = STDOUT_FILENO, .events = more ? 0 : ZMQ_POLLOUT},
            {.socket = zsock_resolve(self->watch), .events = more},
            {.socket = zsock_resolve(self->sock), .events = more},
        };
        if (zmq_poll(items, 5, -1) < 0 && errno != EINTR)
            return EXIT_FAILURE;
        if (items[0].revents) {
            int number = crema_signals_read(signals);
            self->over = number == SIGTERM || number == SIGINT;
        }
        if (items[1].revents)
            s_read(self);
        if (items[2].revents & ZMQ_POLLERR)
            self->over = true;
        else if (items[2].revents)
            s_write(self);
        if (items[3].revents && self->out_size == 0)
            s_on_event(self);
        else if (items[4].revents && self->out_size == 0)
            s_receive(self);
    }
    return 0;
}

int
agg_relay_run(const char *endpoint, const char *keys_dir)
{
    int signals;
    relay_t *self = calloc(1, sizeof *self);
    if (!self || crema_signals_new(&signals) != CREMA_OK ||
        fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK) != 0) {
        free(self);
        return EXIT_FAILURE;
    }
    int status = s_serve(self, endpoint, keys_dir, signals);
    if (self->watch && self->sock)
        zmq_socket_monitor(zsock_resolve(self->sock), NULL, 0);
    zsock_destroy(&self->watch);
    zsock_destroy(&self->sock);
    close(signals);
    free(self);
    return status;
}
