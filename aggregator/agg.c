#include "agg.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <czmq.h>

#include "agg_private.h"
#include "crema_clock.h"
#include "crema_failpoint.h"
#include "crema_health.h"
#include "crema_log.h"
#include "crema_notify.h"
#include "crema_random.h"
#include "crema_reactor.h"

#define SECOND_NS INT64_C(1000000000)
#define PEERS_MAX (1u << 16)
#define AGENTS_MAX (1u << 15)
#define STREAMS_MAX (1u << 20)
#define RUNS_MAX 4096u
#define PATIENCE_S 5               /* after the sink has listed its runs */
#define TICK_MS 50                 /* while something waits for time to pass */
#define SECOND_TICK_MS 1200        /* while only silence can become due */
#define REDIAL_NS (10 * SECOND_NS) /* of the sink's silence */
#define SWEEP_SECONDS 60
#define PEER_IDLE_NS (600 * SECOND_NS)
#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

/* ---- time */

static void
s_tap_runs(agg_t *self)
{
    size_t cursor = 0;
    Crema__RunState state;
    const agg_rollup_t *rollup;
    while ((rollup = agg_core_next_split(self->core, &cursor, &state)))
        agg_tap_run(self->tap, &state, rollup, crema_clock_real_ns());
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
    const agg_stats_t stats = agg_core_stats(self->core);
    const uint64_t no_room = stats.no_room, not_taken = stats.split_left;
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

/* A connection that broke behind a proxy looks whole to the kernel. */
static void
s_redial_silent_sink(agg_t *self, int64_t now_ns)
{
    const char *endpoint = self->options.sink_endpoint;
    void *raw = zsock_resolve(self->sink);
    if (agg_core_sink_silent_ns(self->core, now_ns) < REDIAL_NS ||
        now_ns - self->redialled_ns < REDIAL_NS)
        return;
    self->redialled_ns = now_ns;
    if (zmq_disconnect(raw, endpoint) != 0 || zmq_connect(raw, endpoint) != 0)
        crema_log_warn("sink_not_redialled", CREMA_TEXT("endpoint", endpoint),
                       CREMA_TEXT("why", zmq_strerror(errno)));
}

static void
s_each_second(agg_t *self, int64_t now_ns)
{
    s_redial_silent_sink(self, now_ns);
    crema_health_report(self->options.health_file, agg_core_has_sink(self->core));
    crema_log_clock_step(&self->wall_ahead_ns);
    s_lose_patience(self);
    if (crema_server_refresh(self->server, false))
        agg_fence_revoked(self);
    if (self->tap)
        s_tap_runs(self);
    if (++self->seconds % SWEEP_SECONDS == 1)
        s_warn_full(self);
    if (self->seconds % SWEEP_SECONDS == 0) {
        agg_peers_sweep(self->peers, now_ns - PEER_IDLE_NS);
        agg_take_back_keys(self, true);
        agg_fence_revoked(self);
    }
}

static int s_on_tick(zloop_t *loop, int timer, void *context);

/* Until the sink is to be asked whether it is alive; at most a second if something is done each
 * second. */
static size_t
s_quiet_ms(const agg_t *self)
{
    int64_t wait_ms = (agg_core_ping_ns(self->core) - self->ticked_ns) / 1000000 + 1;
    bool each_second = self->options.health_file || self->tap || self->patience_s > 0;
    if (each_second && wait_ms > SECOND_TICK_MS)
        return SECOND_TICK_MS;
    return wait_ms > TICK_MS ? (size_t)wait_ms : TICK_MS;
}

/* Sets the timer of the next tick to when it is due by now: earlier when something began to wait,
 * later when nothing does any more. */
static int
s_arm(agg_t *self)
{
    bool is_slow = agg_core_is_quiet(self->core);
    if (self->tick_timer >= 0 && is_slow == self->tick_is_slow)
        return 0;
    if (self->tick_timer >= 0)
        zloop_timer_end(self->loop, self->tick_timer);
    self->tick_is_slow = is_slow;
    self->tick_timer =
        zloop_timer(self->loop, is_slow ? s_quiet_ms(self) : TICK_MS, 1, s_on_tick, self);
    return self->tick_timer < 0 ? -1 : 0;
}

static int
s_tick(agg_t *self, int64_t now_ns)
{
    if (self->tick_timer >= 0)
        zloop_timer_end(self->loop, self->tick_timer);
    self->tick_timer = -1;
    self->ticked_ns = now_ns;
    agg_core_on_tick(self->core, now_ns, crema_clock_real_ns());
    agg_act(self);
    if (now_ns - self->second_ns >= SECOND_NS * 9 / 10) {
        self->second_ns = now_ns;
        s_each_second(self, now_ns);
    }
    return s_arm(self);
}

static int
s_on_tick(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    agg_t *self = context;
    self->tick_timer = -1;
    return s_tick(self, crema_clock_mono_ns());
}

/* After messages. A wake costs more than its work, so a tick that would come soon comes now. */
static int
s_go_on(agg_t *self)
{
    int64_t now_ns = crema_clock_mono_ns();
    bool is_soon = now_ns - self->ticked_ns >= SECOND_NS * 9 / 10;
    return is_soon ? s_tick(self, now_ns) : s_arm(self);
}

/* ---- sockets */

static int
s_on_router(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    agg_take_from_peers(context);
    return s_go_on(context);
}

static int
s_on_sink(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    agg_take_from_sink(context);
    return s_go_on(context);
}

static int
s_on_subscription(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    agg_tap_on_readable(((agg_t *)context)->tap);
    return 0;
}

/* ---- signals */

static int
s_on_signal(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    (void)loop;
    agg_t *self = context;
    for (int number; (number = crema_signals_read(item->fd)) != 0;) {
        if (number == SIGTERM || number == SIGINT)
            return -1;
        if (number == SIGHUP && crema_server_refresh(self->server, true))
            agg_fence_revoked(self);
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
    return crema_keyring_user(crema_server_ring(self->server), key);
}

static crema_err_t
s_make_parts(agg_t *self)
{
    agg_config_t config = {
        .session = self->session,
        .credit_pool_b = self->options.credit_bytes,
        .sink_silence_ns = 3 * SECOND_NS,
        .barrier_retries = 5,
        .barrier_cap_ns = crema_failpoint_wait("aggregator.barrier_cap", 30 * SECOND_NS),
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
    return err == CREMA_OK ? agg_core_new(&config, &self->core) : err;
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
                            self->tap ? agg_tap_socket(self->tap) : NULL) != CREMA_OK)
        rc = -1;
    if (self->tap)
        rc |= zloop_reader(self->loop, agg_tap_socket(self->tap), s_on_subscription, self);
    self->tick_timer = -1;
    return rc == 0 && s_arm(self) == 0 ? CREMA_OK : CREMA_ENOMEM;
}

static crema_err_t
s_serve_metrics(agg_t *self, char *why, size_t size)
{
    self->scraped =
        (agg_scrape_t){self->core, self->server, &self->counts, self->options.credit_bytes};
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
    err = agg_peers_new(PEERS_MAX, crema_server_ring(self->server), &self->peers);
    if (err == CREMA_OK)
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
        crema_server_destroy(&self->server);
        zloop_destroy(&self->loop);
        agg_tap_destroy(&self->tap);
        zsock_destroy(&self->sink);
        crema_keys_destroy(&self->client_keys);
        agg_peers_destroy(&self->peers);
        agg_core_destroy(&self->core);
        crema_arena_destroy(&self->arena);
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
    agg_act(self);
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
        CREMA_INT("split_not_taken", stats.split_left));
}
