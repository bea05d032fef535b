/* crema_session_private - the session's state, shared by its two halves: events
 * (crema_session.c) and actions (crema_session_next.c). Private to them. Pure: structs. */
#ifndef CREMA_SESSION_PRIVATE_H
#define CREMA_SESSION_PRIVATE_H

#include "crema_sender.h"
#include "crema_session.h"

#define MS 1000000ll
#define S (1000 * MS)
#define HELLO_WAIT_MIN_NS (100 * MS) /* a socket that has not connected yet drops the first ones */
#define HELLO_WAIT_MAX_NS (2 * S)
#define HELLO_UNSENT_NS (200 * MS) /* one that no connection took costs nothing */

/* A fault with its texts. */
typedef struct {
    char code[24], subject[64], text[64];
} crema_session_fault_t;

struct crema_session {
    crema_session_config_t config;
    crema_session_state_t state; /* never STALLED, which is derived from the credit */
    crema_session_end_t end;
    crema_session_end_t end_when_drained;
    bool draining;
    bool drain_scanned; /* the spool was scanned to its end after drain() */
    int64_t drain_deadline_ns;
    uint64_t random; /* jitter */

    bool want_hangup, want_dial, want_heartbeat, want_scan;
    bool scanning;      /* SCAN was requested and not yet reported */
    bool scan_refused;  /* there was no room for a stream, so the table would be incomplete */
    int64_t dial_at_ns; /* in BACKOFF */
    unsigned dials_in_vain;
    int64_t hello_at_ns; /* in HELLO_SENT */
    int64_t hello_wait_ns, hello_until_ns;
    int64_t heartbeat_at_ns, heartbeat_sent_ns;
    int64_t silent_at_ns; /* without an ACK until then, the connection is given up */
    int64_t moved_ns;     /* time of the last ACK with progress */
    int64_t bye_until_ns;
    bool news; /* there is a stream that the last table did not contain */

    uint64_t agg_session;                  /* 0 before the first WELCOME */
    uint64_t credit_total_b, sent_total_b; /* both count from the session's start */
    size_t batch_max_b;

    uint64_t barrier_asked, barrier_scanned, barrier_seen;
    crema_id_t ends[CREMA_SESSION_ENDS_MAX]; /* runs to end before the next scan */
    size_t n_ends;
    uint64_t hb_no;
    int64_t echo_t1_ns, echo_t2_ns, echo_t3_ns, echo_t4_ns;

    crema_msg_type_t table_type; /* the table being sent; 0: none */
    size_t table_row;            /* its next row */
    unsigned table_part;

    size_t n_faults;
    Crema__Reason *faults[CREMA_WIRE_FAULTS_MAX]; /* each is in fault_rows */
    Crema__Reason fault_rows[CREMA_WIRE_FAULTS_MAX];
    crema_session_fault_t fault_texts[CREMA_WIRE_FAULTS_MAX];

    crema_sender_t *sender;
    Crema__StreamTable *table; /* for one message */
    crema_msg_t msg;
    crema_session_stats_t stats;
};

/* Uniform in [0, range). */
int64_t crema_session_jitter(crema_session_t *self, int64_t range);

/* Goes to HELLO_SENT. */
void crema_session_say_hello(crema_session_t *self, int64_t now_ns);

static inline bool
crema_session_has_credit(const crema_session_t *self)
{
    return self->sent_total_b < self->credit_total_b;
}

/* Nothing is recorded and nothing is to be delivered, so heartbeats only tell that the agent is
 * there. */
static inline bool
crema_session_is_idle(const crema_session_t *self)
{
    return crema_sender_undelivered(self->sender) == 0 && !crema_sender_has_open(self->sender);
}

#endif
