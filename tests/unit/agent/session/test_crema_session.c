/* crema_session: step tables. A row is an event at a time; `want` lists, by one letter each, what
 * the session then asks for:
 *   D dial  U hang up  H hello  B heartbeat  Y bye  E end of a run  S scan  T trim  d data */
#include "must.h"

#include <string.h>

#include "crema_session.h"
#include "message_parts.h"

#define MS 1000000ll
#define SESSION 77u
#define N(steps) (sizeof(steps) / sizeof *(steps))

typedef enum {
    TICK,
    STREAM,    /* a: hi, b: stream */
    CLOSED,    /* the same with END */
    GONE,      /* b: stream */
    WELCOME,   /* a: credit; every stream placed at 1 */
    RETRY,     /* a: retry_after_ms */
    ACK,       /* a: recv_next, b: committed, of stream 0 */
    UNPLACED,  /* an ACK that says the receiver asks its sink */
    HB_ACK,    /* answers the last heartbeat, no rows */
    STALE_ACK, /* as ACK, of another session */
    CREDIT,    /* a: credit_total_b */
    REPLAY,    /* a: from_seq */
    BARRIER,   /* a: id, b: run */
    SCANNED,
    FENCE,  /* a: reason, b: retry_after_ms */
    DRAIN,  /* a: deadline, ms */
    UNSENT, /* the socket did not take what was sent last */
} event_t;

typedef struct {
    int64_t at_ms;
    event_t event;
    uint64_t a, b;
    const char *want;
    crema_session_state_t want_state;
} step_t;

/* What the reactor would have done with the actions. */
typedef struct {
    crema_session_t *session;
    uint64_t first_seq, max_bytes, trimmed, barrier_seen, hb_no;
    uint64_t send_n, send_bytes; /* what each SEND_DATA sends */
    size_t rows, parts, faults;
    unsigned last_flags;
    uint32_t bye_reason;
    crema_id_t ended[8]; /* by E */
    size_t n_ended;
} rig_t;

static const crema_id_t s_run = {{9}};

static crema_id_t
s_stream(uint64_t n)
{
    return (crema_id_t){{(uint8_t)(n + 1), (uint8_t)(n >> 8), 5}};
}

/* What the spool holds; each test begins with an empty one. */
static crema_spool_stream_t s_spool[9000];

static crema_spool_stream_t *
s_held(uint64_t n)
{
    assert_in_range(n, 0, N(s_spool) - 1);
    s_spool[n].stream_id = s_stream(n);
    s_spool[n].run_id = s_run;
    s_spool[n].first_avail = 1;
    return &s_spool[n];
}

static rig_t
s_rig(size_t streams_max)
{
    rig_t rig = {.send_n = 1, .send_bytes = 100};
    memset(s_spool, 0, sizeof s_spool);
    const crema_session_config_t config = {
        .agent_id = {{3}},
        .boot = 12345,
        .host = "node",
        .version = "1",
        .heartbeat_ns = 1000 * MS,
        .streams_max = streams_max,
    };
    must(crema_session_new(&config, 0, &rig.session));
    return rig;
}

static char
s_note_message(rig_t *rig, const crema_msg_t *msg)
{
    const Crema__StreamTable *table = NULL;
    rig->last_flags = msg->flags;
    rig->parts++;
    if (msg->type == CREMA_MSG_HELLO) {
        assert_int_equal(msg->session, 0);
        table = msg->hello.table;
    } else if (msg->type == CREMA_MSG_HEARTBEAT) {
        assert_int_equal(msg->session, SESSION);
        rig->barrier_seen = msg->heartbeat.barrier_seen;
        rig->hb_no = msg->heartbeat.hb_no;
        table = msg->heartbeat.table;
        rig->faults = msg->heartbeat.n_faults;
    } else {
        assert_int_equal(msg->type, CREMA_MSG_BYE);
        rig->bye_reason = msg->bye.reason;
        table = msg->bye.table;
        rig->faults = msg->bye.n_faults;
    }
    if (msg->flags >> CREMA_WIRE_PART_SHIFT == 0)
        rig->rows = 0;
    rig->rows += crema_stream_table_rows(table);
    return msg->type == CREMA_MSG_HELLO ? 'H' : msg->type == CREMA_MSG_HEARTBEAT ? 'B' : 'Y';
}

static void
s_take_actions(rig_t *rig, int64_t now, char *ret_letters)
{
    crema_session_action_t action;
    size_t n = 0;
    while (crema_session_next(rig->session, now, now, &action)) {
        assert_true(n < 30);
        switch (action.type) {
        case CREMA_SESSION_DIAL:
            ret_letters[n++] = 'D';
            break;
        case CREMA_SESSION_HANGUP:
            ret_letters[n++] = 'U';
            break;
        case CREMA_SESSION_SEND:
            ret_letters[n++] = s_note_message(rig, action.msg);
            break;
        case CREMA_SESSION_SEND_DATA:
            ret_letters[n++] = 'd';
            assert_int_equal(action.session, SESSION);
            rig->first_seq = action.first_seq;
            rig->max_bytes = action.max_bytes;
            crema_session_on_data_sent(rig->session, &action.stream_id, action.first_seq,
                                       (uint32_t)rig->send_n, rig->send_bytes, now);
            break;
        case CREMA_SESSION_SCAN:
            ret_letters[n++] = 'S';
            break;
        case CREMA_SESSION_END_RUN:
            ret_letters[n++] = 'E';
            assert_true(rig->n_ended < N(rig->ended));
            rig->ended[rig->n_ended++] = action.run_id;
            break;
        case CREMA_SESSION_TRIM:
            ret_letters[n++] = 'T';
            rig->trimmed = action.committed;
            for (size_t i = 0; i < N(s_spool); i++) /* as crema_spool_trim() does */
                if (crema_id_equal(&s_spool[i].stream_id, &action.stream_id))
                    s_spool[i].committed = action.committed;
            break;
        }
    }
    ret_letters[n] = '\0';
}

static void
s_happen(rig_t *rig, const step_t *step, int64_t now)
{
    crema_stream_row_t row = {.stream_id = s_stream(step->b), .run_id = s_run, .first_avail = 1};
    crema_msg_t msg = {.session = SESSION};
    crema_spool_stream_t *held;
    switch (step->event) {
    case TICK:
        crema_session_on_tick(rig->session, now);
        return;
    case STREAM:
    case CLOSED:
        held = s_held(step->b);
        held->hi = step->a > held->hi ? step->a : held->hi;
        held->closed = held->closed || step->event == CLOSED;
        must(crema_session_on_stream(rig->session, held, now));
        return;
    case GONE:
        crema_session_on_stream_gone(rig->session, s_held(step->b));
        return;
    case SCANNED:
        crema_session_on_scanned(rig->session, now);
        return;
    case UNSENT:
        crema_session_on_unsent(rig->session, now);
        return;
    case DRAIN:
        crema_session_drain(rig->session, (int64_t)step->a * MS, now);
        return;
    case WELCOME:
    case RETRY:
        row.recv_next = 1;
        msg.type = CREMA_MSG_WELCOME;
        msg.welcome.table = body_table(step->event == WELCOME, &row);
        if (step->event == WELCOME)
            msg.welcome.credit_total_b = step->a;
        else
            msg.welcome.retry_after_ms = (uint32_t)step->a;
        break;
    case STALE_ACK:
        msg.session = SESSION + 1;
        /* fall through */
    case ACK:
    case UNPLACED:
        row.stream_id = s_stream(0);
        row.recv_next = step->event == UNPLACED ? 0 : step->a;
        row.committed = step->b;
        msg.type = CREMA_MSG_ACK;
        msg.ack.table = body_table(1, &row);
        break;
    case HB_ACK:
        msg.type = CREMA_MSG_ACK;
        msg.ack.hb_no = rig->hb_no;
        break;
    case CREDIT:
        msg.type = CREMA_MSG_ACK;
        msg.ack.credit_total_b = step->a;
        break;
    case REPLAY:
        msg.type = CREMA_MSG_REPLAY;
        msg.replay.stream_id = body_id(s_stream(0));
        msg.replay.from_seq = step->a;
        break;
    case BARRIER:
        msg.type = CREMA_MSG_BARRIER;
        msg.barrier.barrier_id = step->a;
        msg.barrier.run_id = body_id((crema_id_t){{(uint8_t)(9 + step->b)}});
        break;
    case FENCE:
        msg.type = CREMA_MSG_FENCE;
        msg.fence.reason = (crema_fence_reason_t)step->a;
        msg.fence.retry_after_ms = (uint32_t)step->b;
        break;
    }
    crema_session_on_message(rig->session, &msg, now);
}

static void
must_follow(rig_t *rig, const step_t *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char letters[32];
        int64_t now = steps[i].at_ms * MS;
        s_happen(rig, &steps[i], now);
        s_take_actions(rig, now, letters);
        crema_session_state_t state = crema_session_state(rig->session);
        if (strcmp(letters, steps[i].want) != 0 || state != steps[i].want_state)
            fail_msg("step %zu at %lld ms: \"%s\", state %d", i, (long long)steps[i].at_ms, letters,
                     (int)state);
    }
}

#define HELLO_SENT CREMA_SESSION_HELLO_SENT
#define STREAMING CREMA_SESSION_STREAMING
#define STALLED CREMA_SESSION_STALLED
#define DRAINING CREMA_SESSION_DRAINING
#define BYE_SENT CREMA_SESSION_BYE_SENT
#define BACKOFF CREMA_SESSION_BACKOFF
#define ENDED CREMA_SESSION_CLOSED

static void
must_dial_and_repeat_hello_until_it_is_welcome(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, STREAM, 5, 0, "DH", HELLO_SENT},
        {99, TICK, 0, 0, "", HELLO_SENT},
        {100, TICK, 0, 0, "H", HELLO_SENT},
        {300, TICK, 0, 0, "H", HELLO_SENT},
        {700, TICK, 0, 0, "H", HELLO_SENT},
        {1500, TICK, 0, 0, "H", HELLO_SENT},
        {3100, TICK, 0, 0, "H", HELLO_SENT},
        {5099, TICK, 0, 0, "", HELLO_SENT}, /* never more than 2 s apart */
        {5100, TICK, 0, 0, "H", HELLO_SENT},
        {5100, UNSENT, 0, 0, "", HELLO_SENT}, /* no connection: costs nobody anything */
        {5299, TICK, 0, 0, "", HELLO_SENT},
        {5300, TICK, 0, 0, "H", HELLO_SENT}, /* this one went out: two seconds again */
        {5301, TICK, 0, 0, "", HELLO_SENT},
        {5302, RETRY, 4000, 0, "", HELLO_SENT}, /* not admitted: waits as told */
        {9301, TICK, 0, 0, "", HELLO_SENT},
        {9801, TICK, 0, 0, "H", HELLO_SENT},
        {9802, STALE_ACK, 5, 4, "", HELLO_SENT},
        {9803, WELCOME, 150, 0, "dd", STALLED}, /* 150 B of credit: two records of 100 B */
        {9804, WELCOME, 9999, 0, "", STALLED},  /* the answer to a repeated HELLO */
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(crema_session_stats(rig.session).sent_records, 2);
    assert_int_equal(crema_session_stats(rig.session).welcomes, 1);
    crema_session_destroy(&rig.session);
    assert_null(rig.session);
    crema_session_destroy(&rig.session);
}

static void
must_send_within_credit_and_free_only_what_is_committed(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, STREAM, 5, 0, "DH", HELLO_SENT},
        {1, WELCOME, 300, 0, "ddd", STALLED},
        {2, ACK, 4, 0, "", STALLED}, /* received frees nothing */
        {3, ACK, 4, 2, "T", STALLED},
        {4, CREDIT, 400, 0, "d", STALLED},
        {5, CREDIT, 350, 0, "", STALLED}, /* an older number */
        {6, STALE_ACK, 6, 5, "", STALLED},
        {7, CREDIT, 9000, 0, "d", STREAMING},
        {8, ACK, 6, 5, "T", STREAMING},
        {9, ACK, 9, 8, "", STREAMING}, /* more than it holds: a power cut took them here */
        {10, STREAM, 9, 0, "Td", STREAMING},
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(rig.trimmed, 8);
    assert_int_equal(rig.first_seq, 9);
    assert_in_range(rig.max_bytes, 32 + (64 << 10), CREMA_WIRE_BATCH_MAX);
    crema_session_destroy(&rig.session);
}

static void
must_send_no_more_at_once_than_it_was_told(void **state)
{
    (void)state;
    static const struct {
        uint64_t told, want;
    } c_cases[] = {{70000, 70000},
                   {0, CREMA_WIRE_BATCH_MAX},
                   {CREMA_WIRE_BATCH_MAX + 1, CREMA_WIRE_BATCH_MAX},
                   {CREMA_WIRE_BATCH_MAX - 1, CREMA_WIRE_BATCH_MAX - 1}};
    for (size_t i = 0; i < N(c_cases); i++) {
        char letters[32];
        rig_t rig = s_rig(8);
        const step_t held = {0, STREAM, 1, 0, "DH", HELLO_SENT};
        must_follow(&rig, &held, 1);
        crema_stream_row_t row = {.stream_id = s_stream(0), .recv_next = 1};
        const crema_msg_t msg = {.type = CREMA_MSG_WELCOME,
                                 .session = SESSION,
                                 .welcome = {.credit_total_b = 1 << 30,
                                             .max_batch_b = (uint32_t)c_cases[i].told,
                                             .table = body_table(1, &row)}};
        crema_session_on_message(rig.session, &msg, MS);
        s_take_actions(&rig, MS, letters);
        assert_string_equal(letters, "d");
        assert_int_equal(rig.max_bytes, c_cases[i].want);
        crema_session_destroy(&rig.session);
    }
}

static void
must_go_back_when_it_is_asked_or_nothing_moves(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, STREAM, 3, 0, "DH", HELLO_SENT},
        {1, WELCOME, 1 << 20, 0, "ddd", STREAMING},
        {2, REPLAY, 2, 0, "dd", STREAMING},
        {3, UNPLACED, 0, 0, "", STREAMING},
        {4, STREAM, 4, 0, "", STREAMING}, /* the receiver does not know where to go on: wait */
        {5, ACK, 4, 0, "d", STREAMING},
        {900, HB_ACK, 0, 0, "", STREAMING},
        {1150, TICK, 0, 0, "B", STREAMING},
        {1151, HB_ACK, 0, 0, "", STREAMING},
        {2004, TICK, 0, 0, "", STREAMING},
        {2006, TICK, 0, 0, "d", STREAMING}, /* 2 H without a step: once more from recv_next */
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(rig.first_seq, 4);
    assert_int_equal(crema_session_stats(rig.session).rewinds, 1);
    assert_int_equal(crema_session_stats(rig.session).replays, 1);
    crema_session_destroy(&rig.session);
}

static void
must_be_content_with_fewer_heartbeats_when_nothing_is_recorded(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, TICK, 0, 0, "DH", HELLO_SENT},
        {1, WELCOME, 1 << 20, 0, "", STREAMING},
        {1001, TICK, 0, 0, "B", STREAMING},
        {1002, HB_ACK, 0, 0, "", STREAMING},
        {3250, TICK, 0, 0, "", STREAMING},
        {3752, TICK, 0, 0, "B", STREAMING}, /* 2.5 H, a tenth more or less */
        {7001, TICK, 0, 0, "B", STREAMING},
        {7002, TICK, 0, 0, "U", BACKOFF}, /* 6 H without an answer */
    };
    must_follow(&rig, steps, N(steps));
    crema_session_destroy(&rig.session);
}

static void
must_begin_anew_with_a_new_aggregator(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, STREAM, 3, 0, "DH", HELLO_SENT},
        {1, WELCOME, 1 << 20, 0, "ddd", STREAMING},
        {2, ACK, 4, 2, "T", STREAMING},
        {3, FENCE, CREMA_FENCE_UNKNOWN, 0, "H", HELLO_SENT},
        {4, FENCE, CREMA_FENCE_UNKNOWN, 0, "", HELLO_SENT}, /* for what was on its way */
        {5, ACK, 4, 3, "", HELLO_SENT},                     /* not in a session */
        {6, WELCOME, 1 << 20, 0, "ddd", STREAMING},         /* its store has nothing: from 1 */
        {4005, TICK, 0, 0, "Bddd", STREAMING}, /* a heartbeat, and all of it once more */
        {4006, TICK, 0, 0, "U", BACKOFF},      /* 4 H without a word */
        {9006, TICK, 0, 0, "DH", HELLO_SENT},
        {9007, FENCE, CREMA_FENCE_QUOTA, 3000, "U", BACKOFF},
        {12006, TICK, 0, 0, "", BACKOFF},
        {17008, TICK, 0, 0, "DH", HELLO_SENT},
        {17009, FENCE, CREMA_FENCE_CLONE, 0, "U", ENDED},
        {99999, TICK, 0, 0, "", ENDED},
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(rig.first_seq, 3);
    assert_int_equal(crema_session_end(rig.session), CREMA_SESSION_END_REFUSED);
    crema_session_destroy(&rig.session);
}

static void
must_answer_a_barrier_with_the_whole_spool(void **state)
{
    (void)state;
    rig_t rig = s_rig(2);
    const step_t steps[] = {
        {0, STREAM, 1, 0, "DH", HELLO_SENT}, {1, WELCOME, 1 << 20, 0, "d", STREAMING},
        {2, BARRIER, 6, 0, "ES", STREAMING}, {3, STREAM, 4, 1, "", STREAMING},
        {4, BARRIER, 7, 0, "ES", STREAMING}, {5, SCANNED, 0, 0, "B", STREAMING},
        {6, SCANNED, 0, 0, "", STREAMING}, /* a scan that nobody asked for */
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(rig.barrier_seen, 7);
    assert_int_equal(rig.rows, 2);
    assert_true(crema_id_equal(&rig.ended[0], &s_run));

    /* A stream that finds no room makes the table less than the spool: no answer until it fits. */
    const step_t again[] = {{10, BARRIER, 8, 0, "ES", STREAMING}};
    must_follow(&rig, again, N(again));
    s_held(2)->hi = 1;
    assert_int_equal(crema_session_on_stream(rig.session, s_held(2), 11 * MS), CREMA_ELIMIT);
    const step_t rest[] = {
        {12, SCANNED, 0, 0, "", STREAMING},
        {13, GONE, 0, 1, "", STREAMING},
        {100, TICK, 0, 0, "S", STREAMING},
        {101, STREAM, 1, 2, "B", STREAMING}, /* news of a stream */
        {102, SCANNED, 0, 0, "B", STREAMING},
    };
    must_follow(&rig, rest, N(rest));
    assert_int_equal(rig.barrier_seen, 8);
    crema_session_destroy(&rig.session);
}

/* Messages that come in one turn of the loop are all taken before the session is asked what to
 * do. */
static void
must_end_every_run_whose_barrier_came_in_one_turn(void **state)
{
    (void)state;
    rig_t rig = s_rig(2);
    const step_t begin[] = {{0, STREAM, 1, 0, "DH", HELLO_SENT},
                            {1, WELCOME, 1 << 20, 0, "d", STREAMING}};
    must_follow(&rig, begin, N(begin));
    for (uint64_t run = 0; run < 3; run++) {
        const step_t barrier = {2, BARRIER, 6 + run, run, "", STREAMING};
        s_happen(&rig, &barrier, 2 * MS);
    }
    const step_t rest[] = {
        {2, BARRIER, 6, 0, "EEES", STREAMING}, /* the first of them again */
        {3, SCANNED, 0, 0, "B", STREAMING},
    };
    must_follow(&rig, rest, N(rest));
    assert_int_equal(rig.barrier_seen, 8);
    assert_int_equal(rig.n_ended, 3);
    unsigned runs = 0;
    for (size_t i = 0; i < rig.n_ended; i++)
        runs |= 1u << (rig.ended[i].bytes[0] - 9);
    assert_int_equal(runs, 7);
    crema_session_destroy(&rig.session);
}

/* More runs than there is room for: what is not noted is not answered either, and asked again. */
static void
must_answer_no_barrier_whose_run_it_could_not_note(void **state)
{
    (void)state;
    rig_t rig = s_rig(2);
    const step_t begin[] = {{0, STREAM, 1, 0, "DH", HELLO_SENT},
                            {1, WELCOME, 1 << 20, 0, "d", STREAMING}};
    must_follow(&rig, begin, N(begin));
    for (uint64_t run = 0; run <= CREMA_SESSION_ENDS_MAX; run++) {
        const step_t barrier = {2, BARRIER, 1 + run, run, "", STREAMING};
        s_happen(&rig, &barrier, 2 * MS);
    }
    crema_session_action_t action;
    size_t ends = 0;
    while (crema_session_next(rig.session, 2 * MS, 2 * MS, &action))
        ends += action.type == CREMA_SESSION_END_RUN;
    assert_int_equal(ends, CREMA_SESSION_ENDS_MAX);
    const step_t scanned[] = {{3, SCANNED, 0, 0, "B", STREAMING}};
    must_follow(&rig, scanned, N(scanned));
    assert_int_equal(rig.barrier_seen, CREMA_SESSION_ENDS_MAX);
    crema_session_destroy(&rig.session);
}

/* The time to dial and the deadline to leave come in the same tick. */
static void
must_stay_closed_once_it_is_closed(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, STREAM, 2, 0, "DH", HELLO_SENT}, {1, FENCE, CREMA_FENCE_SUPERSEDED, 100, "U", BACKOFF},
        {2, DRAIN, 5000, 0, "S", BACKOFF},   {3, SCANNED, 0, 0, "", BACKOFF},
        {5000, TICK, 0, 0, "U", ENDED},      {6000, TICK, 0, 0, "", ENDED},
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(crema_session_end(rig.session), CREMA_SESSION_END_DEADLINE);
    crema_session_destroy(&rig.session);
}

/* It is told at once, and again when it has gone; nobody leaves as if everything were delivered. */
static void
must_tell_what_could_not_be_read(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const Crema__Reason row = crema_reason(CREMA_FAULT_FILE, "sp-x", "Permission denied", 0);
    const step_t begin[] = {{0, CLOSED, 1, 0, "DH", HELLO_SENT},
                            {1, WELCOME, 1 << 20, 0, "d", STREAMING},
                            {2, ACK, 2, 1, "T", STREAMING},
                            {3, GONE, 0, 0, "", STREAMING},
                            {30, TICK, 0, 0, "", STREAMING}};
    must_follow(&rig, begin, N(begin));
    crema_session_on_faults(rig.session, 1, &row);
    const step_t told[] = {{31, TICK, 0, 0, "B", STREAMING}};
    must_follow(&rig, told, N(told));
    assert_int_equal(rig.faults, 1);
    crema_session_on_faults(rig.session, 1, &row);
    const step_t leave[] = {{60, TICK, 0, 0, "", STREAMING}, /* the same is no news */
                            {61, DRAIN, 900, 0, "S", DRAINING},
                            {62, SCANNED, 0, 0, "", DRAINING},
                            {900, TICK, 0, 0, "Y", BYE_SENT},
                            {901, ACK, 2, 1, "U", ENDED}};
    must_follow(&rig, leave, N(leave));
    assert_int_equal(rig.faults, 1);
    assert_int_equal(rig.bye_reason, 1);
    assert_int_equal(crema_session_end(rig.session), CREMA_SESSION_END_DEADLINE);
    crema_session_destroy(&rig.session);
}

static void
must_leave_when_everything_is_committed(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, CLOSED, 2, 0, "DH", HELLO_SENT}, {1, WELCOME, 1 << 20, 0, "dd", STREAMING},
        {2, DRAIN, 30000, 0, "S", DRAINING}, {3, SCANNED, 0, 0, "", DRAINING},
        {4, ACK, 3, 1, "T", DRAINING},       {5, ACK, 3, 2, "YT", BYE_SENT},
        {6, ACK, 3, 2, "U", ENDED},
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(crema_session_end(rig.session), CREMA_SESSION_END_DRAINED);
    assert_int_equal(rig.bye_reason, 0);
    crema_session_destroy(&rig.session);
}

static void
must_leave_at_the_deadline_and_say_so(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, STREAM, 2, 0, "DH", HELLO_SENT}, {1, WELCOME, 1 << 20, 0, "dd", STREAMING},
        {2, DRAIN, 300, 0, "S", DRAINING},   {3, SCANNED, 0, 0, "", DRAINING},
        {299, TICK, 0, 0, "", DRAINING},     {300, TICK, 0, 0, "Y", BYE_SENT},
        {799, TICK, 0, 0, "", BYE_SENT},     {800, TICK, 0, 0, "U", ENDED},
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(crema_session_end(rig.session), CREMA_SESSION_END_DEADLINE);
    assert_int_equal(rig.bye_reason, 1);
    crema_session_destroy(&rig.session);
}

static void
must_be_dismissed_only_with_nothing_left(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, STREAM, 1, 0, "DH", HELLO_SENT},
        {1, WELCOME, 1 << 20, 0, "d", STREAMING},
        {2, ACK, 2, 1, "T", STREAMING},
        {3, FENCE, CREMA_FENCE_DISMISSED, 0, "", STREAMING}, /* a writer still records */
        {4, CLOSED, 2, 0, "d", STREAMING},
        {5, FENCE, CREMA_FENCE_DISMISSED, 0, "S", DRAINING},
        {6, SCANNED, 0, 0, "", DRAINING},
        {7, ACK, 3, 2, "YT", BYE_SENT},
        {8, ACK, 3, 2, "U", ENDED},
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(crema_session_end(rig.session), CREMA_SESSION_END_DISMISSED);
    crema_session_destroy(&rig.session);
}

static void
must_leave_quietly_when_nobody_is_there(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, DRAIN, 60000, 0, "DHS", HELLO_SENT}, {1, SCANNED, 0, 0, "", HELLO_SENT},
        {100, TICK, 0, 0, "H", HELLO_SENT},      {300, TICK, 0, 0, "H", HELLO_SENT},
        {700, TICK, 0, 0, "H", HELLO_SENT},      {1500, TICK, 0, 0, "H", HELLO_SENT},
        {1600, TICK, 0, 0, "U", ENDED},
    };
    must_follow(&rig, steps, N(steps));
    assert_int_equal(crema_session_end(rig.session), CREMA_SESSION_END_DRAINED);
    crema_session_destroy(&rig.session);
}

/* Bytes that were lost within a session would hold back credit for ever; a new HELLO makes both
 * sides count anew. */
static void
must_say_hello_again_when_it_starves(void **state)
{
    (void)state;
    rig_t rig = s_rig(8);
    const step_t steps[] = {
        {0, STREAM, 9, 0, "DH", HELLO_SENT},
        {1, WELCOME, 100, 0, "d", STALLED},
    };
    must_follow(&rig, steps, N(steps));
    int64_t now = 100;
    for (; now < 9900; now += 100) {
        const step_t tick = {now, TICK, 0, 0, "", STALLED}, ack = {now, HB_ACK, 0, 0, "", STALLED};
        char letters[32];
        s_happen(&rig, &tick, now * MS);
        s_take_actions(&rig, now * MS, letters);
        assert_null(strchr(letters, 'H'));
        s_happen(&rig, &ack, now * MS);
    }
    const step_t hungry[] = {{10101, TICK, 0, 0, "H", HELLO_SENT}};
    must_follow(&rig, hungry, 1);
    crema_session_destroy(&rig.session);
}

/* 9,000 streams make three parts; a stream that goes between two of them makes the table begin
 * anew. */
static void
must_number_the_parts_of_a_long_table(void **state)
{
    (void)state;
    enum { STREAMS = 9000 };
    rig_t rig = s_rig(STREAMS);
    for (uint64_t i = 0; i < STREAMS; i++) {
        s_held(i)->hi = 1;
        must(crema_session_on_stream(rig.session, s_held(i), 0));
    }
    crema_session_action_t action;
    assert_true(crema_session_next(rig.session, 0, 0, &action));
    assert_int_equal(action.type, CREMA_SESSION_DIAL);
    assert_true(crema_session_next(rig.session, 0, 0, &action));
    assert_int_equal(crema_stream_table_rows(action.msg->hello.table), CREMA_WIRE_TABLE_ROWS_SENT);
    assert_int_equal(action.msg->flags, CREMA_WIRE_FLAG_MORE);
    crema_session_on_stream_gone(rig.session, s_held(0));
    char letters[32];
    s_take_actions(&rig, 0, letters);
    assert_string_equal(letters, "HHH");
    assert_int_equal(rig.rows, STREAMS - 1);
    assert_int_equal(rig.last_flags, 2 << CREMA_WIRE_PART_SHIFT);
    crema_session_destroy(&rig.session);
}

static void
must_refuse_a_bad_configuration(void **state)
{
    (void)state;
    crema_session_t *session = NULL;
    crema_session_config_t config = {.heartbeat_ns = 199 * MS, .streams_max = 1};
    assert_int_equal(crema_session_new(&config, 0, &session), CREMA_EINVAL);
    config.heartbeat_ns = 60001 * MS;
    assert_int_equal(crema_session_new(&config, 0, &session), CREMA_EINVAL);
    config = (crema_session_config_t){.heartbeat_ns = 1000 * MS, .streams_max = 0};
    assert_int_equal(crema_session_new(&config, 0, &session), CREMA_EINVAL);
    assert_null(session);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_dial_and_repeat_hello_until_it_is_welcome),
        cmocka_unit_test(must_send_within_credit_and_free_only_what_is_committed),
        cmocka_unit_test(must_send_no_more_at_once_than_it_was_told),
        cmocka_unit_test(must_go_back_when_it_is_asked_or_nothing_moves),
        cmocka_unit_test(must_be_content_with_fewer_heartbeats_when_nothing_is_recorded),
        cmocka_unit_test(must_begin_anew_with_a_new_aggregator),
        cmocka_unit_test(must_answer_a_barrier_with_the_whole_spool),
        cmocka_unit_test(must_end_every_run_whose_barrier_came_in_one_turn),
        cmocka_unit_test(must_answer_no_barrier_whose_run_it_could_not_note),
        cmocka_unit_test(must_stay_closed_once_it_is_closed),
        cmocka_unit_test(must_tell_what_could_not_be_read),
        cmocka_unit_test(must_leave_when_everything_is_committed),
        cmocka_unit_test(must_leave_at_the_deadline_and_say_so),
        cmocka_unit_test(must_be_dismissed_only_with_nothing_left),
        cmocka_unit_test(must_leave_quietly_when_nobody_is_there),
        cmocka_unit_test(must_say_hello_again_when_it_starves),
        cmocka_unit_test(must_number_the_parts_of_a_long_table),
        cmocka_unit_test(must_refuse_a_bad_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
