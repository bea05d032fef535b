/* sink_answers: each comes when so much of its run is durable, in the order in which they were
 * asked for. */
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "sink_answers.h"

static const crema_id_t s_run = {{1}}, s_other = {{2}};

static void
must_add(sink_answers_t *self, const crema_id_t *run_id, crema_msg_type_t type, uint32_t part,
         uint64_t appends)
{
    sink_answer_t answer = {.run_id = *run_id, .type = type, .part = part, .appends = appends};
    answer.bytes = malloc(answer.size = 8);
    assert_non_null(answer.bytes);
    must(sink_answers_add(self, &answer));
}

static void
must_take(sink_answers_t *self, const crema_id_t *run_id, uint32_t part)
{
    sink_answer_t *answer = sink_answers_take(self);
    assert_non_null(answer);
    assert_true(crema_id_equal(&answer->run_id, run_id));
    assert_int_equal(answer->part, part);
    sink_answer_free(answer);
}

static void
must_answer_what_is_durable(void **state)
{
    (void)state;
    sink_answers_t *self;
    must(sink_answers_new(2, &self));
    must_add(self, &s_run, CREMA_MSG_RUN_WRITERS, 0, 3);
    must_add(self, &s_run, CREMA_MSG_RUN_WRITERS, 1, 5);
    must_add(self, &s_other, CREMA_MSG_RUN_WRITERS, 2, 1);
    sink_answers_durable(self, &s_run, 2);
    assert_null(sink_answers_take(self));
    assert_int_equal(sink_answers_find(self, &s_run, CREMA_MSG_RUN_WRITERS, 1)->appends, 5);
    assert_null(sink_answers_find(self, &s_run, CREMA_MSG_RUN_WRITERS, 2));
    assert_null(sink_answers_find(self, &s_run, CREMA_MSG_RUN_SEAL, 1));
    sink_answers_durable(self, &s_run, 4);
    must_take(self, &s_run, 0);
    assert_null(sink_answers_take(self));
    sink_answers_durable(self, &s_other, 1);
    sink_answers_durable(self, &s_run, 5);
    must_take(self, &s_other, 2);
    must_take(self, &s_run, 1);
    assert_null(sink_answers_find(self, &s_run, CREMA_MSG_RUN_WRITERS, 1));
    sink_answers_durable(self, &s_run, 6); /* nobody waits */
    sink_answers_destroy(&self);
    assert_null(self);
}

/* The run was set aside: its journal holds nothing of what was said. */
static void
must_drop_what_waits(void **state)
{
    (void)state;
    sink_answers_t *self;
    must(sink_answers_new(2, &self));
    must_add(self, &s_run, CREMA_MSG_RUN_OPEN, 0, 1);
    must_add(self, &s_run, CREMA_MSG_OPEN, 1, 2);
    must_add(self, &s_other, CREMA_MSG_RUN_OPEN, 2, 1);
    sink_answers_drop(self, &s_run);
    sink_answers_drop(self, &s_run); /* nobody waits */
    sink_answers_durable(self, &s_run, 3);
    assert_null(sink_answers_take(self));
    sink_answers_durable(self, &s_other, 1);
    must_take(self, &s_other, 2);
    sink_answers_destroy(&self);
}

/* Two runs have room: one that nobody waits for any more makes room, and what is refused is
 * freed. */
static void
must_bound_runs(void **state)
{
    (void)state;
    const crema_id_t third = {{3}};
    sink_answers_t *self = NULL;
    assert_int_equal(sink_answers_new(0, &self), CREMA_EINVAL);
    must(sink_answers_new(2, &self));
    must_add(self, &s_run, CREMA_MSG_RUN_SEAL, 0, 1);
    must_add(self, &s_other, CREMA_MSG_RUN_SEAL, 0, 1);
    sink_answer_t answer = {.run_id = third, .bytes = malloc(8), .size = 8};
    assert_int_equal(sink_answers_add(self, &answer), CREMA_ELIMIT);
    sink_answers_durable(self, &s_run, 1);
    must_add(self, &third, CREMA_MSG_RUN_SEAL, 0, 1);
    sink_answers_destroy(&self); /* one is due, two wait */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_answer_what_is_durable),
        cmocka_unit_test(must_drop_what_waits),
        cmocka_unit_test(must_bound_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
