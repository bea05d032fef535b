#include "agent_life.h"

#include <string.h>
#include <unistd.h>

#include "agent_need.h"
#include "agent_others.h"
#include "agent_spool_dir.h"
#include "agent_words.h"
#include "crema_clock.h"
#include "crema_failpoint.h"
#include "crema_log.h"
#include "crema_random.h"
#include "crema_version.h"

#define MS 1000000ll
#define UNREACHABLE_NS (5000 * MS)        /* silence before a warning */
#define UNREACHED_PATIENCE_NS (1500 * MS) /* an agent that has just started may still be admitted */
#define LOCK_PAUSE_US 20000

/* ---- leaving */

static int
s_stop(agent_life_t *self, int status)
{
    self->status = self->child_ended ? self->child_status : status;
    return -1;
}

static bool
s_is_for_one_run(const agent_life_t *self)
{
    return !crema_id_is_zero(&self->config->run_id);
}

/* Records that stay are not lost: the next agent that serves this spool delivers them. */
static int
s_finish(agent_life_t *self, int status)
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
s_is_reached(const agent_life_t *self)
{
    crema_session_state_t state = crema_session_state(agent_delivery_session(self->delivery));
    return state != CREMA_SESSION_INIT && state != CREMA_SESSION_BACKOFF &&
           state != CREMA_SESSION_HELLO_SENT && state != CREMA_SESSION_CLOSED;
}

int
agent_life_leave(agent_life_t *self, int64_t patience_ns, const char *why)
{
    if (self->phase == AGENT_STANDBY)
        return s_stop(self, AGENT_EXIT_DONE);
    if (self->phase == AGENT_SERVING)
        crema_log_info("leaving", CREMA_TEXT("why", why));
    self->phase = AGENT_LEAVING;
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
s_patience_ns(const agent_life_t *self)
{
    int64_t drain_ns = self->config->drain_ns;
    return s_is_reached(self) || drain_ns < UNREACHED_PATIENCE_NS ? drain_ns
                                                                  : UNREACHED_PATIENCE_NS;
}

int
agent_life_leave_soon(agent_life_t *self, const char *why)
{
    return agent_life_leave(self, s_patience_ns(self), why);
}

int
agent_life_reap(agent_life_t *self)
{
    const agent_config_t *config = self->config;
    if (!config->child || self->child_ended ||
        !agent_child_reap(config->child, &self->child_status))
        return 0;
    self->child_ended = true;
    return agent_life_leave(self, config->drain_ns, "the command ended");
}

/* ---- serving */

static crema_err_t
s_start_sampler(agent_life_t *self)
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
        .sample_interval_s = (double)config->sample_ns / 1e9,
        .heartbeat_interval_s = (double)config->heartbeat_ns / 1e9,
    };
    agent_sampler_destroy(&self->sampler); /* left from a failed start */
    return agent_sampler_new(&sampler, &self->sampler);
}

static crema_err_t
s_start_delivery(agent_life_t *self)
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
        .on_turn = self->on_turn,
        .context = self->reactor,
    };
    agent_delivery_destroy(&self->delivery);
    return agent_delivery_new(&delivery, self->loop, self->spool, self->sampler, &self->delivery);
}

/* Another process may just be testing whether the lock is held, so it is tried several times. */
static crema_err_t
s_lock(crema_spool_t *spool, int tries)
{
    crema_err_t err = crema_spool_lock(spool);
    for (int i = 1; i < tries && err == CREMA_EBUSY; i++) {
        usleep(LOCK_PAUSE_US);
        err = crema_spool_lock(spool);
    }
    return err;
}

crema_err_t
agent_life_serve(agent_life_t *self, int tries)
{
    crema_err_t err = CREMA_OK;
    if (gethostname(self->host, sizeof self->host - 1) != 0)
        strcpy(self->host, "localhost");
    if (!self->spool)
        err = crema_spool_open(self->config->spool_dir, &self->spool);
    if (err == CREMA_OK)
        err = s_lock(self->spool, tries);
    if (err == CREMA_OK)
        err = crema_spool_agent_id(self->spool, &self->agent_id);
    if (err == CREMA_OK)
        err = s_start_sampler(self);
    if (err == CREMA_OK)
        err = s_start_delivery(self);
    if (err != CREMA_OK)
        return err;
    self->phase = AGENT_SERVING;
    self->idle_from_ns = crema_clock_mono_ns();
    agent_spool_dir_sweep(self->config->spool_dir, crema_clock_real_ns() / (1000 * MS));
    crema_log_info("serving", CREMA_TEXT("spool", self->config->spool_dir),
                   CREMA_TEXT("aggregator", self->config->endpoints));
    agent_delivery_scan(self->delivery);
    return CREMA_OK;
}

void
agent_life_clear(agent_life_t *self)
{
    agent_delivery_destroy(&self->delivery);
    agent_sampler_destroy(&self->sampler);
    crema_spool_close(&self->spool);
}

/* Logs one warning when the aggregator stops responding, and one message when it responds again. */
static void
s_watch_reach(agent_life_t *self, int64_t now_ns)
{
    bool reached = s_is_reached(self);
    if (reached && self->unreachable) {
        crema_log_info("aggregator_reached", CREMA_TEXT("endpoint", self->config->endpoints));
        self->unreachable = false;
    } else if (!reached && !self->unreachable &&
               now_ns - agent_delivery_heard_ns(self->delivery) > UNREACHABLE_NS) {
        const char *endpoint = self->config->endpoints;
        const uint64_t held = agent_delivery_remaining(self->delivery);
        if (agent_delivery_key_is_refused(self->delivery))
            crema_log_warn("key_refused", CREMA_TEXT("endpoint", endpoint),
                           CREMA_INT("records_held", held),
                           CREMA_TEXT("remedy", "the aggregator does not admit this agent's key: "
                                                "its run is over, or the key was revoked or never "
                                                "added; it is tried again every 5 s"));
        else
            crema_log_warn("aggregator_unreachable", CREMA_TEXT("endpoint", endpoint),
                           CREMA_INT("records_held", held));
        self->unreachable = true;
    }
}

/* Once: that the processes of other users are not sampled is a matter of how this agent was
 * started. */
static void
s_watch_others(agent_life_t *self)
{
    if (self->hides_others || agent_sampler_hidden(self->sampler) == 0)
        return;
    char lacking[AGENT_OTHERS_TEXT_BYTES];
    self->hides_others = true;
    if (agent_others_are_hidden(lacking))
        crema_log_warn("other_users_not_sampled", CREMA_TEXT("lacks", lacking),
                       CREMA_TEXT("spool", self->config->spool_dir));
}

static bool
s_has_undelivered_end(const agent_life_t *self)
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
s_on_drained(agent_life_t *self)
{
    agent_delivery_scan(self->delivery);
    if (!s_has_undelivered_end(self) || crema_clock_mono_ns() >= self->leave_by_ns)
        return s_finish(self, AGENT_EXIT_DONE);
    if (agent_delivery_begin_anew(self->delivery, crema_random_u64()) != CREMA_OK)
        return s_stop(self, AGENT_EXIT_FAILED);
    agent_delivery_scan(self->delivery);
    agent_delivery_drain(self->delivery, self->leave_by_ns);
    return 0;
}

/* Reacts to the end of the session. */
static int
s_on_session_end(agent_life_t *self)
{
    switch (crema_session_end(agent_delivery_session(self->delivery))) {
    case CREMA_SESSION_END_NONE:
        return 0;
    case CREMA_SESSION_END_REFUSED:
        if (!self->refused)
            crema_log_error(
                "refused",
                CREMA_TEXT("why", agent_words_refusal(agent_delivery_refusal(self->delivery))),
                CREMA_TEXT("endpoint", self->config->endpoints));
        self->refused = true;
        if (self->phase == AGENT_LEAVING)
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

/* True if a stream in the spool has no END. */
static bool
s_has_writer(const agent_life_t *self)
{
    for (size_t i = 0; i < crema_spool_count(self->spool); i++)
        if (!crema_spool_stream(self->spool, i)->closed)
            return true;
    return false;
}

static const char *
s_why_unneeded(agent_life_t *self, int64_t now_ns)
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

int
agent_life_go_on(agent_life_t *self, int64_t now_ns)
{
    if (!self->refused)
        s_watch_reach(self, now_ns);
    s_watch_others(self);
    const char *why = self->phase == AGENT_SERVING ? s_why_unneeded(self, now_ns) : NULL;
    return why ? agent_life_leave_soon(self, why) : s_on_session_end(self);
}

bool
agent_life_is_healthy(const agent_life_t *self)
{
    return self->phase != AGENT_STANDBY && !self->refused && s_is_reached(self);
}
