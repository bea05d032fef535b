#include "agg_agent.h"

#include <stdlib.h>

#include "crema_text.h"

#define MS 1000000ll
#define S (1000 * MS)
#define INTERVAL_MIN_NS (200 * MS)
#define INTERVAL_MAX_NS (60 * S)
#define ROUND_TRIP_DEFAULT_NS (500 * MS)
#define EXPIRES_NS (24 * 3600 * S)
#define KNOCKED_NS (600 * S) /* for one that was never admitted */
#define HELLO_BURST 10
#define REPEAT_REFILL_NS (6 * S) /* for one token: 10 a minute */
#define START_REFILL_NS (1 * S)  /* for one token: a supervisor's restarts are not abuse */
#define GAPS 9                   /* observed heartbeat intervals kept */
#define RETURNS_OF_A_CLONE 2
#define NAME_BYTES 64

/* A token bucket for HELLOs. */
typedef struct {
    unsigned tokens;
    int64_t refill_ns; /* when the last token was added */
} bucket_t;

struct agg_agent {
    crema_id_t agent_id;
    char name[NAME_BYTES];
    bool welcomed;
    bool said_bye, drained;
    uint64_t boot;       /* of the process with the session */
    uint64_t superseded; /* the boot before it; 0: none */
    unsigned returns;    /* how often in succession the superseded one returned */
    int64_t declared_ns;
    int64_t gaps_ns[GAPS]; /* between heartbeats; a ring buffer */
    size_t n_gaps;
    int64_t heartbeat_ns; /* time of the last heartbeat; 0: none */
    int64_t heard_ns;
    int64_t rtt_ns;
    bucket_t repeats; /* HELLOs of known processes */
    bucket_t starts;  /* HELLOs of new processes */
};

crema_err_t
agg_agent_new(const crema_id_t *agent_id, agg_agent_t **ret_self)
{
    agg_agent_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->agent_id = *agent_id;
    self->declared_ns = S;
    self->rtt_ns = ROUND_TRIP_DEFAULT_NS;
    self->repeats.tokens = self->starts.tokens = HELLO_BURST;
    crema_id_hex(agent_id, self->name);
    *ret_self = self;
    return CREMA_OK;
}

void
agg_agent_destroy(agg_agent_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

static bool
s_take_token(bucket_t *self, int64_t refill_ns, int64_t now_ns, uint32_t *ret_retry_after_ms)
{
    while (self->tokens < HELLO_BURST && now_ns - self->refill_ns >= refill_ns) {
        self->tokens++;
        self->refill_ns += refill_ns;
    }
    if (self->tokens == HELLO_BURST)
        self->refill_ns = now_ns;
    if (self->tokens == 0) {
        *ret_retry_after_ms = (uint32_t)((self->refill_ns + refill_ns - now_ns) / MS + 1);
        return false;
    }
    self->tokens--;
    return true;
}

static bool
s_may_say_hello(agg_agent_t *self, uint64_t boot, int64_t now_ns, uint32_t *ret_retry_after_ms)
{
    bool is_new = self->boot != boot && self->superseded != boot;
    return s_take_token(is_new ? &self->starts : &self->repeats,
                        is_new ? START_REFILL_NS : REPEAT_REFILL_NS, now_ns, ret_retry_after_ms);
}

/* Passes the session to another process. A message of a dead process may come late, once: a
 * superseded boot that returns repeatedly proves that there are two. */
static agg_hello_verdict_t
s_supersede(agg_agent_t *self, uint64_t boot)
{
    self->returns = self->superseded == boot ? self->returns + 1 : 0;
    if (self->returns >= RETURNS_OF_A_CLONE)
        return AGG_HELLO_CLONE;
    self->superseded = self->boot;
    return AGG_HELLO_SUPERSEDES;
}

static void
s_set_interval(agg_agent_t *self, uint32_t hb_ivl_ms)
{
    int64_t declared = (int64_t)hb_ivl_ms * MS;
    declared = declared > INTERVAL_MIN_NS ? declared : INTERVAL_MIN_NS;
    self->declared_ns = declared < INTERVAL_MAX_NS ? declared : INTERVAL_MAX_NS;
}

agg_hello_verdict_t
agg_agent_on_hello(agg_agent_t *self, const Crema__Hello *hello, int64_t now_ns,
                   uint32_t *ret_retry_after_ms)
{
    if (!s_may_say_hello(self, hello->boot, now_ns, ret_retry_after_ms))
        return AGG_HELLO_TOO_OFTEN;
    agg_hello_verdict_t verdict = AGG_HELLO_ADMIT;
    if (self->welcomed && self->boot != hello->boot)
        verdict = s_supersede(self, hello->boot);
    if (verdict == AGG_HELLO_CLONE)
        return verdict;
    self->boot = hello->boot;
    self->welcomed = true;
    self->said_bye = self->drained = false;
    self->n_gaps = 0;
    self->heartbeat_ns = 0;
    self->heard_ns = now_ns;
    s_set_interval(self, hello->hb_ivl_ms);
    if (hello->host && *hello->host)
        crema_text_copy(self->name, sizeof self->name, hello->host);
    return verdict;
}

void
agg_agent_on_heard(agg_agent_t *self, int64_t now_ns)
{
    self->heard_ns = now_ns;
}

void
agg_agent_on_heartbeat(agg_agent_t *self, uint32_t hb_ivl_ms, int64_t now_ns)
{
    if (self->heartbeat_ns)
        self->gaps_ns[self->n_gaps++ % GAPS] = now_ns - self->heartbeat_ns;
    self->heartbeat_ns = now_ns;
    s_set_interval(self, hb_ivl_ms);
}

void
agg_agent_on_round_trip(agg_agent_t *self, int64_t rtt_ns)
{
    if (rtt_ns >= 0)
        self->rtt_ns = rtt_ns < INTERVAL_MAX_NS ? rtt_ns : INTERVAL_MAX_NS;
}

void
agg_agent_on_bye(agg_agent_t *self, bool drained)
{
    self->said_bye = true;
    self->drained = drained;
}

static int64_t
s_median_gap_ns(const agg_agent_t *self)
{
    int64_t sorted[GAPS];
    size_t n = self->n_gaps < GAPS ? self->n_gaps : GAPS;
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > self->gaps_ns[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = self->gaps_ns[i];
    }
    return n ? sorted[n / 2] : 0;
}

int64_t
agg_agent_interval_ns(const agg_agent_t *self)
{
    int64_t observed = s_median_gap_ns(self) / 2;
    if (observed > INTERVAL_MAX_NS)
        observed = INTERVAL_MAX_NS;
    return observed > self->declared_ns ? observed : self->declared_ns;
}

int64_t
agg_agent_silent_ns(const agg_agent_t *self, int64_t now_ns)
{
    return now_ns - self->heard_ns;
}

static int64_t
s_lost_after_ns(int64_t interval)
{
    return 10 * interval > 30 * S ? 10 * interval : 30 * S;
}

static int64_t
s_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

agg_agent_state_t
agg_agent_state(const agg_agent_t *self, int64_t now_ns)
{
    int64_t silent = agg_agent_silent_ns(self, now_ns);
    if (silent >= EXPIRES_NS || (!self->welcomed && silent >= KNOCKED_NS))
        return AGG_AGENT_EXPIRED;
    if (self->said_bye)
        return self->drained ? AGG_AGENT_LEFT : AGG_AGENT_LEAVING;
    if (!self->welcomed)
        return AGG_AGENT_NEW;
    int64_t interval = agg_agent_interval_ns(self);
    if (silent >= s_lost_after_ns(interval))
        return AGG_AGENT_LOST;
    return silent >= 3 * interval + self->rtt_ns ? AGG_AGENT_SUSPECT : AGG_AGENT_LIVE;
}

int64_t
agg_agent_changes_ns(const agg_agent_t *self, int64_t now_ns)
{
    int64_t interval = agg_agent_interval_ns(self);
    switch (agg_agent_state(self, now_ns)) {
    case AGG_AGENT_NEW:
        return self->heard_ns + KNOCKED_NS;
    case AGG_AGENT_LIVE:
        return self->heard_ns + s_least(3 * interval + self->rtt_ns, s_lost_after_ns(interval));
    case AGG_AGENT_SUSPECT:
        return self->heard_ns + s_lost_after_ns(interval);
    default:
        return self->heard_ns + EXPIRES_NS;
    }
}

const char *
agg_agent_state_name(agg_agent_state_t state)
{
    static const char *const names[] = {
        [AGG_AGENT_NEW] = "new",   [AGG_AGENT_LIVE] = "live",       [AGG_AGENT_SUSPECT] = "suspect",
        [AGG_AGENT_LOST] = "lost", [AGG_AGENT_EXPIRED] = "expired", [AGG_AGENT_LEAVING] = "leaving",
        [AGG_AGENT_LEFT] = "left",
    };
    return (size_t)state < sizeof names / sizeof *names ? names[state] : "?";
}

const crema_id_t *
agg_agent_id(const agg_agent_t *self)
{
    return &self->agent_id;
}

const char *
agg_agent_name(const agg_agent_t *self)
{
    return self->name;
}
