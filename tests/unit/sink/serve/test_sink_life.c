/* A run's life as the store keeps it: the same states before and after a restart, and no way round
 * them. */
#include <string.h>

#include "must.h"

#include "message_parts.h"
#include "record_frames.h"
#include "sink_store.h"
#include "store_opened.h"

#define RUN 9

static char *s_dir;
static sink_store_t *s_store;
static frames_t s_frames;
static crema_id_t s_run;

/* ---- verbs */

static void
open_store(void)
{
    char why[512];
    sink_store_config_t config = {
        .dir = s_dir, .streams_max = 10, .runs_max = 10, .on_event = store_events_anew()};
    must(sink_store_open(&config, why, sizeof why, &s_store));
    must_examine(s_store);
}

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    s_run = frames_id(RUN);
    open_store();
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    sink_store_close(&s_store);
    scratch_remove(&s_dir);
    return 0;
}

/* Before a restart and after it. */
static void
must_be(crema_life_t life)
{
    for (int i = 0; i < 2; i++) {
        const sink_run_t *run = sink_store_find(s_store, &s_run);
        assert_non_null(run);
        assert_string_equal(crema_life_name(run->state.life), crema_life_name(life));
        must(sink_store_commit(s_store));
        sink_store_close(&s_store);
        open_store();
    }
}

static void
must_put(uint64_t number)
{
    sink_store_put_t answer;
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, number, number);
    Crema__Put put = frames_put(&s_frames, 1, RUN, number);
    must(sink_store_put(s_store, &put, 5000, &answer));
    assert_int_equal(answer.decision, SINK_PUT_APPEND);
}

/* Whether it is news. */
static bool
must_say(crema_msg_type_t type, const char *reason)
{
    Crema__Reason row = crema_reason(reason, "", "", 0);
    crema_msg_t msg = {.type = type, .run_open = {.run_id = body_id(s_run), .t_end_ns = 7}};
    if (type == CREMA_MSG_RUN_SEAL) {
        msg.run_seal.n_reasons = reason ? 1 : 0;
        msg.run_seal.reasons = body_reasons(1, &row);
    }
    bool is_new;
    must(sink_store_run_msg(s_store, &msg, NULL, 5000, &is_new));
    return is_new;
}

static void
must_file(int64_t revision)
{
    must(sink_store_sealed(s_store, &s_run, &(sink_journal_sealed_t){.revision = revision}, 6000));
}

/* ---- tests */

static void
test_a_run_lives_once(void **state)
{
    (void)state;
    must_put(1);
    must_be(CREMA_LIFE_OPEN);
    assert_true(must_say(CREMA_MSG_RUN_SEAL, "agent_lost"));
    must_be(CREMA_LIFE_ENDED);
    must_file(1);
    must_be(CREMA_LIFE_SEALED);
    must_put(2);
    assert_true(must_say(CREMA_MSG_RUN_SEAL, NULL));
    must_be(CREMA_LIFE_SEALED);
    assert_int_equal(store_free(s_store, &s_run), CREMA_EINVAL); /* not with news */
    must_file(2);
    must_be(CREMA_LIFE_SEALED);
    must(store_free(s_store, &s_run));
    must_be(CREMA_LIFE_FREED);
}

static void
test_an_abandoned_run_may_still_be_ended(void **state)
{
    (void)state;
    must_put(1);
    assert_true(must_say(CREMA_MSG_RUN_SEAL, CREMA_LIFE_NOT_ENDED));
    must_be(CREMA_LIFE_ABANDONED);
    must_file(1);
    must_be(CREMA_LIFE_UNENDED);
    assert_true(must_say(CREMA_MSG_RUN_END, NULL));
    must_be(CREMA_LIFE_ENDED);
    assert_false(sink_store_find(s_store, &s_run)->state.seal_asked); /* its verdict is to come */
    assert_int_equal(store_free(s_store, &s_run), CREMA_EINVAL);
    assert_true(must_say(CREMA_MSG_RUN_SEAL, NULL));
    must_file(2);
    must_be(CREMA_LIFE_SEALED);
}

/* An aggregator that did not see its end must not take it back. */
static void
test_a_run_that_ended_is_not_abandoned(void **state)
{
    (void)state;
    must_put(1);
    assert_true(must_say(CREMA_MSG_RUN_SEAL, NULL));
    assert_false(must_say(CREMA_MSG_RUN_SEAL, CREMA_LIFE_NOT_ENDED));
    must_be(CREMA_LIFE_ENDED);
    must_file(1);
    assert_false(must_say(CREMA_MSG_RUN_SEAL, CREMA_LIFE_NOT_ENDED));
    must_be(CREMA_LIFE_SEALED);
    assert_true(must_say(CREMA_MSG_RUN_END, NULL)); /* of an aggregator that began later */
    must_be(CREMA_LIFE_SEALED);
    assert_true(sink_store_find(s_store, &s_run)->state.seal_asked);
}

/* Its client ended it, and the aggregator was gone before the verdict: the next one knows nothing
 * of the end. */
static void
test_an_end_without_a_verdict_is_sealed_by_whoever_gives_it_up(void **state)
{
    (void)state;
    must_put(1);
    assert_true(must_say(CREMA_MSG_RUN_END, NULL));
    must_be(CREMA_LIFE_ENDED);
    assert_null(sink_store_silent(s_store, 100, 1000));
    assert_non_null(sink_store_silent(s_store, 100, 1100)); /* no aggregator may ever come */
    assert_true(must_say(CREMA_MSG_RUN_SEAL, CREMA_LIFE_NOT_ENDED));
    assert_true(sink_store_find(s_store, &s_run)->state.seal_asked);
    assert_null(sink_store_silent(s_store, 100, 9999));
    assert_false(must_say(CREMA_MSG_RUN_SEAL, CREMA_LIFE_NOT_ENDED));
    must_be(CREMA_LIFE_ENDED);
    assert_true(sink_store_find(s_store, &s_run)->state.seal_asked);
    must_file(1);
    must_be(CREMA_LIFE_SEALED);
}

/* The same after it had a file: the same words are another verdict then. */
static void
test_an_end_that_came_back_without_a_verdict_is_sealed_again(void **state)
{
    (void)state;
    must_put(1);
    assert_true(must_say(CREMA_MSG_RUN_SEAL, CREMA_LIFE_NOT_ENDED));
    must_file(1);
    assert_true(must_say(CREMA_MSG_RUN_END, NULL));
    must_be(CREMA_LIFE_ENDED);
    assert_true(must_say(CREMA_MSG_RUN_SEAL, CREMA_LIFE_NOT_ENDED));
    assert_true(sink_store_find(s_store, &s_run)->state.late);
    must_file(2);
    must_be(CREMA_LIFE_SEALED);
}

/* By elapsed time, whatever was its last sign: a record, or a message of an aggregator. */
static void
test_a_run_that_nobody_ends_is_noticed(void **state)
{
    (void)state;
    must_put(1);
    assert_null(sink_store_silent(s_store, 100, 1000));
    must_put(2);
    assert_null(sink_store_silent(s_store, 100, 1090));
    assert_null(sink_store_silent(s_store, 100, 1189));
    sink_store_heard(s_store, &s_run, 1189);
    assert_null(sink_store_silent(s_store, 100, 1288));
    assert_ptr_equal(sink_store_silent(s_store, 100, 1289), sink_store_find(s_store, &s_run));
    assert_true(must_say(CREMA_MSG_RUN_SEAL, CREMA_LIFE_NOT_ENDED));
    assert_null(sink_store_silent(s_store, 100, 9999));
}

static crema_msg_t
s_open_msg(uint8_t owner)
{
    return (crema_msg_t){.type = CREMA_MSG_RUN_OPEN,
                         .run_open = {.run_id = body_id(s_run),
                                      .t_start_ns = 1,
                                      .owner = body_id((crema_id_t){{owner}})}};
}

/* Whoever opened it is its owner for the sink as well, which an aggregator that was started anew
 * asks. */
static void
test_a_run_is_its_owners(void **state)
{
    (void)state;
    bool is_new;
    const crema_id_t other = {{8}};
    crema_msg_t msg = s_open_msg(7);
    must(sink_store_run_msg(s_store, &msg, NULL, 5000, &is_new));
    msg = s_open_msg(8);
    for (int type = CREMA_MSG_RUN_OPEN; type <= CREMA_MSG_RUN_END; type++) {
        msg.type = (crema_msg_type_t)type;
        assert_int_equal(sink_store_run_msg(s_store, &msg, NULL, 5000, &is_new), CREMA_EDENIED);
    }
    msg.type = CREMA_MSG_RUN_SEAL;
    assert_int_equal(sink_store_run_msg(s_store, &msg, NULL, 5000, &is_new), CREMA_EDENIED);
    const Crema__RunWriters list = {
        .run_id = body_id(s_run), .part = 0, .parts = 1, .owner = crema_id_field(&other)};
    assert_int_equal(sink_store_writers(s_store, &list, 5000, &is_new), CREMA_EDENIED);
    assert_int_equal(sink_store_find(s_store, &s_run)->state.owner.bytes[0], 7);
}

/* What a verdict has cost stands before it in the journal, once, and not at all for one that is
 * refused. */
static void
test_what_it_has_cost_is_kept_with_a_verdict_that_counts(void **state)
{
    (void)state;
    bool is_new;
    const crema_cost_t cost = {.cpu_s = 1, .bytes = 2, .records = 3};
    crema_msg_t msg = s_open_msg(7);
    must(sink_store_run_msg(s_store, &msg, NULL, 5000, &is_new));
    must(sink_store_commit(s_store));
    msg = s_open_msg(8);
    msg.type = CREMA_MSG_RUN_SEAL;
    assert_int_equal(sink_store_run_msg(s_store, &msg, &cost, 5000, &is_new), CREMA_EDENIED);
    assert_int_equal(sink_store_pending_bytes(s_store), 0);
    msg = s_open_msg(7);
    msg.type = CREMA_MSG_RUN_SEAL;
    must(sink_store_run_msg(s_store, &msg, &cost, 5000, &is_new));
    assert_true(is_new);
    assert_true(sink_store_pending_bytes(s_store) > 0);
    must(sink_store_commit(s_store));
    must(sink_store_run_msg(s_store, &msg, &cost, 5000, &is_new));
    assert_false(is_new);
    assert_int_equal(sink_store_pending_bytes(s_store), 0);
}

/* Two runs with one stream: a writer with somebody else's id, or a store put together by hand. */
static void
test_a_stream_belongs_to_one_run(void **state)
{
    (void)state;
    const uint8_t other = 10;
    sink_store_put_t answer;
    sink_store_event_t event;
    bool said = false;
    Crema__Put put;
    must_put(1); /* stream 1 of RUN */
    must_put(2);
    assert_true(must_say(CREMA_MSG_RUN_SEAL, NULL));
    must_file(1);
    must(sink_store_commit(s_store));
    for (crema_stream_row_t row; sink_commit_take(sink_store_watermarks(s_store), &row, 1) > 0;)
        ;
    sink_store_tick(s_store, 1000000000);
    sink_store_tick(s_store, 9000000000); /* it comes to rest */
    must(sink_store_commit(s_store));
    assert_int_equal(sink_store_live(s_store), 0);
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, 1, 1);
    put = frames_put(&s_frames, 1, other, 1);
    must(sink_store_put(s_store, &put, 5000, &answer));
    put.run_id = body_id(s_run); /* its journal is read again */
    assert_int_equal(sink_store_put(s_store, &put, 5000, &answer), CREMA_EPROTO);

    crema_stream_row_t row, asked = {.stream_id = frames_id(1), .run_id = s_run, .hi = 2};
    assert_int_equal(sink_store_stream(s_store, &asked, &row), CREMA_EPROTO);
    asked.run_id = frames_id(other);
    must(sink_store_stream(s_store, &asked, &row));
    assert_int_equal(row.recv_next, 2);
    assert_true(crema_id_equal(&row.run_id, &asked.run_id));
    assert_int_equal(sink_commit_stats(sink_store_watermarks(s_store)).strays, 1);
    while (store_events_take(&event))
        said |= event.type == SINK_STORE_STRAYS && crema_id_equal(&event.run_id, &s_run);
    assert_true(said);
}

/* Each change is journaled, so two lists in turn would fill any disk: what counts is what they
 * take there. */
static void
test_a_list_of_writers_changes_by_so_many_bytes(void **state)
{
    (void)state;
    bool is_new;
    crema_err_t err = CREMA_OK;
    static char text[200 << 10];
    Crema__Writer writer = {.name = "w", .uuid = "", .text = ""};
    Crema__RunWriters list = {.run_id = body_id(s_run),
                              .part = 0,
                              .parts = 1,
                              .n_writers = 1,
                              .writers = body_writers(1, &writer)};
    for (unsigned i = 0; i < 2000; i++) { /* small ones as often as anybody likes */
        writer.last = i % 2;
        must(sink_store_writers(s_store, &list, 5000, &is_new));
        assert_true(is_new);
    }
    memset(text, 'x', sizeof text - 1);
    writer.text = text;
    unsigned taken = 0;
    for (; err == CREMA_OK && taken < 2000; taken += err == CREMA_OK) {
        writer.last = taken % 2;
        err = sink_store_writers(s_store, &list, 5000, &is_new);
        must(sink_store_commit(s_store));
    }
    assert_int_equal(err, CREMA_ELIMIT);
    assert_in_range(taken, 300, 328); /* 64 MiB */
    list.parts = 2;
    assert_int_equal(sink_store_writers(s_store, &list, 5000, &is_new), CREMA_ELIMIT);
    list.parts = 1;
    writer.last = (taken - 1) % 2;
    must(sink_store_writers(s_store, &list, 5000, &is_new)); /* what it has it confirms */
    assert_false(is_new);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_run_lives_once),
        T(test_an_abandoned_run_may_still_be_ended),
        T(test_a_run_is_its_owners),
        T(test_what_it_has_cost_is_kept_with_a_verdict_that_counts),
        T(test_a_run_that_ended_is_not_abandoned),
        T(test_a_run_that_nobody_ends_is_noticed),
        T(test_a_stream_belongs_to_one_run),
        T(test_a_list_of_writers_changes_by_so_many_bytes),
        T(test_an_end_without_a_verdict_is_sealed_by_whoever_gives_it_up),
        T(test_an_end_that_came_back_without_a_verdict_is_sealed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
