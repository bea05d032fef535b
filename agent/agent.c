#include "agent.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <czmq.h>

#include "agent_delivery.h"
#include "agent_need.h"
#include "agent_sampler.h"
#include "agent_scrape.h"
#include "agent_source.h"
#include "agent_spool_dir.h"
#include "agent_watch.h"
#include "agent_words.h"
#include "crema_clock.h"
#include "crema_failpoint.h"
#include "crema_health.h"
#include "crema_log.h"
#include "crema_notify.h"
#include "crema_random.h"
#include "crema_reactor.h"
#include "crema_scrape.h"
#include "crema_version.h"

#define MS 1000000ll
#define TICK_NS (100 * MS) /* while records are in flight; otherwise the poll interval is enough */
#define STANDBY_NS (1000 * MS)
#define QUIET_POLL_NS (1000 * MS)         /* between looks into a spool that is being watched */
#define UNREACHABLE_NS (5000 * MS)        /* silence before a warning */
#define UNREACHED_PATIENCE_NS (1500 * MS) /* an agent that has just started may still be admitted */
#define LOCK_TRIES 10 /* another process may just be testing whether the lock is held */
#define LOCK_PAUSE_US 20000

typedef enum { STANDBY, SERVING, LEAVING } s_phase_t;

typedef struct {
    const agent_config_t *config;
    s_phase_t phase;
    zloop_t *loop;
    char host[HOST_NAME_MAX + 1];
    crema_spool_t *spool;
    agent_sampler_t *sampler; /* from SERVING on, as is delivery */
    agent_delivery_t *delivery;
    agent_source_t *attached; /* NULL: not attached */
    agent_watch_t *watch;     /* NULL: every look is due after the poll interval */
    bool listening;           /* the next change wakes the loop */
    int tick_timer;           /* -1: none */
    crema_scrape_t *scrape;   /* NULL: no metrics */
    crema_id_t agent_id;
    int64_t poll_at_ns, sample_at_ns, lock_at_ns;
    int64_t wall_ahead_ns; /* of the monotonic clock, at the last sample */
    int64_t leave_by_ns;   /* in LEAVING */
    int64_t idle_from_ns;  /* last time with writers or records */
    bool unreachable;      /* and that was logged */
    bool refused;          /* and the command continues */
    bool child_ended;
    int child_status;
    int status; /* exit status */
} agent_t;

/* ---- leaving */

static int
s_stop(agent_t *self, int status)
{
    self->status = self->child_ended ? self->child_status : status;
    return -1;
}

static bool
s_is_for_one_run(const agent_t *self)
{
    return !crema_id_is_zero(&self->config->run_id);
}

/* Records that stay are not lost: the next agent that serves this spool delivers them. */
static int
s_finish(agent_t *self, int status)
{
    uint64_t remaining = agent_delivery_remaining(self->delivery);
    size_t unreadable = crema_spool_faults(self->spool, NULL, 0);
    bool stays = remaining > 0 || unreadable > 0;
    /* A directory with segments is kept in any case. */
    if (s_is_for_one_run(self) && !agent_spool_dir_remove(self->config->spool_dir))
        stays = true;
    if (stays)
        crema_log_warn("records_stay", CREMA_INT("count", remaining),
                       CREMA_INT("unreadable", unreadable),
                       CREMA_TEXT("spool", self->config->spool_dir));
    else
        crema_log_info("delivered", CREMA_TEXT("spool", self->config->spool_dir));
    return s_stop(self, stays && status == AGENT_EXIT_DONE ? AGENT_EXIT_FAILED : status);
}

static bool
s_is_reached(const agent_t *self)
{
    crema_session_state_t state = agent_delivery_state(self->delivery);
    return state != CREMA_SESSION_INIT && state != CREMA_SESSION_BACKOFF &&
           state != CREMA_SESSION_HELLO_SENT;
}

/* Ends the agent's own streams and delivers what there is. */
static int
s_leave(agent_t *self, int64_t patience_ns, const char *why)
{
    if (self->phase == STANDBY)
        return s_stop(self, AGENT_EXIT_DONE);
    if (self->phase == SERVING)
        crema_log_info("leaving", CREMA_TEXT("why", why));
    self->phase = LEAVING;
    agent_sampler_stop(self->sampler);
    agent_delivery_scan(self->delivery);
    if (self->refused || (!s_is_reached(self) && agent_delivery_remaining(self->delivery) == 0))
        return s_finish(self, AGENT_EXIT_DONE); /* nothing to deliver, and no session to end */
    self->leave_by_ns = crema_clock_mono_ns() + patience_ns;
    agent_delivery_drain(self->delivery, self->leave_by_ns);
    return 0;
}

/* An agent asked to stop does not wait for an aggregator that is absent. */
static int64_t
s_patience_ns(const agent_t *self)
{
    int64_t drain_ns = self->config->drain_ns;
    return s_is_reached(self) || drain_ns < UNREACHED_PATIENCE_NS ? drain_ns
                                                                  : UNREACHED_PATIENCE_NS;
}

/* ---- serving */

static crema_err_t
s_start_sampler(agent_t *self)
{
    const agent_config_t *config = self->config;
    const agent_sampler_config_t sampler = {
        .dir = config->spool_dir,
        .proc = "/proc",
        .sys = "/sys",
        .host = self->host,
        .version = CREMA_VERSION,
        .agent_id = self->agent_id,
        .run_id = config->run_id,
        .tree = config->child || config->attached,
        .sample_interval_s = (double)config->sample_ns / 1e9,
        .heartbeat_interval_s = (double)config->heartbeat_ns / 1e9,
    };
    agent_sampler_destroy(&self->sampler); /* left from a failed start */
    return agent_sampler_new(&sampler, &self->sampler);
}

static crema_err_t
s_start_delivery(agent_t *self)
{
    const agent_config_t *config = self->config;
    const agent_delivery_config_t delivery = {
        .session = {.agent_id = self->agent_id,
                    .boot = crema_random_u64(),
                    .host = self->host,
                    .version = CREMA_VERSION,
                    .pid = (int32_t)getpid(),
                    .run_id = config->run_id,
                    .heartbeat_ns = config->heartbeat_ns,
                    .streams_max = CREMA_SPOOL_STREAMS_MAX},
        .run_id = config->run_id,
        .spool_limit_b = (uint64_t)config->spool_limit_b,
        .endpoints = config->endpoints,
        .way_dir = s_is_for_one_run(self) ? config->spool_dir : NULL,
        .keys = config->keys,
    };
    agent_delivery_destroy(&self->delivery);
    return agent_delivery_new(&delivery, self->loop, self->spool, self->sampler, &self->delivery);
}

static crema_err_t
s_serve(agent_t *self)
{
    crema_err_t err = crema_spool_agent_id(self->spool, &self->agent_id);
    if (err == CREMA_OK)
        err = s_start_sampler(self);
    if (err == CREMA_OK)
        err = s_start_delivery(self);
    if (err != CREMA_OK)
        return err;
    if (agent_watch_new(self->config->spool_dir, &self->watch) == CREMA_ENOMEM)
        return CREMA_ENOMEM;
    self->phase = SERVING;
    self->idle_from_ns = crema_clock_mono_ns();
    agent_spool_dir_sweep(self->config->spool_dir, crema_clock_real_ns() / (1000 * MS));
    crema_log_info("serving", CREMA_TEXT("spool", self->config->spool_dir),
                   CREMA_TEXT("aggregator", self->config->endpoints));
    agent_delivery_scan(self->delivery);
    return CREMA_OK;
}

/* Logs one warning when the aggregator stops responding, and one message when it responds again. */
static void
s_watch_reach(agent_t *self, int64_t now_ns)
{
    bool reached = s_is_reached(self);
    if (reached && self->unreachable) {
        crema_log_info("aggregator_reached", CREMA_TEXT("endpoint", self->config->endpoints));
        self->unreachable = false;
    } else if (!reached && !self->unreachable &&
               now_ns - agent_delivery_heard_ns(self->delivery) > UNREACHABLE_NS) {
        crema_log_warn("aggregator_unreachable", CREMA_TEXT("endpoint", self->config->endpoints),
                       CREMA_INT("records_held", agent_delivery_remaining(self->delivery)));
        self->unreachable = true;
    }
}

static bool
s_has_undelivered_end(const agent_t *self)
{
    for (size_t i = 0; i < crema_spool_count(self->spool); i++) {
        const crema_spool_stream_t *stream = crema_spool_stream(self->spool, i);
        if (stream->closed && stream->committed < stream->hi)
            return true;
    }
    return false;
}

/* Everything known was delivered and the session ended. If a writer ended at that moment, its
 * last records are sent in a new session, time permitting. */
static int
s_on_drained(agent_t *self)
{
    agent_delivery_scan(self->delivery);
    if (!s_has_undelivered_end(self) || crema_clock_mono_ns() >= self->leave_by_ns)
        return s_finish(self, AGENT_EXIT_DONE);
    if (s_start_delivery(self) != CREMA_OK)
        return s_stop(self, AGENT_EXIT_FAILED);
    agent_delivery_scan(self->delivery);
    agent_delivery_drain(self->delivery, self->leave_by_ns);
    return 0;
}

/* Reacts to the end of the session. */
static int
s_on_session_end(agent_t *self)
{
    switch (agent_delivery_end(self->delivery)) {
    case CREMA_SESSION_END_NONE:
        return 0;
    case CREMA_SESSION_END_REFUSED:
        if (!self->refused)
            crema_log_error(
                "refused",
                CREMA_TEXT("why", agent_words_refusal(agent_delivery_refusal(self->delivery))),
                CREMA_TEXT("endpoint", self->config->endpoints));
        self->refused = true;
        if (self->phase == LEAVING)
            return s_finish(self, AGENT_EXIT_DONE);
        return self->config->child ? 0 : s_finish(self, AGENT_EXIT_REFUSED);
    case CREMA_SESSION_END_DISMISSED:
        if (self->config->child && !self->child_ended)
            return 0; /* the run is over, the command is not */
        crema_failpoint("agent.before_dismissal");
        agent_delivery_scan(
            self->delivery); /* records that came meanwhile keep the spool from being removed */
        return s_finish(self, AGENT_EXIT_DONE);
    case CREMA_SESSION_END_DRAINED:
        return s_on_drained(self);
    case CREMA_SESSION_END_DEADLINE:
        return s_finish(self, AGENT_EXIT_DONE);
    }
    return 0;
}

static bool
s_has_writer(const agent_t *self)
{
    for (size_t i = 0; i < crema_spool_count(self->spool); i++)
        if (!crema_spool_stream(self->spool, i)->closed)
            return true;
    return false;
}

static const char *
s_why_unneeded(agent_t *self, int64_t now_ns)
{
    const agent_need_facts_t facts = {
        .has_writer = s_has_writer(self),
        .has_records = agent_delivery_remaining(self->delivery) > 0 ||
                       crema_spool_faults(self->spool, NULL, 0) > 0,
        .heard_ns = agent_delivery_heard_ns(self->delivery),
    };
    return s_is_for_one_run(self)
               ? agent_need_is_over(&facts, self->config->orphan_ns, &self->idle_from_ns, now_ns)
               : NULL;
}

/* Advances to the next multiple of the interval; missed ones are skipped. */
static void
s_advance(int64_t *at_ns, int64_t interval_ns, int64_t now_ns)
{
    *at_ns = now_ns - now_ns % interval_ns + interval_ns;
}

static int s_on_tick(zloop_t *loop, int timer, void *arg);

static int
s_on_change(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    agent_t *self = arg;
    zloop_poller_end(loop, item);
    self->listening = false;
    self->poll_at_ns = 0;
    if (self->tick_timer >= 0)
        zloop_timer_end(loop, self->tick_timer);
    return s_on_tick(loop, -1, self);
}

/* After a look that found no change, waits for one, which is then looked at without delay. After
 * a change the next look is due after the poll interval, however often records are written. */
static void
s_plan_poll(agent_t *self, bool changed, int64_t now_ns)
{
    if (self->watch && !agent_watch_is_sound(self->watch)) {
        if (self->listening)
            zloop_poller_end(self->loop, &(zmq_pollitem_t){.fd = agent_watch_fd(self->watch)});
        self->listening = false;
        agent_watch_destroy(&self->watch);
    }
    if (self->watch && !self->listening && !changed) {
        zmq_pollitem_t item = {.fd = agent_watch_fd(self->watch), .events = ZMQ_POLLIN};
        self->listening = zloop_poller(self->loop, &item, s_on_change, self) == 0;
    }
    bool is_quiet = self->listening && self->config->poll_ns < QUIET_POLL_NS;
    s_advance(&self->poll_at_ns, is_quiet ? QUIET_POLL_NS : self->config->poll_ns, now_ns);
}

static int
s_serve_on(agent_t *self, int64_t now_ns)
{
    bool sampled = false;
    if (self->phase == SERVING && now_ns >= self->sample_at_ns) {
        crema_log_clock_step(&self->wall_ahead_ns);
        sampled = agent_sampler_sample(self->sampler);
        s_advance(&self->sample_at_ns, self->config->sample_ns, now_ns);
    }
    bool over = self->phase == LEAVING && agent_delivery_is_over(self->delivery);
    if ((sampled || now_ns >= self->poll_at_ns) && !over) {
        bool changed = self->watch && agent_watch_changed(self->watch) && !sampled;
        agent_delivery_scan(self->delivery);
        s_plan_poll(self, changed, now_ns);
    }
    agent_delivery_tick(self->delivery);
    if (!self->refused)
        s_watch_reach(self, now_ns);
    const char *why = self->phase == SERVING ? s_why_unneeded(self, now_ns) : NULL;
    return why ? s_leave(self, s_patience_ns(self), why) : s_on_session_end(self);
}

/* ---- events */

static bool
s_attached_is_gone(const agent_t *self)
{
    return self->attached && !agent_source_is_alive(self->attached);
}

static int
s_stand_by(agent_t *self, int64_t now_ns)
{
    if (now_ns < self->lock_at_ns)
        return 0;
    self->lock_at_ns = now_ns + STANDBY_NS;
    crema_err_t err = CREMA_OK;
    if (!self->spool)
        err = crema_spool_open(self->config->spool_dir, &self->spool);
    if (err == CREMA_OK)
        err = crema_spool_lock(self->spool);
    if (err == CREMA_OK)
        err = s_serve(self);
    if (err != CREMA_OK && err != CREMA_EBUSY)
        crema_log_error("cannot_serve", CREMA_TEXT("why", crema_err_text(err)));
    return 0;
}

/* When the loop must wake next. A wake costs more than its work, so an idle agent has few. */
static int64_t
s_pause_ns(const agent_t *self, int64_t now_ns)
{
    if (self->phase == STANDBY)
        return self->config->attached ? TICK_NS : STANDBY_NS;
    int64_t at_ns = self->poll_at_ns > now_ns ? self->poll_at_ns : now_ns + TICK_NS;
    if (self->phase == SERVING && self->sample_at_ns < at_ns)
        at_ns = self->sample_at_ns;
    bool busy = self->phase == LEAVING || agent_delivery_is_busy(self->delivery);
    int64_t due_ns = agent_delivery_due_ns(self->delivery);
    if (busy)
        due_ns = now_ns + TICK_NS;
    else if (due_ns == 0 || self->attached)
        due_ns = now_ns + self->config->poll_ns;
    if (at_ns > due_ns)
        at_ns = due_ns;
    return at_ns > now_ns ? at_ns - now_ns : 0;
}

static int
s_on_tick(zloop_t *loop, int timer, void *arg)
{
    (void)timer;
    agent_t *self = arg;
    int64_t now_ns = crema_clock_mono_ns();
    self->tick_timer = -1;
    if (self->phase != LEAVING && s_attached_is_gone(self) &&
        s_leave(self, self->config->drain_ns, "the process ended") != 0)
        return -1;
    int rc = self->phase == STANDBY ? s_stand_by(self, now_ns) : s_serve_on(self, now_ns);
    if (rc != 0)
        return rc;
    int64_t pause_ns = s_pause_ns(self, crema_clock_mono_ns());
    self->tick_timer = zloop_timer(loop, (size_t)((pause_ns + MS - 1) / MS), 1, s_on_tick, self);
    return self->tick_timer < 0 ? -1 : 0;
}

static bool
s_is_healthy(const agent_t *self)
{
    return self->phase != STANDBY && !self->refused && s_is_reached(self);
}

static int
s_on_health(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
    const agent_t *self = arg;
    crema_health_report(self->config->health_file, s_is_healthy(self));
    return 0;
}

static void
s_on_scrape(void *context, crema_exposition_t *out)
{
    static const char *const c_phases[] = AGENT_SCRAPE_PHASES;
    const agent_t *self = context;
    const agent_scrape_t facts = {
        .phase = c_phases[self->phase],
        .healthy = s_is_healthy(self),
        .spool = self->spool,
        .delivery = self->phase == STANDBY ? NULL : self->delivery,
        .spool_limit_b = self->config->spool_limit_b,
        .now_ns = crema_clock_mono_ns(),
    };
    agent_scrape_expose(&facts, out);
}

/* Records come before numbers about them: without its address an agent serves all the same. */
static void
s_serve_metrics(agent_t *self)
{
    char why[512];
    if (crema_scrape_new(self->config->metrics, "crema-agent", self->loop, s_on_scrape, self, why,
                         sizeof why, &self->scrape) != CREMA_OK)
        crema_log_error("metrics_not_served", CREMA_TEXT("why", why));
}

static int
s_on_signal(agent_t *self, int number)
{
    const agent_config_t *config = self->config;
    if (number == SIGCHLD) {
        if (!config->child || self->child_ended ||
            !agent_child_reap(config->child, &self->child_status))
            return 0;
        self->child_ended = true;
        return s_leave(self, config->drain_ns, "the command ended");
    }
    if (config->child && !self->child_ended) {
        agent_child_pass_on(config->child, number);
        return 0;
    }
    if (number == SIGUSR1) /* the run is over: deliver first */
        return self->phase == LEAVING ? 0 : s_leave(self, config->drain_ns, "the run is over");
    if (number != SIGINT && number != SIGTERM && (number != SIGHUP || config->ignore_hangup))
        return 0;
    /* Asked twice, it leaves at once. */
    return s_leave(self, self->phase == LEAVING ? 0 : s_patience_ns(self), "asked to");
}

static int
s_on_signals(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    (void)loop, (void)item;
    agent_t *self = arg;
    int number;
    while ((number = crema_signals_read(self->config->signals)) != 0)
        if (s_on_signal(self, number) != 0)
            return -1;
    return 0;
}

/* ---- start and stop */

static crema_err_t
s_lock(crema_spool_t *spool)
{
    crema_err_t err = CREMA_EBUSY;
    for (int i = 0; i < LOCK_TRIES && err == CREMA_EBUSY; i++) {
        if (i > 0)
            usleep(LOCK_PAUSE_US);
        err = crema_spool_lock(spool);
    }
    return err;
}

static crema_err_t
s_build(agent_t *self)
{
    const agent_config_t *config = self->config;
    if (gethostname(self->host, sizeof self->host) != 0)
        strcpy(self->host, "localhost");
    self->host[sizeof self->host - 1] = '\0';
    self->loop = crema_loop_new();
    if (!self->loop)
        return CREMA_ENOMEM;
    zmq_pollitem_t signals = {.fd = config->signals, .events = ZMQ_POLLIN};
    if (zloop_poller(self->loop, &signals, s_on_signals, self) != 0 ||
        (self->tick_timer = zloop_timer(self->loop, 0, 1, s_on_tick, self)) < 0)
        return CREMA_ENOMEM;
    if ((config->health_file || crema_notify_is_heard()) &&
        zloop_timer(self->loop, CREMA_HEALTH_MS, 0, s_on_health, self) < 0)
        return CREMA_ENOMEM;
    s_serve_metrics(self);
    if (config->attached &&
        agent_source_new("/proc", (int32_t)config->attached, false, &self->attached) != CREMA_OK)
        return CREMA_ENOENT;
    crema_err_t err = crema_spool_open(config->spool_dir, &self->spool);
    if (err == CREMA_OK)
        err = s_lock(self->spool);
    return err == CREMA_OK ? s_serve(self) : err;
}

static void
s_run_loop(agent_t *self)
{
    agent_daemon_ready(self->config->ready, AGENT_EXIT_DONE);
    /* The command may have ended before its signal could be received. */
    if (self->config->child && s_on_signal(self, SIGCHLD) != 0)
        return;
    crema_notify_ready();
    (void)zloop_start(self->loop);
}

int
agent_run(const agent_config_t *config)
{
    agent_t self = {.config = config, .phase = STANDBY};
    bool waits = config->child || config->attached;
    crema_err_t err = s_build(&self);
    if (err == CREMA_EBUSY && !waits) {
        crema_log_info("served_already", CREMA_TEXT("spool", config->spool_dir));
        agent_daemon_ready(config->ready, AGENT_EXIT_DONE);
    } else if (err == CREMA_OK || (err == CREMA_EBUSY && self.spool) ||
               (config->child && self.loop)) {
        if (err == CREMA_EBUSY)
            crema_log_info("standing_by", CREMA_TEXT("spool", config->spool_dir));
        else if (err != CREMA_OK) /* the command continues unmeasured */
            crema_log_error("cannot_serve", CREMA_TEXT("why", crema_err_text(err)));
        s_run_loop(&self);
    } else {
        crema_log_error("cannot_serve", CREMA_TEXT("spool", config->spool_dir),
                        CREMA_TEXT("why", crema_err_text(err)));
        self.status = AGENT_EXIT_FAILED;
        agent_daemon_ready(config->ready, AGENT_EXIT_FAILED);
    }
    crema_health_report(config->health_file, false);
    crema_notify_stopping();
    crema_scrape_destroy(&self.scrape);
    agent_delivery_destroy(&self.delivery);
    agent_sampler_destroy(&self.sampler);
    agent_source_destroy(&self.attached);
    agent_watch_destroy(&self.watch);
    crema_spool_close(&self.spool);
    zloop_destroy(&self.loop);
    return self.status;
}
