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
#include "crema_random.h"
#include "crema_reactor.h"
#include "sink_private.h"

#define STREAMS_MAX (1u << 22)
#define RUNS_MAX (1u << 20)
#define VIEWS_MAX 64u
#define TICK_MS 1000
#define FREE_TICKS 10 /* between two looks for journals that may go */
#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

/* ---- sockets */

static int
s_on_readable(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    return sink_intake_take(context) ? 0 : -1;
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
        .full = {.retry_after_ms = SINK_FULL_RETRY_MS, .free_b = self->free_b},
    };
    sink_peers_broadcast(self->peers, &msg);
}

static void
s_tell_health(const sink_t *self)
{
    crema_health_tell(self->config.health_file,
                      self->space != SINK_SPACE_FULL &&
                          access(self->config.store_dir, W_OK | X_OK) == 0);
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
    if (sink_store_pending_bytes(self->store) > 0 && !self->commit_armed &&
        !sink_group_commit(self))
        return -1;
    crema_log_clock_step(&self->wall_ahead_ns);
    s_say_alive(self);
    s_tell_health(self);
    sink_sealing_tick(self->sealing, crema_clock_real_ns());
    if (self->ticks++ % FREE_TICKS == 0)
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
        if (!sink_group_commit(self))
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

static crema_err_t
s_open_output(const sink_config_t *config, char *why, size_t size)
{
    if (mkdir(config->output_dir, 0777) != 0 && errno != EEXIST)
        return crema_server_fail(CREMA_ECONFIG, why, size,
                                 "the output directory %s cannot be made: %s", config->output_dir,
                                 strerror(errno));
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
    if (crema_server_attach(self->server, self->loop) != CREMA_OK)
        rc = -1;
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
        return crema_server_fail(err, why, size, "the program cannot start: %s",
                                 crema_err_text(err));
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
    return err == CREMA_OK ? err
                           : crema_server_fail(err, why, size, "the program cannot start: %s",
                                               crema_err_text(err));
}

crema_err_t
sink_new(const sink_config_t *config, char *ret_why, size_t why_size, sink_t **ret_self)
{
    sink_t *self = calloc(1, sizeof *self);
    if (!self)
        return crema_server_fail(CREMA_ENOMEM, ret_why, why_size, "out of memory");
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
        crema_server_destroy(&self->server);
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
    return crema_server_endpoint(self->server);
}

crema_err_t
sink_serve(sink_t *self)
{
    sink_sealing_tick(self->sealing, crema_clock_real_ns());
    zloop_start(self->loop);
    crema_health_tell(self->config.health_file, false);
    if (!self->broken)
        (void)sink_group_commit(self);
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
