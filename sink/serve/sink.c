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
#include "crema_health.h"
#include "crema_log.h"
#include "crema_notify.h"
#include "crema_random.h"
#include "crema_reactor.h"
#include "sink_fs.h"
#include "sink_private.h"
#include "sink_turn.h"

#define STREAMS_MAX (1u << 22)
#define RUNS_MAX (1u << 20)
#define TICK_MS 1000
#define TICK_LATE_MS 1100 /* if no message came that it could be done with */
#define TICK_QUIET_MS                                                                              \
    1400             /* without live runs: before an aggregator would ask whether it is alive */
#define EXAMINE_MS 5 /* between two looks at the runs that were there at the start */
#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

/* ---- time */

/* At each tick: reports to the aggregators whether space is short, and that the sink is alive if
 * they have heard nothing since the last tick. */
static void
s_say_alive(sink_t *self)
{
    self->space = sink_store_space(self->store, &self->free_b);
    crema_msg_t msg = {.type = CREMA_MSG_COMMITTED};
    uint64_t broadcasts = sink_peers_stats(self->peers).broadcasts;
    if (broadcasts == self->broadcasts)
        sink_peers_broadcast(self->peers, &msg);
    self->broadcasts = sink_peers_stats(self->peers).broadcasts;
    sink_trouble_report_runs(self);
    if (access(self->config.store_dir, W_OK | X_OK) != 0) {
        msg = sink_trouble_full(self, strerror(errno));
        sink_peers_broadcast(self->peers, &msg);
        return;
    }
    if (self->space == SINK_SPACE_FREE)
        return;
    crema_log_warn("space_short", CREMA_TEXT("store", self->config.store_dir),
                   CREMA_INT("free_bytes", self->free_b),
                   CREMA_TEXT("puts", self->space == SINK_SPACE_FULL ? "refused" : "taken"),
                   CREMA_TEXT("remedy", "free some of its disk, or give more --journal-limit or a "
                                        "shorter --retain"));
    msg = sink_trouble_full(self, NULL);
    sink_peers_broadcast(self->peers, &msg);
}

/* True if nothing is due each second. */
static bool
s_is_quiet(const sink_t *self)
{
    return sink_store_live(self->store) == 0 && self->space == SINK_SPACE_FREE &&
           !self->config.health_file;
}

/* Seals one abandoned run. False: the loop must end. */
static bool
s_abandon(sink_t *self)
{
    bool is_new;
    const sink_run_t *run =
        sink_store_silent(self->store, self->config.abandon_after_ns, crema_clock_mono_ns());
    if (!run)
        return true;
    const int64_t real_ns = crema_clock_real_ns();
    const crema_id_t run_id = run->run_id;
    const char *why = run->state.life == CREMA_LIFE_ENDED
                          ? "its client ended it, and no aggregator gave a verdict"
                          : "neither its client nor an aggregator ended it";
    Crema__Reason reason = crema_reason(CREMA_LIFE_NOT_ENDED, "", why, 0), *reasons[] = {&reason};
    const crema_msg_t msg = {
        .type = CREMA_MSG_RUN_SEAL,
        .run_seal = {.run_id = crema_id_field(&run_id),
                     .t_end_ns = run->t_news_ns ? run->t_news_ns : real_ns,
                     .t_verdict_ns = real_ns,
                     .n_reasons = 1,
                     .reasons = reasons},
    };
    if (sink_store_run_msg(self->store, &msg, NULL, real_ns, &is_new) != CREMA_OK)
        return true; /* it will be found again at the next look */
    crema_log_warn("run_abandoned", CREMA_ID("run", &run_id)); /* sealed once that is durable */
    return true;
}

static int s_on_tick(zloop_t *loop, int timer, void *context);
static bool s_on_children(sink_t *self);

static int
s_tick(sink_t *self)
{
    self->ticked_ns = crema_clock_mono_ns();
    if (self->views && self->flush_ms >= TICK_MS && ++self->ticks % (self->flush_ms / TICK_MS) == 0)
        sink_views_flush(self->views, crema_clock_mono_ns());
    crema_log_clock_step(&self->wall_ahead_ns);
    (void)crema_server_refresh(self->server, false); /* it is asked for each message */
    s_say_alive(self);
    crema_health_report(self->config.health_file, sink_scrape_is_healthy(self));
    sink_store_tick(self->store, crema_clock_mono_ns());
    sink_listing_go_on(self);
    if (!s_abandon(self) || !sink_group_go_on(self))
        return -1;
    sink_sealing_tick(self->sealing, crema_clock_mono_ns());
    if (!s_on_children(self)) /* also those that do not end */
        return -1;
    self->is_quiet = s_is_quiet(self);
    sink_free_old(self);
    sink_make_room(self);
    if (!sink_group_go_on(self))
        return -1;
    if (self->tick_timer >= 0)
        zloop_timer_end(self->loop, self->tick_timer);
    self->tick_timer =
        zloop_timer(self->loop, self->is_quiet ? TICK_QUIET_MS : TICK_LATE_MS, 1, s_on_tick, self);
    return self->tick_timer >= 0 ? 0 : -1;
}

static int
s_on_tick(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    sink_t *self = context;
    self->tick_timer = -1;
    return s_tick(self);
}

/* A wake costs more than its work, so a tick that would come soon comes after the messages. */
static int
s_on_readable(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    sink_t *self = context;
    if (!sink_intake_take(self))
        return -1;
    bool is_due = crema_clock_mono_ns() - self->ticked_ns >= TICK_MS * INT64_C(900000);
    return is_due || (self->is_quiet && !s_is_quiet(self)) ? s_tick(self) : 0;
}

/* Examines the runs that were in the store at the start, one at a time between other work. */
static int
s_on_examine(zloop_t *loop, int timer, void *context)
{
    sink_t *self = context;
    bool more = sink_store_examine(self->store);
    sink_listing_go_on(self);
    if (more)
        return 0;
    zloop_timer_end(loop, timer);
    sink_store_report_t report = sink_store_report(self->store);
    crema_log_info("store_examined", CREMA_INT("runs", report.runs),
                   CREMA_INT("live", sink_store_live(self->store)),
                   CREMA_INT("set_aside", report.aside), CREMA_INT("frames", report.frames),
                   CREMA_INT("bytes", sink_store_bytes(self->store)),
                   CREMA_INT("torn_bytes", report.torn_bytes),
                   CREMA_INT("damaged_bytes", report.damaged_bytes),
                   CREMA_INT("missing_frames", report.missing_frames),
                   CREMA_INT("refused_records", report.refused_records));
    return 0;
}

/* Only for live files that are updated more often than a tick comes. */
static int
s_on_flush(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    sink_t *self = context;
    sink_views_flush(self->views, crema_clock_mono_ns());
    return 0;
}

/* ---- signals */

static bool
s_on_children(sink_t *self)
{
    crema_msg_t msg;
    if (self->views)
        sink_views_reap(self->views, crema_clock_mono_ns());
    while (sink_sealing_reap(self->sealing, crema_clock_mono_ns(), crema_clock_real_ns(), &msg)) {
        const Crema__Sealed *sealed = &msg.sealed;
        const crema_id_t *run_id = crema_id_of(sealed->run_id);
        if (sealed->error && sealed->error[0]) {
            self->counts.seal_failed++;
            crema_log_error("seal_failed", CREMA_ID("run", run_id),
                            CREMA_TEXT("why", sealed->error));
            if (self->views)
                sink_views_yield(self->views, run_id);
        } else {
            self->counts.sealed++;
            sink_scrape_count(self, sealed);
            crema_log_info("sealed", CREMA_ID("run", run_id), CREMA_TEXT("path", sealed->path),
                           CREMA_TEXT("verdict", sealed->verdict),
                           CREMA_INT("revision", sealed->revision));
            if (self->views)
                sink_views_end(self->views, run_id);
        }
        sink_intake_say_sealed(self, &msg);
    }
    return sink_group_go_on(self); /* with runs whose sync ended meanwhile */
}

static int
s_on_signal(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    (void)loop;
    sink_t *self = context;
    for (int number; (number = crema_signals_read(item->fd)) != 0;) {
        if (number == SIGTERM || number == SIGINT)
            return -1;
        if (number == SIGHUP)
            (void)crema_server_refresh(self->server, true);
        if (number == SIGCHLD && !s_on_children(self))
            return -1;
    }
    return 0;
}

/* ---- start and stop */

static crema_err_t
s_open_output(const sink_config_t *config, char *why, size_t size)
{
    if (!sink_fs_fits(config->output_dir, SINK_FS_BELOW_BYTES) ||
        (mkdir(config->output_dir, 0777) != 0 && errno != EEXIST))
        return crema_server_fail(CREMA_ECONFIG, why, size,
                                 "the output directory %.256s cannot be made: %s",
                                 config->output_dir, strerror(errno));
    if (access(config->output_dir, W_OK | X_OK) != 0)
        return crema_server_fail(CREMA_ECONFIG, why, size,
                                 "the output directory %s cannot be written: %s",
                                 config->output_dir, strerror(errno));
    return CREMA_OK;
}

static crema_err_t
s_open_store(sink_t *self, char *why, size_t size)
{
    sink_store_config_t config = {
        .dir = self->config.store_dir,
        .limit_bytes = self->config.journal_limit_bytes,
        .run_limit_bytes = self->config.run_limit_bytes,
        .streams_max = STREAMS_MAX,
        .runs_max = RUNS_MAX,
        .on_event = sink_group_on_event,
        .on_group = sink_group_on_group,
        .on_freed = sink_freeing_on_freed,
        .context = self,
    };
    int64_t began_ns = crema_clock_mono_ns();
    crema_err_t err = sink_store_open(&config, why, size, &self->store);
    if (err != CREMA_OK)
        return err;
    crema_id_t id = sink_store_id(self->store);
    sink_store_tick(self->store, crema_clock_mono_ns());
    crema_log_info("store_opened", CREMA_TEXT("path", self->config.store_dir),
                   CREMA_ID("store", &id), CREMA_INT("runs", sink_store_report(self->store).runs),
                   CREMA_INT("ms", (crema_clock_mono_ns() - began_ns) / 1000000));
    return CREMA_OK;
}

static crema_err_t
s_bind(sink_t *self, char *why, size_t size)
{
    crema_err_t err = crema_server_new(CREMA_ROLE_STORE, self->config.endpoint,
                                       self->config.keys_dir, why, size, &self->server);
    if (err == CREMA_OK)
        self->router = crema_server_socket(self->server);
    return err;
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
    self->on_durable = sink_intake_answer;
    rc |= sink_group_attach(self);
    if (crema_server_attach(self->server, self->loop, (size_t)self->config.connections_per_address,
                            NULL) != CREMA_OK)
        rc = -1;
    self->ticked_ns = crema_clock_mono_ns();
    self->tick_timer = zloop_timer(self->loop, TICK_MS, 1, s_on_tick, self);
    if (self->tick_timer < 0)
        rc = -1;
    if (zloop_timer(self->loop, EXAMINE_MS, 0, s_on_examine, self) < 0)
        rc = -1;
    self->flush_ms = (size_t)(self->config.flush_interval_ns / 1000000);
    if (self->views && self->flush_ms < TICK_MS &&
        zloop_timer(self->loop, self->flush_ms, 0, s_on_flush, self) < 0)
        rc = -1;
    return rc == 0 ? CREMA_OK : CREMA_ENOMEM;
}

static int64_t
s_seal_memory_bytes(const sink_config_t *config)
{
    return config->seal_memory_bytes ? config->seal_memory_bytes
                                     : sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE);
}

static crema_err_t
s_start(sink_t *self, char *why, size_t size)
{
    crema_err_t err = crema_signals_new(&self->signals);
    if (err == CREMA_OK)
        err = crema_arena_new(ARENA_BYTES, &self->arena);
    if (err == CREMA_OK)
        err = crema_stream_table_new(CREMA_WIRE_TABLE_ROWS_SENT, &self->table);
    if (err != CREMA_OK)
        return crema_server_fail(err, why, size, "the program cannot start: %s",
                                 crema_err_text(err));
    err = s_open_output(&self->config, why, size);
    if (err == CREMA_OK)
        err = s_open_store(self, why, size);
    const crema_id_t id = err == CREMA_OK ? sink_store_id(self->store) : (crema_id_t){0};
    if (err == CREMA_OK && self->config.output_lock)
        err = sink_turn_take(self->config.output_dir, &id, why, size, &self->turn);
    if (err == CREMA_OK)
        err = s_bind(self, why, size);
    if (err != CREMA_OK)
        return err;
    err = sink_peers_new(self->router, crema_random_u64() | 1, &self->peers);
    if (err == CREMA_OK)
        err = sink_answers_new(RUNS_MAX, &self->answers);
    if (err == CREMA_OK)
        err = sink_sealing_new(self->store, self->config.output_dir, RUNS_MAX,
                               s_seal_memory_bytes(&self->config), &self->sealing);
    if (err == CREMA_OK && self->config.live)
        err = sink_views_new(self->config.store_dir, self->config.output_dir,
                             self->config.flush_interval_ns, &self->views);
    if (err == CREMA_OK)
        err = s_wire_up(self);
    if (err != CREMA_OK)
        return crema_server_fail(err, why, size, "the program cannot start: %s",
                                 crema_err_text(err));
    sink_scrape_prepare(self);
    return crema_scrape_new(self->config.metrics, "crema-sink", self->loop, sink_scrape_expose,
                            self, why, size, &self->scrape);
}

crema_err_t
sink_new(const sink_config_t *config, char *ret_why, size_t why_size, sink_t **ret_self)
{
    sink_t *self = calloc(1, sizeof *self);
    if (!self)
        return crema_server_fail(CREMA_ENOMEM, ret_why, why_size, "out of memory");
    self->config = *config;
    self->signals = self->turn = -1;
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
        crema_scrape_destroy(&self->scrape);
        crema_server_destroy(&self->server);
        zloop_destroy(&self->loop);
        sink_sealing_destroy(&self->sealing);
        sink_views_destroy(&self->views);
        sink_answers_destroy(&self->answers);
        sink_peers_destroy(&self->peers);
        sink_store_close(&self->store);
        crema_arena_destroy(&self->arena);
        free(self->table);
        if (self->signals >= 0)
            close(self->signals);
        if (self->turn >= 0)
            close(self->turn);
        free(self);
    }
    *self_p = NULL;
}

const char *
sink_endpoint(const sink_t *self)
{
    return crema_server_endpoint(self->server);
}

const char *
sink_metrics_url(const sink_t *self)
{
    return crema_scrape_url(self->scrape);
}

crema_err_t
sink_serve(sink_t *self)
{
    sink_sealing_tick(self->sealing, crema_clock_mono_ns());
    zloop_start(self->loop);
    crema_health_report(self->config.health_file, false);
    crema_notify_stopping();
    if (!self->broken)
        sink_group_commit(self);
    sink_commit_stats_t marks = sink_commit_stats(sink_store_watermarks(self->store));
    sink_store_report_t report = sink_store_report(self->store);
    crema_log_info(
        "stopped", CREMA_INT("messages", self->counts.messages),
        CREMA_INT("puts", self->counts.puts), CREMA_INT("records", marks.appended),
        CREMA_INT("repeats", marks.repeats), CREMA_INT("gaps", marks.gaps),
        CREMA_INT("strays", marks.strays), CREMA_INT("bad", self->counts.bad),
        CREMA_INT("refused", self->counts.refused),
        CREMA_INT("not_allowed", self->counts.not_allowed), CREMA_INT("full", self->counts.full),
        CREMA_INT("keys_refused", crema_server_refused(self->server)),
        CREMA_INT("crowded", crema_server_crowded(self->server)),
        CREMA_INT("untaken", sink_peers_stats(self->peers).untaken),
        CREMA_INT("commits", self->counts.commits),
        CREMA_INT("committed_bytes", self->counts.committed_bytes),
        CREMA_INT("sealed", self->counts.sealed),
        CREMA_INT("seal_failed", self->counts.seal_failed), CREMA_INT("set_aside", report.aside),
        CREMA_INT("refused_records", report.refused_records));
    return self->broken ? CREMA_EIO : CREMA_OK;
}
