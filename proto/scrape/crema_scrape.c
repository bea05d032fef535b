#include "crema_scrape.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <czmq.h>
#include <microhttpd.h>

#include "crema_clock.h"
#include "crema_log.h"
#include "crema_scrape_address.h"
#include "crema_server.h"
#include "crema_version.h"

#define SECOND_NS INT64_C(1000000000)
#define TURNS 4     /* of the HTTP server in one of the loop */
#define LOOK_MS 250 /* at connections that are open */
#define HEADERS_MAX 8192
#define SILENCE_S 5 /* of a connection, in either direction */
#define SPARE 4     /* connections kept free by cutting the oldest */

typedef struct {
    int fd; /* -1: free */
    bool cut;
    int64_t since_ns;
} connection_t;

struct crema_scrape {
    const char *program;
    crema_scrape_fn fn;
    void *context;
    zloop_t *loop;
    struct MHD_Daemon *daemon;
    struct MHD_Response *current, *missing, *not_allowed; /* current NULL: none was asked for yet */
    int epoll_fd;
    bool armed; /* a timer is set */
    int64_t current_ns, second_ns;
    unsigned in_second; /* connections in the second that began at second_ns */
    connection_t connections[CREMA_SCRAPE_CONNECTIONS];
    size_t n;
    uint64_t scrapes, refused;
    double started_s; /* since 1970 */
    char url[CREMA_SCRAPE_URL_BYTES];
    char text[CREMA_SCRAPE_TEXT_MAX];
};

bool
crema_scrape_refuses(const char *address, char *ret_why, size_t why_size)
{
    if (!address || crema_scrape_address_is_sound(address))
        return false;
    snprintf(ret_why, why_size,
             "--metrics: \"%s\" is not an address; give a port such as 9101 for this host alone, "
             "or an IP address and a port such as 0.0.0.0:9101",
             address);
    return true;
}

/* ---- the text */

static double
s_resident_bytes(void)
{
    long total, resident;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    const int n = fscanf(file, "%ld %ld", &total, &resident);
    fclose(file);
    return n == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

static void
s_expose_process(const crema_scrape_t *self, crema_exposition_t *out)
{
    crema_expose_one(out, CREMA_SERIES_BUILD, self->program, CREMA_VERSION, 1);
    crema_expose(out, CREMA_SERIES_CPU, (double)crema_clock_cpu_ns() * 1e-9);
    crema_expose(out, CREMA_SERIES_MEMORY, s_resident_bytes());
    crema_expose(out, CREMA_SERIES_STARTED, self->started_s);
    crema_expose(out, CREMA_SERIES_SCRAPES, (double)self->scrapes);
    crema_expose(out, CREMA_SERIES_SCRAPES_REFUSED, (double)self->refused);
}

static struct MHD_Response *
s_response(char *text, size_t size, const char *type)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    if (MHD_add_response_header(response, "Content-Type", type) == MHD_YES &&
        MHD_add_response_header(response, "Connection", "close") == MHD_YES)
        return response;
    MHD_destroy_response(response);
    return NULL;
}

/* The text of now, or of a moment ago: many clients cost as much as one. NULL: no memory. */
static struct MHD_Response *
s_current(crema_scrape_t *self)
{
    const int64_t now_ns = crema_clock_mono_ns();
    if (self->current && now_ns - self->current_ns < CREMA_SCRAPE_FRESH_NS)
        return self->current;
    crema_exposition_t out = crema_exposition_begin(self->text, sizeof self->text);
    s_expose_process(self, &out);
    self->fn(self->context, &out);
    if (out.cut)
        crema_log_warn("metrics_cut", CREMA_INT("bytes_max", sizeof self->text));
    if (self->current)
        MHD_destroy_response(self->current);
    self->current = s_response(out.text, out.used, "text/plain; version=0.0.4; charset=utf-8");
    self->current_ns = now_ns;
    return self->current;
}

/* ---- what the HTTP server asks */

static enum MHD_Result
s_on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
             const char *version, const char *upload, size_t *upload_size, void **request)
{
    (void)version, (void)upload, (void)request;
    *upload_size = 0; /* passed over */
    crema_scrape_t *self = context;
    const bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (!reads)
        return MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, self->not_allowed);
    if (strcmp(url, "/metrics") != 0)
        return MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, self->missing);
    self->scrapes++;
    struct MHD_Response *response = s_current(self);
    return response ? MHD_queue_response(connection, MHD_HTTP_OK, response) : MHD_NO;
}

/* More than a few per second come from no scraper. */
static enum MHD_Result
s_on_accept(void *context, const struct sockaddr *address, socklen_t size)
{
    (void)address, (void)size;
    crema_scrape_t *self = context;
    const int64_t now_ns = crema_clock_mono_ns();
    if (now_ns - self->second_ns >= SECOND_NS) {
        self->second_ns = now_ns;
        self->in_second = 0;
    }
    if (self->in_second++ < CREMA_SCRAPE_RATE)
        return MHD_YES;
    self->refused++;
    return MHD_NO;
}

static void
s_cut(crema_scrape_t *self, connection_t *connection)
{
    if (connection->cut)
        return;
    connection->cut = true;
    self->refused++;
    (void)shutdown(connection->fd, SHUT_RDWR); /* libmicrohttpd sees its end and closes it */
}

static void
s_cut_oldest(crema_scrape_t *self)
{
    connection_t *oldest = NULL;
    for (size_t i = 0; i < CREMA_SCRAPE_CONNECTIONS; i++) {
        connection_t *each = &self->connections[i];
        if (each->fd >= 0 && !each->cut && (!oldest || each->since_ns < oldest->since_ns))
            oldest = each;
    }
    if (oldest)
        s_cut(self, oldest);
}

static void
s_on_connection(void *context, struct MHD_Connection *connection, void **place,
                enum MHD_ConnectionNotificationCode what)
{
    crema_scrape_t *self = context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        connection_t *gone = *place;
        if (gone) {
            gone->fd = -1;
            self->n--;
        }
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    for (size_t i = 0; info && i < CREMA_SCRAPE_CONNECTIONS; i++) {
        if (self->connections[i].fd >= 0)
            continue;
        if (++self->n > CREMA_SCRAPE_CONNECTIONS - SPARE)
            s_cut_oldest(self);
        self->connections[i] =
            (connection_t){.fd = info->connect_fd, .since_ns = crema_clock_mono_ns()};
        *place = &self->connections[i];
        return;
    }
}

/* ---- the loop */

static bool
s_has_more(const crema_scrape_t *self)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    return MHD_get_timeout(self->daemon, &wait_ms) == MHD_YES && wait_ms == 0;
}

static int s_on_look(zloop_t *loop, int timer, void *context);

/* A few turns, then it is the others' turn; the rest follows in a moment. */
static void
s_turn(crema_scrape_t *self)
{
    bool more = true;
    for (int i = 0; i < TURNS && more; i++) {
        (void)MHD_run(self->daemon);
        more = s_has_more(self);
    }
    if ((more || self->n > 0) && !self->armed)
        self->armed = zloop_timer(self->loop, more ? 1 : LOOK_MS, 1, s_on_look, self) >= 0;
}

static int
s_on_look(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    crema_scrape_t *self = context;
    const int64_t now_ns = crema_clock_mono_ns();
    self->armed = false;
    for (size_t i = 0; i < CREMA_SCRAPE_CONNECTIONS; i++) {
        connection_t *each = &self->connections[i];
        if (each->fd >= 0 && now_ns - each->since_ns >= CREMA_SCRAPE_PATIENCE_NS)
            s_cut(self, each);
    }
    s_turn(self);
    return 0;
}

static int
s_on_readable(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    (void)loop, (void)item;
    s_turn(context);
    return 0;
}

/* ---- life */

static crema_err_t
s_start(crema_scrape_t *self, int listen_fd)
{
    char missing[] = "see /metrics\n", not_allowed[] = "GET only\n";
    self->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, s_on_accept, self, s_on_request, self, MHD_OPTION_LISTEN_SOCKET,
        listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CREMA_SCRAPE_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEADERS_MAX, MHD_OPTION_NOTIFY_CONNECTION, s_on_connection, self, MHD_OPTION_END);
    if (!self->daemon) {
        close(listen_fd);
        return CREMA_ENOMEM;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(self->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    self->missing = s_response(missing, strlen(missing), "text/plain");
    self->not_allowed = s_response(not_allowed, strlen(not_allowed), "text/plain");
    if (!info || !self->missing || !self->not_allowed)
        return CREMA_ENOMEM;
    zmq_pollitem_t item = {.fd = info->epoll_fd, .events = ZMQ_POLLIN};
    self->epoll_fd = info->epoll_fd;
    return zloop_poller(self->loop, &item, s_on_readable, self) == 0 ? CREMA_OK : CREMA_ENOMEM;
}

static crema_err_t
s_fail(crema_err_t err, const char *address, char *why, size_t size)
{
    if (err == CREMA_EINVAL) {
        (void)crema_scrape_refuses(address, why, size);
        return CREMA_ECONFIG;
    }
    return crema_server_fail(err, why, size, "--metrics: cannot listen at %s: %s", address,
                             err == CREMA_EBUSY ? "the port is taken" : strerror(errno));
}

crema_err_t
crema_scrape_new(const char *address, const char *program, zloop_t *loop, crema_scrape_fn fn,
                 void *context, char *ret_why, size_t why_size, crema_scrape_t **ret_self)
{
    int fd;
    *ret_self = NULL;
    if (!address)
        return CREMA_OK;
    crema_scrape_t *self = calloc(1, sizeof *self);
    if (!self)
        return crema_server_fail(CREMA_ENOMEM, ret_why, why_size, "out of memory");
    self->program = program;
    self->loop = loop;
    self->fn = fn;
    self->context = context;
    self->epoll_fd = -1;
    self->started_s = (double)crema_clock_real_ns() * 1e-9;
    for (size_t i = 0; i < CREMA_SCRAPE_CONNECTIONS; i++)
        self->connections[i].fd = -1;
    crema_err_t err = crema_scrape_listen(address, &fd, self->url);
    if (err == CREMA_OK)
        err = s_start(self, fd);
    if (err != CREMA_OK) {
        err = s_fail(err, address, ret_why, why_size);
        crema_scrape_destroy(&self);
        return err;
    }
    crema_log_info("metrics_served", CREMA_TEXT("url", self->url));
    *ret_self = self;
    return CREMA_OK;
}

void
crema_scrape_destroy(crema_scrape_t **self_p)
{
    crema_scrape_t *self = *self_p;
    if (self) {
        zmq_pollitem_t item = {.fd = self->epoll_fd, .events = ZMQ_POLLIN};
        if (self->epoll_fd >= 0)
            zloop_poller_end(self->loop, &item);
        if (self->daemon)
            MHD_stop_daemon(self->daemon);
        struct MHD_Response *const responses[] = {self->current, self->missing, self->not_allowed};
        for (size_t i = 0; i < sizeof responses / sizeof *responses; i++)
            if (responses[i])
                MHD_destroy_response(responses[i]);
        free(self);
    }
    *self_p = NULL;
}

const char *
crema_scrape_url(const crema_scrape_t *self)
{
    return self ? self->url : NULL;
}
