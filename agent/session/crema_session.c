#include <stdlib.h>
#include <string.h>

#include "crema_session_private.h"
#include "crema_text.h"

#define HEARTBEAT_MIN_NS (200 * MS)
#define HEARTBEAT_MAX_NS (60 * S)
#define HELLO_PATIENCE_NS (30 * S) /* without WELCOME on this socket: try a new one */
#define UNANSWERED_PATIENCE_NS                                                                     \
    (1500 * MS) /* without WELCOME: an agent with nothing left to deliver leaves */
#define BACKOFF_FIRST_NS (500 * MS)
#define BACKOFF_MAX_NS (5 * S)     /* only spaces out dials: the aggregator limits admission */
#define BYE_PATIENCE_NS (500 * MS) /* for the answer to BYE */
#define DISMISS_PATIENCE_NS (30 * S)

/* ---------------------------------------------------------------- life */

crema_err_t
crema_session_new(const crema_session_config_t *config, int64_t now_ns, crema_session_t **ret_self)
{
    if (config->heartbeat_ns < HEARTBEAT_MIN_NS || config->heartbeat_ns > HEARTBEAT_MAX_NS)
        return CREMA_EINVAL;
    crema_session_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    size_t rows = config->streams_max < CREMA_WIRE_TABLE_ROWS_SENT ? config->streams_max
                                                                   : CREMA_WIRE_TABLE_ROWS_SENT;
    self->config = *config;
    self->random = config->boot | 1;
    self->end_when_drained = CREMA_SESSION_END_DRAINED;
    self->dial_at_ns = now_ns;
    self->want_dial = true;
    crema_err_t err = crema_sender_new(config->streams_max, &self->sender);
    if (err == CREMA_OK)
        err = crema_stream_table_new(rows, &self->table);
    if (err != CREMA_OK) {
        crema_session_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
crema_session_destroy(crema_session_t **self_p)
{
    crema_session_t *self = *self_p;
    if (!self)
        return;
    crema_sender_destroy(&self->sender);
    free(self->table);
    free(self);
    *self_p = NULL;
}

int64_t
crema_session_jitter(crema_session_t *self, int64_t range)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return range > 0 ? (int64_t)((self->random >> 11) % (uint64_t)range) : 0;
}

static bool
s_is_welcomed(const crema_session_t *self)
{
    return self->state == CREMA_SESSION_STREAMING || self->state == CREMA_SESSION_BYE_SENT;
}

static void
s_close(crema_session_t *self, crema_session_end_t end)
{
    self->state = CREMA_SESSION_CLOSED;
    self->end = end;
    self->want_hangup = true;
    self->want_dial = self->want_scan = self->want_heartbeat = false;
    self->table_type = 0;
}

static void
s_back_off(crema_session_t *self, int64_t at_least_ns, int64_t now_ns)
{
    int64_t range = BACKOFF_FIRST_NS;
    for (unsigned i = 0; i < self->dials_in_vain && range < BACKOFF_MAX_NS; i++)
        range *= 2;
    range = range < BACKOFF_MAX_NS ? range : BACKOFF_MAX_NS;
    self->state = CREMA_SESSION_BACKOFF;
    self->want_hangup = true;
    self->table_type = 0;
    self->dial_at_ns = now_ns + at_least_ns + crema_session_jitter(self, range);
    self->dials_in_vain++;
}

void
crema_session_say_hello(crema_session_t *self, int64_t now_ns)
{
    self->state = CREMA_SESSION_HELLO_SENT;
    self->table_type = 0;
    self->hello_at_ns = now_ns;
    self->hello_wait_ns = HELLO_WAIT_MIN_NS;
    self->hello_until_ns = now_ns + HELLO_PATIENCE_NS;
}

/* True if everything known to exist is durable. After a dismissal unreadable records are not
 * waited for. */
static bool
s_is_drained(const crema_session_t *self)
{
    bool is_whole = self->n_faults == 0 || self->end_when_drained == CREMA_SESSION_END_DISMISSED;
    return self->draining && self->drain_scanned && !self->scan_refused && is_whole &&
           crema_sender_undelivered(self->sender) == 0;
}

static void
s_say_bye(crema_session_t *self, crema_session_end_t end, int64_t now_ns)
{
    self->end = end;
    self->state = CREMA_SESSION_BYE_SENT;
    self->table_type = CREMA_MSG_BYE;
    self->table_row = 0;
    self->table_part = 0;
    self->bye_until_ns = now_ns + BYE_PATIENCE_NS;
}

static void
s_check_drained(crema_session_t *self, int64_t now_ns)
{
    if (s_is_drained(self) && self->state == CREMA_SESSION_STREAMING)
        s_say_bye(self, self->end_when_drained, now_ns);
}

static void
s_drain(crema_session_t *self, crema_session_end_t end, int64_t deadline_ns)
{
    if (!self->draining || deadline_ns < self->drain_deadline_ns)
        self->drain_deadline_ns = deadline_ns;
    self->draining = true;
    self->end_when_drained = end;
    self->drain_scanned = false;
    self->want_scan = true;
}

void
crema_session_drain(crema_session_t *self, int64_t deadline_ns, int64_t now_ns)
{
    if (self->state == CREMA_SESSION_CLOSED || self->state == CREMA_SESSION_BYE_SENT)
        return;
    s_drain(self, self->end_when_drained, deadline_ns);
    s_check_drained(self, now_ns);
}

/* ---------------------------------------------------------------- events from the spool */

/* The rows of the table moved while its parts were being sent: starts over. */
static void
s_restart_table(crema_session_t *self)
{
    self->table_row = 0;
    self->table_part = 0;
}

crema_err_t
crema_session_on_stream(crema_session_t *self, crema_spool_stream_t *stream, int64_t now_ns)
{
    bool is_new = false;
    crema_err_t err = crema_sender_follow(self->sender, stream, &is_new);
    if (err != CREMA_OK) {
        self->scan_refused = true;
        return err;
    }
    if (is_new) {
        self->news = true;
        s_restart_table(self);
    }
    s_check_drained(self, now_ns);
    return CREMA_OK;
}

void
crema_session_on_stream_gone(crema_session_t *self, crema_spool_stream_t *stream)
{
    crema_sender_forget(self->sender, stream);
    s_restart_table(self);
}

static bool
s_same_fault(const Crema__Reason *a, const Crema__Reason *b)
{
    return a->count == b->count && strcmp(a->code, b->code) == 0 &&
           strcmp(a->subject, b->subject) == 0 && strcmp(a->text, b->text) == 0;
}

static Crema__Reason
s_keep_fault(crema_session_fault_t *texts, const Crema__Reason *fault)
{
    crema_text_copy(texts->code, sizeof texts->code, fault->code);
    crema_text_copy(texts->subject, sizeof texts->subject, fault->subject);
    crema_text_copy(texts->text, sizeof texts->text, fault->text);
    return crema_reason(texts->code, texts->subject, texts->text, fault->count);
}

void
crema_session_on_faults(crema_session_t *self, size_t n, const Crema__Reason *faults)
{
    n = n < CREMA_WIRE_FAULTS_MAX ? n : CREMA_WIRE_FAULTS_MAX;
    bool same = n == self->n_faults;
    for (size_t i = 0; i < n; i++) {
        same = same && s_same_fault(&self->fault_rows[i], &faults[i]);
        self->fault_rows[i] = s_keep_fault(&self->fault_texts[i], &faults[i]);
        self->faults[i] = &self->fault_rows[i];
    }
    self->n_faults = n;
    self->news = self->news || !same;
}

void
crema_session_on_scanned(crema_session_t *self, int64_t now_ns)
{
    if (!self->scanning)
        return;
    self->scanning = false;
    if (self->scan_refused) /* the table would be incomplete: scan again when there is room */
        return;
    if (self->barrier_scanned > self->barrier_seen ||
        self->barrier_scanned == self->barrier_asked) {
        self->barrier_seen = self->barrier_scanned;
        self->want_heartbeat = self->barrier_seen > 0;
    }
    self->drain_scanned = self->draining;
    s_check_drained(self, now_ns);
}

void
crema_session_on_data_sent(crema_session_t *self, const crema_id_t *stream_id, uint64_t first_seq,
                           uint32_t n, size_t bytes, int64_t now_ns)
{
    crema_sender_sent(self->sender, stream_id, first_seq, n, now_ns);
    if (n == 0)
        return;
    self->sent_total_b += bytes;
    if (self->heartbeat_at_ns - now_ns <= self->config.heartbeat_ns * 2 / 5)
        self->want_heartbeat = true; /* both in one wake of each program on the way */
    self->stats.sent_records += n;
}

/* ---------------------------------------------------------------- messages from the aggregator */

/* Of the silence that is waited for, at least three intervals follow a heartbeat. */
static void
s_listen(crema_session_t *self, int64_t now_ns)
{
    self->silent_at_ns = now_ns + (crema_session_is_idle(self) ? 6 : 4) * self->config.heartbeat_ns;
}

static void
s_on_welcome(crema_session_t *self, const crema_msg_t *msg, int64_t now_ns)
{
    const Crema__Welcome *welcome = &msg->welcome;
    if (self->state != CREMA_SESSION_HELLO_SENT)
        return; /* reply to a repeated HELLO */
    if (welcome->retry_after_ms > 0) {
        int64_t wait = welcome->retry_after_ms * MS;
        self->hello_at_ns = now_ns + wait + crema_session_jitter(self, wait / 10);
        self->hello_until_ns = self->hello_at_ns + HELLO_PATIENCE_NS;
        return;
    }
    self->stats.welcomes++;
    self->state = CREMA_SESSION_STREAMING;
    self->table_type = 0;
    self->dials_in_vain = 0;
    self->agg_session = msg->session;
    self->credit_total_b = welcome->credit_total_b;
    self->sent_total_b = 0;
    self->batch_max_b = welcome->max_batch_b && welcome->max_batch_b < CREMA_WIRE_BATCH_MAX
                            ? welcome->max_batch_b
                            : CREMA_WIRE_BATCH_MAX;
    self->barrier_asked = self->barrier_scanned = self->barrier_seen = 0;
    self->moved_ns = now_ns;
    self->heartbeat_at_ns = now_ns + self->config.heartbeat_ns;
    s_listen(self, now_ns);
    crema_sender_begin_session(self->sender);
    for (size_t i = 0; i < crema_stream_table_rows(welcome->table); i++) {
        const crema_stream_row_t row = crema_stream_table_row(welcome->table, i);
        crema_sender_welcome(self->sender, &row, now_ns);
    }
    crema_sender_retry(self->sender);
    s_check_drained(self, now_ns);
}

static void
s_on_ack(crema_session_t *self, const Crema__Ack *ack, int64_t now_ns)
{
    uint64_t before = crema_sender_committed_records(self->sender);
    s_listen(self, now_ns);
    if (ack->credit_total_b > self->credit_total_b) {
        self->credit_total_b = ack->credit_total_b;
        self->moved_ns = now_ns;
    }
    if (ack->hb_no > 0) {
        self->echo_t1_ns = ack->t1_mono_ns;
        self->echo_t2_ns = ack->t2_mono_ns;
        self->echo_t3_ns = ack->t3_mono_ns;
        self->echo_t4_ns = now_ns;
    }
    for (size_t i = 0; i < crema_stream_table_rows(ack->table); i++) {
        const crema_stream_row_t row = crema_stream_table_row(ack->table, i);
        crema_sender_confirm(self->sender, &row, now_ns);
    }
    if (crema_sender_committed_records(self->sender) != before)
        self->moved_ns = now_ns;
    if (self->state == CREMA_SESSION_BYE_SENT && self->table_type == 0)
        s_close(self, self->end);
    else
        s_check_drained(self, now_ns);
}

static void
s_on_fence(crema_session_t *self, const crema_msg_t *msg, int64_t now_ns)
{
    switch (msg->fence.reason) {
    case CREMA_FENCE_UNKNOWN:
        if (self->state == CREMA_SESSION_BYE_SENT)
            s_close(self, self->end);
        else if (self->state == CREMA_SESSION_STREAMING)
            crema_session_say_hello(self, now_ns);
        break;
    case CREMA_FENCE_DISMISSED:
        if (self->state == CREMA_SESSION_STREAMING && !self->draining &&
            !crema_sender_has_open(self->sender)) /* a writer still records: it will be repeated */
            s_drain(self, CREMA_SESSION_END_DISMISSED, now_ns + DISMISS_PATIENCE_NS);
        break;
    case CREMA_FENCE_VERSION:
    case CREMA_FENCE_CLONE:
    case CREMA_FENCE_PRINCIPAL:
        s_close(self, CREMA_SESSION_END_REFUSED);
        break;
    case CREMA_FENCE_SUPERSEDED:
    case CREMA_FENCE_QUOTA:
    case CREMA_FENCE_CREDIT_ABUSE:
        s_back_off(self, msg->fence.retry_after_ms * MS, now_ns);
        break;
    }
}

/* False if there is no room. */
static bool
s_note_end(crema_session_t *self, const crema_id_t *run_id)
{
    for (size_t i = 0; i < self->n_ends; i++)
        if (crema_id_equal(&self->ends[i], run_id))
            return true;
    if (self->n_ends == CREMA_SESSION_ENDS_MAX)
        return false;
    self->ends[self->n_ends++] = *run_id;
    return true;
}

static void
s_on_barrier(crema_session_t *self, const crema_msg_t *msg)
{
    if (!s_note_end(self, crema_id_of(msg->barrier.run_id)))
        return; /* not answered, so asked again */
    if (msg->barrier.barrier_id > self->barrier_asked)
        self->barrier_asked = msg->barrier.barrier_id;
    self->want_scan = true;
}

void
crema_session_on_message(crema_session_t *self, const crema_msg_t *msg, int64_t now_ns)
{
    if (self->state == CREMA_SESSION_CLOSED || self->state == CREMA_SESSION_BACKOFF)
        return;
    if (msg->type == CREMA_MSG_WELCOME) {
        s_on_welcome(self, msg, now_ns);
        return;
    }
    if (msg->type == CREMA_MSG_FENCE) {
        s_on_fence(self, msg, now_ns);
        return;
    }
    if (!s_is_welcomed(self) || msg->session != self->agg_session)
        return; /* from an earlier session */
    if (msg->type == CREMA_MSG_ACK) {
        s_on_ack(self, &msg->ack, now_ns);
    } else if (msg->type == CREMA_MSG_REPLAY) {
        self->stats.replays += crema_sender_rewind(self->sender, crema_id_of(msg->replay.stream_id),
                                                   msg->replay.from_seq, now_ns);
    } else if (msg->type == CREMA_MSG_BARRIER) {
        s_on_barrier(self, msg);
    }
}

void
crema_session_set_interval(crema_session_t *self, int64_t heartbeat_ns)
{
    self->config.heartbeat_ns = heartbeat_ns;
}

/* ---------------------------------------------------------------- time */

void
crema_session_on_unsent(crema_session_t *self, int64_t now_ns)
{
    if (self->state != CREMA_SESSION_HELLO_SENT || self->hello_at_ns <= now_ns + HELLO_UNSENT_NS)
        return;
    self->hello_at_ns = now_ns + HELLO_UNSENT_NS;
    self->table_type = 0;
}

static void
s_on_welcomed_tick(crema_session_t *self, int64_t now_ns)
{
    int64_t interval = self->config.heartbeat_ns;
    bool starved = !crema_session_has_credit(self) && crema_sender_undelivered(self->sender) > 0;
    if (now_ns >= self->silent_at_ns) {
        s_back_off(self, 0, now_ns);
        return;
    }
    if (starved && now_ns - self->moved_ns >= 8 * interval + 2 * S) {
        crema_session_say_hello(
            self, now_ns); /* bytes were lost in transit: both sides start counting again */
        return;
    }
    self->stats.rewinds += crema_sender_rewind_stale(self->sender, 2 * interval, now_ns);
    if (now_ns >= self->heartbeat_at_ns)
        self->want_heartbeat = true;
    if (self->scan_refused && !self->scanning &&
        (self->barrier_seen < self->barrier_asked || self->draining))
        self->want_scan = true;
}

int64_t
crema_session_due_ns(const crema_session_t *self)
{
    bool idle = self->state == CREMA_SESSION_STREAMING && !self->draining && !self->scanning &&
                self->barrier_seen >= self->barrier_asked &&
                crema_sender_undelivered(self->sender) == 0;
    if (!idle)
        return 0;
    return self->heartbeat_at_ns < self->silent_at_ns ? self->heartbeat_at_ns : self->silent_at_ns;
}

void
crema_session_on_tick(crema_session_t *self, int64_t now_ns)
{
    crema_sender_retry(self->sender);
    switch (self->state) {
    case CREMA_SESSION_INIT:
    case CREMA_SESSION_BACKOFF:
        if (now_ns >= self->dial_at_ns)
            self->want_dial = true;
        break;
    case CREMA_SESSION_HELLO_SENT:
        if (now_ns >= self->hello_until_ns)
            s_back_off(self, 0, now_ns);
        break;
    case CREMA_SESSION_STREAMING:
        s_on_welcomed_tick(self, now_ns);
        break;
    case CREMA_SESSION_BYE_SENT:
        if (now_ns >= self->bye_until_ns)
            s_close(self, self->end);
        return;
    default:
        return;
    }
    bool answered = self->state == CREMA_SESSION_STREAMING ||
                    (self->state == CREMA_SESSION_HELLO_SENT &&
                     now_ns <= self->hello_until_ns - HELLO_PATIENCE_NS + UNANSWERED_PATIENCE_NS);
    if (s_is_drained(self) && !answered) {
        s_close(self,
                self->end_when_drained); /* nothing is left, and no aggregator to send BYE to */
        return;
    }
    if (!self->draining || now_ns < self->drain_deadline_ns)
        return;
    if (self->state == CREMA_SESSION_STREAMING)
        s_say_bye(self, CREMA_SESSION_END_DEADLINE, now_ns);
    else
        s_close(self, CREMA_SESSION_END_DEADLINE);
}
