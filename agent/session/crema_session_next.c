#include "crema_frame.h"
#include "crema_session_private.h"

#define NEWS_PAUSE_NS (20 * MS) /* between heartbeats that announce new streams */
#define RECORD_BYTES_MAX (CREMA_FRAME_HEADER_BYTES + CREMA_RECORD_BODY_MAX)

enum { BYE_DRAINED, BYE_DEADLINE };

static void
s_begin_table(crema_session_t *self, crema_msg_type_t type, int64_t now_ns)
{
    self->table_type = type;
    self->table_row = 0;
    self->table_part = 0;
    self->news = false;
    if (type == CREMA_MSG_HEARTBEAT) {
        int64_t pause = self->config.heartbeat_ns * (crema_session_is_idle(self) ? 10 : 5) / 4;
        self->hb_no++;
        self->want_heartbeat = false;
        self->heartbeat_sent_ns = now_ns;
        self->heartbeat_at_ns = now_ns + pause - pause / 10 + crema_session_jitter(self, pause / 5);
    }
}

static Crema__Hello
s_hello(crema_session_t *self, Crema__StreamTable *table, size_t n_faults)
{
    return (Crema__Hello){
        .ver_min = CREMA_WIRE_VERSION_MIN,
        .ver_max = CREMA_WIRE_VERSION,
        .agent_id = crema_id_field(&self->config.agent_id),
        .boot = self->config.boot,
        .host = (char *)self->config.host,
        .pid = self->config.pid,
        .hb_ivl_ms = (uint32_t)(self->config.heartbeat_ns / MS),
        .version = (char *)self->config.version,
        .run_id = crema_id_field(&self->config.run_id),
        .table = table,
        .n_faults = n_faults,
        .faults = self->faults,
    };
}

static Crema__Heartbeat
s_heartbeat(crema_session_t *self, Crema__StreamTable *table, size_t n_faults, int64_t mono_ns,
            int64_t real_ns)
{
    return (Crema__Heartbeat){
        .hb_no = self->hb_no,
        .hb_ivl_ms = (uint32_t)(self->config.heartbeat_ns / MS),
        .barrier_seen = self->barrier_seen,
        .t1_mono_ns = mono_ns,
        .t1_real_ns = real_ns,
        .table = table,
        .n_faults = n_faults,
        .faults = self->faults,
        .echo_t1_mono_ns = self->echo_t1_ns,
        .echo_t2_mono_ns = self->echo_t2_ns,
        .echo_t3_mono_ns = self->echo_t3_ns,
        .echo_t4_mono_ns = self->echo_t4_ns,
    };
}

/* Fills in the next part of the table being sent. */
static void
s_fill_table(crema_session_t *self, int64_t mono_ns, int64_t real_ns)
{
    crema_stream_table_clear(self->table);
    self->table_row += crema_sender_rows(self->sender, self->table_row, CREMA_WIRE_TABLE_ROWS_SENT,
                                         crema_id_is_zero(&self->config.run_id), self->table);
    Crema__StreamTable *table = crema_stream_table_sent(self->table);
    bool more = self->table_row < crema_sender_count(self->sender);
    size_t n_faults = more ? 0 : self->n_faults;
    self->msg = (crema_msg_t){
        .type = self->table_type,
        .flags = (uint16_t)(self->table_part++ << CREMA_WIRE_PART_SHIFT |
                            (more ? CREMA_WIRE_FLAG_MORE : 0)),
        .session = self->table_type == CREMA_MSG_HELLO ? 0 : self->agg_session,
    };
    if (self->table_type == CREMA_MSG_HELLO)
        self->msg.hello = s_hello(self, table, n_faults);
    else if (self->table_type == CREMA_MSG_HEARTBEAT)
        self->msg.heartbeat = s_heartbeat(self, table, n_faults, mono_ns, real_ns);
    else
        self->msg.bye = (Crema__Bye){
            .reason = self->end == CREMA_SESSION_END_DEADLINE ? BYE_DEADLINE : BYE_DRAINED,
            .table = table,
            .n_faults = n_faults,
            .faults = self->faults};
    if (!more)
        self->table_type = 0;
}

/* Sets table_type if a HELLO or HEARTBEAT is due. */
static void
s_choose_table(crema_session_t *self, int64_t now_ns)
{
    if (self->state == CREMA_SESSION_HELLO_SENT && now_ns >= self->hello_at_ns) {
        self->hello_at_ns = now_ns + self->hello_wait_ns;
        self->hello_wait_ns *= 2;
        if (self->hello_wait_ns > HELLO_WAIT_MAX_NS)
            self->hello_wait_ns = HELLO_WAIT_MAX_NS;
        s_begin_table(self, CREMA_MSG_HELLO, now_ns);
    } else if (self->state == CREMA_SESSION_STREAMING &&
               (self->want_heartbeat ||
                (self->news && now_ns - self->heartbeat_sent_ns >= NEWS_PAUSE_NS))) {
        s_begin_table(self, CREMA_MSG_HEARTBEAT, now_ns);
    }
}

static bool
s_next_data(crema_session_t *self, crema_session_action_t *ret_action)
{
    if (self->state != CREMA_SESSION_STREAMING || !crema_session_has_credit(self))
        return false;
    const crema_spool_stream_t *stream = crema_sender_turn(self->sender);
    if (!stream)
        return false;
    uint64_t bytes = self->credit_total_b - self->sent_total_b;
    bytes = bytes < self->batch_max_b ? bytes : self->batch_max_b;
    *ret_action = (crema_session_action_t){
        .type = CREMA_SESSION_SEND_DATA,
        .stream_id = stream->stream_id,
        .run_id = stream->run_id,
        .first_seq = stream->cursor.next,
        .max_bytes = bytes > RECORD_BYTES_MAX ? (size_t)bytes : RECORD_BYTES_MAX,
        .session = self->agg_session,
    };
    return true;
}

static void
s_begin_scan(crema_session_t *self, crema_session_action_t *ret_action)
{
    self->want_scan = false;
    self->scanning = true;
    self->scan_refused = false;
    self->barrier_scanned = self->barrier_asked;
    *ret_action = (crema_session_action_t){.type = CREMA_SESSION_SCAN};
}

bool
crema_session_next(crema_session_t *self, int64_t now_mono_ns, int64_t now_real_ns,
                   crema_session_action_t *ret_action)
{
    if (self->want_hangup) {
        self->want_hangup = false;
        *ret_action = (crema_session_action_t){.type = CREMA_SESSION_HANGUP};
        return true;
    }
    if (self->want_dial) {
        self->want_dial = false;
        crema_session_say_hello(self, now_mono_ns);
        *ret_action = (crema_session_action_t){.type = CREMA_SESSION_DIAL};
        return true;
    }
    if (self->table_type == 0)
        s_choose_table(self, now_mono_ns);
    if (self->table_type != 0) {
        s_fill_table(self, now_mono_ns, now_real_ns);
        *ret_action = (crema_session_action_t){.type = CREMA_SESSION_SEND, .msg = &self->msg};
        return true;
    }
    if (self->n_ends > 0) {
        *ret_action = (crema_session_action_t){.type = CREMA_SESSION_END_RUN,
                                               .run_id = self->ends[--self->n_ends]};
        return true;
    }
    if (self->want_scan) {
        s_begin_scan(self, ret_action);
        return true;
    }
    uint64_t committed = 0;
    const crema_spool_stream_t *stream = crema_sender_trim(self->sender, &committed);
    if (!stream)
        return s_next_data(self, ret_action);
    *ret_action = (crema_session_action_t){
        .type = CREMA_SESSION_TRIM, .stream_id = stream->stream_id, .committed = committed};
    return true;
}

/* ---------------------------------------------------------------- queries */

crema_session_state_t
crema_session_state(const crema_session_t *self)
{
    if (self->state != CREMA_SESSION_STREAMING)
        return self->state;
    if (self->draining)
        return CREMA_SESSION_DRAINING;
    return crema_session_has_credit(self) ? CREMA_SESSION_STREAMING : CREMA_SESSION_STALLED;
}

crema_session_end_t
crema_session_end(const crema_session_t *self)
{
    return self->state == CREMA_SESSION_CLOSED ? self->end : CREMA_SESSION_END_NONE;
}

crema_session_stats_t
crema_session_stats(const crema_session_t *self)
{
    crema_session_stats_t stats = self->stats;
    stats.uncommitted_records = crema_sender_uncommitted_records(self->sender);
    return stats;
}
