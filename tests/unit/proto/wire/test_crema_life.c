/* crema_life: the table is the specification; the walks are what it means for a run. */
#include "must.h"

#include "crema_life.h"
#include "message_parts.h"

typedef struct {
    crema_life_event_t event;
    crema_life_t want;
} step_t;

#define STEPS(...)                                                                                 \
    ((const step_t[]){__VA_ARGS__}), sizeof((const step_t[]){__VA_ARGS__}) / sizeof(step_t)

static crema_life_t
must_walk(crema_life_t life, const step_t *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        must(crema_life_step(life, steps[i].event, &life));
        assert_string_equal(crema_life_name(life), crema_life_name(steps[i].want));
    }
    return life;
}

static void
must_end_by_its_client(void **state)
{
    (void)state;
    crema_life_t life =
        must_walk(CREMA_LIFE_NONE,
                  STEPS({CREMA_LIFE_NEWS, CREMA_LIFE_OPEN}, {CREMA_LIFE_NEWS, CREMA_LIFE_OPEN},
                        {CREMA_LIFE_END, CREMA_LIFE_ENDED}, {CREMA_LIFE_END, CREMA_LIFE_ENDED},
                        {CREMA_LIFE_NEWS, CREMA_LIFE_ENDED}, {CREMA_LIFE_FILE, CREMA_LIFE_SEALED},
                        {CREMA_LIFE_NEWS, CREMA_LIFE_SEALED}, {CREMA_LIFE_FILE, CREMA_LIFE_SEALED},
                        {CREMA_LIFE_END, CREMA_LIFE_SEALED}, {CREMA_LIFE_AGE, CREMA_LIFE_CLOSED},
                        {CREMA_LIFE_REMOVED, CREMA_LIFE_FREED}));
    assert_int_equal(crema_life_step(life, CREMA_LIFE_NEWS, &life), CREMA_ENOENT);
}

static void
must_be_ended_by_a_client_that_comes_back_until_it_is_closed(void **state)
{
    (void)state;
    must_walk(CREMA_LIFE_OPEN,
              STEPS({CREMA_LIFE_SILENCE, CREMA_LIFE_ABANDONED},
                    {CREMA_LIFE_NEWS, CREMA_LIFE_ABANDONED}, {CREMA_LIFE_END, CREMA_LIFE_ENDED}));
    crema_life_t life = must_walk(
        CREMA_LIFE_ABANDONED,
        STEPS({CREMA_LIFE_FILE, CREMA_LIFE_UNENDED}, {CREMA_LIFE_NEWS, CREMA_LIFE_UNENDED},
              {CREMA_LIFE_SILENCE, CREMA_LIFE_UNENDED}, {CREMA_LIFE_FILE, CREMA_LIFE_UNENDED},
              {CREMA_LIFE_END, CREMA_LIFE_ENDED}, {CREMA_LIFE_FILE, CREMA_LIFE_SEALED},
              {CREMA_LIFE_AGE, CREMA_LIFE_CLOSED}));
    assert_int_equal(crema_life_step(life, CREMA_LIFE_END, &life), CREMA_ENOENT);
    assert_int_equal(crema_life_step(life, CREMA_LIFE_NEWS, &life), CREMA_ENOENT);
    assert_int_equal(life, CREMA_LIFE_CLOSED);
}

/* Silence and age, which only time brings, never take a run over a state in which something is
 * outstanding. */
static void
must_not_be_closed_or_freed_before_it_is_sealed(void **state)
{
    (void)state;
    const crema_life_t unsealed[] = {CREMA_LIFE_NONE, CREMA_LIFE_OPEN, CREMA_LIFE_ENDED,
                                     CREMA_LIFE_ABANDONED};
    for (size_t i = 0; i < sizeof unsealed / sizeof *unsealed; i++) {
        crema_life_t life = unsealed[i];
        assert_int_equal(crema_life_step(life, CREMA_LIFE_AGE, &life), CREMA_EINVAL);
        assert_int_equal(crema_life_step(life, CREMA_LIFE_REMOVED, &life), CREMA_EINVAL);
    }
    crema_life_t life = CREMA_LIFE_SEALED;
    assert_int_equal(crema_life_step(life, CREMA_LIFE_REMOVED, &life), CREMA_EINVAL);
    assert_int_equal(crema_life_step(life, CREMA_LIFE_SILENCE, &life), CREMA_EINVAL);
    life = CREMA_LIFE_ENDED; /* who waits for a verdict is not silent */
    assert_int_equal(crema_life_step(life, CREMA_LIFE_SILENCE, &life), CREMA_EINVAL);
    life = CREMA_LIFE_OPEN;
    assert_int_equal(crema_life_step(life, CREMA_LIFE_FILE, &life), CREMA_EINVAL);
}

static void
must_tell_a_run_that_nobody_ended_from_one_that_ended(void **state)
{
    (void)state;
    Crema__Reason reasons[] = {crema_reason("agent_lost", "", "", 1),
                               crema_reason("run_not_ended", "", "", 0)};
    crema_msg_t msg = {.type = CREMA_MSG_RUN_SEAL,
                       .run_seal = {.n_reasons = 1, .reasons = body_reasons(2, reasons)}};
    assert_int_equal(crema_life_event(&(crema_msg_t){.type = CREMA_MSG_RUN_OPEN}), CREMA_LIFE_NEWS);
    assert_int_equal(crema_life_event(&(crema_msg_t){.type = CREMA_MSG_RUN_END}), CREMA_LIFE_END);
    assert_int_equal(crema_life_event(&msg), CREMA_LIFE_END);
    msg.run_seal.n_reasons = 2;
    assert_int_equal(crema_life_event(&msg), CREMA_LIFE_SILENCE);
}

static void
must_refuse_what_is_no_state_and_no_event(void **state)
{
    (void)state;
    crema_life_t life = CREMA_LIFE_OPEN;
    assert_int_equal(crema_life_step(CREMA_LIFE_COUNT, CREMA_LIFE_END, &life), CREMA_EINVAL);
    assert_int_equal(crema_life_step(life, CREMA_LIFE_EVENTS, &life), CREMA_EINVAL);
    assert_string_equal(crema_life_name(CREMA_LIFE_COUNT), "?");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_end_by_its_client),
        cmocka_unit_test(must_be_ended_by_a_client_that_comes_back_until_it_is_closed),
        cmocka_unit_test(must_not_be_closed_or_freed_before_it_is_sealed),
        cmocka_unit_test(must_tell_a_run_that_nobody_ended_from_one_that_ended),
        cmocka_unit_test(must_refuse_what_is_no_state_and_no_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
