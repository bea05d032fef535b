/* agg_core: what a message costs follows what it concerns, not how many runs or agents the
 * aggregator has. */
#include <stdlib.h>

#include "agg_core.h"
#include "instruction_count.h"
#include "message_parts.h"
#include "must.h"

#define S 1000000000ll
#define BOOT 7u
#define SESSION 42u
#define OWNER 1
#define OTHER 2
#define AGENT 9
#define FEW 9
#define MANY 999 /* both are multiples of the kinds of runs */

static agg_core_t *s_core;
static int64_t s_now;
static uint64_t s_seals;
static const crema_id_t s_run = {{0xee}};

/* ---- verbs */

static void
s_act(void)
{
    agg_action_t action;
    while (agg_core_next(s_core, s_now, &action))
        s_seals += action.type == AGG_TO_SINK && action.msg->type == CREMA_MSG_RUN_SEAL;
}

static void
s_sink(crema_msg_t msg)
{
    msg.session = BOOT;
    agg_core_on_sink(s_core, &msg, s_now, s_now);
    s_act();
}

static void
s_say(crema_as_t as, uint8_t key, crema_msg_t msg)
{
    const crema_principal_t from = {.as = as, .key = {{key}}};
    msg.session = as == CREMA_AS_AGENT ? SESSION : 0;
    agg_core_on_peer(s_core, key, &from, &msg, s_now, s_now);
    s_act();
}

static void
s_client_says(uint8_t key, crema_msg_type_t type, crema_id_t run_id)
{
    s_say(CREMA_AS_CLIENT, key, (crema_msg_t){.type = type, .run_id = body_id(run_id)});
}

static void
s_list_writers_of(crema_id_t run_id)
{
    Crema__Writer writers[4];
    for (uint8_t i = 0; i < 4; i++)
        writers[i] = (Crema__Writer){.stream_id = body_id((crema_id_t){{0xaa, i, run_id.bytes[0]}}),
                                     .last = 5,
                                     .state = CREMA_WRITER_ENDED,
                                     .name = "w",
                                     .uuid = "",
                                     .text = ""};
    s_say(CREMA_AS_CLIENT, OTHER,
          (crema_msg_t){.type = CREMA_MSG_RUN_WRITERS,
                        .run_writers = {.run_id = body_id(run_id),
                                        .parts = 1,
                                        .n_writers = 4,
                                        .writers = body_writers(4, writers)}});
}

static void
s_list_writers(void)
{
    s_list_writers_of(s_run);
}

static void
s_hello_of(uint8_t agent, crema_id_t serves, size_t n_rows)
{
    crema_stream_row_t row = {.stream_id = {{0xcc}}, .run_id = s_run, .hi = 1};
    s_say(CREMA_AS_AGENT, agent,
          (crema_msg_t){.type = CREMA_MSG_HELLO,
                        .hello = {.ver_min = CREMA_WIRE_VERSION_MIN,
                                  .ver_max = CREMA_WIRE_VERSION,
                                  .agent_id = body_id((crema_id_t){{agent}}),
                                  .run_id = body_id(serves),
                                  .boot = 1,
                                  .host = "node",
                                  .hb_ivl_ms = 1000,
                                  .table = body_table(n_rows, &row)}});
}

static void
s_hello(void)
{
    s_hello_of(AGENT, (crema_id_t){{0}}, 1);
}

static void
s_end_run(void)
{
    s_client_says(OTHER, CREMA_MSG_RUN_END, s_run);
}

static void
s_heartbeat(void)
{
    static uint64_t s_no;
    crema_stream_row_t row = {.stream_id = {{0xcc}}, .run_id = s_run, .hi = 1};
    s_say(CREMA_AS_AGENT, AGENT,
          (crema_msg_t){.type = CREMA_MSG_HEARTBEAT,
                        .heartbeat = {.hb_no = ++s_no,
                                      .hb_ivl_ms = 1000,
                                      .barrier_seen = UINT64_MAX,
                                      .table = body_table(1, &row)}});
}

/* The agent answers whatever it is asked. */
static void
s_pass(int seconds)
{
    for (int i = 0; i < seconds; i++) {
        s_now += S;
        s_sink((crema_msg_t){.type = CREMA_MSG_COMMITTED}); /* the sink is well */
        s_heartbeat();
        agg_core_on_tick(s_core, s_now, s_now);
        s_act();
    }
}

/* ---- many runs */

typedef enum { OPEN, COMPLETE, PARTIAL, KINDS } kind_t;

static crema_id_t
s_run_of(kind_t kind, unsigned i)
{
    return (crema_id_t){{0xbb, (uint8_t)kind, (uint8_t)i, (uint8_t)(i >> 8)}};
}

static void
s_close_stream_of(crema_id_t run_id)
{
    crema_stream_row_t row = {
        .stream_id = run_id, .run_id = run_id, .committed = 1, .flags = CREMA_STREAM_FLAG_CLOSED};
    s_sink((crema_msg_t){.type = CREMA_MSG_STATE, .state = {.table = body_table(1, &row)}});
}

static void
must_have_core(void)
{
    const agg_config_t config = {.session = SESSION,
                                 .credit_pool_b = 64 << 20,
                                 .sink_silence_ns = 2 * S,
                                 .barrier_retries = 5,
                                 .barrier_cap_ns = 30 * S,
                                 .abandon_after_ns = 3600 * S,
                                 .owner_runs_max = 4096,
                                 .owner_bytes_max = 1 << 30,
                                 .agents_max = 256,
                                 .streams_max = 4096,
                                 .runs_max = 4096};
    must(agg_core_new(&config, &s_core));
    s_now = 100 * S;
    s_seals = 0;
    s_sink((crema_msg_t){.type = CREMA_MSG_STATE});
    s_client_says(OTHER, CREMA_MSG_RUN_OPEN, s_run);
    s_hello();
}

/* Of the PARTIAL ones the agent is a member that owes nothing; they wait for a stream that never
 * comes. */
static void
must_have_runs(unsigned n)
{
    must_have_core();
    for (kind_t kind = PARTIAL; kind != OPEN; kind--) {
        for (unsigned i = 0; i < n / KINDS; i++) {
            s_client_says(OWNER, CREMA_MSG_RUN_OPEN, s_run_of(kind, i));
            if (kind == COMPLETE)
                s_close_stream_of(s_run_of(kind, i));
            s_client_says(OWNER, CREMA_MSG_RUN_END, s_run_of(kind, i));
        }
        s_pass(kind == PARTIAL ? 100 : 2); /* so long it is waited for what is missing */
        for (unsigned i = 0; i < n / KINDS; i++)
            s_sink((crema_msg_t){
                .type = CREMA_MSG_SEALED,
                .sealed = {.run_id = body_id(s_run_of(kind, i)), .path = "x", .revision = 1}});
    }
    assert_true(s_seals >= (uint64_t)2 * (n / KINDS));
    for (unsigned i = 0; i < n / KINDS; i++)
        s_client_says(OWNER, CREMA_MSG_RUN_OPEN, s_run_of(OPEN, i));
    s_pass(3);
    s_list_writers_of((crema_id_t){{0xdd}}); /* malloc() has put in order what was freed */
}

/* Beside the one that lists a stream of the run: agents that declared another run. */
static void
must_have_agents(unsigned n)
{
    must_have_core();
    for (unsigned i = 0; i < n; i++)
        s_hello_of((uint8_t)(AGENT + 1 + i), (crema_id_t){{0xdd}}, 0);
    assert_int_equal(agg_core_stats(s_core).agents_live, n + 1);
}

static void
must_cost_the_same(void (*have)(unsigned), unsigned n_few, unsigned n_many, void (*say)(void))
{
    have(n_few);
    uint64_t few = must_count_steps(say);
    agg_core_destroy(&s_core);
    have(n_many);
    uint64_t many = must_count_steps(say);
    agg_core_destroy(&s_core);
    print_message("%llu instructions beside %u, %llu beside %u\n", (unsigned long long)few, n_few,
                  (unsigned long long)many, n_many);
    assert_true(many < few + few / 2);
}

/* ---- tests */

static void
test_a_part_of_a_list_of_writers_looks_at_no_other_run(void **state)
{
    (void)state;
    must_cost_the_same(must_have_runs, FEW, MANY, s_list_writers);
}

static void
test_a_hello_looks_at_no_run_that_does_not_wait_for_the_agent(void **state)
{
    (void)state;
    must_cost_the_same(must_have_runs, FEW, MANY, s_hello);
}

static void
test_a_heartbeat_looks_at_no_run_that_does_not_wait_for_the_agent(void **state)
{
    (void)state;
    must_cost_the_same(must_have_runs, FEW, MANY, s_heartbeat);
}

static void
test_the_end_of_a_run_looks_at_no_agent_that_serves_another_one(void **state)
{
    (void)state;
    must_cost_the_same(must_have_agents, 9, 199, s_end_run);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_part_of_a_list_of_writers_looks_at_no_other_run),
        cmocka_unit_test(test_a_hello_looks_at_no_run_that_does_not_wait_for_the_agent),
        cmocka_unit_test(test_a_heartbeat_looks_at_no_run_that_does_not_wait_for_the_agent),
        cmocka_unit_test(test_the_end_of_a_run_looks_at_no_agent_that_serves_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
