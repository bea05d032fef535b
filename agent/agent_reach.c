#include "agent_reach.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <czmq.h>

#include "crema_random.h"
#include "crema_reactor.h"
#include "crema_server.h"

#define PATIENCE_MS 1000 /* for the addresses, before the way over Dask is taken */
/* The same if an aggregator refused this agent's key; and how long after its last refusal that
 * still holds. Longer than the pause between two refusals. */
#define REFUSED_PATIENCE_MS 10000
#define PAUSE_MIN_MS 100 /* after the first refusal; the key may be admitted a moment later */
#define PAUSE_MAX_MS 5000
#define LOOK_MS 100 /* between two checks for failed addresses and for the way */
#define ENDPOINT_BYTES 256
#define WAY_NAME "way"

/* An address being tried. */
typedef struct {
    agent_reach_t *reach;
    char endpoint[ENDPOINT_BYTES];
    zsock_t *sock;    /* NULL: to be created at the next check */
    zsock_t *watch;   /* socket monitor of libzmq */
    bool failed;      /* refused: libzmq does not retry */
    int64_t pause_ms; /* before it is tried again after a refusal; doubles; 0: none came yet */
    int64_t next_ms;  /* when that is; monotonic */
} candidate_t;

struct agent_reach {
    zloop_t *loop;
    agent_reach_config_t config;
    /* descriptor of the directory, so that no path is too long for a socket; -1: none */
    int way_fd;
    candidate_t candidates[AGENT_REACH_MAX];
    size_t n;
    int timer; /* -1: no search is running */
    int looked_ms;
    int64_t refused_ms; /* when an aggregator last refused this agent's key; monotonic; 0: never */
};

/* ---- the list */

/* The next endpoint of a list, or NULL at its end; *at_p moves behind it. False if it is too
 * long. */
static bool
s_next(const char **at_p, char ret_endpoint[ENDPOINT_BYTES])
{
    size_t length = strcspn(*at_p, ",");
    if (length == 0 || length >= ENDPOINT_BYTES)
        return false;
    memcpy(ret_endpoint, *at_p, length);
    ret_endpoint[length] = '\0';
    *at_p += length + ((*at_p)[length] == ',');
    return true;
}

bool
agent_reach_refuses(const char *endpoints, const char *keys_dir, bool insecure, char *ret_why,
                    size_t why_size)
{
    char endpoint[ENDPOINT_BYTES];
    size_t n = 0;
    const char *at = endpoints;
    do {
        if (n++ == AGENT_REACH_MAX || !s_next(&at, endpoint) ||
            (strncmp(endpoint, "tcp://", 6) != 0 && strncmp(endpoint, "ipc://", 6) != 0)) {
            snprintf(ret_why, why_size,
                     "--aggregator must be tcp://HOST:PORT or ipc://PATH, or up to %d of them with "
                     "commas between",
                     AGENT_REACH_MAX);
            return true;
        }
        if (crema_server_refuses_to_send("aggregator", endpoint, keys_dir, insecure, ret_why,
                                         why_size))
            return true;
    } while (*at);
    return false;
}

/* ---- one address */

static void
s_unwatch(candidate_t *candidate)
{
    if (!candidate->watch)
        return;
    zloop_reader_end(candidate->reach->loop, candidate->watch);
    zmq_socket_monitor(zsock_resolve(candidate->sock), NULL, 0);
    zsock_destroy(&candidate->watch);
}

static void
s_forget(candidate_t *candidate)
{
    s_unwatch(candidate);
    zsock_destroy(&candidate->sock);
    candidate->failed = false;
}

static void
s_found(candidate_t *candidate)
{
    agent_reach_t *self = candidate->reach;
    s_unwatch(candidate);
    zsock_t *sock = candidate->sock;
    candidate->sock = NULL;
    for (size_t i = 0; i < self->n; i++)
        self->candidates[i].pause_ms = self->candidates[i].next_ms = 0;
    self->refused_ms = 0;
    agent_reach_end(self);
    self->config.on_found(self->config.context, sock, candidate->endpoint, false);
}

/* A server pays for each handshake that it refuses. */
static void
s_refused(candidate_t *candidate)
{
    int64_t pause_ms = 2 * candidate->pause_ms;
    pause_ms = pause_ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : pause_ms;
    candidate->pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
    candidate->next_ms = zclock_mono() + candidate->pause_ms;
    candidate->failed = true;
}

static int
s_on_event(zloop_t *loop, zsock_t *watch, void *arg)
{
    (void)loop;
    candidate_t *candidate = arg;
    zmsg_t *msg = zmsg_recv_nowait(watch);
    const zframe_t *first = msg ? zmsg_first(msg) : NULL;
    uint16_t event = 0;
    if (first && zframe_size((zframe_t *)first) >= sizeof event)
        memcpy(&event, zframe_data((zframe_t *)first), sizeof event);
    zmsg_destroy(&msg);
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
        s_found(candidate);
    else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ||
             event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
        s_refused(candidate);
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        candidate->reach->refused_ms = zclock_mono();
    return 0;
}

static zsock_t *
s_dealer(const agent_reach_t *self)
{
    zsock_t *sock = zsock_new(ZMQ_DEALER);
    if (sock) {
        crema_socket_prepare(sock, CREMA_ROLE_AGENT);
        crema_keys_connect(self->config.keys, sock);
    }
    return sock;
}

static crema_err_t
s_try(candidate_t *candidate)
{
    char name[64];
    snprintf(name, sizeof name, "inproc://reach-%016llx", (unsigned long long)crema_random_u64());
    candidate->sock = s_dealer(candidate->reach);
    if (!candidate->sock)
        return CREMA_ENOMEM;
    int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
    crema_err_t err = CREMA_ENOMEM;
    if (zmq_socket_monitor(zsock_resolve(candidate->sock), name, events) == 0)
        candidate->watch = zsock_new(ZMQ_PAIR);
    if (candidate->watch && zsock_connect(candidate->watch, "%s", name) == 0 &&
        zloop_reader(candidate->reach->loop, candidate->watch, s_on_event, candidate) == 0) {
        zloop_reader_set_tolerant(candidate->reach->loop, candidate->watch);
        err = crema_socket_connect(candidate->sock, candidate->endpoint);
    }
    if (err != CREMA_OK)
        s_forget(candidate);
    return err;
}

/* ---- the search */

/* True if a worker's socket exists and was taken. */
static bool
s_take_way(agent_reach_t *self)
{
    struct stat st;
    char endpoint[64];
    if (self->way_fd < 0 || fstatat(self->way_fd, WAY_NAME, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISSOCK(st.st_mode))
        return false;
    zsock_t *sock = s_dealer(self);
    if (!sock)
        return false;
    snprintf(endpoint, sizeof endpoint, "ipc:///proc/self/fd/%d/" WAY_NAME, self->way_fd);
    if (crema_socket_connect(sock, endpoint) != CREMA_OK) {
        zsock_destroy(&sock);
        return false;
    }
    agent_reach_end(self);
    self->refused_ms = 0;
    self->config.on_found(self->config.context, sock, WAY_NAME, true);
    return true;
}

static int
s_on_look(zloop_t *loop, int timer, void *arg)
{
    (void)loop;
    agent_reach_t *self = arg;
    if (timer != self->timer) /* of a search that has ended: see crema_loop_new() */
        return 0;
    self->looked_ms += LOOK_MS;
    int patience_ms = agent_reach_is_refused(self) ? REFUSED_PATIENCE_MS : PATIENCE_MS;
    if (self->looked_ms >= patience_ms && s_take_way(self))
        return 0;
    const int64_t now_ms = zclock_mono();
    for (size_t i = 0; i < self->n; i++) {
        candidate_t *candidate = &self->candidates[i];
        if (candidate->failed)
            s_forget(candidate);
        if (!candidate->sock && now_ms >= candidate->next_ms)
            (void)s_try(candidate);
    }
    return 0;
}

crema_err_t
agent_reach_begin(agent_reach_t *self)
{
    agent_reach_end(self);
    crema_err_t err = CREMA_EINVAL;
    for (size_t i = 0; i < self->n; i++) {
        bool pauses = zclock_mono() < self->candidates[i].next_ms; /* since an earlier search */
        if (pauses || s_try(&self->candidates[i]) == CREMA_OK)
            err = CREMA_OK;
    }
    if (err != CREMA_OK)
        return err;
    self->looked_ms = 0;
    self->timer = zloop_timer(self->loop, LOOK_MS, 0, s_on_look, self);
    return self->timer < 0 ? CREMA_ENOMEM : CREMA_OK;
}

bool
agent_reach_is_refused(const agent_reach_t *self)
{
    return self->refused_ms > 0 && zclock_mono() - self->refused_ms < REFUSED_PATIENCE_MS;
}

void
agent_reach_end(agent_reach_t *self)
{
    if (self->timer >= 0)
        zloop_timer_end(self->loop, self->timer);
    self->timer = -1;
    for (size_t i = 0; i < self->n; i++)
        s_forget(&self->candidates[i]);
}

/* ---- creation */

crema_err_t
agent_reach_new(zloop_t *loop, const agent_reach_config_t *config, agent_reach_t **ret_self)
{
    agent_reach_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->loop = loop;
    self->config = *config;
    self->timer = -1;
    self->way_fd = config->way_dir ? open(config->way_dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    for (const char *at = config->endpoints; *at && self->n < AGENT_REACH_MAX;) {
        candidate_t *candidate = &self->candidates[self->n];
        candidate->reach = self;
        if (!s_next(&at, candidate->endpoint))
            break;
        self->n++;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agent_reach_destroy(agent_reach_t **self_p)
{
    agent_reach_t *self = *self_p;
    if (!self)
        return;
    agent_reach_end(self);
    if (self->way_fd >= 0)
        close(self->way_fd);
    free(self);
    *self_p = NULL;
}
