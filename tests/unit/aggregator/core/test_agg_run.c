/* agg_run: who is waited for, how long, and what the verdict says. */
#include "must.h"

#include <string.h>

#include "agg_run.h"
#include "message_parts.h"

#define MS 1000000ll
#define S (1000 * MS)

static const crema_id_t s_run_id = {{7}}, s_a = {{1}}, s_b = {{2}}, s_nobody;

static const Crema__RunEnd s_end = {.t_end_ns = 5, .dismiss = true};

static agg_awaited_t s_awaited; /* of all runs */

static agg_run_t *
s_run(void)
{
    agg_run_t *run = NULL;
    must(agg_run_new(&s_run_id, 8, 5, 30 * S, &s_awaited, &run));
    return run;
}

static agg_member_t *
s_member(agg_run_t *run, const crema_id_t *id)
{
    agg_member_t *member = NULL;
    must(agg_run_member(run, id, &member));
    assert_ptr_equal(agg_run_find(run, id), member);
    return member;
}

/* Questions put at `now`. */
static unsigned
s_asked(agg_run_t *run, int64_t now)
{
    unsigned asked = 0;
    agg_run_on_tick(run, now);
    while (agg_run_ask(run))
        asked++;
    return asked;
}

static void
must_be_ready_when_all_answered_and_all_is_committed(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    agg_member_t *a = s_member(run, &s_a), *b = s_member(run, &s_b);
    const agg_tally_t open = {.committed = 3}, behind = {3, 2, false}, done = {5, 0, true};
    agg_run_tally(run, a, NULL, &open, 0);
    assert_false(agg_run_is_ready(run, 0));
    must(agg_run_on_end(run, &s_end, 4, 1 * S));
    assert_int_equal(agg_run_on_end(run, &s_end, 5, 2 * S), CREMA_EREPEAT);
    agg_run_expect(run, a, S, 0, 1 * S);
    agg_run_expect(run, b, S, 0, 1 * S);
    assert_int_equal(s_asked(run, 1 * S), 2);
    agg_run_on_answer(run, b, 3, 1 * S); /* of an earlier barrier */
    agg_run_on_answer(run, a, 4, 1 * S);
    assert_false(agg_run_is_ready(run, 1 * S));
    agg_run_on_answer(run, b, 4, 1 * S);
    assert_true(b->settled);
    assert_false(agg_run_is_ready(run, 1 * S)); /* the stream is open */
    assert_int_equal(agg_run_state(run).streams, 1);
    assert_int_equal(agg_run_state(run).streams_done, 0);
    agg_run_tally(run, a, &open, &behind, 1 * S);
    assert_false(agg_run_is_ready(run, 1 * S));
    agg_run_tally(run, a, &behind, &done, 1 * S);
    assert_true(agg_run_is_ready(run, 1 * S));
    agg_run_give_verdict(run, 1 * S + 20 * MS, 99);
    Crema__RunState told = agg_run_state(run);
    assert_int_equal(told.phase, CREMA_RUN_VERDICT);
    assert_int_equal(told.verdict_after_ns, 20 * MS);
    assert_int_equal(told.streams, 1);
    assert_int_equal(told.streams_done, 1);
    assert_int_equal(told.committed, 5);
    assert_int_equal(told.missing, 0);
    assert_int_equal(run->seal.run_seal.n_reasons, 0);
    assert_int_equal(run->seal.run_seal.t_verdict_ns, 99);
    assert_int_equal(run->seal.run_seal.t_end_ns, 5);
    assert_true(run->dismiss);
    agg_run_destroy(&run);
    assert_null(run);
}

/* 2, 4, 8, 16, 32 H, none above 30 s: 31 s at H 0.5 s, 88 s at H 2 s. */
static void
must_ask_five_times_and_then_give_up(void **state)
{
    (void)state;
    static const struct {
        int64_t interval_ms;
        int64_t asked_s[5];
        int64_t given_up_s;
    } rows[] = {
        {500, {0, 1, 3, 7, 15}, 31},
        {2000, {0, 4, 12, 28, 58}, 88},
        {26000, {0, 30, 60, 90, 120}, 150},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        agg_run_t *run = s_run();
        must(agg_run_on_end(run, &s_end, 1, 0));
        agg_run_expect(run, s_member(run, &s_a), rows[i].interval_ms * MS, 0, 0);
        size_t asked = 0;
        int64_t now = 0;
        for (; !agg_run_is_ready(run, now); now += 100 * MS)
            if (s_asked(run, now))
                assert_int_equal(now, rows[i].asked_s[asked++] * S);
        assert_int_equal(asked, 5);
        assert_int_equal(now, rows[i].given_up_s * S + 100 * MS);
        assert_true(agg_run_find(run, &s_a)->owes_answer);
        agg_run_destroy(&run);
    }
}

/* A stream that is not ended is waited for up to the client's limit, counted anew while records
 * come that its agent held when it answered; what its writer adds later is no progress. */
static void
must_be_ready_when_the_limit_of_its_client_is_over(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    agg_member_t *a = s_member(run, &s_a);
    const Crema__RunEnd end = {.t_end_ns = 5, .limit_ns = 4 * S};
    const agg_tally_t before = {3, 2, false}, came = {5, 0, false}, more = {9, 0, false};
    agg_run_tally(run, a, NULL, &before, 0);
    must(agg_run_on_end(run, &end, 1, 1 * S));
    uint64_t first = agg_run_state(run).progress;
    assert_true(first > 0);
    agg_run_expect(run, a, S, 0, 1 * S);
    assert_false(agg_run_is_ready(run, 5 * S - 1));
    assert_true(agg_run_is_ready(run, 5 * S));
    agg_run_on_answer(run, a, 1, 2 * S);
    assert_false(agg_run_is_ready(run, 6 * S - 1));
    agg_run_tally(run, a, &before, &came, 3 * S);
    assert_int_equal(agg_run_state(run).progress, first + 3);
    agg_run_tally(run, a, &came, &more, 6 * S);
    assert_int_equal(agg_run_state(run).progress, first + 3);
    assert_false(agg_run_is_ready(run, 7 * S - 1));
    assert_true(agg_run_is_ready(run, 7 * S));
    agg_run_give_verdict(run, 7 * S, 99);
    assert_false(agg_run_is_ready(run, 20 * S));
    agg_run_destroy(&run);
}

static void
must_not_wait_for_one_that_is_silent_for_longer_than_that(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    must(agg_run_on_end(run, &s_end, 1, 0));
    agg_run_expect(run, s_member(run, &s_a), S / 2, 31 * S, 0);
    assert_false(agg_run_is_ready(run, 0));
    agg_run_expect(run, s_member(run, &s_a), S / 2, 31 * S + 1, 0);
    assert_true(agg_run_is_ready(run, 0));
    assert_false(agg_run_find(run, &s_a)->settled);
    agg_run_destroy(&run);
}

/* It owes no answer any more: without streams nothing, with some it is waited for as long as for
 * an answer. */
static void
must_not_wait_for_the_answer_of_one_that_left(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    agg_member_t *a = s_member(run, &s_a), *b = s_member(run, &s_b);
    const agg_tally_t open = {.committed = 3}, done = {.committed = 4, .done = true};
    agg_run_tally(run, b, NULL, &open, 0);
    must(agg_run_on_end(run, &s_end, 1, 0));
    agg_run_expect(run, a, S / 2, 0, 0);
    agg_run_expect(run, b, S / 2, 99 * S, 0);
    assert_int_equal(s_asked(run, 0), 2);
    assert_false(agg_run_is_ready(run, 0));
    agg_run_excuse(run, a, 1 * S);
    assert_false(a->owes_answer);
    assert_true(a->settled);
    assert_true(agg_run_is_ready(run, 1 * S)); /* b was given up */
    agg_run_excuse(run, b, 1 * S);
    assert_false(b->settled);
    assert_false(agg_run_is_ready(run, 1 * S)); /* its END may be on its way */
    agg_run_tally(run, b, &open, &done, 2 * S);
    assert_true(b->settled);
    assert_true(agg_run_is_ready(run, 2 * S));
    agg_run_destroy(&run);
}

/* As long as what was missing at its answer arrives, an agent has all the time in the world; what
 * is recorded later buys it none. */
static void
must_wait_while_what_is_owed_arrives(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    agg_member_t *a = s_member(run, &s_a);
    agg_tally_t was = {0, 10, false};
    must(agg_run_on_end(run, &s_end, 1, 0));
    agg_run_tally(run, a, NULL, &was, 0);
    agg_run_expect(run, a, S / 2, 0, 0);
    agg_run_on_answer(run, a, 1, 0);
    int64_t now = 0;
    for (uint64_t came = 1; came <= 10; came++) {
        agg_tally_t is = {came, 10 - came, false};
        for (int64_t until = now + 25 * S; now < until; now += S)
            s_asked(run, now);
        agg_run_tally(run, a, &was, &is, now);
        assert_false(agg_run_is_ready(run, now));
        was = is;
    }
    int64_t last = now;
    for (; !agg_run_is_ready(run, now); now += 100 * MS) {
        agg_tally_t is = {was.committed + 1, 0, false}; /* its writer goes on and on */
        s_asked(run, now);
        agg_run_tally(run, a, &was, &is, now);
        was = is;
    }
    assert_in_range(now - last, 31 * S, 32 * S);
    agg_run_destroy(&run);
}

static void
must_wait_a_little_for_a_run_without_any_stream(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    must(agg_run_on_end(run, &s_end, 1, 0));
    agg_run_expect(run, s_member(run, &s_nobody), S, 0, 0);
    assert_false(agg_run_is_ready(run, 0));
    const agg_tally_t done = {1, 0, true};
    agg_run_tally(run, s_member(run, &s_b), NULL, &done, 0);
    assert_true(agg_run_is_ready(run, 0));
    agg_run_destroy(&run);
}

static void
must_take_back_reasons_when_everything_came(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    agg_member_t *a = s_member(run, &s_a);
    const agg_tally_t missing = {3, 4, false}, done = {7, 0, true};
    agg_run_tally(run, a, NULL, &missing, 0);
    must(agg_run_on_end(run, &s_end, 1, 0));
    agg_run_expect(run, a, S, 99 * S, 0);
    assert_true(agg_run_is_ready(run, 0));
    agg_run_add_reason(run, "agent_lost",
                       "a name that is longer than sixty-three bytes, for which there is no room",
                       4, "text");
    agg_run_give_verdict(run, 0, 1);
    assert_true(agg_run_wants_answers(run));
    assert_false(agg_run_is_recovered(run));
    const Crema__RunSeal *seal = &run->seal.run_seal;
    assert_int_equal(seal->n_reasons, 1);
    assert_int_equal(strlen(seal->reasons[0]->subject), 63);
    assert_int_equal(seal->reasons[0]->count, 4);
    const Crema__Sealed sealed = {.path = "x.h5",
                                  .verdict = "PARTIAL",
                                  .revision = 1,
                                  .n_reasons = 1,
                                  .reasons = seal->reasons};
    must(agg_run_on_sealed(run, &sealed));
    assert_int_equal(run->phase, CREMA_RUN_SEALED);
    assert_string_equal(agg_run_state(run).path, "x.h5");
    agg_run_tally(run, a, &missing, &done, 0);
    assert_false(agg_run_is_recovered(run)); /* it has not said that this was all */
    agg_run_on_answer(run, a, 1, 0);
    assert_true(agg_run_is_recovered(run));
    agg_run_clear_reasons(run);
    agg_run_give_verdict(run, 0, 2);
    assert_false(agg_run_is_recovered(run));
    assert_false(agg_run_wants_answers(run));
    assert_int_equal(run->phase, CREMA_RUN_VERDICT);
    agg_run_destroy(&run);
}

/* Its client may come back and open it again: nothing of what it said before counts then. */
static void
must_forget_what_its_client_said(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    const Crema__RunOpen open = {.t_start_ns = 3};
    must(agg_run_on_open(run, &open));
    must(agg_run_on_end(run, &s_end, 1, 0));
    assert_true(run->opened && run->dismiss);
    agg_run_forget_client(run);
    assert_false(run->opened || run->dismiss || run->abandoned);
    assert_int_equal(run->phase, CREMA_RUN_UNKNOWN);
    must(agg_run_on_open(run, &open));
    must(agg_run_abandon(run, 2, 0, 0));
    assert_true(run->abandoned);
    agg_run_forget_client(run);
    assert_false(run->opened || run->dismiss || run->abandoned);
    must(agg_run_on_end(run, &s_end, 3, 0));
    agg_run_destroy(&run);
}

/* What a later message replaces is freed (the sanitizer counts), and the later one is kept. */
static void
must_replace_what_its_client_said(void **state)
{
    (void)state;
    agg_run_t *run = NULL;
    assert_int_equal(agg_run_new(&s_run_id, 0, 5, 30 * S, &s_awaited, &run), CREMA_EINVAL);
    assert_null(run);
    run = s_run();
    must(agg_run_on_open(run, &(Crema__RunOpen){.t_start_ns = 3}));
    must(agg_run_abandon(run, 2, 0, 0));
    agg_run_give_verdict(run, 0, 0);
    must(agg_run_on_sealed(
        run, &(Crema__Sealed){.path = "/x.h5", .verdict = "PARTIAL", .error = "", .revision = 1}));
    must(agg_run_on_end(run, &s_end, 3, 0));
    assert_false(run->abandoned);
    assert_null(run->sealed_msg);
    assert_int_equal(run->end_msg->run_end.t_end_ns, s_end.t_end_ns);
    agg_run_destroy(&run);
    run = s_run();
    must(agg_run_on_open(run, &(Crema__RunOpen){.t_start_ns = 3}));
    agg_run_forget_client(run);
    assert_null(run->open_msg);
    must(agg_run_on_open(run, &(Crema__RunOpen){.t_start_ns = 4}));
    assert_int_equal(run->open_msg->run_open.t_start_ns, 4);
    agg_run_destroy(&run);
}

static void
must_bound_the_reasons(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    must(agg_run_on_end(run, &s_end, 1, 0));
    for (int i = 0; i < AGG_RUN_REASONS_MAX + 30; i++)
        agg_run_add_reason(run, "stream_not_closed", "s", 0, "text");
    agg_run_give_verdict(run, 0, 0);
    const Crema__RunSeal *seal = &run->seal.run_seal;
    assert_int_equal(seal->n_reasons, AGG_RUN_REASONS_MAX + 1);
    assert_int_equal(seal->reasons[AGG_RUN_REASONS_MAX]->count, 30);
    assert_string_equal(seal->reasons[AGG_RUN_REASONS_MAX]->code, "stream_not_closed");
    agg_run_destroy(&run);
}

static void
must_keep_its_own_copy_of_texts(void **state)
{
    (void)state;
    char key[] = "user", value[] = "jane", prefix[] = "process", path[] = "/x/run.h5",
         why[] = "full";
    char *keys[] = {key}, *values[] = {value}, *prefixes[] = {prefix};
    const crema_msg_t msg = {.run_open = {.run_id = body_id(s_run_id),
                                          .n_keys = 1,
                                          .keys = keys,
                                          .n_values = 1,
                                          .values = values,
                                          .n_processor_prefixes = 1,
                                          .processor_prefixes = prefixes}};
    agg_run_t *run = s_run();
    must(agg_run_on_open(run, &msg.run_open));
    must(agg_run_on_open(run, &msg.run_open));
    must(agg_run_on_end(run, &msg.run_end, 1, 0));
    agg_run_give_verdict(run, 0, 0);
    const Crema__Sealed sealed = {.path = path, .error = why};
    must(agg_run_on_sealed(run, &sealed));
    key[0] = value[0] = prefix[0] = path[0] = why[0] = '?';
    assert_string_equal(run->open_msg->run_open.keys[0], "user");
    assert_string_equal(run->seal.run_seal.values[0], "jane");
    assert_string_equal(run->seal.run_seal.processor_prefixes[0], "process");
    assert_int_equal(run->phase, CREMA_RUN_FAILED);
    assert_string_equal(agg_run_state(run).error, "full");
    assert_string_equal(agg_run_state(run).path, "/x/run.h5");
    assert_string_equal(agg_run_state(run).verdict, "");
    agg_run_destroy(&run);
}

static void
must_refuse_more_members_than_its_limit(void **state)
{
    (void)state;
    agg_run_t *run = s_run();
    agg_member_t *member = NULL;
    for (uint8_t i = 0; i < 8; i++)
        s_member(run, &(crema_id_t){{i, 1}});
    assert_int_equal(agg_run_member(run, &(crema_id_t){{99}}, &member), CREMA_ELIMIT);
    assert_null(agg_run_find(run, &(crema_id_t){{99}}));
    assert_int_equal(run->n_members, 8);
    agg_run_destroy(&run);
}

/* Only who is not settled is found by its agent, and a run only while its verdict can be given
 * anew. */
static void
must_be_found_by_what_it_waits_for(void **state)
{
    (void)state;
    const agg_tally_t c_open = {.missing = 3}, c_done = {.committed = 3, .done = true};
    agg_run_t *run = s_run();
    agg_member_t *a = s_member(run, &s_a);
    const crema_link_t *recovered = &s_awaited.recovered;
    crema_link_t *of_a = agg_lists_find(s_awaited.of_agents, &s_a);
    assert_null(agg_lists_find(s_awaited.of_agents, &s_b));
    assert_true(crema_list_is_empty(of_a));
    agg_run_tally(run, a, NULL, &c_open, 0);
    assert_ptr_equal(CREMA_LIST_ITEM(of_a->next, agg_member_t, awaited), a);
    assert_ptr_equal(a->run, run);
    must(agg_run_on_end(run, &s_end, 1, 0));
    agg_run_clear_reasons(run);
    agg_run_add_reason(run, "agent_lost", "a", 3, "");
    agg_run_give_verdict(run, 1, 1);
    assert_true(crema_list_is_empty(recovered));
    agg_run_tally(run, a, &c_open, &c_done, 2);
    assert_true(crema_list_is_empty(of_a));
    assert_ptr_equal(CREMA_LIST_ITEM(recovered->next, agg_run_t, recovered), run);
    agg_run_clear_reasons(run);
    agg_run_give_verdict(run, 3, 3);
    assert_true(crema_list_is_empty(recovered));
    agg_run_destroy(&run);
    assert_null(agg_lists_find(s_awaited.of_agents, &s_a));
}

static int
s_setup(void **state)
{
    (void)state;
    return agg_awaited_init(&s_awaited) == CREMA_OK ? 0 : -1;
}

static int
s_teardown(void **state)
{
    (void)state;
    agg_lists_destroy(&s_awaited.of_agents);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_be_ready_when_all_answered_and_all_is_committed),
        cmocka_unit_test(must_ask_five_times_and_then_give_up),
        cmocka_unit_test(must_be_ready_when_the_limit_of_its_client_is_over),
        cmocka_unit_test(must_not_wait_for_one_that_is_silent_for_longer_than_that),
        cmocka_unit_test(must_not_wait_for_the_answer_of_one_that_left),
        cmocka_unit_test(must_wait_while_what_is_owed_arrives),
        cmocka_unit_test(must_wait_a_little_for_a_run_without_any_stream),
        cmocka_unit_test(must_take_back_reasons_when_everything_came),
        cmocka_unit_test(must_forget_what_its_client_said),
        cmocka_unit_test(must_replace_what_its_client_said),
        cmocka_unit_test(must_bound_the_reasons),
        cmocka_unit_test(must_keep_its_own_copy_of_texts),
        cmocka_unit_test(must_refuse_more_members_than_its_limit),
        cmocka_unit_test(must_be_found_by_what_it_waits_for),
    };
    return cmocka_run_group_tests(tests, s_setup, s_teardown);
}
