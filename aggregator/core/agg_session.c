#include "agg_session.h"

#include <stdlib.h>

#include "agg_core_impl.h"
#include "crema_text.h"
#include "crema_time.h"

#define MS AGG_MS
#define S AGG_S
#define INTERVAL_MIN_NS (200 * MS)
#define INTERVAL_MAX_NS (60 * S)
#define ROUND_TRIP_DEFAULT_NS (500 * MS)
#define EXPIRES_NS (24 * 3600 * S)
#define NEW_NS (600 * S) /* one that was never admitted is EXPIRED after this long */
#define HELLO_BURST 10
#define REPEAT_REFILL_NS (6 * S) /* for one token: 10 a minute */
#define START_REFILL_NS (1 * S)  /* for one token: a supervisor's restarts are not abuse */
#define RETURNS_OF_A_CLONE 2
#define CLOCK_NS (10 * S) /* between two clock messages to the sink about one agent */

/* ---------------------------------------------------------------- the agent alone */

crema_err_t
agg_session_new(const crema_id_t *agent_id, agg_session_t **ret_self)
{
    agg_session_t *self = calloc(1, sizeof *self);
    if (!self || crema_offset_new(&self->offset) != CREMA_OK) {
        free(self);
        return CREMA_ENOMEM;
    }
    self->agent_id = *agent_id;
    self->declared_ns = S;
    self->rtt_ns = ROUND_TRIP_DEFAULT_NS;
    self->repeats.tokens = self->starts.tokens = HELLO_BURST;
    crema_id_hex(agent_id, self->name);
    crema_list_init(&self->streams);
    crema_list_init(&self->acks);
    *ret_self = self;
    return CREMA_OK;
}

void
agg_session_destroy(agg_session_t **self_p)
{
    agg_session_t *self = *self_p;
    if (!self)
        return;
    crema_msg_destroy(&self->faults);
    crema_offset_destroy(&self->offset);
    free(self);
    *self_p = NULL;
}

static bool
s_take_token(agg_bucket_t *self, int64_t refill_ns, int64_t now_ns, uint32_t *ret_retry_after_ms)
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
s_may_say_hello(agg_session_t *self, uint64_t boot, int64_t now_ns, uint32_t *ret_retry_after_ms)
{
    bool is_new = self->boot != boot && self->superseded != boot;
    return s_take_token(is_new ? &self->starts : &self->repeats,
                        is_new ? START_REFILL_NS : REPEAT_REFILL_NS, now_ns, ret_retry_after_ms);
}

/* Passes the session to another process. A message of a dead process may come late, once: a
 * superseded boot that returns repeatedly proves that there are two. */
static agg_hello_verdict_t
s_supersede(agg_session_t *self, uint64_t boot)
{
    self->returns = self->superseded == boot ? self->returns + 1 : 0;
    if (self->returns >= RETURNS_OF_A_CLONE)
        return AGG_HELLO_CLONE;
    self->superseded = self->boot;
    return AGG_HELLO_SUPERSEDES;
}

static void
s_set_interval(agg_session_t *self, uint32_t hb_ivl_ms)
{
    int64_t declared = (int64_t)hb_ivl_ms * MS;
    declared = declared > INTERVAL_MIN_NS ? declared : INTERVAL_MIN_NS;
    self->declared_ns = declared < INTERVAL_MAX_NS ? declared : INTERVAL_MAX_NS;
}

agg_hello_verdict_t
agg_session_on_hello(agg_session_t *self, const Crema__Hello *hello, int64_t now_ns,
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
agg_session_on_heartbeat(agg_session_t *self, uint32_t hb_ivl_ms, int64_t now_ns)
{
    if (self->heartbeat_ns)
        self->gaps_ns[self->n_gaps++ % AGG_SESSION_GAPS] = now_ns - self->heartbeat_ns;
    self->heartbeat_ns = now_ns;
    s_set_interval(self, hb_ivl_ms);
}

void
agg_session_on_round_trip(agg_session_t *self, int64_t rtt_ns)
{
    if (rtt_ns >= 0)
        self->rtt_ns = rtt_ns < INTERVAL_MAX_NS ? rtt_ns : INTERVAL_MAX_NS;
}

void
agg_session_on_bye(agg_session_t *self, bool drained)
{
    self->said_bye = true;
    self->drained = drained;
}

static int64_t
s_median_gap_ns(const agg_session_t *self)
{
    int64_t sorted[AGG_SESSION_GAPS];
    size_t n = self->n_gaps < AGG_SESSION_GAPS ? self->n_gaps : AGG_SESSION_GAPS;
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > self->gaps_ns[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = self->gaps_ns[i];
    }
    return n ? sorted[n / 2] : 0;
}

int64_t
agg_session_interval_ns(const agg_session_t *self)
{
    int64_t observed = s_median_gap_ns(self) / 2;
    if (observed > INTERVAL_MAX_NS)
        observed = INTERVAL_MAX_NS;
    return observed > self->declared_ns ? observed : self->declared_ns;
}

int64_t
agg_session_silent_ns(const agg_session_t *self, int64_t now_ns)
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

agg_session_state_t
agg_session_state(const agg_session_t *self, int64_t now_ns)
{
    int64_t silent = agg_session_silent_ns(self, now_ns);
    if (silent >= EXPIRES_NS || (!self->welcomed && silent >= NEW_NS))
        return AGG_SESSION_EXPIRED;
    if (self->said_bye)
        return self->drained ? AGG_SESSION_LEFT : AGG_SESSION_LEAVING;
    if (!self->welcomed)
        return AGG_SESSION_NEW;
    int64_t interval = agg_session_interval_ns(self);
    if (silent >= s_lost_after_ns(interval))
        return AGG_SESSION_LOST;
    return silent >= 3 * interval + self->rtt_ns ? AGG_SESSION_SUSPECT : AGG_SESSION_LIVE;
}

const char *
agg_session_state_name(agg_session_state_t state)
{
    static const char *const names[] = {
        [AGG_SESSION_NEW] = "new",         [AGG_SESSION_LIVE] = "live",
        [AGG_SESSION_SUSPECT] = "suspect", [AGG_SESSION_LOST] = "lost",
        [AGG_SESSION_EXPIRED] = "expired", [AGG_SESSION_LEAVING] = "leaving",
        [AGG_SESSION_LEFT] = "left",
    };
    return (size_t)state < sizeof names / sizeof *names ? names[state] : "?";
}

void
agg_session_take_faults(agg_session_t *self, size_t n, Crema__Reason **faults)
{
    crema_msg_destroy(&self->faults);
    self->faults_lost = self->is_blind = false;
    n = n < CREMA_WIRE_FAULTS_MAX ? n : CREMA_WIRE_FAULTS_MAX;
    const crema_msg_t msg = {.type = CREMA_MSG_BYE, .bye = {.n_faults = n, .faults = faults}};
    uint64_t bytes = n > 0 ? crema_msg_bytes(&msg) : 0;
    agg_owner_keep_faults(self, 0);
    for (size_t i = 0; i < n; i++)
        self->is_blind |= strcmp(faults[i]->code, CREMA_FAULT_SPOOL) == 0;
    if (n == 0)
        return;
    if (!agg_owner_may_keep(self->owner, bytes) || crema_msg_copy(&msg, &self->faults) != CREMA_OK)
        self->faults_lost = true;
    else
        agg_owner_keep_faults(self, bytes);
}

/* ---------------------------------------------------------------- connections */

void
agg_reply(agg_core_t *core, agg_peer_t peer, const crema_msg_t *msg)
{
    if (core->n_replies == AGG_REPLIES_MAX) { /* dropped: the peer asks again */
        core->stats.refused++;
        return;
    }
    agg_reply_t *reply = &core->replies[core->n_replies++];
    *reply = (agg_reply_t){.peer = peer, .msg = *msg};
    if (msg->type == CREMA_MSG_RUN_STATE)
        reply->run_id = *crema_id_of(msg->run_id);
}

void
agg_fence(agg_core_t *core, agg_peer_t peer, crema_fence_reason_t reason, uint32_t retry_after_ms)
{
    const crema_msg_t msg = {.type = CREMA_MSG_FENCE,
                             .fence = {.reason = reason, .retry_after_ms = retry_after_ms}};
    core->stats.fences++;
    agg_reply(core, peer, &msg);
}

void
agg_refuse_principal(agg_core_t *core, agg_peer_t peer)
{
    core->stats.not_allowed++;
    agg_fence(core, peer, CREMA_FENCE_PRINCIPAL, 0);
}

void
agg_session_out(agg_core_t *core, agg_session_t *self)
{
    crema_list_append(&core->sessions_out, &self->out);
}

void
agg_session_note(agg_core_t *core, agg_session_t *self, agg_event_t event)
{
    self->events |= 1u << event;
    agg_session_out(core, self);
}

static void
s_forget_sender(agg_core_t *core, agg_session_t *self)
{
    core->n_senders -= crema_list_is_linked(&self->sender);
    crema_list_remove(&self->sender);
}

void
agg_session_sent(agg_core_t *core, agg_session_t *self, int64_t now_ns)
{
    self->data_ns = now_ns;
    s_forget_sender(core, self);
    crema_list_append(&core->senders, &self->sender);
    core->n_senders++;
}

uint64_t
agg_session_senders(agg_core_t *core, int64_t now_ns, int64_t within_ns)
{
    agg_session_t *self;
    while ((self = CREMA_LIST_FIRST(&core->senders, agg_session_t, sender)) != NULL &&
           now_ns - self->data_ns >= within_ns)
        s_forget_sender(core, self);
    return core->n_senders;
}

void
agg_session_end(agg_core_t *core, agg_session_t *self)
{
    crema_id_t key = agg_peer_key(self->peer);
    if (crema_map_find(core->connections, &key) == self)
        crema_map_take(core->connections, &key);
    agg_credit_close(core->credit, &self->account);
    s_forget_sender(core, self);
    self->is_open = self->leaving = false;
    self->want_welcome = self->want_ack = self->want_dismiss = false;
}

/* ---------------------------------------------------------------- by the next check */

void
agg_sessions_init(agg_core_t *core)
{
    for (size_t i = 0; i < AGG_LOOK_SLOTS; i++)
        crema_list_init(&core->looks[i]);
    crema_list_init(&core->senders);
    crema_list_init(&core->sessions_out);
    crema_list_init(&core->gone);
}

/* When its state will change if it stays silent, or it will be forgotten. */
static int64_t
s_changes_ns(const agg_session_t *self, int64_t now_ns)
{
    int64_t interval = agg_session_interval_ns(self);
    switch (agg_session_state(self, now_ns)) {
    case AGG_SESSION_NEW:
        return self->heard_ns + NEW_NS;
    case AGG_SESSION_LIVE:
        return self->heard_ns + s_least(3 * interval + self->rtt_ns, s_lost_after_ns(interval));
    case AGG_SESSION_SUSPECT:
        return self->heard_ns + s_lost_after_ns(interval);
    case AGG_SESSION_LEFT:
        return self->heard_ns + AGG_SESSION_LEFT_NS;
    default:
        return self->heard_ns + EXPIRES_NS;
    }
}

void
agg_session_plan(agg_core_t *core, agg_session_t *self, int64_t now_ns)
{
    int64_t due_ns = s_changes_ns(self, now_ns);
    if (crema_list_is_linked(&self->look) && self->look_ns <= due_ns)
        return;
    int64_t slot = due_ns / AGG_LOOK_NS + 1;
    int64_t least = core->look_slot + 1, most = core->look_slot + AGG_LOOK_SLOTS - 1;
    slot = slot < least ? least : slot > most ? most : slot;
    self->look_ns = slot * AGG_LOOK_NS;
    crema_list_remove(&self->look);
    crema_list_append(&core->looks[slot % AGG_LOOK_SLOTS], &self->look);
}

agg_session_t *
agg_session_next_due(agg_core_t *core, int64_t now_ns)
{
    int64_t last = now_ns / AGG_LOOK_NS;
    if (core->look_slot < last - AGG_LOOK_SLOTS)
        core->look_slot = last - AGG_LOOK_SLOTS;
    for (;; core->look_slot++) {
        agg_session_t *self =
            CREMA_LIST_FIRST(&core->looks[core->look_slot % AGG_LOOK_SLOTS], agg_session_t, look);
        if (self) {
            crema_list_remove(&self->look);
            return self;
        }
        if (core->look_slot >= last)
            return NULL;
    }
}

/* ---------------------------------------------------------------- known and forgotten */

/* An agent that is gone keeps its place until its key, or all keys together, need it. */
void
agg_session_set_reported(agg_core_t *core, agg_session_t *self, agg_session_state_t state)
{
    bool is_gone =
        state == AGG_SESSION_LOST || state == AGG_SESSION_LEAVING || state == AGG_SESSION_LEFT;
    core->n_reported[self->reported]--;
    core->n_reported[state]++;
    self->reported = state;
    if (is_gone) {
        crema_list_append(&core->gone, &self->gone);
        if (self->owner)
            crema_list_append(&self->owner->gone, &self->gone_of_owner);
    } else {
        crema_list_remove(&self->gone);
        crema_list_remove(&self->gone_of_owner);
    }
}

static bool
s_admits(const crema_id_t *only_run, const crema_id_t *run_id)
{
    return crema_id_is_zero(only_run) || crema_id_equal(only_run, run_id);
}

bool
agg_session_serves(const agg_session_t *self, const crema_id_t *run_id)
{
    return s_admits(&self->bound, run_id) && s_admits(&self->serves, run_id);
}

static const crema_id_t *
s_only_run(const agg_session_t *self)
{
    return crema_id_is_zero(&self->bound) ? &self->serves : &self->bound;
}

static void
s_leave_run(agg_core_t *core, agg_session_t *self)
{
    if (!crema_list_is_linked(&self->serving))
        return;
    crema_list_remove(&self->serving);
    agg_lists_leave(core->serving, s_only_run(self));
}

crema_err_t
agg_session_serve(agg_core_t *core, agg_session_t *self, const crema_id_t *bound,
                  const crema_id_t *serves)
{
    crema_err_t err;
    s_leave_run(core, self);
    self->bound = *bound;
    self->serves = *serves;
    crema_link_t *list = agg_lists_join(core->serving, s_only_run(self), &err);
    if (!list)
        return err;
    crema_list_append(list, &self->serving);
    return CREMA_OK;
}

void
agg_session_forget(agg_core_t *core, agg_session_t *self)
{
    agg_session_end(core, self);
    s_leave_run(core, self);
    crema_map_take(core->sessions, &self->agent_id);
    for (agg_stream_t *stream;
         (stream = CREMA_LIST_FIRST(&self->streams, agg_stream_t, of_session));) {
        crema_list_remove(&stream->of_session);
        crema_list_remove(&stream->ack);
        stream->session = NULL;
    }
    crema_list_remove(&self->out);
    crema_list_remove(&self->look);
    crema_list_remove(&self->gone);
    crema_list_remove(&self->gone_of_owner);
    agg_owner_remove_agent(core, self);
    core->n_reported[self->reported]--;
    agg_session_destroy(&self);
}

/* Forgets the agent that has been gone for longest: of the sender's owner if that is at its share,
 * of anybody if there is no room at all. False: there is none. */
static bool
s_make_room(agg_core_t *core, agg_owner_t **owner_p)
{
    agg_owner_t *owner = *owner_p;
    agg_session_t *gone = NULL;
    if (!agg_owner_may_have_agent(core, owner))
        gone = CREMA_LIST_FIRST(&owner->gone, agg_session_t, gone_of_owner);
    else if (crema_map_count(core->sessions) < core->config.agents_max)
        return true;
    else
        gone = CREMA_LIST_FIRST(&core->gone, agg_session_t, gone);
    if (gone)
        agg_session_forget(core, gone);
    *owner_p = agg_owner_of_sender(core); /* it may have gone with its last agent */
    return gone != NULL;
}

agg_session_t *
agg_session_get(agg_core_t *core, const crema_id_t *agent_id, int64_t now_ns)
{
    agg_session_t *self = crema_map_find(core->sessions, agent_id);
    if (self)
        return self;
    agg_owner_t *owner = agg_owner_of_sender(core);
    if (!s_make_room(core, &owner) || agg_session_new(agent_id, &self) != CREMA_OK)
        return NULL;
    if (crema_map_add(core->sessions, agent_id, self) != CREMA_OK) {
        agg_session_destroy(&self);
        return NULL;
    }
    agg_owner_add_agent(self, owner);
    core->n_reported[self->reported]++;
    agg_session_plan(core, self, now_ns);
    return self;
}

/* ---------------------------------------------------------------- clocks */

/* Queues the offset of the agent's wall clock for every run it has streams of, at most each
 * CLOCK_NS. The round trips compare monotonic clocks, which clock steps do not disturb and which
 * restart at each boot; adding each host's difference between wall clock and monotonic clock
 * gives the difference of the wall clocks. */
static void
s_note_clock(agg_core_t *core, agg_session_t *self, const crema_offset_estimate_t *estimate,
             const Crema__Heartbeat *heartbeat, int64_t now_ns)
{
    int64_t real_less_mono_there_ns = crema_time_sub(heartbeat->t1_real_ns, heartbeat->t1_mono_ns);
    int64_t real_less_mono_here_ns = core->real_ns - now_ns;
    self->clock = (Crema__ClockSample){
        .agent_id = crema_id_field(&self->agent_id),
        .t_ns = core->real_ns,
        /* the sample is source - aggregator */
        .offset_ns = crema_time_sub(crema_time_sub(real_less_mono_there_ns, estimate->offset_ns),
                                    real_less_mono_here_ns),
        .uncertainty_ns = estimate->uncertainty_ns,
        .rtt_ns = estimate->rtt_ns,
        .drift_ppb = -estimate->drift_ppb,
    };
    self->n_clock_runs = 0;
    for (crema_link_t *link = self->streams.next; link != &self->streams; link = link->next) {
        const crema_id_t *run_id = &CREMA_LIST_ITEM(link, agg_stream_t, of_session)->run->run_id;
        size_t i = 0;
        while (i < self->n_clock_runs && !crema_id_equal(&self->clock_runs[i], run_id))
            i++;
        if (i == self->n_clock_runs && i < AGG_SESSION_CLOCK_RUNS_MAX)
            self->clock_runs[self->n_clock_runs++] = *run_id;
    }
    agg_session_out(core, self);
}

void
agg_session_follow_clock(agg_core_t *core, agg_session_t *self, const Crema__Heartbeat *heartbeat,
                         int64_t now_ns)
{
    crema_offset_estimate_t estimate;
    bool ends = !crema_list_is_empty(&core->ending);
    if (heartbeat->echo_t4_mono_ns == 0 || heartbeat->t1_real_ns == 0)
        return;
    crema_err_t err =
        crema_offset_take(self->offset, heartbeat->echo_t1_mono_ns, heartbeat->echo_t2_mono_ns,
                          heartbeat->echo_t3_mono_ns, heartbeat->echo_t4_mono_ns);
    if ((err != CREMA_OK && err != CREMA_EREPEAT) ||
        !crema_offset_estimate(self->offset, heartbeat->t1_mono_ns, &estimate))
        return;
    agg_session_on_round_trip(self, estimate.rtt_ns);
    if (self->clock_sent_ns && now_ns - self->clock_sent_ns < (ends ? S : CLOCK_NS))
        return;
    self->clock_sent_ns = now_ns;
    s_note_clock(core, self, &estimate, heartbeat, now_ns);
}
