#include "agent.h"

#include <signal.h>
#include <stdio.h>

#include <czmq.h>

#include "agent_life.h"
#include "agent_pace.h"
#include "agent_scrape.h"
#include "agent_source.h"
#include "agent_spool_dir.h"
#include "agent_watch.h"
#include "crema_clock.h"
#include "crema_health.h"
#include "crema_log.h"
#include "crema_notify.h"
#include "crema_reactor.h"
#include "crema_scrape.h"

#define MS 1000000ll
#define TICK_NS (100 * MS) /* while records are in flight; otherwise the poll interval is enough */
#define STANDBY_NS (1000 * MS)
#define QUIET_POLL_NS (1250 * MS) /* between looks into a spool that is being watched */
#define IDLE_POLL_NS (3000 * MS)  /* the same, without a writer that could die */
#define LOCK_TRIES 10             /* at the start */

typedef struct {
    agent_life_t life;
    agent_source_t *attached; /* NULL: not attached */
    agent_watch_t *watch;     /* NULL: every look is due after the poll interval */
    int tick_timer;           /* -1: none */
    bool tick_is_busy;        /* it only watches records that are under way */
    crema_scrape_t *scrape;   /* NULL: no metrics */
    int64_t poll_at_ns, lock_at_ns;
    int64_t quiet_ns;  /* between looks that are a precaution, as the watch reports the next change;
                            * 0: it does not */
    agent_pace_t pace; /* of samples */
    int64_t wall_ahead_ns; /* of the monotonic clock, at the last sample */
} agent_t;

/* ---- serving */

static int s_on_tick(zloop_t *loop, int timer, void *arg);

static int
s_on_change(void *context)
{
    agent_t *self = context;
    self->poll_at_ns = 0;
    self->quiet_ns = 0;
    if (self->tick_timer >= 0)
        zloop_timer_end(self->life.loop, self->tick_timer);
    return s_on_tick(self->life.loop, -1, self);
}

static crema_err_t
s_serve(agent_t *self, int tries)
{
    const char *dir = self->life.config->spool_dir;
    crema_err_t err = agent_life_serve(&self->life, tries);
    if (err == CREMA_OK &&
        agent_watch_new(dir, self->life.loop, s_on_change, self, &self->watch) != CREMA_OK)
        self->watch = NULL;
    return err;
}

/* After a look, waits for a change, which is then looked at without delay. If changes come faster
 * than the poll interval, the next look is due after it, however often records are written. */
static void
s_plan_poll(agent_t *self, bool changed, int64_t now_ns)
{
    int64_t poll_ns = self->life.config->poll_ns;
    bool often = changed && now_ns - self->pace.changed_ns < poll_ns;
    if (changed)
        self->pace.changed_ns = now_ns;
    if (self->watch && !agent_watch_is_sound(self->watch))
        agent_watch_destroy(&self->watch);
    if (self->watch && !often)
        agent_watch_listen(self->watch);
    self->quiet_ns = 0;
    if (self->watch && agent_watch_is_listening(self->watch) && poll_ns < QUIET_POLL_NS)
        self->quiet_ns = agent_life_has_writer(&self->life) ? QUIET_POLL_NS : IDLE_POLL_NS;
    self->poll_at_ns =
        self->quiet_ns ? now_ns + self->quiet_ns : now_ns - now_ns % poll_ns + poll_ns;
}

/* A look that is only a precaution is taken early if the agent is awake for something else, so that
 * an idle agent does both in one wake. After a sample it finds at least that; but while others write,
 * the sample waits for their next record, and is sent with it. */
static bool
s_is_poll_due(const agent_t *self, bool sampled, int64_t now_ns)
{
    bool in_company = sampled && now_ns - self->pace.changed_ns < QUIET_POLL_NS;
    return now_ns >= self->poll_at_ns - (in_company ? 0 : self->quiet_ns / 2);
}

/* True if it found a worker. */
static bool
s_sample(agent_t *self, int64_t now_ns)
{
    crema_log_clock_step(&self->wall_ahead_ns);
    agent_pace_taken(&self->pace, now_ns);
    return agent_sampler_sample(self->life.sampler);
}

static int
s_serve_on(agent_t *self, int64_t now_ns)
{
    agent_life_t *life = &self->life;
    bool heeds = self->watch && (self->quiet_ns || now_ns >= self->poll_at_ns);
    bool changed = heeds && agent_watch_changed(self->watch), sampled = false;
    if (life->phase == AGENT_SERVING && agent_pace_is_due(&self->pace, changed, now_ns))
        sampled = s_sample(self, now_ns);
    if (sampled && heeds)
        (void)agent_watch_changed(self->watch); /* by the sample */
    bool over = life->phase == AGENT_LEAVING && agent_delivery_is_over(life->delivery);
    if ((changed || s_is_poll_due(self, sampled, now_ns)) && !over) {
        agent_delivery_scan(life->delivery);
        s_plan_poll(self, changed, now_ns);
    }
    agent_delivery_tick(life->delivery);
    return agent_life_go_on(life, now_ns);
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
    crema_err_t err = s_serve(self, 1);
    if (err != CREMA_OK && err != CREMA_EBUSY)
        crema_log_error("cannot_serve", CREMA_TEXT("why", crema_err_text(err)));
    return 0;
}

/* When the loop must wake next. A wake costs more than its work, so an idle agent has few. */
static int64_t
s_pause_ns(const agent_t *self, int64_t now_ns)
{
    const agent_life_t *life = &self->life;
    if (life->phase == AGENT_STANDBY)
        return life->config->attached ? TICK_NS : STANDBY_NS;
    int64_t at_ns = self->poll_at_ns > now_ns ? self->poll_at_ns : now_ns + TICK_NS;
    int64_t sample_ns = agent_pace_latest_ns(&self->pace, now_ns);
    if (life->phase == AGENT_SERVING && agent_sampler_workers(life->sampler) > 0 &&
        sample_ns < at_ns)
        at_ns = sample_ns;
    bool busy = life->phase == AGENT_LEAVING || agent_delivery_is_busy(life->delivery);
    int64_t due_ns = crema_session_due_ns(agent_delivery_session(life->delivery));
    if (busy)
        due_ns = now_ns + TICK_NS;
    else if (due_ns == 0 || self->attached)
        due_ns = now_ns + life->config->poll_ns;
    if (at_ns > due_ns)
        at_ns = due_ns;
    return at_ns > now_ns ? at_ns - now_ns : 0;
}

/* After messages, the next tick may be due at once or only later. */
static void
s_on_turn(void *context)
{
    agent_t *self = context;
    agent_delivery_t *delivery = self->life.delivery;
    bool is_over = crema_session_end(agent_delivery_session(delivery)) != CREMA_SESSION_END_NONE;
    if (self->tick_timer < 0 ||
        (!is_over && (!self->tick_is_busy || agent_delivery_is_busy(delivery))))
        return;
    int64_t pause_ns = is_over ? 0 : s_pause_ns(self, crema_clock_mono_ns());
    int timer =
        zloop_timer(self->life.loop, (size_t)((pause_ns + MS - 1) / MS), 1, s_on_tick, self);
    if (timer < 0)
        return; /* the next tick comes as planned */
    zloop_timer_end(self->life.loop, self->tick_timer);
    self->tick_timer = timer;
    self->tick_is_busy = false;
}

static int
s_on_tick(zloop_t *loop, int timer, void *arg)
{
    (void)timer;
    agent_t *self = arg;
    agent_life_t *life = &self->life;
    int64_t now_ns = crema_clock_mono_ns();
    self->tick_timer = -1;
    if (life->phase != AGENT_LEAVING && s_attached_is_gone(self) &&
        agent_life_leave(life, life->config->drain_ns, "the process ended") != 0)
        return -1;
    int rc = life->phase == AGENT_STANDBY ? s_stand_by(self, now_ns) : s_serve_on(self, now_ns);
    if (rc != 0)
        return rc;
    int64_t pause_ns = s_pause_ns(self, crema_clock_mono_ns());
    self->tick_is_busy = life->phase == AGENT_SERVING && agent_delivery_is_busy(life->delivery);
    self->tick_timer = zloop_timer(loop, (size_t)((pause_ns + MS - 1) / MS), 1, s_on_tick, self);
    return self->tick_timer < 0 ? -1 : 0;
}

static int
s_on_health(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
    const agent_t *self = arg;
    crema_health_report(self->life.config->health_file, agent_life_is_healthy(&self->life));
    return 0;
}

static void
s_on_scrape(void *context, crema_exposition_t *out)
{
    static const char *const c_phases[] = AGENT_SCRAPE_PHASES;
    const agent_t *self = context;
    const agent_scrape_t facts = {
        .phase = c_phases[self->life.phase],
        .healthy = agent_life_is_healthy(&self->life),
        .spool = self->life.spool,
        .delivery = self->life.phase == AGENT_STANDBY ? NULL : self->life.delivery,
        .spool_limit_b = self->life.config->spool_limit_b,
        .now_ns = crema_clock_mono_ns(),
    };
    agent_scrape_expose(&facts, out);
}

/* Records come before numbers about them: without its address an agent serves all the same. */
static void
s_serve_metrics(agent_t *self)
{
    char why[512];
    if (crema_scrape_new(self->life.config->metrics, "crema-agent", self->life.loop, s_on_scrape,
                         self, why, sizeof why, &self->scrape) != CREMA_OK)
        crema_log_error("metrics_not_served", CREMA_TEXT("why", why));
}

static int
s_on_signal(agent_t *self, int number)
{
    const agent_config_t *config = self->life.config;
    agent_life_t *life = &self->life;
    if (number == SIGCHLD)
        return agent_life_reap(life);
    if (config->child && !life->child_ended) {
        agent_child_pass_on(config->child, number);
        return 0;
    }
    bool leaves = life->phase == AGENT_LEAVING;
    if (number == SIGUSR1) /* the run is over: deliver first */
        return leaves ? 0 : agent_life_leave(life, config->drain_ns, "the run is over");
    if (number != SIGINT && number != SIGTERM && (number != SIGHUP || config->ignore_hangup))
        return 0;
    /* Asked twice, it leaves at once. */
    return leaves ? agent_life_leave(life, 0, "asked to") : agent_life_leave_soon(life, "asked to");
}

static int
s_on_signals(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    (void)loop, (void)item;
    agent_t *self = arg;
    int number;
    while ((number = crema_signals_read(self->life.config->signals)) != 0)
        if (s_on_signal(self, number) != 0)
            return -1;
    return 0;
}

/* ---- start and stop */

static crema_err_t
s_build(agent_t *self)
{
    const agent_config_t *config = self->life.config;
    self->life.loop = crema_loop_new();
    if (!self->life.loop)
        return CREMA_ENOMEM;
    zmq_pollitem_t signals = {.fd = config->signals, .events = ZMQ_POLLIN};
    if (zloop_poller(self->life.loop, &signals, s_on_signals, self) != 0 ||
        (self->tick_timer = zloop_timer(self->life.loop, 0, 1, s_on_tick, self)) < 0)
        return CREMA_ENOMEM;
    if ((config->health_file || crema_notify_is_heard()) &&
        zloop_timer(self->life.loop, CREMA_HEALTH_MS, 0, s_on_health, self) < 0)
        return CREMA_ENOMEM;
    s_serve_metrics(self);
    if (config->attached &&
        agent_source_new("/proc", (int32_t)config->attached, false, &self->attached) != CREMA_OK)
        return CREMA_ENOENT;
    return s_serve(self, LOCK_TRIES);
}

static void
s_run_loop(agent_t *self)
{
    agent_daemon_ready(self->life.config->ready, AGENT_EXIT_DONE);
    /* The command may have ended before its signal could be received. */
    if (self->life.config->child && s_on_signal(self, SIGCHLD) != 0)
        return;
    crema_notify_ready();
    (void)zloop_start(self->life.loop);
}

int
agent_run(const agent_config_t *config)
{
    agent_t self = {.life = {.config = config, .on_turn = s_on_turn},
                    .pace = {.interval_ns = config->sample_ns}};
    self.life.reactor = &self;
    bool waits = config->child || config->attached;
    crema_err_t err = s_build(&self);
    if (err == CREMA_EBUSY && !waits) {
        crema_log_info("served_already", CREMA_TEXT("spool", config->spool_dir));
        agent_daemon_ready(config->ready, AGENT_EXIT_DONE);
    } else if (err == CREMA_OK || (err == CREMA_EBUSY && self.life.spool) ||
               (config->child && self.life.loop)) {
        if (err == CREMA_EBUSY)
            crema_log_info("standing_by", CREMA_TEXT("spool", config->spool_dir));
        else if (err != CREMA_OK) /* the command continues unmeasured */
            crema_log_error("cannot_serve", CREMA_TEXT("why", crema_err_text(err)));
        s_run_loop(&self);
    } else {
        crema_log_error("cannot_serve", CREMA_TEXT("spool", config->spool_dir),
                        CREMA_TEXT("why", crema_err_text(err)));
        self.life.status = AGENT_EXIT_FAILED;
        agent_daemon_ready(config->ready, AGENT_EXIT_FAILED);
    }
    crema_health_report(config->health_file, false);
    crema_notify_stopping();
    crema_scrape_destroy(&self.scrape);
    agent_life_clear(&self.life);
    agent_source_destroy(&self.attached);
    agent_watch_destroy(&self.watch);
    zloop_destroy(&self.life.loop);
    return self.life.status;
}
