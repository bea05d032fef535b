#include "agg.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <czmq.h>

#include "agg_core.h"
#include "agg_core_look.h"
#include "agg_peers.h"
#include "agg_scrape.h"
#include "agg_splits.h"
#include "agg_tap.h"
#include "crema_clock.h"
#include "crema_cost.h"
#include "crema_failpoint.h"
#include "crema_health.h"
#include "crema_keys.h"
#include "crema_log.h"
#include "crema_notify.h"
#include "crema_random.h"
#include "crema_reactor.h"
#include "crema_server.h"

#define SECOND_NS INT64_C(1000000000)
#define PEERS_MAX (1u << 16)
#define AGENTS_MAX (1u << 15)
#define STREAMS_MAX (1u << 20)
#define RUNS_MAX 4096u
#define BATCH_MESSAGES                                                                             \
    1024 /* taken from one socket before the other one, timers and signals get a turn */
#define REVOKED_MAX 4096 /* fenced at once */
#define PATIENCE_S 5     /* after the sink has listed its runs */
#define TICK_MS 50
#define SECOND_MS 1000
#define SWEEP_SECONDS 60
#define PEER_IDLE_NS (600 * SECOND_NS)
#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

struct agg {
    agg_options_t options;
    const agg_options_t *given; /* what `options` was copied from */
    crema_server_t *server;     /* towards agents and collectors */
    crema_keys_t *client_keys;  /* towards the sink */
    zloop_t *loop;
    zsock_t *router; /* belongs to the server */
    zsock_t *sink;
    agg_tap_t *tap; /* NULL: no tap */
    int signals;
    uint64_t session;
    int patience_s;              /* seconds left to wait for unknown keys */
    crema_arena_t *arena;        /* for messages */
    crema_arena_t *record_arena; /* for the records in a message that is still in use */
    agg_core_t *core;
    agg_peers_t *peers;
    agg_splits_t *splits;
    int64_t wall_ahead_ns; /* of the monotonic clock, at the last tick */
    unsigned seconds;
    uint64_t logged_no_room, logged_not_taken; /* values when last logged */
    agg_counts_t counts;
    agg_scrape_t scraped;
    crema_scrape_t *scrape; /* NULL: no metrics */
    crema_id_t opened;      /* the run opened last by a client */
};

/* ---- sending */

static void
s_send_peer(agg_t *self, agg_peer_t peer, const uint8_t *bytes, size_t size)
{
    agg_routing_id_t id;
    void *raw = zsock_resolve(self->router);
    if (!agg_peers_find(self->peers, peer, &id)) {
        self->counts.unroutable++;
        return;
    }
    if (!agg_peers_takes(self->peers, peer, size)) { /* it does not read */
        self->counts.untaken++;
        return;
    }
    if (zmq_send(raw, id.bytes, id.size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        if (errno == EHOSTUNREACH) {
            self->counts.unroutable++;
            agg_peers_forget(self->peers, peer);
        } else {
            self->counts.dropped++;
        }
        return;
    }
    if (zmq_send(raw, bytes, size, ZMQ_DONTWAIT) < 0)
        self->counts.dropped++;
}

static void
s_send(agg_t *self, const agg_action_t *action)
{
    uint8_t *bytes;
    size_t size;
    crema_msg_t msg = *action->msg;
    msg.send_mono_ns = crema_clock_mono_ns();
    if (crema_wire_encode(&msg, &bytes, &size) != CREMA_OK) {
        self->counts.dropped++;
        return;
    }
    crema_failpoint_message("aggregator.before_send", msg.type);
    if (action->type == AGG_TO_PEER)
        s_send_peer(self, action->peer, bytes, size);
    else if (zmq_send(zsock_resolve(self->sink), bytes, size, ZMQ_DONTWAIT) < 0)
        self->counts.sink_dropped++;
    crema_failpoint_message("aggregator.after_send", msg.type);
    free(bytes);
}

/* The verdict also carries this program's cost so far. */
static void
s_send_seal(agg_t *self, const agg_action_t *action)
{
    const crema_cost_t cost = {.cpu_s = (double)crema_clock_cpu_ns() * 1e-9,
                               .bytes = (int64_t)self->counts.put_bytes,
                               .records = (int64_t)self->counts.put_records,
                               .shared = self->counts.runs > 1};
    crema_cost_attributes_t words;
    crema_msg_t msg = *action->msg;
    size_t n = msg.run.n_attributes;
    const char **keys = calloc(2 * (n + CREMA_COST_ATTRIBUTES), sizeof *keys);
    const char **values = keys + n + CREMA_COST_ATTRIBUTES;
    crema_cost_describe(&cost, "aggregator", &words);
    for (size_t i = 0; keys && i < n + CREMA_COST_ATTRIBUTES; i++) {
        keys[i] = i < n ? msg.run.keys[i] : words.keys[i - n];
        values[i] = i < n ? msg.run.values[i] : words.values[i - n];
    }
    if (keys) {
        msg.run.n_attributes = n + CREMA_COST_ATTRIBUTES;
        msg.run.keys = keys;
        msg.run.values = values;
    }
    agg_action_t copy = *action;
    copy.msg = &msg;
    s_send(self, &copy);
    free(keys);
}

/* ---- events */

static crema_log_level_t
s_level(agg_event_t event)
{
    switch (event) {
    case AGG_EVENT_AGENT_SUSPECT:
    case AGG_EVENT_AGENT_LOST:
    case AGG_EVENT_AGENT_FENCED:
    case AGG_EVENT_STREAM_REFUSED:
    case AGG_EVENT_SINK_SILENT:
    case AGG_EVENT_SINK_FULL:
    case AGG_EVENT_RUN_LATE:
        return CREMA_LOG_WARN;
    default:
        return CREMA_LOG_INFO;
    }
}

static void
s_log_split(const agg_t *self, const crema_id_t *run_id)
{
    const agg_live_run_t *run = agg_splits_find(self->splits, run_id);
    if (!run)
        return;
    crema_log_info("run_split", CREMA_ID("run", run_id),
                   CREMA_REAL("processor_s", agg_rollup_side_s(run->rollup, CREMA_SIDE_PROCESSOR)),
                   CREMA_REAL("overhead_s", agg_rollup_overhead_s(run->rollup)),
                   CREMA_REAL("wasted_s", agg_rollup_side_s(run->rollup, CREMA_SIDE_WASTED)));
}

static void
s_on_event(agg_t *self, const agg_action_t *action)
{
    crema_log_field_t fields[5] = {{0}};
    size_t n = 0;
    if (!crema_id_is_zero(&action->run_id))
        fields[n++] = (crema_log_field_t)CREMA_ID("run", &action->run_id);
    if (!crema_id_is_zero(&action->agent_id))
        fields[n++] = (crema_log_field_t)CREMA_ID("agent", &action->agent_id);
    if (action->subject)
        fields[n++] = (crema_log_field_t)CREMA_TEXT("subject", action->subject);
    if (action->detail)
        fields[n++] = (crema_log_field_t)CREMA_TEXT("detail", action->detail);
    crema_log_write(s_level(action->event), agg_event_name(action->event), fields);
    if (self->tap)
        agg_tap_event(self->tap, action, crema_clock_real_ns());
    if (action->event == AGG_EVENT_RUN_VERDICT) {
        agg_scrape_count(&self->counts, self->core, &action->run_id);
        s_log_split(self, &action->run_id);
    }
    if (action->event == AGG_EVENT_RUN_SEALED)
        agg_splits_on_done(self->splits, &action->run_id);
}

/* ---- carrying out actions */

/* Admits the key of a run's own agents. */
static void
s_lend(agg_t *self, const crema_id_t *run_id, const crema_id_t *owner,
       const uint8_t key[CREMA_WIRE_KEY_BYTES])
{
    crema_err_t err = crema_server_lend(self->server, run_id, owner, key);
    if (err != CREMA_OK)
        crema_log_warn("agent_key_refused", CREMA_ID("run", run_id),
                       CREMA_TEXT("why", crema_err_text(err)));
}

/* The sink reports the owner of a run that an earlier aggregator opened. */
static void
s_on_known_run(agg_t *self, const crema_run_msg_t *run)
{
    if (crema_wire_is_key(run->agent_key) && crema_server_knows(self->server, &run->owner))
        s_lend(self, &run->run_id, &run->owner, run->agent_key);
}

/* Carries out all pending actions. */
static void
s_act(agg_t *self)
{
    agg_action_t action;
    while (agg_core_next(self->core, crema_clock_mono_ns(), &action)) {
        if (action.type == AGG_EVENT) {
            s_on_event(self, &action);
            continue;
        }
        if (action.type == AGG_LEND) {
            const crema_run_msg_t *run = &action.msg->run;
            s_lend(self, &run->run_id, &run->owner, run->agent_key);
            continue;
        }
        if (action.type == AGG_TO_SINK && action.msg->type == CREMA_MSG_RUN_SEAL) {
            s_send_seal(self, &action);
            continue;
        }
        if (action.type == AGG_TO_SINK && action.msg->type == CREMA_MSG_PUT) {
            self->counts.put_bytes += action.msg->data.frames_bytes;
            self->counts.put_records += action.msg->data.n;
            agg_splits_on_put(self->splits, &action.msg->data, self->record_arena,
                              crema_clock_mono_ns());
        }
        s_send(self, &action);
    }
    agg_split_news_t news;
    while (agg_splits_news(self->splits, &news))
        agg_core_note_split(self->core, &news.run_id, news.processor_s, news.overhead_s);
}

/* ---- keys */

static void
s_fence_revoked(agg_t *self, agg_peer_t peer)
{
    crema_msg_t msg = {
        .type = CREMA_MSG_FENCE,
        .session = self->session,
        .fence = {.reason = CREMA_FENCE_PRINCIPAL},
    };
    const agg_action_t action = {.type = AGG_TO_PEER, .peer = peer, .msg = &msg};
    s_send(self, &action);
}

/* Fences every connection whose key was revoked; its sessions and open runs end. */
static void
s_fence_all_revoked(agg_t *self)
{
    agg_peer_t peer, revoked[REVOKED_MAX];
    size_t cursor = 0, n = 0;
    const crema_principal_t *from;
    while (n < REVOKED_MAX && agg_peers_next(self->peers, &cursor, &peer, &from))
        if (!crema_server_admits(self->server, from)) {
            crema_log_warn("key_revoked", CREMA_TEXT("role", crema_as_name(from->as)),
                           CREMA_TEXT("name", from->name));
            agg_core_on_revoked(self->core, &from->key, crema_clock_mono_ns(),
                                crema_clock_real_ns());
            revoked[n++] = peer;
        }
    for (size_t i = 0; i < n; i++)
        s_fence_revoked(self, revoked[i]); /* the rest are fenced when they send something */
    crema_id_t key;
    while (crema_server_revoked(self->server, &key))
        agg_core_on_revoked(self->core, &key, crema_clock_mono_ns(), crema_clock_real_ns());
    s_act(self);
}

/* ---- receiving */

/* Clients repeat RUN_OPEN as a sign of life, so only a new run is counted. */
static void
s_count_run(agg_t *self, const crema_id_t *run_id)
{
    if (crema_id_equal(run_id, &self->opened))
        return;
    self->opened = *run_id;
    self->counts.runs++;
}

static void
s_on_parts(agg_t *self, zmq_msg_t *id, zmq_msg_t *body)
{
    int64_t mono_ns = crema_clock_mono_ns(), real_ns = crema_clock_real_ns();
    agg_peer_t peer;
    const crema_principal_t *from;
    crema_msg_t msg;
    self->counts.messages++;
    /* From the body: libzmq may lose the property on the frame of the routing id. */
    const char *user_id = zmq_msg_gets(body, "User-Id");
    crema_err_t err = agg_peers_heard(self->peers, zmq_msg_data(id), zmq_msg_size(id), user_id,
                                      mono_ns, &peer, &from);
    if (err != CREMA_OK) {
        self->counts.bad++;
        crema_log_warn("peer_refused", CREMA_TEXT("why", crema_err_text(err)));
        return;
    }
    agg_peers_came_by(self->peers, peer, zmq_msg_get(body, ZMQ_SRCFD));
    if (!crema_server_admits(self->server, from)) { /* revoked: the connection outlives the key */
        self->counts.revoked++;
        s_fence_revoked(self, peer);
        return;
    }
    err = crema_wire_decode(zmq_msg_data(body), zmq_msg_size(body), self->arena, &msg);
    if (err != CREMA_OK) {
        self->counts.bad++;
        crema_log_warn("message_bad", CREMA_TEXT("why", crema_err_text(err)));
        agg_core_on_bad(self->core, peer, err, mono_ns);
    } else {
        agg_core_on_peer(self->core, peer, from, &msg, mono_ns, real_ns);
        bool taken = agg_core_took_run(self->core); /* a refused message changes nothing */
        if (msg.type == CREMA_MSG_RUN_OPEN && taken)
            s_count_run(self, &msg.run.run_id);
        if (msg.type == CREMA_MSG_RUN_QUERY && taken && crema_wire_is_key(msg.query_key))
            s_lend(self, &msg.query, &from->key, msg.query_key);
        if ((msg.type == CREMA_MSG_RUN_OPEN || msg.type == CREMA_MSG_RUN_END) && taken)
            agg_splits_on_message(self->splits, &msg.run, mono_ns);
    }
    s_act(self);
}

/* Takes one whole message. *ret_parts is its number of parts; more than two are discarded.
 * False: none waits. */
static bool
s_receive(zsock_t *sock, zmq_msg_t *first, zmq_msg_t *second, int *ret_parts)
{
    void *raw = zsock_resolve(sock);
    if (zmq_msg_recv(first, raw, ZMQ_DONTWAIT) < 0)
        return false;
    *ret_parts = 1;
    for (zmq_msg_t *last = first; zmq_msg_more(last); last = second) {
        if (zmq_msg_recv(second, raw, ZMQ_DONTWAIT) < 0)
            break;
        ++*ret_parts;
    }
    return true;
}

static int
s_on_router(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop;
    agg_t *self = context;
    zmq_msg_t id, body;
    int parts;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    for (int i = 0; i < BATCH_MESSAGES && s_receive(sock, &id, &body, &parts); i++) {
        if (parts == 2)
            s_on_parts(self, &id, &body);
        else
            self->counts.bad++;
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return 0;
}

static int
s_on_sink(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop;
    agg_t *self = context;
    zmq_msg_t body, rest;
    int parts;
    zmq_msg_init(&body);
    zmq_msg_init(&rest);
    for (int i = 0; i < BATCH_MESSAGES && s_receive(sock, &body, &rest, &parts); i++) {
        crema_msg_t msg;
        self->counts.sink_messages++;
        if (parts != 1 || crema_wire_decode(zmq_msg_data(&body), zmq_msg_size(&body), self->arena,
                                            &msg) != CREMA_OK) {
            self->counts.bad++;
            crema_log_warn("sink_message_bad", CREMA_INT("parts", parts));
            continue;
        }
        if (msg.type == CREMA_MSG_FENCE)
            crema_log_error("refused_by_sink", CREMA_INT("reason", msg.fence.reason));
        if (msg.type == CREMA_MSG_RUN_OPEN)
            s_on_known_run(self, &msg.run);
        agg_core_on_sink(self->core, &msg, crema_clock_mono_ns(), crema_clock_real_ns());
        if (msg.type == CREMA_MSG_RUN_OPEN && !crema_server_knows(self->server, &msg.run.owner))
            agg_core_on_revoked(self->core, &msg.run.owner, crema_clock_mono_ns(),
                                crema_clock_real_ns());
        s_act(self);
    }
    zmq_msg_close(&body);
    zmq_msg_close(&rest);
    return 0;
}

static int
s_on_subscription(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    agg_tap_on_readable(((agg_t *)context)->tap);
    return 0;
}

/* ---- time and signals */

static int
s_on_tick(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    agg_t *self = context;
    agg_core_on_tick(self->core, crema_clock_mono_ns(), crema_clock_real_ns());
    s_act(self);
    return 0;
}

static void
s_tap_runs(agg_t *self)
{
    size_t cursor = 0;
    const agg_live_run_t *run;
    while ((run = agg_splits_next(self->splits, &cursor))) {
        crema_run_state_t state;
        if (!run->done && agg_core_look(self->core, &run->run_id, &state))
            agg_tap_run(self->tap, &state, run->rollup, crema_clock_real_ns());
    }
}

/* After a restart, agents of open runs may reconnect before the sink has reported their keys. */
static void
s_lose_patience(agg_t *self)
{
    if (self->patience_s > 0 && agg_core_has_sink(self->core) && --self->patience_s == 0)
        crema_server_set_patient(self->server, false);
}

/* Logs growing counts of refused items, at most once a minute. */
static void
s_warn_full(agg_t *self)
{
    uint64_t no_room = agg_core_stats(self->core).no_room,
             not_taken = agg_splits_not_taken(self->splits);
    if (no_room > self->logged_no_room)
        crema_log_warn("tables_full", CREMA_INT("refused", no_room - self->logged_no_room),
                       CREMA_INT("agents_max", AGENTS_MAX), CREMA_INT("streams_max", STREAMS_MAX),
                       CREMA_TEXT("remedy", "agents keep what they have and ask again; let further "
                                            "runs use another aggregator and sink"));
    if (not_taken > self->logged_not_taken)
        crema_log_warn("live_table_full",
                       CREMA_INT("not_taken", not_taken - self->logged_not_taken),
                       CREMA_INT("runs_max", RUNS_MAX),
                       CREMA_TEXT("remedy", "live sums of these runs are short, their files are "
                                            "not; let further runs use another aggregator"));
    self->logged_no_room = no_room;
    self->logged_not_taken = not_taken;
}

static int
s_on_second(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    agg_t *self = context;
    int64_t now_ns = crema_clock_mono_ns();
    crema_health_report(self->options.health_file, agg_core_has_sink(self->core));
    crema_log_clock_step(&self->wall_ahead_ns);
    s_lose_patience(self);
    if (crema_server_refresh(self->server, false))
        s_fence_all_revoked(self);
    if (self->tap)
        s_tap_runs(self);
    if (++self->seconds % SWEEP_SECONDS == 1)
        s_warn_full(self);
    if (self->seconds % SWEEP_SECONDS == 0) {
        agg_peers_sweep(self->peers, now_ns - PEER_IDLE_NS);
        agg_splits_sweep(self->splits, now_ns);
    }
    return 0;
}

/* Keys, and what a client may have. */
static void
s_reload(agg_t *self)
{
    if (crema_server_refresh(self->server, true))
        s_fence_all_revoked(self);
    if (self->options.reload && self->options.reload())
        agg_core_limit_owners(self->core, (uint64_t)self->given->runs_per_client,
                              (uint64_t)self->given->bytes_per_client);
}

static int
s_on_signal(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    (void)loop;
    agg_t *self = context;
    for (int number; (number = crema_signals_read(item->fd)) != 0;) {
        if (number == SIGTERM || number == SIGINT)
            return -1;
        if (number == SIGHUP)
            s_reload(self);
    }
    return 0;
}

/* ---- start and stop */

static crema_err_t
s_connect_sink(agg_t *self, char *why, size_t size)
{
    const char *dir = self->options.keys_dir, *reason = NULL;
    crema_err_t err = crema_keys_load(dir, CREMA_AS_AGGREGATOR, &self->client_keys, &reason);
    if (err != CREMA_OK)
        return crema_server_fail(CREMA_ECONFIG, why, size, "the keys in %s cannot be used: %s", dir,
                                 reason ? reason : crema_err_text(err));
    self->sink = zsock_new(ZMQ_DEALER);
    if (!self->sink)
        return crema_server_fail(CREMA_ENOMEM, why, size, "no socket: %s", strerror(errno));
    crema_socket_prepare(self->sink, CREMA_ROLE_SINK);
    crema_keys_connect(self->client_keys, self->sink);
    if (crema_socket_connect(self->sink, self->options.sink_endpoint) != CREMA_OK)
        return crema_server_fail(CREMA_ECONFIG, why, size,
                                 "--sink: %s is not an endpoint such as tcp://127.0.0.1:5701",
                                 self->options.sink_endpoint);
    return CREMA_OK;
}

static crema_err_t
s_bind(agg_t *self, char *why, size_t size)
{
    const char *tap = self->options.tap_endpoint;
    crema_err_t err = crema_server_new(CREMA_ROLE_AGENTS, self->options.endpoint,
                                       self->options.keys_dir, why, size, &self->server);
    if (err != CREMA_OK)
        return err;
    self->router = crema_server_socket(self->server);
    self->patience_s = PATIENCE_S;
    crema_server_set_patient(self->server, true);
    err = tap ? agg_tap_new(tap, crema_server_keys(self->server), &self->tap) : CREMA_OK;
    return err == CREMA_OK ? err : crema_server_bind_failed(err, "tap", tap, why, size);
}

static uint32_t
s_user_of(const void *context, const crema_id_t *key)
{
    const agg_t *self = context;
    return crema_server_user(self->server, key);
}

static crema_err_t
s_make_parts(agg_t *self)
{
    agg_config_t config = {
        .session = self->session,
        .credit_pool_b = self->options.credit_bytes,
        .sink_silence_ns = 2 * SECOND_NS,
        .barrier_retries = 5,
        .barrier_cap_ns = 30 * SECOND_NS,
        .abandon_after_ns = self->options.abandon_after_ns,
        .owner_runs_max = (uint64_t)self->options.runs_per_client,
        .owner_bytes_max = (uint64_t)self->options.bytes_per_client,
        .agents_max = AGENTS_MAX,
        .streams_max = STREAMS_MAX,
        .runs_max = RUNS_MAX,
        .user_of = s_user_of,
        .user_context = self,
    };
    crema_err_t err = crema_arena_new(ARENA_BYTES, &self->arena);
    if (err == CREMA_OK)
        err = crema_arena_new(ARENA_BYTES, &self->record_arena);
    if (err == CREMA_OK)
        err = agg_core_new(&config, &self->core);
    if (err == CREMA_OK)
        err = agg_peers_new(PEERS_MAX, &self->peers);
    if (err == CREMA_OK)
        err = agg_splits_new(RUNS_MAX, &self->splits);
    return err;
}

static crema_err_t
s_wire_up(agg_t *self)
{
    zmq_pollitem_t signals = {.fd = self->signals, .events = ZMQ_POLLIN};
    self->loop = crema_loop_new();
    if (!self->loop)
        return CREMA_ENOMEM;
    int rc = zloop_reader(self->loop, self->router, s_on_router, self);
    zloop_reader_set_tolerant(self->loop, self->router);
    rc |= zloop_reader(self->loop, self->sink, s_on_sink, self);
    zloop_reader_set_tolerant(self->loop, self->sink);
    rc |= zloop_poller(self->loop, &signals, s_on_signal, self);
    if (crema_server_attach(self->server, self->loop, (size_t)self->options.connections_per_address,
                            agg_tap_endpoint(self)) != CREMA_OK)
        rc = -1;
    if (self->tap)
        rc |= zloop_reader(self->loop, agg_tap_socket(self->tap), s_on_subscription, self);
    if (zloop_timer(self->loop, TICK_MS, 0, s_on_tick, self) < 0 ||
        zloop_timer(self->loop, SECOND_MS, 0, s_on_second, self) < 0)
        rc = -1;
    return rc == 0 ? CREMA_OK : CREMA_ENOMEM;
}

static crema_err_t
s_serve_metrics(agg_t *self, char *why, size_t size)
{
    self->scraped = (agg_scrape_t){self->core,
                                   self->splits,
                                   self->server,
                                   &self->counts,
                                   self->options.credit_bytes,
                                   self->options.metrics_runs};
    if (self->options.metrics && self->options.metrics_runs)
        agg_splits_count_events(self->splits);
    agg_scrape_prepare(&self->counts);
    return crema_scrape_new(self->options.metrics, "crema-aggregator", self->loop,
                            agg_scrape_expose, &self->scraped, why, size, &self->scrape);
}

static crema_err_t
s_start(agg_t *self, char *why, size_t size)
{
    crema_err_t err = crema_signals_new(&self->signals);
    if (err == CREMA_OK)
        err = s_make_parts(self);
    if (err != CREMA_OK)
        return crema_server_fail(err, why, size, "the program cannot start: %s",
                                 crema_err_text(err));
    err = s_connect_sink(self, why, size);
    if (err == CREMA_OK)
        err = s_bind(self, why, size);
    if (err != CREMA_OK)
        return err;
    err = s_wire_up(self);
    return err == CREMA_OK ? s_serve_metrics(self, why, size)
                           : crema_server_fail(err, why, size, "the program cannot start: %s",
                                               crema_err_text(err));
}

crema_err_t
agg_new(const agg_options_t *options, char *ret_why, size_t why_size, agg_t **ret_self)
{
    agg_t *self = calloc(1, sizeof *self);
    if (!self)
        return crema_server_fail(CREMA_ENOMEM, ret_why, why_size, "out of memory");
    self->options = *options;
    self->given = options;
    self->signals = -1;
    self->session = crema_random_u64() | 1;
    crema_err_t err = s_start(self, ret_why, why_size);
    if (err != CREMA_OK) {
        agg_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agg_destroy(agg_t **self_p)
{
    agg_t *self = *self_p;
    if (self) {
        crema_scrape_destroy(&self->scrape);
        zloop_destroy(&self->loop);
        agg_tap_destroy(&self->tap);
        zsock_destroy(&self->sink);
        crema_server_destroy(&self->server);
        crema_keys_destroy(&self->client_keys);
        agg_splits_destroy(&self->splits);
        agg_peers_destroy(&self->peers);
        agg_core_destroy(&self->core);
        crema_arena_destroy(&self->arena);
        crema_arena_destroy(&self->record_arena);
        if (self->signals >= 0)
            close(self->signals);
        free(self);
    }
    *self_p = NULL;
}

const char *
agg_endpoint(const agg_t *self)
{
    return crema_server_endpoint(self->server);
}

const char *
agg_tap_endpoint(const agg_t *self)
{
    return self->tap ? agg_tap_bound(self->tap) : NULL;
}

const char *
agg_metrics_url(const agg_t *self)
{
    return crema_scrape_url(self->scrape);
}

void
agg_serve(agg_t *self)
{
    s_act(self);
    zloop_start(self->loop);
    crema_health_report(self->options.health_file, false);
    crema_notify_stopping();
    agg_stats_t stats = agg_core_stats(self->core);
    crema_log_info(
        "stopped", CREMA_INT("messages", self->counts.messages), CREMA_INT("bad", self->counts.bad),
        CREMA_INT("unroutable", self->counts.unroutable),
        CREMA_INT("untaken", self->counts.untaken), CREMA_INT("dropped", self->counts.dropped),
        CREMA_INT("sink_dropped", self->counts.sink_dropped), CREMA_INT("hellos", stats.hellos),
        CREMA_INT("data_accepted", stats.data_accepted),
        CREMA_INT("data_dropped", stats.data_dropped), CREMA_INT("puts", stats.puts),
        CREMA_INT("nacks", stats.nacks), CREMA_INT("replays", stats.replays),
        CREMA_INT("committed_records", stats.committed_records),
        CREMA_INT("refused", stats.refused), CREMA_INT("not_allowed", stats.not_allowed),
        CREMA_INT("revoked", self->counts.revoked),
        CREMA_INT("keys_refused", crema_server_refused(self->server)),
        CREMA_INT("crowded", crema_server_crowded(self->server)),
        CREMA_INT("split_not_taken", agg_splits_not_taken(self->splits)));
}
