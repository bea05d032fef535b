#include "crema_server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <czmq.h>

#include "crema_clock.h"
#include "crema_crowd.h"
#include "crema_json.h"
#include "crema_keyring.h"
#include "crema_log.h"
#include "crema_notify.h"
#include "crema_zap.h"

#define LOOK_MS 250 /* from a new connection to a look at all of them */
#define WATCHED_MAX 2

struct crema_server {
    crema_keys_t *keys;    /* NULL: unencrypted, reachable from this host only */
    crema_keyring_t *ring; /* NULL without keys */
    crema_zap_t *zap;
    crema_crowd_t *crowd;
    zloop_t *loop; /* NULL: not attached */
    struct {
        zsock_t *sock;
        zsock_t *accepted; /* a message per connection that `sock` accepted */
    } watched[WATCHED_MAX];
    size_t n_watched;
    int look_timer;               /* -1: nothing to look at */
    int log_timer;                /* -1: all refusals are in the log */
    unsigned long crowded;        /* connections that were shut down for their number */
    unsigned long refused_logged; /* of those that `zap` refused, the ones that are in the log */
    int64_t refused_logged_ns;    /* when a line of them was written last; 0: never */
    zsock_t *router;
    char endpoint[256];
};

crema_err_t
crema_server_fail(crema_err_t err, char *ret_why, size_t why_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ret_why, why_size, format, arguments);
    va_end(arguments);
    return err;
}

bool
crema_server_refuses(const char *option, const char *endpoint, const char *keys_dir, bool insecure,
                     char *ret_why, size_t why_size)
{
    if (!strstr(endpoint, "://"))
        snprintf(ret_why, why_size, "--%s: %s is not an endpoint such as tcp://127.0.0.1:5700",
                 option, endpoint);
    else if (!keys_dir && !crema_keys_is_local(endpoint))
        snprintf(ret_why, why_size,
                 "--%s: %s can be reached from other hosts: give --keys DIR (crema keys DIR "
                 "makes one), or bind to 127.0.0.1",
                 option, endpoint);
    else if (!keys_dir && !insecure && strncmp(endpoint, "tcp:", 4) == 0)
        snprintf(ret_why, why_size,
                 "--%s: every user of this host could connect to %s: give --keys DIR (crema keys "
                 "DIR makes one), or ipc:// in a directory of your own, or --insecure if that is "
                 "meant",
                 option, endpoint);
    else
        return false;
    return true;
}

bool
crema_server_refuses_to_send(const char *option, const char *endpoint, const char *keys_dir,
                             bool insecure, char *ret_why, size_t why_size)
{
    if (keys_dir || insecure || !strstr(endpoint, "://") || crema_keys_is_local(endpoint))
        return false;
    snprintf(
        ret_why, why_size,
        "--%s: %s is on another host, where everything would go in the clear: give --keys DIR, "
        "or --insecure if that is meant",
        option, endpoint);
    return true;
}

crema_err_t
crema_server_bind_failed(crema_err_t err, const char *option, const char *endpoint, char *ret_why,
                         size_t why_size)
{
    if (err == CREMA_EBUSY)
        return crema_server_fail(
            err, ret_why, why_size,
            "%s is taken by another process: stop it, or choose another port with --%s", endpoint,
            option);
    if (err == CREMA_EINVAL)
        return crema_server_fail(CREMA_ECONFIG, ret_why, why_size,
                                 "--%s: %s is not an endpoint such as tcp://127.0.0.1:5700", option,
                                 endpoint);
    return crema_server_fail(err, ret_why, why_size, "%s cannot be bound: %s", endpoint,
                             strerror(errno));
}

/* The ZAP handler must exist before the socket is bound: CURVE without one admits every key. */
static crema_err_t
s_load_keys(crema_server_t *self, const char *dir, char *why, size_t size)
{
    const char *reason = NULL;
    crema_err_t err = crema_keys_load(dir, CREMA_AS_SERVER, &self->keys, &reason);
    if (err != CREMA_OK)
        return crema_server_fail(CREMA_ECONFIG, why, size, "the keys in %s cannot be used: %s", dir,
                                 reason ? reason : crema_err_text(err));
    if (!self->keys)
        return CREMA_OK;
    err = crema_keyring_new(crema_keys_dir(self->keys), &self->ring);
    if (err != CREMA_OK)
        return crema_server_fail(err, why, size, "the keys of %s cannot be listed: %s",
                                 crema_keys_dir(self->keys), crema_err_text(err));
    if (crema_keyring_count(self->ring) == 0)
        return crema_server_fail(CREMA_ECONFIG, why, size,
                                 "%s admits no key: there is no file ROLE.NAME.key in it (crema "
                                 "keys makes them)",
                                 crema_keys_dir(self->keys));
    err = crema_zap_new(self->keys, self->ring, &self->zap);
    return err == CREMA_OK
               ? err
               : crema_server_fail(err, why, size, "the handler of keys cannot start: %s",
                                   crema_err_text(err));
}

static crema_err_t
s_bind(crema_server_t *self, crema_socket_role_t role, const char *endpoint, char *why, size_t size)
{
    self->router = zsock_new(ZMQ_ROUTER);
    if (!self->router)
        return crema_server_fail(CREMA_ENOMEM, why, size, "no socket: %s", strerror(errno));
    crema_socket_prepare(self->router, role);
    crema_keys_serve(self->keys, self->router, CREMA_DOMAIN_SERVICE);
    crema_err_t err =
        crema_socket_bind(self->router, endpoint, self->endpoint, sizeof self->endpoint);
    return err == CREMA_OK ? err : crema_server_bind_failed(err, "bind", endpoint, why, size);
}

crema_err_t
crema_server_new(crema_socket_role_t role, const char *endpoint, const char *keys_dir,
                 char *ret_why, size_t why_size, crema_server_t **ret_self)
{
    if (crema_server_refuses("bind", endpoint, keys_dir, true, ret_why, why_size))
        return CREMA_ECONFIG;
    crema_server_t *self = calloc(1, sizeof *self);
    if (!self)
        return crema_server_fail(CREMA_ENOMEM, ret_why, why_size, "out of memory");
    crema_err_t err = s_load_keys(self, keys_dir, ret_why, why_size);
    if (err == CREMA_OK)
        err = s_bind(self, role, endpoint, ret_why, why_size);
    if (err != CREMA_OK) {
        crema_server_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

static void
s_detach(crema_server_t *self)
{
    if (!self->loop)
        return;
    if (self->look_timer >= 0)
        zloop_timer_end(self->loop, self->look_timer);
    if (self->log_timer >= 0)
        zloop_timer_end(self->loop, self->log_timer);
    if (self->zap)
        zloop_reader_end(self->loop, crema_zap_socket(self->zap));
    for (size_t i = 0; i < self->n_watched; i++) {
        zloop_reader_end(self->loop, self->watched[i].accepted);
        zmq_socket_monitor(zsock_resolve(self->watched[i].sock), NULL, 0);
        zsock_destroy(&self->watched[i].accepted);
    }
}

void
crema_server_destroy(crema_server_t **self_p)
{
    crema_server_t *self = *self_p;
    if (self) {
        s_detach(self);
        crema_crowd_destroy(&self->crowd);
        zsock_destroy(&self->router);
        crema_zap_destroy(&self->zap);
        crema_keyring_destroy(&self->ring);
        crema_keys_destroy(&self->keys);
        free(self);
    }
    *self_p = NULL;
}

static int s_on_log_due(zloop_t *loop, int timer, void *context);

/* Logs refused connections once per period with a count, since a client with a foreign key keeps
 * dialling. */
static void
s_log_refused(crema_server_t *self)
{
    unsigned long refused = crema_zap_refused(self->zap);
    int64_t now_ns = crema_clock_mono_ns();
    if (refused == self->refused_logged || self->log_timer >= 0)
        return;
    int64_t due_ns = self->refused_logged_ns ? self->refused_logged_ns + CREMA_REPEAT_PERIOD_NS : 0;
    if (now_ns < due_ns) {
        self->log_timer = zloop_timer(self->loop, (size_t)((due_ns - now_ns) / 1000000 + 1), 1,
                                      s_on_log_due, self);
        return;
    }
    crema_log_warn("key_refused", CREMA_TEXT("address", crema_zap_refused_address(self->zap)),
                   CREMA_INT("count", refused - self->refused_logged),
                   CREMA_INT("refused", refused));
    self->refused_logged = refused;
    self->refused_logged_ns = now_ns;
}

static int
s_on_log_due(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    crema_server_t *self = context;
    self->log_timer = -1;
    s_log_refused(self);
    return 0;
}

static int
s_on_look(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    crema_server_t *self = context;
    char address[CREMA_CROWD_ADDRESS_BYTES];
    self->look_timer = -1;
    size_t shut = crema_crowd_thin(self->crowd, address);
    self->crowded += shut;
    if (shut > 0)
        crema_log_warn("too_many_connections", CREMA_TEXT("address", address),
                       CREMA_INT("shut", shut));
    s_log_refused(self);
    return 0;
}

/* Soon, since many connections come together, and once for all of them: it looks at every
 * descriptor of the process. */
static int
s_look_soon(crema_server_t *self)
{
    if (self->look_timer < 0)
        self->look_timer = zloop_timer(self->loop, LOOK_MS, 1, s_on_look, self);
    return self->look_timer < 0 ? -1 : 0;
}

static int
s_on_zap(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    crema_server_t *self = context;
    crema_zap_handle(self->zap);
    return s_look_soon(self);
}

static int
s_on_accepted(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop;
    void *raw = zsock_resolve(sock);
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (zmq_msg_recv(&part, raw, ZMQ_DONTWAIT) >= 0)
        ;
    zmq_msg_close(&part);
    return s_look_soon(context);
}

/* Watches the port of a bound socket. Its events must never wait for room: libzmq's own thread
 * would wait with them. */
static bool
s_watch(crema_server_t *self, zsock_t *sock)
{
    char endpoint[256], events[64];
    size_t size = sizeof endpoint;
    void *raw = zsock_resolve(sock);
    if (zmq_getsockopt(raw, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0)
        return false;
    snprintf(events, sizeof events, "inproc://accepted-%p", raw);
    zsock_t *pair = zsock_new(ZMQ_PAIR);
    if (!pair)
        return false;
    self->watched[self->n_watched].sock = sock;
    self->watched[self->n_watched++].accepted = pair;
    crema_crowd_watch(self->crowd, endpoint);
    zsock_set_rcvhwm(pair, 0);
    return zmq_socket_monitor(raw, events, ZMQ_EVENT_ACCEPTED) == 0 &&
           zsock_connect(pair, "%s", events) == 0 &&
           zloop_reader(self->loop, pair, s_on_accepted, self) == 0;
}

crema_err_t
crema_server_attach(crema_server_t *self, zloop_t *loop, size_t connections_each_max, zsock_t *also)
{
    crema_err_t err = crema_crowd_new(connections_each_max, &self->crowd);
    if (err != CREMA_OK)
        return err;
    self->loop = loop;
    self->look_timer = self->log_timer = -1;
    bool is_done = s_watch(self, self->router) && (!also || s_watch(self, also));
    if (is_done && self->zap)
        is_done = zloop_reader(loop, crema_zap_socket(self->zap), s_on_zap, self) == 0;
    return is_done && s_look_soon(self) == 0 ? CREMA_OK : CREMA_ENOMEM;
}

crema_keyring_t *
crema_server_ring(const crema_server_t *self)
{
    return self->ring;
}

bool
crema_server_refresh(crema_server_t *self, bool in_any_case)
{
    if (!self->ring || !crema_keyring_refresh(self->ring, in_any_case))
        return false;
    crema_log_info("keys_changed", CREMA_INT("admitted", crema_keyring_count(self->ring)),
                   CREMA_INT("unreadable", crema_keyring_unreadable(self->ring)));
    return true;
}

void
crema_server_set_patient(crema_server_t *self, bool patient)
{
    if (self->zap)
        crema_zap_set_patient(self->zap, patient);
}

unsigned long
crema_server_refused(const crema_server_t *self)
{
    return crema_zap_refused(self->zap);
}

unsigned long
crema_server_crowded(const crema_server_t *self)
{
    return self->crowded;
}

zsock_t *
crema_server_socket(const crema_server_t *self)
{
    return self->router;
}

const crema_keys_t *
crema_server_keys(const crema_server_t *self)
{
    return self->keys;
}

const char *
crema_server_endpoint(const crema_server_t *self)
{
    return self->endpoint;
}

void
crema_server_print_ready(const char *program, const char *endpoint, const char *tap,
                         const char *metrics)
{
    char line[1024];
    crema_json_t json = crema_json_begin(line, sizeof line);
    crema_json_open(&json, NULL, '{');
    crema_json_text(&json, "event", "ready");
    crema_json_text(&json, "program", program);
    crema_json_text(&json, "endpoint", endpoint);
    if (tap)
        crema_json_text(&json, "tap", tap);
    if (metrics)
        crema_json_text(&json, "metrics", metrics);
    crema_json_close(&json, '}');
    puts(line);
    fflush(stdout);
    crema_notify_ready();
}
