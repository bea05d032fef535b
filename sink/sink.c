#include "sink.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <czmq.h>

#include "crema_clock.h"
#include "crema_keys.h"
#include "crema_log.h"
#include "crema_random.h"
#include "crema_reactor.h"
#include "sink_peers.h"
#include "sink_sealing.h"
#include "sink_store.h"
#include "sink_views.h"

#define STREAMS_MAX (1u << 22)
#define RUNS_MAX (1u << 20)
#define VIEWS_MAX 64u
#define BATCH_MESSAGES 4096 /* taken from the socket before timers and signals get their turn */
#define TICK_MS 1000
#define FREE_TICKS 60 /* journals are freed once a minute */
#define FULL_RETRY_MS 1000
#define STATE_ROWS                                                                                 \
    2048u /* of a STATE: its message stays below the largest whatever the numbers are */
#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

/* Counted, and told with the last line of the log. */
typedef struct {
    uint64_t messages, bad, puts, refused, full, nacks, commits, committed_bytes, sealed,
        seal_failed;
} counts_t;

struct sink {
    sink_config_t config;
    char endpoint[256];
    crema_keys_t *keys;
    crema_zap_t *zap;
    zloop_t *loop;
    zsock_t *router;
    int signals;
    crema_arena_t *arena;
    sink_peers_t *peers;
    sink_store_t *store;
    sink_sealing_t *sealing;
    sink_views_t *views; /* NULL: none wanted */
    sink_space_t space;
    uint64_t free_b;
    bool commit_armed;   /* a timer is set */
    int64_t t_commit_ns; /* monotonic time of the last commit */
    unsigned ticks;
    bool broken;    /* the journal failed */
    bool told_full; /* a peer was told in this batch */
    counts_t counts;
};

/* ---- committing */

static void
s_on_group(void *context, const sink_run_t *run, const sink_journal_t *journal)
{
    sink_t *self = context;
    char dir[PATH_MAX];
    if (!self->views || run->seal_asked ||
        sink_store_run_dir(self->store, &run->run_id, dir) != CREMA_OK)
        return;
    crema_err_t err = sink_views_feed(self->views, &run->run_id, journal, dir);
    if (err != CREMA_OK)
        crema_log_warn("live_view_given_up", CREMA_ID("run", &run->run_id),
                       CREMA_TEXT("why", crema_err_text(err)));
}

/* Tells every aggregator what is durable by now. */
static void
s_acknowledge(sink_t *self)
{
    crema_stream_row_t rows[1024];
    size_t n;
    while ((n = sink_commit_take(sink_store_watermarks(self->store), rows, 1024)) > 0) {
        crema_msg_t msg = {.type = CREMA_MSG_COMMITTED, .table = {n, rows}};
        sink_peers_broadcast(self->peers, &msg);
    }
}

/* False: the loop must end. */
static bool
s_commit(sink_t *self)
{
    size_t bytes = sink_store_pending_bytes(self->store);
    crema_err_t err = sink_store_commit(self->store, s_on_group, self);
    self->t_commit_ns = crema_clock_mono_ns();
    if (err == CREMA_EIO) {
        self->broken = true;
        crema_log_error("journal_broken", CREMA_TEXT("store", self->config.store_dir),
                        CREMA_TEXT("why", strerror(errno)));
        return false;
    }
    if (err != CREMA_OK) {
        self->space = SINK_SPACE_FULL;
        crema_log_warn("journal_full", CREMA_TEXT("store", self->config.store_dir),
                       CREMA_TEXT("why", crema_err_text(err)), CREMA_INT("waiting_bytes", bytes));
        return true;
    }
    if (bytes) {
        self->counts.commits++;
        self->counts.committed_bytes += bytes;
    }
    s_acknowledge(self);
    return true;
}

static int
s_on_commit_due(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    sink_t *self = context;
    self->commit_armed = false;
    return s_commit(self) ? 0 : -1;
}

/* At once if the last commit is an interval ago or enough has come together, else when the interval is over. */
static bool
s_commit_soon(sink_t *self)
{
    size_t pending = sink_store_pending_bytes(self->store);
    if (pending == 0) {
        s_acknowledge(self);
        return true;
    }
    int64_t wait_ns = self->t_commit_ns + self->config.commit_interval_ns - crema_clock_mono_ns();
    if (wait_ns <= 0 || pending >= (size_t)self->config.commit_bytes)
        return s_commit(self);
    if (!self->commit_armed) {
        size_t wait_ms = (size_t)((wait_ns + 999999) / 1000000);
        self->commit_armed = zloop_timer(self->loop, wait_ms, 1, s_on_commit_due, self) >= 0;
    }
    return self->commit_armed || s_commit(self);
}

/* ---- messages */

static void
s_tell_full(sink_t *self, size_t peer)
{
    self->counts.full++;
    if (self->told_full)
        return;
    self->told_full = true;
    crema_msg_t msg = {
        .type = CREMA_MSG_FULL,
        .full = {.retry_after_ms = FULL_RETRY_MS, .free_b = self->free_b},
    };
    sink_peers_send(self->peers, peer, &msg);
}

static crema_err_t
s_put(sink_t *self, const crema_data_t *put, sink_store_put_t *ret_answer)
{
    crema_err_t err = sink_store_put(self->store, put, crema_clock_real_ns(), ret_answer);
    if (err != CREMA_ELIMIT || sink_store_pending_bytes(self->store) < SINK_GROUP_BYTES_MAX / 2)
        return err;
    if (!s_commit(self))
        return CREMA_EIO;
    return sink_store_put(self->store, put, crema_clock_real_ns(), ret_answer);
}

static void
s_on_put(sink_t *self, size_t peer, const crema_msg_t *msg)
{
    sink_store_put_t answer;
    self->counts.puts++;
    if (self->space == SINK_SPACE_FULL) {
        s_tell_full(self, peer);
        return;
    }
    crema_err_t err = s_put(self, &msg->data, &answer);
    if (err == CREMA_ENOSPC) {
        self->space = SINK_SPACE_FULL;
        s_tell_full(self, peer);
    } else if (err != CREMA_OK) {
        self->counts.refused++;
        crema_log_warn("put_refused", CREMA_ID("stream", &msg->data.stream_id),
                       CREMA_ID("run", &msg->data.run_id),
                       CREMA_INT("first_seq", msg->data.first_seq),
                       CREMA_TEXT("why", crema_err_text(err)));
    } else if (answer.decision == SINK_PUT_GAP) {
        self->counts.nacks++;
        crema_msg_t nack = {
            .type = CREMA_MSG_NACK,
            .nack = {.stream_id = msg->data.stream_id, .expected_next = answer.next},
        };
        sink_peers_send(self->peers, peer, &nack);
    } else if (answer.decision != SINK_PUT_APPEND) {
        sink_commit_ask(sink_store_watermarks(self->store), &msg->data.stream_id);
    }
}

/* In messages of at most STATE_ROWS; all but the last say that there are more. */
static void
s_send_rows(sink_t *self, size_t peer, const crema_stream_row_t *rows, size_t n)
{
    size_t done = 0;
    do {
        size_t part = n - done < STATE_ROWS ? n - done : STATE_ROWS;
        crema_msg_t msg = {
            .type = CREMA_MSG_STATE,
            .flags = done + part < n ? CREMA_WIRE_FLAG_MORE : 0,
            .state = {.store_id = sink_store_id(self->store),
                      .free_b = self->free_b,
                      .table = {part, rows + done}},
        };
        sink_peers_send(self->peers, peer, &msg);
        done += part;
    } while (done < n);
}

/* What is known of each stream asked for; of all that belong to runs without a final file if none is named. */
static void
s_on_open(sink_t *self, size_t peer, const crema_stream_table_t *asked)
{
    crema_stream_row_t *rows = NULL;
    size_t n = asked->n;
    if (n == 0) {
        if (sink_store_open_streams(self->store, &rows, &n) != CREMA_OK)
            return; /* it asks again */
    } else {
        rows = calloc(n, sizeof *rows);
        if (!rows)
            return;
    }
    for (size_t i = 0; i < asked->n; i++)
        if (!sink_commit_get(sink_store_watermarks(self->store), &asked->rows[i].stream_id,
                             &rows[i]))
            rows[i].run_id = asked->rows[i].run_id;
    s_send_rows(self, peer, rows, n);
    free(rows);
}

/* Gives the last answer again, as a message of this start. The message that asked is gone then. */
static void
s_answer_seal(sink_t *self, size_t peer, const crema_id_t *run_id)
{
    uint8_t *bytes;
    size_t size;
    crema_msg_t answer;
    if (!sink_sealing_answer(self->sealing, run_id, &bytes, &size))
        return;
    if (crema_wire_decode(bytes, size, self->arena, &answer) == CREMA_OK)
        sink_peers_send(self->peers, peer, &answer);
    free(bytes);
}

static void
s_on_seal(sink_t *self, size_t peer, const crema_run_msg_t *run, bool is_new)
{
    crema_id_t run_id = run->run_id;
    if (is_new)
        crema_log_info("run_sealing", CREMA_ID("run", &run_id),
                       CREMA_INT("reasons", run->n_reasons));
    else
        s_answer_seal(self, peer, &run_id);
    sink_sealing_ask(self->sealing, &run_id, !is_new, crema_clock_real_ns());
}

/* A message about a run is durable before anything follows from it. False: the loop must end. */
static bool
s_on_run(sink_t *self, size_t peer, const crema_msg_t *msg)
{
    bool is_new;
    crema_err_t err =
        sink_store_run_msg(self->store, msg->type, &msg->run, crema_clock_real_ns(), &is_new);
    if (err == CREMA_ENOENT && msg->type == CREMA_MSG_RUN_SEAL) {
        s_on_seal(self, peer, &msg->run, false);
        return true;
    }
    if (err == CREMA_ENOSPC)
        s_tell_full(self, peer);
    if (err != CREMA_OK) {
        self->counts.refused++;
        crema_log_warn("run_message_refused", CREMA_TEXT("type", crema_msg_name(msg->type)),
                       CREMA_ID("run", &msg->run.run_id), CREMA_TEXT("why", crema_err_text(err)));
        return true;
    }
    if (is_new && msg->type == CREMA_MSG_RUN_OPEN)
        crema_log_info("run_opened", CREMA_ID("run", &msg->run.run_id));
    if (!s_commit(self))
        return false;
    if (sink_store_pending_bytes(self->store) > 0) /* no room: it is asked again */
        s_tell_full(self, peer);
    else if (msg->type == CREMA_MSG_RUN_SEAL)
        s_on_seal(self, peer, &msg->run, is_new);
    else
        sink_peers_send(self->peers, peer, &(crema_msg_t){.type = CREMA_MSG_COMMITTED});
    return true;
}

static void
s_on_clock(sink_t *self, const crema_clock_sample_t *sample)
{
    if (!sink_store_find(self->store, &sample->run_id) || self->space == SINK_SPACE_FULL)
        return;
    if (sink_store_clock(self->store, sample, crema_clock_real_ns()) != CREMA_OK)
        self->counts.refused++;
}

static bool
s_on_message(sink_t *self, size_t peer, const crema_msg_t *msg)
{
    switch (msg->type) {
    case CREMA_MSG_PUT:
        s_on_put(self, peer, msg);
        return !self->broken;
    case CREMA_MSG_OPEN:
        s_on_open(self, peer, &msg->table);
        return true;
    case CREMA_MSG_CLOCK:
        s_on_clock(self, &msg->clock);
        return true;
    case CREMA_MSG_RUN_OPEN:
    case CREMA_MSG_RUN_END:
    case CREMA_MSG_RUN_SEAL:
        return s_on_run(self, peer, msg);
    default:
        self->counts.bad++;
        crema_log_warn("message_unexpected", CREMA_TEXT("type", crema_msg_name(msg->type)));
        return true;
    }
}

/* ---- the socket */

static bool
s_on_parts(sink_t *self, zmq_msg_t *id, zmq_msg_t *body)
{
    crema_msg_t msg;
    bool is_new;
    self->counts.messages++;
    crema_err_t err = crema_wire_decode(zmq_msg_data(body), zmq_msg_size(body), self->arena, &msg);
    if (err != CREMA_OK) {
        self->counts.bad++;
        crema_log_warn("message_bad", CREMA_TEXT("why", crema_err_text(err)));
        return true;
    }
    size_t peer = sink_peers_heard(self->peers, zmq_msg_data(id), zmq_msg_size(id),
                                   crema_clock_mono_ns(), &is_new);
    if (is_new)
        crema_log_info("aggregator_connected",
                       CREMA_INT("aggregators", sink_peers_count(self->peers)));
    return s_on_message(self, peer, &msg);
}

/* Takes one message whole: routing id and body. Anything else is read to its end and counted. False: none waits. */
static bool
s_receive(sink_t *self, zmq_msg_t *id, zmq_msg_t *body, bool *ret_good)
{
    void *raw = zsock_resolve(self->router);
    if (zmq_msg_recv(id, raw, ZMQ_DONTWAIT) < 0)
        return false;
    int parts = 1;
    zmq_msg_t *last = id;
    while (zmq_msg_more(last)) {
        if (zmq_msg_recv(body, raw, ZMQ_DONTWAIT) < 0)
            break;
        last = body;
        parts++;
    }
    *ret_good = parts == 2;
    if (parts != 2)
        self->counts.bad++;
    return true;
}

static int
s_on_readable(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    sink_t *self = context;
    zmq_msg_t id, body;
    bool go_on = true, good;
    size_t bytes = 0;
    self->told_full = false;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    for (int i = 0; go_on && i < BATCH_MESSAGES && bytes < (size_t)self->config.commit_bytes; i++) {
        if (!s_receive(self, &id, &body, &good))
            break;
        bytes += zmq_msg_size(&body);
        if (good)
            go_on = s_on_parts(self, &id, &body);
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return go_on && s_commit_soon(self) ? 0 : -1;
}

static int
s_on_zap(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    crema_zap_handle(((sink_t *)context)->zap);
    return 0;
}

/* ---- time */

/* Aggregators hear at least once a second that the sink is there, and when it is short of room. */
static void
s_say_alive(sink_t *self)
{
    self->space = sink_store_space(self->store, &self->free_b);
    crema_msg_t msg = {.type = CREMA_MSG_COMMITTED};
    sink_peers_broadcast(self->peers, &msg);
    if (self->space == SINK_SPACE_FREE)
        return;
    crema_log_warn("space_short", CREMA_TEXT("store", self->config.store_dir),
                   CREMA_INT("free_bytes", self->free_b),
                   CREMA_TEXT("puts", self->space == SINK_SPACE_FULL ? "refused" : "taken"));
    msg = (crema_msg_t){
        .type = CREMA_MSG_FULL,
        .full = {.retry_after_ms = FULL_RETRY_MS, .free_b = self->free_b},
    };
    sink_peers_broadcast(self->peers, &msg);
}

/* Journals of runs that were sealed longer ago than is asked for. */
static void
s_free_old(sink_t *self)
{
    int64_t before_ns = crema_clock_real_ns() - self->config.retain_ns;
    size_t cursor = 0;
    const sink_run_t *run;
    while ((run = sink_store_next(self->store, &cursor))) {
        if (run->revision == 0 || run->late || run->freed || run->t_sealed_ns > before_ns)
            continue;
        crema_err_t err = sink_store_free(self->store, &run->run_id);
        if (err == CREMA_OK)
            crema_log_info("journal_freed", CREMA_ID("run", &run->run_id));
        else
            crema_log_warn("journal_not_freed", CREMA_ID("run", &run->run_id),
                           CREMA_TEXT("why", crema_err_text(err)));
    }
}

static int
s_on_tick(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    sink_t *self = context;
    if (sink_store_pending_bytes(self->store) > 0 && !self->commit_armed && !s_commit(self))
        return -1;
    s_say_alive(self);
    sink_sealing_tick(self->sealing, crema_clock_real_ns());
    if (++self->ticks % FREE_TICKS == 0)
        s_free_old(self);
    return 0;
}

static int
s_on_flush(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    sink_t *self = context;
    crema_id_t run_id;
    crema_err_t err = sink_views_flush(self->views, &run_id);
    if (err != CREMA_OK)
        crema_log_warn("live_view_given_up", CREMA_ID("run", &run_id),
                       CREMA_TEXT("why", crema_err_text(err)));
    return 0;
}

/* ---- signals */

static bool
s_on_children(sink_t *self)
{
    crema_msg_t msg;
    while (sink_sealing_reap(self->sealing, crema_clock_real_ns(), &msg)) {
        const crema_sealed_t *sealed = &msg.sealed;
        if (sealed->error && sealed->error[0]) {
            self->counts.seal_failed++;
            crema_log_error("seal_failed", CREMA_ID("run", &sealed->run_id),
                            CREMA_TEXT("why", sealed->error));
        } else {
            self->counts.sealed++;
            crema_log_info("sealed", CREMA_ID("run", &sealed->run_id),
                           CREMA_TEXT("path", sealed->path), CREMA_TEXT("verdict", sealed->verdict),
                           CREMA_INT("revision", sealed->revision));
            if (self->views)
                sink_views_end(self->views, &sealed->run_id);
        }
        if (!s_commit(self))
            return false;
        sink_peers_broadcast(self->peers, &msg);
    }
    return true;
}

static int
s_on_signal(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    (void)loop;
    sink_t *self = context;
    for (int number; (number = crema_signals_read(item->fd)) != 0;) {
        if (number == SIGTERM || number == SIGINT)
            return -1;
        if (number == SIGCHLD && !s_on_children(self))
            return -1;
    }
    return 0;
}

/* ---- life */

__attribute__((format(printf, 4, 5))) static crema_err_t
s_fail(crema_err_t err, char *why, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return err;
}

static crema_err_t
s_open_output(const sink_config_t *config, char *why, size_t size)
{
    if (mkdir(config->output_dir, 0777) != 0 && errno != EEXIST)
        return s_fail(CREMA_ECONFIG, why, size, "the output directory %s cannot be made: %s",
                      config->output_dir, strerror(errno));
    if (access(config->output_dir, W_OK | X_OK) != 0)
        return s_fail(CREMA_ECONFIG, why, size, "the output directory %s cannot be written: %s",
                      config->output_dir, strerror(errno));
    return CREMA_OK;
}

static crema_err_t
s_open_store(sink_t *self, char *why, size_t size)
{
    sink_store_config_t config = {
        .dir = self->config.store_dir,
        .limit_bytes = self->config.journal_limit_bytes,
        .streams_max = STREAMS_MAX,
        .runs_max = RUNS_MAX,
    };
    sink_store_report_t report;
    int64_t began_ns = crema_clock_mono_ns();
    crema_err_t err = sink_store_open(&config, &report, why, size, &self->store);
    if (err != CREMA_OK)
        return err;
    crema_id_t id = sink_store_id(self->store);
    crema_log_info("store_opened", CREMA_TEXT("path", self->config.store_dir),
                   CREMA_ID("store", &id), CREMA_INT("runs", report.runs),
                   CREMA_INT("streams", report.streams), CREMA_INT("frames", report.frames),
                   CREMA_INT("bytes", report.bytes), CREMA_INT("torn_bytes", report.torn_bytes),
                   CREMA_INT("ms", (crema_clock_mono_ns() - began_ns) / 1000000));
    if (report.damaged_bytes || report.missing_frames || report.foreign)
        crema_log_warn("store_damaged", CREMA_INT("damaged_bytes", report.damaged_bytes),
                       CREMA_INT("missing_frames", report.missing_frames),
                       CREMA_INT("foreign_directories", report.foreign));
    return CREMA_OK;
}

/* The ZAP handler is there before the socket is bound: CURVE without one admits every key. */
static crema_err_t
s_bind(sink_t *self, char *why, size_t size)
{
    const char *endpoint = self->config.endpoint, *reason = NULL;
    crema_err_t err = crema_keys_load(self->config.keys_dir, true, &self->keys, &reason);
    if (err != CREMA_OK)
        return s_fail(CREMA_ECONFIG, why, size, "the keys in %s cannot be used: %s",
                      self->config.keys_dir, reason ? reason : crema_err_text(err));
    if (!self->keys && !crema_keys_is_local(endpoint))
        return s_fail(CREMA_ECONFIG, why, size,
                      "%s can be reached from other hosts: give --keys DIR (crema-aggregator "
                      "--make-keys DIR makes one), or bind to 127.0.0.1",
                      endpoint);
    if (self->keys) {
        err = crema_zap_new(self->keys, &self->zap);
        if (err != CREMA_OK)
            return s_fail(err, why, size, "the handler of keys cannot start: %s",
                          crema_err_text(err));
    }
    self->router = zsock_new(ZMQ_ROUTER);
    if (!self->router)
        return s_fail(CREMA_ENOMEM, why, size, "no socket: %s", strerror(errno));
    crema_socket_prepare(self->router, CREMA_ROLE_STORE);
    crema_keys_serve(self->keys, self->router);
    err = crema_socket_bind(self->router, endpoint, self->endpoint, sizeof self->endpoint);
    if (err == CREMA_EBUSY)
        return s_fail(err, why, size,
                      "%s is taken by another process: stop it, or choose another port with --bind",
                      endpoint);
    if (err == CREMA_EINVAL)
        return s_fail(CREMA_ECONFIG, why, size, "%s is no endpoint such as tcp://127.0.0.1:5701",
                      endpoint);
    if (err != CREMA_OK)
        return s_fail(err, why, size, "%s cannot be bound: %s", endpoint, strerror(errno));
    return CREMA_OK;
}

static crema_err_t
s_wire_up(sink_t *self)
{
    zmq_pollitem_t signals = {.fd = self->signals, .events = ZMQ_POLLIN};
    self->loop = crema_loop_new();
    if (!self->loop)
        return CREMA_ENOMEM;
    int rc = zloop_reader(self->loop, self->router, s_on_readable, self);
    zloop_reader_set_tolerant(self->loop, self->router);
    rc |= zloop_poller(self->loop, &signals, s_on_signal, self);
    if (self->zap)
        rc |= zloop_reader(self->loop, crema_zap_socket(self->zap), s_on_zap, self);
    if (zloop_timer(self->loop, TICK_MS, 0, s_on_tick, self) < 0)
        rc = -1;
    size_t flush_ms = (size_t)(self->config.flush_interval_ns / 1000000);
    if (self->views && zloop_timer(self->loop, flush_ms, 0, s_on_flush, self) < 0)
        rc = -1;
    return rc == 0 ? CREMA_OK : CREMA_ENOMEM;
}

static crema_err_t
s_start(sink_t *self, char *why, size_t size)
{
    crema_err_t err = crema_signals_new(&self->signals);
    if (err == CREMA_OK)
        err = crema_arena_new(ARENA_BYTES, &self->arena);
    if (err != CREMA_OK)
        return s_fail(err, why, size, "the program cannot start: %s", crema_err_text(err));
    err = s_open_output(&self->config, why, size);
    if (err == CREMA_OK)
        err = s_open_store(self, why, size);
    if (err == CREMA_OK)
        err = s_bind(self, why, size);
    if (err != CREMA_OK)
        return err;
    err = sink_peers_new(self->router, crema_random_u64() | 1, &self->peers);
    if (err == CREMA_OK)
        err = sink_sealing_new(self->store, self->config.output_dir, RUNS_MAX, &self->sealing);
    if (err == CREMA_OK && self->config.live)
        err = sink_views_new(self->config.output_dir, VIEWS_MAX, &self->views);
    if (err == CREMA_OK)
        err = s_wire_up(self);
    return err == CREMA_OK
               ? err
               : s_fail(err, why, size, "the program cannot start: %s", crema_err_text(err));
}

crema_err_t
sink_new(const sink_config_t *config, char *ret_why, size_t why_size, sink_t **ret_self)
{
    sink_t *self = calloc(1, sizeof *self);
    if (!self)
        return s_fail(CREMA_ENOMEM, ret_why, why_size, "out of memory");
    self->config = *config;
    self->signals = -1;
    crema_err_t err = s_start(self, ret_why, why_size);
    if (err != CREMA_OK) {
        sink_destroy(&self);
        return err;
    }
    self->space = sink_store_space(self->store, &self->free_b);
    *ret_self = self;
    return CREMA_OK;
}

void
sink_destroy(sink_t **self_p)
{
    sink_t *self = *self_p;
    if (self) {
        zloop_destroy(&self->loop);
        sink_sealing_destroy(&self->sealing);
        sink_views_destroy(&self->views);
        sink_peers_destroy(&self->peers);
        zsock_destroy(&self->router);
        crema_zap_destroy(&self->zap);
        crema_keys_destroy(&self->keys);
        sink_store_close(&self->store);
        crema_arena_destroy(&self->arena);
        if (self->signals >= 0)
            close(self->signals);
        free(self);
    }
    *self_p = NULL;
}

const char *
sink_endpoint(const sink_t *self)
{
    return self->endpoint;
}

crema_err_t
sink_serve(sink_t *self)
{
    sink_sealing_tick(self->sealing, crema_clock_real_ns());
    zloop_start(self->loop);
    if (!self->broken)
        (void)s_commit(self);
    sink_commit_stats_t marks = sink_commit_stats(sink_store_watermarks(self->store));
    crema_log_info("stopped", CREMA_INT("messages", self->counts.messages),
                   CREMA_INT("puts", self->counts.puts), CREMA_INT("records", marks.appended),
                   CREMA_INT("repeats", marks.repeats), CREMA_INT("gaps", marks.gaps),
                   CREMA_INT("bad", self->counts.bad), CREMA_INT("refused", self->counts.refused),
                   CREMA_INT("full", self->counts.full), CREMA_INT("commits", self->counts.commits),
                   CREMA_INT("committed_bytes", self->counts.committed_bytes),
                   CREMA_INT("sealed", self->counts.sealed),
                   CREMA_INT("seal_failed", self->counts.seal_failed));
    return self->broken ? CREMA_EIO : CREMA_OK;
}
