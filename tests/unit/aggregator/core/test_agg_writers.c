/* The end of a run by the list of its writers: nothing is COMPLETE before the sink has what each
 * of them says it wrote. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agg_core.h"
#include "crema_utf8.h"
#include "message_parts.h"
#include "must.h"

#define S 1000000000ll
#define BOOT 7u
#define CLIENT 9u

static const crema_id_t s_run = {{0xee}};

typedef struct {
    agg_core_t *core;
    int64_t now;
    bool sink_lists; /* the sink answers RUN_WRITERS at once */
    uint64_t boot;
    unsigned parts_sent, opens, seals;
    size_t reasons; /* of the last RUN_SEAL */
    uint32_t writer_parts;
    char code[64], subject[64], text[256];
    uint64_t count;
    Crema__RunState state;
} rig_t;

static crema_id_t
s_stream(uint32_t n)
{
    crema_id_t id = {{0}};
    memcpy(id.bytes, &n, sizeof n);
    id.bytes[15] = 0x55;
    return id;
}

static void s_sink(rig_t *rig, crema_msg_t msg);

static void
s_note(rig_t *rig, const crema_msg_t *msg)
{
    if (msg->type == CREMA_MSG_RUN_SEAL) {
        rig->seals++;
        rig->reasons = msg->run_seal.n_reasons;
        rig->writer_parts = msg->run_seal.writer_parts;
        if (msg->run_seal.n_reasons) {
            const Crema__Reason *reason = msg->run_seal.reasons[0];
            snprintf(rig->code, sizeof rig->code, "%s", reason->code);
            snprintf(rig->subject, sizeof rig->subject, "%s", reason->subject);
            snprintf(rig->text, sizeof rig->text, "%s", reason->text);
            rig->count = reason->count;
        }
    } else if (msg->type == CREMA_MSG_RUN_STATE) {
        rig->state = msg->run_state;
    } else if (msg->type == CREMA_MSG_OPEN) {
        rig->opens += msg->open.table != NULL;
    }
}

/* Takes all actions; what the sink answers at once is given when they are taken. */
static void
s_act(rig_t *rig)
{
    static crema_msg_t listed[64];
    size_t n = 0;
    agg_action_t action;
    while (agg_core_next(rig->core, rig->now, &action)) {
        if (action.type == AGG_EVENT)
            continue;
        s_note(rig, action.msg);
        if (action.msg->type != CREMA_MSG_RUN_WRITERS)
            continue;
        rig->parts_sent++;
        if (rig->sink_lists && n < 64)
            listed[n++] = (crema_msg_t){.type = CREMA_MSG_RUN_LISTED,
                                        .run_listed = {.run_id = body_id(s_run),
                                                       .part = action.msg->run_writers.part,
                                                       .parts = action.msg->run_writers.parts}};
    }
    for (size_t i = 0; i < n; i++)
        s_sink(rig, listed[i]);
}

static void
s_sink(rig_t *rig, crema_msg_t msg)
{
    msg.session = rig->boot;
    agg_core_on_sink(rig->core, &msg, rig->now, rig->now);
    s_act(rig);
}

static void
s_say(rig_t *rig, crema_msg_t msg)
{
    static const crema_principal_t c_anybody;
    agg_core_on_peer(rig->core, CLIENT, &c_anybody, &msg, rig->now, rig->now);
    s_act(rig);
}

static void
s_run_msg(rig_t *rig, crema_msg_type_t type, uint32_t writer_parts)
{
    crema_msg_t msg = {.type = type, .run_id = body_id(s_run)};
    if (type == CREMA_MSG_RUN_END)
        msg.run_end.writer_parts = writer_parts;
    s_say(rig, msg);
}

static void
s_list(rig_t *rig, uint32_t part, uint32_t parts, size_t n, Crema__Writer *writers)
{
    s_say(rig, (crema_msg_t){.type = CREMA_MSG_RUN_WRITERS,
                             .run_writers = {.run_id = body_id(s_run),
                                             .part = part,
                                             .parts = parts,
                                             .n_writers = n,
                                             .writers = body_writers(n, writers)}});
}

static Crema__Writer
s_writer(uint32_t stream, uint64_t last, crema_writer_state_t how)
{
    return (Crema__Writer){.stream_id = body_id(stream ? s_stream(stream) : (crema_id_t){{0}}),
                           .last = last,
                           .state = how,
                           .name = "tcp://A",
                           .uuid = "",
                           .text = ""};
}

static void
s_durable(rig_t *rig, crema_msg_type_t type, uint32_t stream, uint64_t committed, bool closed)
{
    crema_stream_row_t row = {.stream_id = s_stream(stream),
                              .run_id = s_run,
                              .committed = committed,
                              .flags = closed ? CREMA_STREAM_FLAG_CLOSED : 0};
    crema_msg_t msg = {.type = type};
    if (type == CREMA_MSG_STATE)
        msg.state.table = body_table(1, &row);
    else
        msg.committed.table = body_table(1, &row);
    s_sink(rig, msg);
}

static void
s_pass(rig_t *rig, int64_t ns)
{
    for (int64_t end = rig->now + ns; rig->now < end; rig->now += S / 10) {
        s_sink(rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED}); /* the sink is well */
        agg_core_on_tick(rig->core, rig->now, rig->now);
        s_act(rig);
    }
}

/* An open run, of which the sink knows nothing. */
static rig_t
s_rig(void)
{
    rig_t rig = {.now = 100 * S, .sink_lists = true, .boot = BOOT};
    const agg_config_t config = {.session = 42,
                                 .credit_pool_b = 1 << 20,
                                 .sink_silence_ns = 2 * S,
                                 .barrier_retries = 5,
                                 .barrier_cap_ns = 30 * S,
                                 .abandon_after_ns = 3600 * S,
                                 .owner_runs_max = 4,
                                 .owner_bytes_max = 1 << 30,
                                 .agents_max = 8,
                                 .streams_max = 32768,
                                 .runs_max = 4};
    must(agg_core_new(&config, &rig.core));
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE});
    s_run_msg(&rig, CREMA_MSG_RUN_OPEN, 0);
    return rig;
}

/* Another aggregator brought it, or nobody yet: the sink is asked, and what it holds counts. */
static void
must_wait_for_what_the_sink_does_not_have(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    Crema__Writer writer = s_writer(1, 80, CREMA_WRITER_ENDED);
    s_list(&rig, 0, 1, 1, &writer);
    assert_int_equal(rig.opens, 1);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 1);
    s_durable(&rig, CREMA_MSG_STATE, 1, 50, false);
    s_pass(&rig, 20 * S);
    assert_int_equal(rig.seals, 0);
    s_say(&rig, (crema_msg_t){.type = CREMA_MSG_RUN_QUERY, .run_id = body_id(s_run)});
    assert_int_equal(rig.state.missing, 30);
    assert_true(rig.opens >= 3); /* asked again, for no agent lists it */
    s_durable(&rig, CREMA_MSG_STATE, 1, 80, true);
    assert_int_equal(rig.seals, 1);
    assert_int_equal(rig.reasons, 0);
    assert_int_equal(rig.writer_parts, 1);
    agg_core_destroy(&rig.core);
}

static void
must_say_what_did_not_come_until_it_comes(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    Crema__Writer writer = s_writer(1, 80, CREMA_WRITER_ENDED);
    s_list(&rig, 0, 1, 1, &writer);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 1);
    s_durable(&rig, CREMA_MSG_STATE, 1, 50, false);
    s_pass(&rig, 100 * S);
    assert_true(rig.seals > 0);
    assert_string_equal(rig.code, "records_missing");
    assert_int_equal(rig.count, 30);
    rig.seals = 0;
    s_durable(&rig, CREMA_MSG_STATE, 1, 80, true);
    assert_int_equal(rig.seals, 1);
    assert_int_equal(rig.reasons, 0);
    agg_core_destroy(&rig.core);
}

/* The file could not be written; the sink comes back with another store, which has nothing of the
 * run. */
static void
must_judge_anew_when_another_store_takes_the_place(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    rig.sink_lists = true;
    Crema__Writer writer = s_writer(1, 80, CREMA_WRITER_ENDED);
    s_list(&rig, 0, 1, 1, &writer);
    s_durable(&rig, CREMA_MSG_STATE, 1, 80, true);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 1);
    assert_int_equal(rig.seals, 1);
    assert_int_equal(rig.reasons, 0);
    s_sink(&rig,
           (crema_msg_t){.type = CREMA_MSG_SEALED,
                         .sealed = {.run_id = body_id(s_run), .error = "No space left on device"}});
    rig.boot++;
    rig.seals = rig.parts_sent = 0;
    s_durable(&rig, CREMA_MSG_STATE, 1, 0, false);
    s_pass(&rig, 100 * S);
    assert_true(rig.parts_sent > 0);
    assert_true(rig.seals > 0);
    assert_int_equal(rig.reasons, 1);
    assert_string_equal(rig.code, "records_missing");
    agg_core_destroy(&rig.core);
}

/* Its agent found less than it wrote and ended it: nothing more can come, and nobody waits. */
static void
must_say_at_once_what_can_never_come(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    Crema__Writer writer = s_writer(1, 80, CREMA_WRITER_ENDED);
    s_list(&rig, 0, 1, 1, &writer);
    s_durable(&rig, CREMA_MSG_STATE, 1, 51, true);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 1);
    assert_int_equal(rig.seals, 1);
    assert_string_equal(rig.code, "records_missing");
    assert_int_equal(rig.count, 29);
    s_pass(&rig, S / 2);
    assert_int_equal(rig.seals, 1); /* and says it once */
    agg_core_destroy(&rig.core);
}

/* A worker that left gave no number: its own END must come. */
static void
must_wait_for_the_end_of_a_worker_that_left(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    Crema__Writer writer = s_writer(1, 0, CREMA_WRITER_LEFT);
    s_list(&rig, 0, 1, 1, &writer);
    s_durable(&rig, CREMA_MSG_STATE, 1, 50, false);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 1);
    s_pass(&rig, S);
    assert_int_equal(rig.seals, 0);
    s_durable(&rig, CREMA_MSG_COMMITTED, 1, 51, true);
    assert_int_equal(rig.seals, 1);
    assert_int_equal(rig.reasons, 0);
    agg_core_destroy(&rig.core);
}

static void
must_name_whom_nobody_could_ask(void **state)
{
    (void)state;
    static const struct {
        crema_writer_state_t how;
        const char *want;
    } cases[] = {{CREMA_WRITER_UNKNOWN, "writer_unknown"},
                 {CREMA_WRITER_SILENT, "worker_without_stream"},
                 {(crema_writer_state_t)99, "writer_unknown"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig_t rig = s_rig();
        Crema__Writer writers[] = {s_writer(1, 3, CREMA_WRITER_ENDED),
                                   s_writer(0, 0, cases[i].how)};
        s_list(&rig, 0, 1, 2, writers);
        s_durable(&rig, CREMA_MSG_STATE, 1, 3, true);
        s_run_msg(&rig, CREMA_MSG_RUN_END, 1);
        assert_int_equal(rig.seals, 1);
        assert_string_equal(rig.code, cases[i].want);
        assert_string_equal(rig.subject, "tcp://A");
        s_pass(&rig, S / 2);
        assert_int_equal(rig.seals, 1); /* nobody will come and mend it */
        agg_core_destroy(&rig.core);
    }
}

/* Whoever is known to have recorded nothing is not waited for; before the list is here, or while
 * one of its writers may have a stream, an agent may yet bring one. */
static void
must_not_wait_for_streams_of_writers_that_recorded_nothing(void **state)
{
    (void)state;
    static const struct {
        crema_writer_state_t second;
        bool before; /* the list is there when the run ends */
        bool at_once;
    } cases[] = {{CREMA_WRITER_SILENT, true, true},
                 {CREMA_WRITER_SILENT, false, true},
                 {CREMA_WRITER_UNKNOWN, true, false},
                 {CREMA_WRITER_LEFT, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig_t rig = s_rig();
        Crema__Writer writers[] = {s_writer(0, 0, CREMA_WRITER_SILENT),
                                   s_writer(0, 0, cases[i].second)};
        if (cases[i].before)
            s_list(&rig, 0, 1, 2, writers);
        s_run_msg(&rig, CREMA_MSG_RUN_END, 1);
        if (!cases[i].before) {
            s_pass(&rig, S / 2);
            assert_int_equal(rig.seals, 0);
            s_list(&rig, 0, 1, 2, writers);
        }
        s_pass(&rig, S / 2);
        assert_int_equal(rig.seals, cases[i].at_once);
        while (rig.seals == 0 && rig.now < 200 * S)
            s_pass(&rig, S / 10);
        s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_SEALED,
                                   .sealed = {.run_id = body_id(s_run),
                                              .path = "run.h5",
                                              .verdict = "PARTIAL",
                                              .error = ""}});
        s_pass(&rig, 10 * S);
        assert_int_equal(rig.seals, 1); /* one verdict, whenever it is given */
        assert_string_equal(rig.code, "agent_never_seen");
        agg_core_destroy(&rig.core);
    }
}

/* Also a long one, which is cut between two characters. */
static void
must_say_why_nobody_could_ask(void **state)
{
    (void)state;
    char longer[601] = "";
    for (size_t i = 0; i < 600; i += 2)
        memcpy(longer + i, "\u00e4", 3);
    char *const whys[] = {"", "crema 9.9, whose protocol is another", longer};
    for (size_t i = 0; i < sizeof whys / sizeof *whys; i++) {
        rig_t rig = s_rig();
        Crema__Writer writers[] = {s_writer(1, 3, CREMA_WRITER_ENDED),
                                   s_writer(0, 0, CREMA_WRITER_SILENT)};
        writers[1].text = whys[i];
        s_list(&rig, 0, 1, 2, writers);
        s_durable(&rig, CREMA_MSG_STATE, 1, 3, true);
        s_run_msg(&rig, CREMA_MSG_RUN_END, 1);
        size_t said = strlen("it recorded nothing");
        assert_memory_equal(rig.text, "it recorded nothing", said);
        assert_int_equal(rig.text[said], *whys[i] ? ':' : '\0');
        assert_true(!*whys[i] || strncmp(rig.text + said + 2, whys[i], 36) == 0);
        assert_true(crema_utf8_valid(rig.text, strlen(rig.text)));
        agg_core_destroy(&rig.core);
    }
}

/* No verdict before every part is durable in the sink, so that a kill of anybody costs a repeat. */
static void
must_have_the_list_durable_first(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    Crema__Writer a = s_writer(1, 3, CREMA_WRITER_ENDED);
    Crema__Writer b = s_writer(2, 4, CREMA_WRITER_ENDED);
    rig.sink_lists = false;
    s_list(&rig, 1, 2, 1, &b);
    s_durable(&rig, CREMA_MSG_STATE, 2, 4, true);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 2);
    assert_int_equal(rig.state.writers_kept, 0);
    s_list(&rig, 0, 2, 1, &a);
    s_durable(&rig, CREMA_MSG_STATE, 1, 3, true);
    assert_int_equal(rig.parts_sent, 2);
    assert_int_equal(rig.seals, 0);
    rig.sink_lists = true;
    s_list(&rig, 0, 2, 1, &a); /* the collector repeats what is not kept */
    assert_int_equal(rig.parts_sent, 3);
    assert_int_equal(rig.state.writers_kept, 1);
    rig.sink_lists = false;
    rig.boot++; /* a new sink, perhaps with an older store: it gets the parts again */
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED});
    assert_int_equal(rig.parts_sent, 5);
    s_durable(&rig, CREMA_MSG_STATE, 1, 3, true);
    s_durable(&rig, CREMA_MSG_STATE, 2, 4, true);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 2);
    assert_int_equal(rig.state.writers_kept, 0);
    assert_int_equal(rig.seals, 0);
    rig.sink_lists = true;
    s_list(&rig, 0, 2, 1, &a);
    s_list(&rig, 1, 2, 1, &b);
    assert_int_equal(rig.state.writers_kept, 2);
    assert_int_equal(rig.seals, 1);
    assert_int_equal(rig.reasons, 0);
    agg_core_destroy(&rig.core);
}

/* The collector is gone before it has said everything. */
static void
must_not_wait_for_the_rest_of_a_list_for_ever(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    Crema__Writer a = s_writer(1, 3, CREMA_WRITER_ENDED);
    s_list(&rig, 0, 2, 1, &a);
    s_durable(&rig, CREMA_MSG_STATE, 1, 3, true);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 2);
    s_pass(&rig, 29 * S);
    assert_int_equal(rig.seals, 0);
    s_pass(&rig, 2 * S);
    assert_true(rig.seals > 0);
    assert_string_equal(rig.code, "writer_unknown");
    s_list(&rig, 1, 2, 0, NULL); /* it returns */
    assert_int_equal(rig.reasons, 0);
    agg_core_destroy(&rig.core);
}

/* A collector that does not know better. */
static void
must_not_trust_a_collector_without_a_list(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    s_durable(&rig, CREMA_MSG_STATE, 1, 3, true);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 0);
    assert_int_equal(rig.seals, 1);
    assert_int_equal(rig.reasons, 1);
    assert_string_equal(rig.code, "writer_unknown");
    assert_string_equal(rig.subject, "run");
    agg_core_destroy(&rig.core);
}

static void
must_take_ten_thousand_writers(void **state)
{
    (void)state;
    enum { N = 10000, A_PART = 1000 };
    static Crema__Writer writers[A_PART];
    static crema_stream_row_t rows[A_PART];
    rig_t rig = s_rig();
    for (uint32_t part = 0; part < N / A_PART; part++) {
        for (uint32_t i = 0; i < A_PART; i++)
            writers[i] = s_writer(part * A_PART + i + 1, i + 2, CREMA_WRITER_ENDED);
        s_list(&rig, part, N / A_PART, A_PART, writers);
    }
    s_run_msg(&rig, CREMA_MSG_RUN_END, N / A_PART);
    assert_int_equal(rig.state.writers_kept, N / A_PART);
    assert_int_equal(rig.state.streams, N);
    for (uint32_t part = 0; part < N / A_PART; part++) {
        assert_int_equal(rig.seals, 0);
        for (uint32_t i = 0; i < A_PART; i++)
            rows[i] = (crema_stream_row_t){.stream_id = s_stream(part * A_PART + i + 1),
                                           .run_id = s_run,
                                           .committed = i + 2,
                                           .flags = CREMA_STREAM_FLAG_CLOSED};
        s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE,
                                   .state = {.table = body_table(A_PART, rows)}});
    }
    assert_int_equal(rig.seals, 1);
    assert_int_equal(rig.reasons, 0);
    agg_core_destroy(&rig.core);
}

/* The sink has the other part from an aggregator before this one. What its writers wrote is known
 * only once the collector has sent it again: here more than a power cut left in the spool. */
static void
must_not_take_a_part_for_kept_that_it_does_not_have(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    Crema__Writer first = s_writer(1, 80, CREMA_WRITER_ENDED);
    Crema__Writer second = s_writer(2, 49, CREMA_WRITER_ENDED);
    s_list(&rig, 0, 2, 1, &first);
    s_durable(&rig, CREMA_MSG_STATE, 1, 80, true);
    s_durable(&rig, CREMA_MSG_STATE, 2, 46, true);
    s_run_msg(&rig, CREMA_MSG_RUN_END, 2);
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_RUN_LISTED,
                               .run_listed = {.run_id = body_id(s_run), .part = 1, .parts = 2}});
    s_pass(&rig, 10 * S);
    assert_int_equal(rig.seals, 0);
    s_say(&rig, (crema_msg_t){.type = CREMA_MSG_RUN_QUERY, .run_id = body_id(s_run)});
    assert_int_equal(rig.state.writers_kept, 1); /* so that it is sent */
    s_list(&rig, 1, 2, 1, &second);
    s_durable(&rig, CREMA_MSG_STATE, 2, 46, true);
    s_pass(&rig, 70 * S);
    assert_int_equal(rig.seals > 0, 1);
    assert_int_equal(rig.reasons, 1);
    assert_string_equal(rig.code, "records_missing");
    assert_int_equal(rig.count, 3);
    agg_core_destroy(&rig.core);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_wait_for_what_the_sink_does_not_have),
        cmocka_unit_test(must_say_what_did_not_come_until_it_comes),
        cmocka_unit_test(must_judge_anew_when_another_store_takes_the_place),
        cmocka_unit_test(must_say_at_once_what_can_never_come),
        cmocka_unit_test(must_wait_for_the_end_of_a_worker_that_left),
        cmocka_unit_test(must_name_whom_nobody_could_ask),
        cmocka_unit_test(must_not_wait_for_streams_of_writers_that_recorded_nothing),
        cmocka_unit_test(must_say_why_nobody_could_ask),
        cmocka_unit_test(must_have_the_list_durable_first),
        cmocka_unit_test(must_not_take_a_part_for_kept_that_it_does_not_have),
        cmocka_unit_test(must_not_wait_for_the_rest_of_a_list_for_ever),
        cmocka_unit_test(must_not_trust_a_collector_without_a_list),
        cmocka_unit_test(must_take_ten_thousand_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
