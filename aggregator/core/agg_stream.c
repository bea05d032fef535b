#include "agg_stream.h"

#include <stdlib.h>

#include "agg_core_impl.h"

#define MS AGG_MS
#define WINDOW_MIN_NS (500 * MS)
#define WINDOW_MAX_NS (60000 * MS)
#define WAIT_MIN_NS (300 * MS) /* for STATE, and for progress of committed */
#define WAIT_MAX_NS (5000 * MS)
#define REPLAY_DOUBLINGS 4 /* the wait between REPLAYs grows to 16 windows */
#define SEQ_MAX (UINT64_MAX / 2)
#define ACK_PATIENCE_NS (40 * MS) /* for a commit that is answered together with a heartbeat */

/* ---------------------------------------------------------------- the stream alone */

static void
s_begin(agg_stream_t *self)
{
    self->at = (agg_position_t){0};
    self->times = (agg_stream_times_t){.open_wait_ns = WAIT_MIN_NS, .commit_wait_ns = WAIT_MIN_NS};
}

crema_err_t
agg_stream_new(const crema_id_t *stream_id, agg_run_t *run, agg_stream_t **ret_self)
{
    agg_stream_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->stream_id = *stream_id;
    self->run = run;
    self->interval_ns = 1000 * MS;
    s_begin(self);
    *ret_self = self;
    return CREMA_OK;
}

void
agg_stream_destroy(agg_stream_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

static int64_t
s_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t
s_window_ns(const agg_stream_t *self)
{
    int64_t by_gaps = self->times.gap_p99_ns + self->times.gap_p99_ns / 2;
    int64_t by_interval = 2 * self->interval_ns;
    return s_clamp(by_gaps > by_interval ? by_gaps : by_interval, WINDOW_MIN_NS, WINDOW_MAX_NS);
}

/* W0 * 2^replays, at most 16 W0, +-20 % by a hash of identity and attempt, so that streams do not
 * ask in step. */
static int64_t
s_replay_wait_ns(const agg_stream_t *self)
{
    uint32_t doublings =
        self->times.replays < REPLAY_DOUBLINGS ? self->times.replays : REPLAY_DOUBLINGS;
    int64_t wait = s_window_ns(self) << doublings;
    uint64_t noise = (crema_id_hash(&self->stream_id) + self->times.replays) * 0x9e3779b97f4a7c15u;
    return wait + wait / 1000 * ((int64_t)(noise >> 40) % 401 - 200);
}

static bool
s_has_pending(const agg_stream_t *self)
{
    return self->at.next > self->at.committed + 1;
}

void
agg_stream_announce(agg_stream_t *self, uint64_t hi, bool closed, int64_t now_ns)
{
    if (hi > SEQ_MAX || self->times.sink_closed)
        return;
    if (hi > self->at.hi) {
        if (self->at.hi < self->at.next && hi >= self->at.next)
            self->times.replay_at_ns = now_ns + s_window_ns(self);
        self->at.hi = hi;
    }
    self->at.closed = self->at.closed || closed;
}

/* Estimates the 99th percentile by stochastic approximation: up by 99 steps when exceeded, down
 * by one otherwise. */
static void
s_note_arrival(agg_stream_t *self, int64_t now_ns)
{
    if (self->times.more_was_due) {
        int64_t gap = now_ns - self->times.taken_at_ns;
        int64_t step = self->times.gap_p99_ns / 800 + MS / 100;
        self->times.gap_p99_ns += gap > self->times.gap_p99_ns ? 99 * step : -step;
        self->times.gap_p99_ns = s_clamp(self->times.gap_p99_ns, 0, WINDOW_MAX_NS);
    }
    self->times.taken_at_ns = now_ns;
    self->times.more_was_due = self->at.hi >= self->at.next;
}

crema_err_t
agg_stream_take(agg_stream_t *self, uint64_t first, uint64_t last, uint64_t bytes, int64_t now_ns,
                uint64_t *ret_from)
{
    if (first < 1 || last < first || last > SEQ_MAX)
        return CREMA_EINVAL;
    if (self->at.next == 0)
        return CREMA_EAGAIN;
    if (last < self->at.next || self->times.sink_closed)
        return CREMA_EREPEAT;
    if (first > self->at.next) {
        if (self->times.replays == 0)
            self->times.replay_at_ns =
                now_ns; /* the hole is certain: no need to wait for the window */
        return CREMA_EGAP;
    }
    if (!s_has_pending(self)) {
        self->times.pending_at_ns = now_ns;
        self->times.commit_at_ns = now_ns + self->times.commit_wait_ns;
    }
    *ret_from = self->at.next;
    self->at.next = last + 1;
    self->at.uncommitted_b += bytes;
    if (self->at.hi < last)
        self->at.hi = last;
    self->times.replays = 0;
    s_note_arrival(self, now_ns);
    self->times.replay_at_ns = now_ns + s_window_ns(self);
    return CREMA_OK;
}

/* Releases bytes in proportion to the numbers: exact at both ends, without state per message. */
static void
s_release(agg_stream_t *self, uint64_t committed)
{
    if (!s_has_pending(self) || committed + 1 >= self->at.next) {
        self->at.uncommitted_b = 0;
        return;
    }
    unsigned __int128 bytes = self->at.uncommitted_b;
    uint64_t pending = self->at.next - 1 - self->at.committed;
    self->at.uncommitted_b -= (uint64_t)(bytes * (committed - self->at.committed) / pending);
}

void
agg_stream_commit(agg_stream_t *self, uint64_t committed, bool closed, int64_t now_ns)
{
    if (committed > SEQ_MAX)
        return;
    if (committed > self->at.committed) {
        int64_t took_ns = now_ns - self->times.pending_at_ns;
        if (self->at.next != 0) {
            s_release(self, committed);
            self->times.commit_wait_ns = s_clamp(2 * took_ns, WAIT_MIN_NS, WAIT_MAX_NS);
        }
        self->at.committed = committed;
        self->times.pending_at_ns = now_ns;
        self->times.commit_at_ns = now_ns + self->times.commit_wait_ns;
        if (self->at.next != 0 && self->at.next <= committed)
            self->at.next = committed + 1;
    }
    if (committed > self->at.hi)
        self->at.hi = committed;
    if (closed && committed == self->at.committed) {
        self->at.hi = committed;
        self->at.closed = self->times.sink_closed = true;
    }
}

void
agg_stream_on_state(agg_stream_t *self, uint64_t committed, uint64_t sink_next, bool closed,
                    int64_t now_ns)
{
    if (committed > SEQ_MAX || sink_next > SEQ_MAX)
        return;
    if (self->at.next != 0) {
        agg_stream_commit(self, committed, closed, now_ns);
        return;
    }
    self->at.committed = committed; /* also if lower than before: an older store was restored */
    self->at.next = sink_next > committed + 1 ? sink_next : committed + 1;
    self->times.sink_closed = false;
    agg_stream_commit(self, committed, closed, now_ns);
    self->times.open_wait_ns = WAIT_MIN_NS;
    self->times.pending_at_ns = now_ns;
    self->times.commit_at_ns = now_ns + self->times.commit_wait_ns;
    self->times.replays = 0;
    self->times.replay_at_ns = now_ns; /* what came since the question was dropped */
    self->times.more_was_due = false;
}

void
agg_stream_resync(agg_stream_t *self, int64_t now_ns)
{
    self->at.next = 0;
    self->at.uncommitted_b = 0;
    self->times.asked = false;
    self->times.open_at_ns = now_ns;
}

/* Forgets what was announced: only what the sink has is known to exist. */
static void
s_forget_hi(agg_stream_t *self, int64_t now_ns)
{
    const agg_position_t was = self->at;
    bool is_done = agg_stream_is_done(self);
    s_begin(self);
    if (was.next > 0)
        agg_stream_on_state(self, was.committed, was.next, is_done, now_ns);
}

agg_stream_due_t
agg_stream_due(agg_stream_t *self, bool sink_takes, int64_t now_ns)
{
    if (self->at.next != 0 && sink_takes && s_has_pending(self) &&
        now_ns >= self->times.commit_at_ns) {
        self->times.commit_wait_ns =
            s_clamp(2 * self->times.commit_wait_ns, WAIT_MIN_NS, WAIT_MAX_NS);
        agg_stream_resync(self, now_ns);
    }
    if (self->at.next == 0) {
        if (now_ns < self->times.open_at_ns)
            return AGG_STREAM_WAIT;
        self->times.asked = true;
        self->times.open_at_ns = now_ns + self->times.open_wait_ns;
        self->times.open_wait_ns = s_clamp(2 * self->times.open_wait_ns, WAIT_MIN_NS, WAIT_MAX_NS);
        return AGG_STREAM_ASK_SINK;
    }
    if (sink_takes && self->at.hi >= self->at.next && now_ns >= self->times.replay_at_ns) {
        self->times.replay_at_ns = now_ns + s_replay_wait_ns(self);
        self->times.replays++;
        return AGG_STREAM_ASK_SENDER;
    }
    return AGG_STREAM_WAIT;
}

agg_stream_state_t
agg_stream_state(const agg_stream_t *self)
{
    if (self->at.next == 0)
        return self->times.asked ? AGG_STREAM_SYNCING : AGG_STREAM_UNKNOWN;
    if (agg_stream_is_done(self))
        return AGG_STREAM_CLOSED;
    if (self->times.replays >= AGG_STREAM_STALLED_AFTER)
        return AGG_STREAM_STALLED;
    return self->times.replays > 0 ? AGG_STREAM_GAP : AGG_STREAM_LIVE;
}

crema_stream_row_t
agg_stream_row(const agg_stream_t *self)
{
    return (crema_stream_row_t){
        .stream_id = self->stream_id,
        .run_id = self->run->run_id,
        .hi = self->at.hi,
        .committed = self->at.committed,
        .recv_next = self->at.next,
        .flags = self->at.closed ? CREMA_STREAM_FLAG_CLOSED : 0,
    };
}

static bool
s_is_done(const agg_position_t *at)
{
    return at->closed && at->committed >= at->hi;
}

static uint64_t
s_missing(const agg_position_t *at)
{
    return at->hi > at->committed ? at->hi - at->committed : 0;
}

bool
agg_stream_is_done(const agg_stream_t *self)
{
    return s_is_done(&self->at);
}

uint64_t
agg_stream_missing(const agg_stream_t *self)
{
    return s_missing(&self->at);
}

uint64_t
agg_stream_short(const agg_stream_t *self)
{
    bool is_short = agg_stream_is_done(self) && self->listed_last > self->at.committed;
    return is_short ? self->listed_last - self->at.committed : 0;
}

/* ---------------------------------------------------------------- what depends on its position */

static agg_tally_t
s_tally(const agg_position_t *at)
{
    return (agg_tally_t){
        .committed = at->committed, .missing = s_missing(at), .done = s_is_done(at)};
}

void
agg_stream_attach(agg_core_t *core, agg_stream_t *self, agg_session_t *session, int64_t now_ns)
{
    if (self->session == session)
        return;
    agg_member_t *member = self->member;
    const agg_tally_t tally = s_tally(&self->at);
    if (agg_run_member(self->run, &session->agent_id, &member) != CREMA_OK)
        core->stats.refused++; /* left as it is: the verdict will name the stream */
    if (self->session)
        agg_credit_release(core->credit, &self->session->account, self->at.uncommitted_b);
    crema_list_remove(&self->of_session);
    crema_list_remove(&self->ack);
    self->session = session;
    agg_stream_unmark_listed(core, self);
    crema_list_append(&session->streams, &self->of_session);
    if (member == self->member)
        return;
    agg_run_tally(self->run, self->member, &tally, NULL, now_ns);
    self->member = member;
    agg_run_tally(self->run, self->member, NULL, &tally, now_ns);
}

/* Most streams are fully committed, and then nothing can become due. */
static void
s_watch(agg_core_t *core, agg_stream_t *self)
{
    const agg_position_t *at = &self->at;
    if (at->next == 0 || at->hi >= at->next || s_has_pending(self))
        crema_list_append(&core->watched, &self->watch);
    else
        crema_list_remove(&self->watch);
}

void
agg_stream_follow(agg_core_t *core, agg_stream_t *self, const agg_position_t *was, int64_t now_ns)
{
    const agg_position_t *at = &self->at;
    const agg_tally_t before = s_tally(was), after = s_tally(at);
    bool moved = at->committed != was->committed;
    bool placed = (at->next == 0) != (was->next == 0);
    if (at->uncommitted_b < was->uncommitted_b && self->session)
        agg_credit_release(core->credit, &self->session->account,
                           was->uncommitted_b - at->uncommitted_b);
    if (moved || after.missing != before.missing || after.done != before.done)
        agg_run_tally(self->run, self->member, &before, &after, now_ns);
    if (at->committed > was->committed) {
        core->stats.committed_records += at->committed - was->committed;
        /* also for records that another aggregator brought */
        agg_run_heard(core, self->run, now_ns);
    }
    if (at->committed < was->committed)
        self->run->regressed = true;
    if (self->session && (moved || placed)) {
        crema_list_append(&self->session->acks, &self->ack);
        self->session->ack_waits = false;
        agg_session_out(core, self->session);
    }
    s_watch(core, self);
    crema_list_append(&core->due, &self->due);
}

void
agg_streams_on_tick(agg_core_t *core, int64_t now_ns)
{
    for (crema_link_t *link = core->watched.next; link != &core->watched; link = link->next) {
        agg_stream_t *self = CREMA_LIST_ITEM(link, agg_stream_t, watch);
        crema_list_append(&core->due, &self->due);
        if (self->session && self->session->ack_waits &&
            now_ns - self->session->ack_t2_ns >= ACK_PATIENCE_NS) {
            self->session->ack_waits = false;
            agg_session_out(core, self->session);
        }
    }
}

bool
agg_session_awaits_commit(const agg_session_t *session)
{
    for (const crema_link_t *link = session->streams.next; link != &session->streams;
         link = link->next)
        if (s_has_pending(CREMA_LIST_ITEM(link, agg_stream_t, of_session)))
            return true;
    return false;
}

/* ---------------------------------------------------------------- listed and forgotten */

void
agg_stream_unmark_listed(agg_core_t *core, agg_stream_t *self)
{
    if (!self->only_listed)
        return;
    core->n_only_listed--;
    agg_owner_use(self->run, (agg_usage_t){.only_listed = (size_t)-1});
    self->only_listed = false;
}

void
agg_stream_forget(agg_core_t *core, agg_stream_t *self)
{
    crema_map_take(core->streams, &self->stream_id);
    agg_stream_unmark_listed(core, self);
    agg_owner_use(self->run, (agg_usage_t){.streams = (size_t)-1});
    if (self->session)
        agg_credit_release(core->credit, &self->session->account, self->at.uncommitted_b);
    crema_list_remove(&self->of_session);
    crema_list_remove(&self->of_run);
    crema_list_remove(&self->ack);
    crema_list_remove(&self->due);
    crema_list_remove(&self->watch);
    crema_list_remove(&self->open);
    agg_stream_destroy(&self);
}

void
agg_stream_unlist(agg_core_t *core, agg_stream_t *self, int64_t now_ns)
{
    const agg_position_t was = self->at;
    const agg_tally_t tally = s_tally(&was);
    if (!self->session && was.committed == 0) {
        agg_run_tally(self->run, self->member, &tally, NULL, now_ns);
        agg_stream_forget(core, self);
        return;
    }
    self->is_listed = false;
    self->listed_last = 0;
    self->interval_ns = self->session ? agg_session_interval_ns(self->session) : 1000 * MS;
    s_forget_hi(self, now_ns); /* its agent lists the rest in its next table */
    agg_stream_follow(core, self, &was, now_ns);
}
