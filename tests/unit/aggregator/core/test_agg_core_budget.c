/* What one key can make the aggregator keep: at its share it is refused, and no other key
 * notices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agg_core.h"
#include "agg_rollup.h"
#include "crema_frame.h"
#include "message_parts.h"
#include "must.h"
#include "record_frames.h"

#define S 1000000000ll
#define BOOT 7u
#define FLOOD 1 /* keys */
#define OTHER 2
#define AGENTS_MAX 16
#define STREAMS_MAX 64
#define RUNS_MAX 16

static agg_core_t *s_core;
static int64_t s_now;
static crema_msg_type_t s_answer; /* to the last message of a peer */
static uint32_t s_retry_ms;
static bool s_welcomed;
static Crema__RunState s_state;
static bool s_stream_refused;
static bool s_part_refused;
static unsigned s_puts;

static void
s_act(void)
{
    agg_action_t action;
    while (agg_core_next(s_core, s_now, &action)) {
        s_stream_refused |= action.type == AGG_EVENT && action.event == AGG_EVENT_STREAM_REFUSED;
        s_puts += action.type == AGG_TO_SINK && action.msg->type == CREMA_MSG_PUT;
        if (action.type == AGG_TO_SINK && action.msg->type == CREMA_MSG_RUN_SEAL)
            for (size_t i = 0; i < action.msg->run_seal.n_reasons; i++)
                s_part_refused |= strstr(action.msg->run_seal.reasons[i]->text,
                                         "of the list of writers was refused") != NULL;
        if (action.type != AGG_TO_PEER)
            continue;
        s_answer = action.msg->type;
        if (s_answer == CREMA_MSG_WELCOME)
            s_retry_ms = action.msg->welcome.retry_after_ms;
        s_welcomed |= s_answer == CREMA_MSG_WELCOME && s_retry_ms == 0;
        if (s_answer == CREMA_MSG_RUN_STATE)
            s_state = action.msg->run_state;
    }
}

static int
s_setup(void **state)
{
    (void)state;
    const agg_config_t config = {.session = 42,
                                 .credit_pool_b = 1 << 20,
                                 .sink_silence_ns = 2 * S,
                                 .barrier_retries = 5,
                                 .barrier_cap_ns = 30 * S,
                                 .abandon_after_ns = 3600 * S,
                                 .owner_runs_max = 2,
                                 .owner_bytes_max = 1 << 30,
                                 .agents_max = AGENTS_MAX,
                                 .streams_max = STREAMS_MAX,
                                 .runs_max = RUNS_MAX};
    must(agg_core_new(&config, &s_core));
    s_now = 100 * S;
    s_stream_refused = false;
    s_puts = 0;
    agg_core_on_sink(s_core, &(crema_msg_t){.type = CREMA_MSG_STATE, .session = BOOT}, s_now,
                     s_now);
    s_act();
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    agg_core_destroy(&s_core);
    return 0;
}

static void
s_pass(int64_t ns)
{
    for (int64_t end = s_now + ns; s_now < end; s_now += S / 10) {
        const crema_msg_t msg = {.type = CREMA_MSG_COMMITTED, .session = BOOT};
        agg_core_on_sink(s_core, &msg, s_now, s_now); /* it is well */
        agg_core_on_tick(s_core, s_now, s_now);
        s_act();
    }
}

static void
s_say(agg_peer_t peer, crema_principal_t from, crema_msg_t msg)
{
    s_answer = 0;
    agg_core_on_peer(s_core, peer, &from, &msg, s_now, s_now);
    s_act();
}

static crema_id_t
s_run_of(uint8_t key, uint8_t n)
{
    return (crema_id_t){{0xee, key, n}};
}

static void
s_client(uint8_t key, crema_msg_type_t type, uint8_t n)
{
    crema_msg_t msg = {.type = type, .run_id = body_id(s_run_of(key, n))};
    if (type == CREMA_MSG_RUN_END)
        msg.run_end.writer_parts = 1;
    s_say(100 + key, (crema_principal_t){.as = CREMA_AS_CLIENT, .key = {{key}}}, msg);
}

/* An agent whose key the run has lent, or an operator's with that key if `bound` is NULL. */
static crema_principal_t
s_principal(uint8_t key, const crema_id_t *bound)
{
    crema_principal_t from = {.as = CREMA_AS_AGENT, .key = {{key, bound ? 0xa : 0}}};
    if (bound)
        from.run_id = *bound;
    return from;
}

/* HELLO of agent `n` with some streams of that run. */
static bool
s_is_welcome(uint8_t key, const crema_id_t *bound, uint8_t n, crema_id_t run_id, uint8_t streams)
{
    crema_stream_row_t rows[STREAMS_MAX + 1];
    for (uint8_t i = 0; i < streams; i++)
        rows[i] = (crema_stream_row_t){.stream_id = {{key, n, i, 0x55}}, .run_id = run_id, .hi = 1};
    crema_msg_t msg = {.type = CREMA_MSG_HELLO};
    msg.hello = (Crema__Hello){.ver_min = CREMA_WIRE_VERSION_MIN,
                               .ver_max = CREMA_WIRE_VERSION,
                               .agent_id = body_id((crema_id_t){{0xa9, key, n}}),
                               .boot = 1,
                               .host = "node",
                               .hb_ivl_ms = 1000,
                               .table = body_table(streams, rows)};
    s_retry_ms = 0;
    s_welcomed = false;
    s_say((agg_peer_t)(1000 * key + n), s_principal(key, bound), msg);
    return s_welcomed;
}

/* ---------------------------------------------------------------- agents */

/* Agents with the keys that a run lent count for the key that opened it. */
static void
must_leave_places_to_agents_of_other_keys(void **state)
{
    (void)state;
    const crema_id_t run_id = s_run_of(FLOOD, 0);
    unsigned welcome = 0;
    s_client(FLOOD, CREMA_MSG_RUN_OPEN, 0);
    for (uint8_t n = 0; n < 2 * AGENTS_MAX; n++)
        welcome += s_is_welcome(FLOOD, &run_id, n, run_id, 0);
    assert_int_equal(welcome, AGENTS_MAX - AGENTS_MAX / 4);
    assert_true(s_retry_ms > 0);
    for (uint8_t n = 0; n < AGENTS_MAX / 4; n++)
        assert_true(s_is_welcome(OTHER, NULL, n, s_run_of(OTHER, 0), 0));
}

static void
must_forget_agents_that_are_lost_for_those_that_come(void **state)
{
    (void)state;
    const crema_id_t run_id = s_run_of(FLOOD, 0);
    s_client(FLOOD, CREMA_MSG_RUN_OPEN, 0);
    for (uint8_t n = 0; n < 200; n++) { /* one after another, each killed */
        assert_true(s_is_welcome(FLOOD, &run_id, n, run_id, 0));
        s_pass(4 * S);
    }
    assert_true(agg_core_stats(s_core).agents_lost > 0);
}

/* What is reserved for a session is free when its agent is LOST, not a day later. */
static void
must_end_a_session_when_its_agent_is_lost(void **state)
{
    (void)state;
    for (uint8_t n = 0; n < 8; n++)
        assert_true(s_is_welcome(FLOOD, NULL, n, s_run_of(FLOOD, 0), 0));
    uint64_t granted_b = agg_core_stats(s_core).credit_granted_b;
    s_pass(31 * S);
    assert_int_equal(agg_core_stats(s_core).agents_lost, 8);
    assert_true(granted_b > 0);
    assert_int_equal(agg_core_stats(s_core).credit_granted_b, 0);
    s_say(1000 * FLOOD, s_principal(FLOOD, NULL),
          (crema_msg_t){.type = CREMA_MSG_HEARTBEAT, .session = 42});
    assert_int_equal(s_answer, CREMA_MSG_FENCE); /* it begins another one */
    assert_true(s_is_welcome(FLOOD, NULL, 0, s_run_of(FLOOD, 0), 0));
    assert_int_equal(agg_core_stats(s_core).agents_live, 1);
}

/* ---------------------------------------------------------------- streams and runs */

static void
must_leave_streams_to_other_keys(void **state)
{
    (void)state;
    for (int is_lent = 0; is_lent < 2; is_lent++) {
        const crema_id_t run_id = s_run_of(FLOOD, 0);
        s_client(FLOOD, CREMA_MSG_RUN_OPEN, 0);
        (void)s_is_welcome(FLOOD, is_lent ? &run_id : NULL, 0, run_id, STREAMS_MAX);
        assert_int_equal(agg_core_stats(s_core).streams, STREAMS_MAX / 4);
        (void)s_is_welcome(OTHER, NULL, 0, s_run_of(OTHER, 0), STREAMS_MAX / 4);
        assert_int_equal(agg_core_stats(s_core).streams, STREAMS_MAX / 2);
        s_teardown(NULL);
        s_setup(NULL);
    }
}

/* Streams count for the owner of their run, whoever's agent brings them. */
static void
must_count_streams_for_the_owner_of_the_run(void **state)
{
    (void)state;
    s_client(FLOOD, CREMA_MSG_RUN_OPEN, 0);
    s_client(OTHER, CREMA_MSG_RUN_OPEN, 0);
    (void)s_is_welcome(9, NULL, 0, s_run_of(FLOOD, 0), STREAMS_MAX);
    (void)s_is_welcome(9, NULL, 1, s_run_of(OTHER, 0), STREAMS_MAX);
    assert_int_equal(agg_core_stats(s_core).streams, STREAMS_MAX / 2);
}

/* Runs that only spools name, as many as a user likes, leave room for those that clients open. */
static void
must_leave_runs_to_clients(void **state)
{
    (void)state;
    for (uint8_t n = 0; n < 2 * RUNS_MAX; n++)
        (void)s_is_welcome(9, NULL, n % 8, s_run_of(9, n), 1);
    s_client(OTHER, CREMA_MSG_RUN_OPEN, 0);
    assert_int_equal(s_state.phase, CREMA_RUN_OPEN);
}

/* ---------------------------------------------------------------- lists and texts */

static void
must_bound_what_lists_of_writers_take(void **state)
{
    (void)state;
    enum { PARTS = 200, WRITERS = 8000 };
    Crema__Writer *writers = calloc(WRITERS, sizeof *writers);
    assert_non_null(writers);
    for (size_t i = 0; i < WRITERS; i++)
        writers[i] = (Crema__Writer){.name = "", .uuid = "", .text = ""};
    s_client(FLOOD, CREMA_MSG_RUN_OPEN, 0);
    uint64_t bytes = 0, refused = agg_core_stats(s_core).refused;
    for (uint32_t part = 0; part < PARTS && agg_core_stats(s_core).refused == refused; part++) {
        crema_msg_t msg = {.type = CREMA_MSG_RUN_WRITERS,
                           .run_writers = {.run_id = body_id(s_run_of(FLOOD, 0)),
                                           .part = part,
                                           .parts = PARTS,
                                           .n_writers = WRITERS,
                                           .writers = body_writers(WRITERS, writers)}};
        crema_msg_t *copy;
        must(crema_msg_copy(&msg, &copy));
        bytes += crema_msg_bytes(copy);
        crema_msg_destroy(&copy);
        s_say(100 + FLOOD, (crema_principal_t){.as = CREMA_AS_CLIENT, .key = {{FLOOD}}}, msg);
    }
    free(writers);
    assert_true(agg_core_stats(s_core).refused > refused);
    assert_in_range(bytes, (64 << 20) - (4 << 20), (64 << 20) + (4 << 20));
    s_say(100 + FLOOD, (crema_principal_t){.as = CREMA_AS_CLIENT, .key = {{FLOOD}}},
          (crema_msg_t){.type = CREMA_MSG_RUN_END,
                        .run_end = {.run_id = body_id(s_run_of(FLOOD, 0)), .writer_parts = PARTS}});
    s_part_refused = false;
    s_pass(200 * S);
    assert_true(s_part_refused); /* by name, in the verdict that the sink gets */
    s_client(OTHER, CREMA_MSG_RUN_OPEN, 0);
    assert_int_equal(s_state.phase, CREMA_RUN_OPEN);
    assert_int_equal(s_state.refusal, CREMA_REFUSED_NOT);
}

/* ---------------------------------------------------------------- names */

/* The only stream of that run says names that nobody said before, up to so many bytes. */
static void
s_say_names(uint8_t key, uint8_t run, size_t bytes)
{
    enum { NAMES = 64 };
    static frames_t frames;
    static char texts[NAMES][CREMA_NAME_MAX + 1];
    static Crema__DictEntry entries[NAMES];
    static uint32_t said;
    static uint64_t seq;
    const crema_id_t run_id = s_run_of(key, run), stream_id = {{key, run, 0, 0x55}};
    s_client(key, CREMA_MSG_RUN_OPEN, run);
    assert_true(s_is_welcome(key, &run_id, run, run_id, 1));
    crema_stream_row_t row = {.stream_id = stream_id, .run_id = run_id};
    crema_msg_t msg = {.type = CREMA_MSG_STATE, .session = BOOT};
    msg.state.table = body_table(1, &row);
    agg_core_on_sink(s_core, &msg, s_now, s_now);
    s_act();
    seq = 0;
    for (size_t sent = 0; sent < bytes; sent += frames.size) {
        for (uint32_t i = 0; i < NAMES; i++) {
            memset(texts[i], 'x', CREMA_NAME_MAX);
            texts[i][snprintf(texts[i], 16, "%u", ++said)] = 'x';
            entries[i] = (Crema__DictEntry){.kind = CREMA_DICT_ACTIVITY,
                                            .id = 4095 - (uint32_t)(seq % 64) * NAMES - i,
                                            .text = texts[i],
                                            .uuid = "",
                                            .host = ""};
        }
        crema_record_t dict = {
            .type = CREMA_RECORD_DICT,
            .dict = {.n_entries = NAMES, .entries = body_entries(NAMES, entries)}};
        frames_clear(&frames);
        frames_add(&frames, &dict, ++seq);
        msg = (crema_msg_t){.type = CREMA_MSG_DATA, .session = 42};
        msg.data = (Crema__Data){.stream_id = body_id(stream_id),
                                 .run_id = crema_id_field(&run_id),
                                 .first_seq = seq,
                                 .hi = seq,
                                 .n = 1,
                                 .frames = {frames.size, frames.bytes}};
        s_say((agg_peer_t)(1000 * key + run), s_principal(key, &run_id), msg);
        row.committed = seq; /* the sink keeps up: there is credit */
        msg = (crema_msg_t){.type = CREMA_MSG_COMMITTED, .session = BOOT};
        msg.committed.table = body_table(1, &row);
        agg_core_on_sink(s_core, &msg, s_now, s_now);
        s_act();
    }
}

static uint64_t
s_learned_b(uint8_t key, uint8_t run)
{
    const crema_id_t run_id = s_run_of(key, run);
    const agg_rollup_t *rollup = agg_core_split(s_core, &run_id);
    return rollup ? agg_rollup_stats(rollup).bytes : 0;
}

/* What live splits keep counts for the key of the run, for all of its runs together. A split that
 * lacks something gives no sums. */
static void
must_bound_what_live_splits_keep(void **state)
{
    (void)state;
    const size_t most = 64 << 20;
    s_say_names(FLOOD, 0, most / 2);
    assert_true(s_learned_b(FLOOD, 0) > most / 4);
    s_client(FLOOD, CREMA_MSG_RUN_QUERY, 0);
    assert_false(isnan(s_state.processor_s));
    s_say_names(FLOOD, 1, 2 * most / 3);
    assert_in_range(s_learned_b(FLOOD, 0) + s_learned_b(FLOOD, 1), most - (1 << 20), most);
    assert_true(agg_core_stats(s_core).split_left > 0);
    s_client(FLOOD, CREMA_MSG_RUN_QUERY, 1);
    assert_true(isnan(s_state.processor_s) && isnan(s_state.overhead_s));
    s_say_names(OTHER, 0, 1 << 20);
    assert_true(s_learned_b(OTHER, 0) > 1 << 19);
    s_client(OTHER, CREMA_MSG_RUN_QUERY, 0);
    assert_false(isnan(s_state.processor_s));
}

/* ---------------------------------------------------------------- after the verdict */

static void
s_sealed(const char *verdict)
{
    const crema_msg_t msg = {.type = CREMA_MSG_SEALED,
                             .session = BOOT,
                             .sealed = {.run_id = body_id(s_run_of(FLOOD, 0)),
                                        .path = "/x.h5",
                                        .verdict = (char *)verdict,
                                        .error = "",
                                        .revision = 1}};
    agg_core_on_sink(s_core, &msg, s_now, s_now);
    s_act();
}

static void
s_data(uint8_t stream, const crema_id_t *bound)
{
    static uint8_t frame[CREMA_FRAME_HEADER_BYTES];
    crema_frame_encode(&(crema_frame_t){.seq = 1, .type = CREMA_RECORD_BATCH}, frame);
    const crema_id_t stream_id = {{FLOOD, 0, stream, 0x55}};
    crema_stream_row_t row = {.stream_id = stream_id, .run_id = *bound};
    crema_msg_t msg = {.type = CREMA_MSG_STATE, .session = BOOT};
    msg.state.table = body_table(1, &row); /* the sink has nothing of it */
    agg_core_on_sink(s_core, &msg, s_now, s_now);
    s_act();
    msg = (crema_msg_t){.type = CREMA_MSG_DATA, .session = 42};
    msg.data = (Crema__Data){.stream_id = body_id(stream_id),
                             .run_id = crema_id_field(bound),
                             .first_seq = 1,
                             .hi = 1,
                             .n = 1,
                             .frames = {sizeof frame, frame}};
    s_puts = 0;
    s_say(1000 * FLOOD, s_principal(FLOOD, bound), msg);
}

/* A key that a run lent brings what the run still lacks, and nothing else once it is whole. */
static void
must_take_from_a_lent_key_only_what_a_finished_run_lacks(void **state)
{
    (void)state;
    const crema_id_t run_id = s_run_of(FLOOD, 0);
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        s_client(FLOOD, CREMA_MSG_RUN_OPEN, 0);
        assert_true(s_is_welcome(FLOOD, &run_id, 0, run_id, is_whole ? 0 : 1));
        Crema__Writer writer = {.stream_id = body_id((crema_id_t){{FLOOD, 0, 0, 0x55}}),
                                .last = 1,
                                .state = CREMA_WRITER_ENDED,
                                .name = "w",
                                .uuid = "",
                                .text = ""};
        s_say(100 + FLOOD, (crema_principal_t){.as = CREMA_AS_CLIENT, .key = {{FLOOD}}},
              (crema_msg_t){.type = CREMA_MSG_RUN_WRITERS,
                            .run_writers = {.run_id = body_id(run_id),
                                            .parts = 1,
                                            .n_writers = 1,
                                            .writers = body_writers(1, &writer)}});
        const crema_msg_t listed = {.type = CREMA_MSG_RUN_LISTED,
                                    .session = BOOT,
                                    .run_listed = {.run_id = body_id(run_id), .parts = 1}};
        agg_core_on_sink(s_core, &listed, s_now, s_now);
        crema_stream_row_t row = {.stream_id = {{FLOOD, 0, 0, 0x55}},
                                  .run_id = run_id,
                                  .committed = is_whole,
                                  .flags = is_whole ? CREMA_STREAM_FLAG_CLOSED : 0};
        crema_msg_t msg = {.type = CREMA_MSG_STATE, .session = BOOT};
        msg.state.table = body_table(1, &row);
        agg_core_on_sink(s_core, &msg, s_now, s_now);
        s_act();
        s_client(FLOOD, CREMA_MSG_RUN_END, 0);
        if (is_whole) {
            crema_msg_t answer = {.type = CREMA_MSG_HEARTBEAT, .session = 42};
            answer.heartbeat.barrier_seen = 1;
            s_say(1000 * FLOOD, s_principal(FLOOD, &run_id), answer);
        }
        s_pass(200 * S);
        s_sealed(is_whole ? "COMPLETE" : "PARTIAL");
        assert_true(s_is_welcome(FLOOD, &run_id, 0, run_id, 2));
        s_stream_refused = false;
        s_data(is_whole ? 1 : 0, &run_id);
        assert_int_equal(s_stream_refused, is_whole);
        assert_int_equal(s_puts, is_whole ? 0 : 1);
        s_teardown(NULL);
        s_setup(NULL);
    }
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(must_leave_places_to_agents_of_other_keys),
        T(must_forget_agents_that_are_lost_for_those_that_come),
        T(must_end_a_session_when_its_agent_is_lost),
        T(must_leave_streams_to_other_keys),
        T(must_count_streams_for_the_owner_of_the_run),
        T(must_leave_runs_to_clients),
        T(must_bound_what_lists_of_writers_take),
        T(must_bound_what_live_splits_keep),
        T(must_take_from_a_lent_key_only_what_a_finished_run_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
