#include "agent.h"

#include <signal.h>
#include <stdio.h>

#include <czmq.h>

#include "agent_life.h"
#include "agent_pace.h"
#include "agent_source.h"
#include "agent_spool_dir.h"
#include "agent_watch.h"
#include "agent_words.h"
#include "crema_clock.h"
#include "crema_health.h"
#include "crema_log.h"
#include "crema_notify.h"
#include "crema_reactor.h"

#define MS 1000000ll
#define TICK_NS (100 * MS) /* while records are in flight or the agent leaves */
#define STANDBY_NS (1000 * MS)
/* Between looks into a spool whose next change the watch reports: longer than between two samples,
 * with each of which there is a look. */
#define WATCHED_LOOK_NS (1250 * MS)
#define LOCK_TRIES 10 /* at the start */

typedef struct {
    agent_life_t life;
    agent_source_t *attached; /* NULL: not attached */
    agent_watch_t *watch;     /* NULL: every look is due after the poll interval */
    int tick_timer;           /* -1: none */
    /* What is due when; s_wake_ns() adds what the session waits for. Monotonic times. */
    int64_t lock_at_ns;    /* in STANDBY */
    int64_t look_at_ns;    /* into the spool; 0: at once */
    agent_pace_t pace;     /* of the workers' samples; knows when others last wrote */
    int64_t wall_ahead_ns; /* of the monotonic clock, at the last sample */
} agent_t;

/* ---- serving */

static int s_on_tick(zloop_t *loop, int timer, void *arg);

static int
s_on_change(void *context)
{
    agent_t *self = context;
    self->look_at_ns = 0;
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

/* Whether others have written since the last look. If changes come faster than the poll interval,
 * the next look is due after it, however often records are written: *ret_often. */
static bool
s_has_changed(agent_t *self, int64_t now_ns, bool *ret_often)
{
    const bool changed =
        self->watch && now_ns >= self->look_at_ns && agent_watch_changed(self->watch);
    *ret_often = changed && now_ns - self->pace.changed_ns < self->life.config->poll_ns;
    if (changed)
        self->pace.changed_ns = now_ns;
    return changed;
}

/* True if it found a worker. What it writes is no change by others. */
static bool
s_sample(agent_t *self, int64_t now_ns)
{
    crema_log_clock_step(&self->wall_ahead_ns);
    agent_pace_taken(&self->pace, now_ns);
    const bool sampled = agent_sampler_sample(self->life.sampler);
    if (sampled && self->watch)
        (void)agent_watch_changed(self->watch);
    return sampled;
}

/* After a look the watch reports the next change, which is then looked at without delay. */
static void
s_look(agent_t *self, bool often, int64_t now_ns)
{
    const int64_t poll_ns = self->life.config->poll_ns;
    agent_delivery_scan(self->life.delivery);
    if (self->watch && !agent_watch_is_sound(self->watch))
        agent_watch_destroy(&self->watch);
    if (self->watch && !often)
        agent_watch_listen(self->watch);
    const bool is_watched = self->watch && agent_watch_is_listening(self->watch);
    self->look_at_ns = is_watched && poll_ns < WATCHED_LOOK_NS
                           ? now_ns + WATCHED_LOOK_NS
                           : now_ns - now_ns % poll_ns + poll_ns;
}

/* Does what is due. What a sample wrote is sent at once. */
static int
s_serve_on(agent_t *self, int64_t now_ns)
{
    agent_life_t *life = &self->life;
    bool often;
    const bool changed = s_has_changed(self, now_ns, &often);
    const bool sampled = life->phase == AGENT_SERVING &&
                         agent_pace_is_due(&self->pace, changed, now_ns) && s_sample(self, now_ns);
    const bool over = life->phase == AGENT_LEAVING && agent_delivery_is_over(life->delivery);
    if ((sampled || now_ns >= self->look_at_ns) && !over)
        s_look(self, often, now_ns);
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
        crema_log_error("cannot_serve", CREMA_TEXT("why", agent_words_error(err)));
    return 0;
}

static int64_t
s_earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* When the loop must wake next: at the earliest of what is due. */
static int64_t
s_wake_ns(const agent_t *self, int64_t now_ns)
{
    const agent_life_t *life = &self->life;
    const agent_config_t *config = life->config;
    if (life->phase == AGENT_STANDBY)
        return config->attached ? now_ns + TICK_NS : self->lock_at_ns;
    if (life->phase == AGENT_LEAVING)
        return now_ns + TICK_NS;
    if (agent_delivery_is_busy(life->delivery))
        return s_earlier(self->look_at_ns, now_ns + TICK_NS);
    const int64_t session_ns = crema_session_due_ns(agent_delivery_session(life->delivery));
    int64_t at_ns = session_ns ? session_ns : now_ns + config->poll_ns;
    if (config->attached)
        at_ns = s_earlier(at_ns, now_ns + config->poll_ns);
    if (agent_sampler_workers(life->sampler) > 0)
        at_ns = s_earlier(at_ns, agent_pace_latest_ns(&self->pace, now_ns));
    return s_earlier(at_ns, self->look_at_ns);
}

/* Sets the timer of the next tick in place of the one before, which stays if memory is out:
 * false. */
static bool
s_plan(agent_t *self, int64_t at_ns, int64_t now_ns)
{
    const int64_t pause_ns = at_ns > now_ns ? at_ns - now_ns : 0;
    const int timer =
        zloop_timer(self->life.loop, (size_t)((pause_ns + MS - 1) / MS), 1, s_on_tick, self);
    if (timer < 0)
        return false;
    if (self->tick_timer >= 0)
        zloop_timer_end(self->life.loop, self->tick_timer);
    self->tick_timer = timer;
    return true;
}

/* After messages: the session may have ended, which the next tick reacts to, or nothing is under
 * way any more, so that the next tick need not come so soon. */
static void
s_on_turn(void *context)
{
    agent_t *self = context;
    const agent_delivery_t *delivery = self->life.delivery;
    const int64_t now_ns = crema_clock_mono_ns();
    if (crema_session_end(agent_delivery_session(delivery)) != CREMA_SESSION_END_NONE)
        (void)s_plan(self, now_ns, now_ns);
    else if (self->life.phase == AGENT_SERVING && !agent_delivery_is_busy(delivery))
        (void)s_plan(self, s_wake_ns(self, now_ns), now_ns);
}

static int
s_on_tick(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
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
    now_ns = crema_clock_mono_ns();
    return s_plan(self, s_wake_ns(self, now_ns), now_ns) ? 0 : -1;
}

static int
s_on_health(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
    const agent_t *self = arg;
    crema_health_report(self->life.config->health_file, agent_life_is_healthy(&self->life));
    return 0;
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
    if (config->attached &&
        agent_source_new("/proc", (int32_t)config->attached, &self->attached) != CREMA_OK)
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
            crema_log_error("cannot_serve", CREMA_TEXT("why", agent_words_error(err)));
        s_run_loop(&self);
    } else {
        crema_log_error("cannot_serve", CREMA_TEXT("spool", config->spool_dir),
                        CREMA_TEXT("why", agent_words_error(err)));
        self.life.status = AGENT_EXIT_FAILED;
        agent_daemon_ready(config->ready, AGENT_EXIT_FAILED);
    }
    crema_health_report(config->health_file, false);
    crema_notify_stopping();
    agent_life_clear(&self.life);
    agent_source_destroy(&self.attached);
    agent_watch_destroy(&self.watch);
    zloop_destroy(&self.life.loop);
    return self.life.status;
}
