#include "crema_stream.h"

#include <stdlib.h>

#define MS 1000000ll
#define WINDOW_MIN_NS (500 * MS)
#define WINDOW_MAX_NS (60000 * MS)
#define WAIT_MIN_NS (300 * MS) /* for STATE, and for progress of committed */
#define WAIT_MAX_NS (5000 * MS)
#define REPLAY_DOUBLINGS 4 /* the wait between REPLAYs grows to 16 windows */
#define SEQ_MAX (UINT64_MAX / 2)

struct crema_stream {
    crema_id_t stream_id, run_id;
    uint64_t next;      /* next number to accept; 0 until the sink has given it */
    uint64_t committed; /* durable up to here */
    uint64_t hi;        /* highest number known to exist */
    uint64_t uncommitted_b;
    bool closed;      /* hi is the END */
    bool sink_closed; /* the END is committed: nothing can follow */
    bool asked;       /* OPEN was sent since the last resync */
    /* more was known to exist at the last take, so the time to the next one counts as a gap
     * between arrivals */
    bool more_was_due;
    uint32_t replays;    /* since the last take */
    int64_t interval_ns; /* H */
    int64_t gap_p99_ns;  /* of gaps between arrivals while more is due */
    int64_t taken_at_ns;
    int64_t replay_at_ns; /* earliest time of the next REPLAY */
    int64_t open_at_ns;   /* earliest time of the next OPEN */
    int64_t open_wait_ns;
    int64_t pending_at_ns; /* when the oldest uncommitted record was taken */
    int64_t commit_at_ns;  /* deadline for progress of committed */
    int64_t commit_wait_ns;
};

crema_err_t
crema_stream_new(const crema_id_t *stream_id, const crema_id_t *run_id, crema_stream_t **ret_self)
{
    crema_stream_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->stream_id = *stream_id;
    self->run_id = *run_id;
    self->interval_ns = 1000 * MS;
    self->open_wait_ns = WAIT_MIN_NS;
    self->commit_wait_ns = WAIT_MIN_NS;
    *ret_self = self;
    return CREMA_OK;
}

void
crema_stream_destroy(crema_stream_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

static int64_t
s_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

void
crema_stream_set_interval(crema_stream_t *self, int64_t interval_ns)
{
    self->interval_ns = interval_ns;
}

static int64_t
s_window_ns(const crema_stream_t *self)
{
    int64_t by_gaps = self->gap_p99_ns + self->gap_p99_ns / 2;
    int64_t by_interval = 2 * self->interval_ns;
    return s_clamp(by_gaps > by_interval ? by_gaps : by_interval, WINDOW_MIN_NS, WINDOW_MAX_NS);
}

/* W0 * 2^replays, at most 16 W0, +-20 % by a hash of identity and attempt, so that streams do not
 * ask in step. */
static int64_t
s_replay_wait_ns(const crema_stream_t *self)
{
    uint32_t doublings = self->replays < REPLAY_DOUBLINGS ? self->replays : REPLAY_DOUBLINGS;
    int64_t wait = s_window_ns(self) << doublings;
    uint64_t noise = (crema_id_hash(&self->stream_id) + self->replays) * 0x9e3779b97f4a7c15u;
    return wait + wait / 1000 * ((int64_t)(noise >> 40) % 401 - 200);
}

static bool
s_has_pending(const crema_stream_t *self)
{
    return self->next > self->committed + 1;
}

void
crema_stream_announce(crema_stream_t *self, uint64_t hi, bool closed, int64_t now_ns)
{
    if (hi > SEQ_MAX || self->sink_closed)
        return;
    if (hi > self->hi) {
        if (self->hi < self->next && hi >= self->next)
            self->replay_at_ns = now_ns + s_window_ns(self);
        self->hi = hi;
    }
    self->closed = self->closed || closed;
}

/* Estimates the 99th percentile by stochastic approximation: up by 99 steps when exceeded, down
 * by one otherwise. */
static void
s_note_arrival(crema_stream_t *self, int64_t now_ns)
{
    if (self->more_was_due) {
        int64_t gap = now_ns - self->taken_at_ns;
        int64_t step = self->gap_p99_ns / 800 + MS / 100;
        self->gap_p99_ns += gap > self->gap_p99_ns ? 99 * step : -step;
        self->gap_p99_ns = s_clamp(self->gap_p99_ns, 0, WINDOW_MAX_NS);
    }
    self->taken_at_ns = now_ns;
    self->more_was_due = self->hi >= self->next;
}

crema_err_t
crema_stream_take(crema_stream_t *self, uint64_t first, uint64_t last, uint64_t bytes,
                  int64_t now_ns, uint64_t *ret_from)
{
    if (first < 1 || last < first || last > SEQ_MAX)
        return CREMA_EINVAL;
    if (self->next == 0)
        return CREMA_EAGAIN;
    if (last < self->next || self->sink_closed)
        return CREMA_EREPEAT;
    if (first > self->next) {
        if (self->replays == 0)
            self->replay_at_ns = now_ns; /* the hole is certain: no need to wait for the window */
        return CREMA_EGAP;
    }
    if (!s_has_pending(self)) {
        self->pending_at_ns = now_ns;
        self->commit_at_ns = now_ns + self->commit_wait_ns;
    }
    *ret_from = self->next;
    self->next = last + 1;
    self->uncommitted_b += bytes;
    if (self->hi < last)
        self->hi = last;
    self->replays = 0;
    s_note_arrival(self, now_ns);
    self->replay_at_ns = now_ns + s_window_ns(self);
    return CREMA_OK;
}

/* Releases bytes in proportion to the numbers: exact at both ends, without state per message. */
static void
s_release(crema_stream_t *self, uint64_t committed)
{
    if (!s_has_pending(self) || committed + 1 >= self->next) {
        self->uncommitted_b = 0;
        return;
    }
    unsigned __int128 bytes = self->uncommitted_b;
    uint64_t pending = self->next - 1 - self->committed;
    self->uncommitted_b -= (uint64_t)(bytes * (committed - self->committed) / pending);
}

void
crema_stream_commit(crema_stream_t *self, uint64_t committed, bool closed, int64_t now_ns)
{
    if (committed > SEQ_MAX)
        return;
    if (committed > self->committed) {
        int64_t took_ns = now_ns - self->pending_at_ns;
        if (self->next != 0) {
            s_release(self, committed);
            self->commit_wait_ns = s_clamp(2 * took_ns, WAIT_MIN_NS, WAIT_MAX_NS);
        }
        self->committed = committed;
        self->pending_at_ns = now_ns;
        self->commit_at_ns = now_ns + self->commit_wait_ns;
        if (self->next != 0 && self->next <= committed)
            self->next = committed + 1;
    }
    if (committed > self->hi)
        self->hi = committed;
    if (closed && committed == self->committed) {
        self->hi = committed;
        self->closed = self->sink_closed = true;
    }
}

void
crema_stream_on_state(crema_stream_t *self, uint64_t committed, uint64_t sink_next, bool closed,
                      int64_t now_ns)
{
    if (committed > SEQ_MAX || sink_next > SEQ_MAX)
        return;
    if (self->next != 0) {
        crema_stream_commit(self, committed, closed, now_ns);
        return;
    }
    self->committed = committed; /* also if lower than before: an older store was restored */
    self->next = sink_next > committed + 1 ? sink_next : committed + 1;
    self->sink_closed = false;
    crema_stream_commit(self, committed, closed, now_ns);
    self->open_wait_ns = WAIT_MIN_NS;
    self->pending_at_ns = now_ns;
    self->commit_at_ns = now_ns + self->commit_wait_ns;
    self->replays = 0;
    self->replay_at_ns = now_ns; /* what came since the question was dropped */
    self->more_was_due = false;
}

void
crema_stream_resync(crema_stream_t *self, int64_t now_ns)
{
    self->next = 0;
    self->uncommitted_b = 0;
    self->asked = false;
    self->open_at_ns = now_ns;
}

crema_stream_due_t
crema_stream_due(crema_stream_t *self, bool sink_takes, int64_t now_ns)
{
    if (self->next != 0 && sink_takes && s_has_pending(self) && now_ns >= self->commit_at_ns) {
        self->commit_wait_ns = s_clamp(2 * self->commit_wait_ns, WAIT_MIN_NS, WAIT_MAX_NS);
        crema_stream_resync(self, now_ns);
    }
    if (self->next == 0) {
        if (now_ns < self->open_at_ns)
            return CREMA_STREAM_WAIT;
        self->asked = true;
        self->open_at_ns = now_ns + self->open_wait_ns;
        self->open_wait_ns = s_clamp(2 * self->open_wait_ns, WAIT_MIN_NS, WAIT_MAX_NS);
        return CREMA_STREAM_ASK_SINK;
    }
    if (sink_takes && self->hi >= self->next && now_ns >= self->replay_at_ns) {
        self->replay_at_ns = now_ns + s_replay_wait_ns(self);
        self->replays++;
        return CREMA_STREAM_ASK_SENDER;
    }
    return CREMA_STREAM_WAIT;
}

crema_stream_state_t
crema_stream_state(const crema_stream_t *self)
{
    if (self->next == 0)
        return self->asked ? CREMA_STREAM_SYNCING : CREMA_STREAM_UNKNOWN;
    if (crema_stream_is_done(self))
        return CREMA_STREAM_CLOSED;
    if (self->replays >= CREMA_STREAM_STALLED_AFTER)
        return CREMA_STREAM_STALLED;
    return self->replays > 0 ? CREMA_STREAM_GAP : CREMA_STREAM_LIVE;
}

crema_stream_row_t
crema_stream_row(const crema_stream_t *self)
{
    uint32_t flags = self->closed ? CREMA_STREAM_FLAG_CLOSED : 0;
    if (crema_stream_state(self) == CREMA_STREAM_STALLED)
        flags |= CREMA_STREAM_FLAG_STALLED;
    return (crema_stream_row_t){
        .stream_id = self->stream_id,
        .run_id = self->run_id,
        .hi = self->hi,
        .committed = self->committed,
        .recv_next = self->next,
        .flags = flags,
    };
}

uint64_t
crema_stream_uncommitted_b(const crema_stream_t *self)
{
    return self->uncommitted_b;
}

bool
crema_stream_is_done(const crema_stream_t *self)
{
    return self->closed && self->committed >= self->hi;
}
