/* sink_texts and sink_meta: what was said of a run, bounded. */
#include <stdio.h>
#include <string.h>

#include "message_parts.h"
#include "must.h"
#include "sink_meta.h"
#include "sink_texts.h"

static void
must_keep_order_replace_and_stop_at_the_limit(void **state)
{
    (void)state;
    sink_texts_t *self;
    crema_limits_t limits = crema_limits();
    must(sink_texts_new(&limits, &self));
    must(sink_texts_put(self, "b", "1", false));
    must(sink_texts_put(self, "a", "2", false));
    must(sink_texts_put(self, "b", "3", false));
    assert_string_equal(sink_texts_find(self, "b"), "1");
    must(sink_texts_put(self, "b", "4", true));
    assert_string_equal(sink_texts_name(self, 0), "b");
    assert_string_equal(sink_texts_value(self, 0), "4");
    assert_null(sink_texts_find(self, "c"));
    limits.limit[CREMA_LIMIT_ATTRIBUTES] = 100;
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "n%d", i);
        must(sink_texts_put(self, name, "x", true));
    }
    assert_int_equal(sink_texts_count(self), 100);
    assert_int_equal(limits.met[CREMA_LIMIT_ATTRIBUTES], 102);
    sink_texts_destroy(&self);
    assert_null(self);
}

static void
must_take_the_last_word_and_forget_nothing(void **state)
{
    (void)state;
    sink_meta_t *self;
    char *keys[] = {"run_label", "site"}, *values[] = {"first", "here"};
    char *later_keys[] = {"run_label"}, *later_values[] = {"second"};
    char *prefixes[] = {"Dijets", "Other"};
    Crema__Reason reason = crema_reason("agent_lost", "a1", "gone", 3);
    crema_limits_t limits = crema_limits();
    must(sink_meta_new(&limits, &self));
    crema_msg_t msg = {.type = CREMA_MSG_RUN_OPEN,
                       .run_open = {.t_start_ns = 5,
                                    .n_keys = 2,
                                    .keys = keys,
                                    .n_values = 2,
                                    .values = values,
                                    .n_processor_prefixes = 1,
                                    .processor_prefixes = prefixes}};
    must(sink_meta_take(self, &msg));
    must(sink_meta_take(self, &msg));
    assert_false(sink_meta_ended(self));
    assert_int_equal(sink_meta_rules(self).n_prefixes, 1);
    msg = (crema_msg_t){.type = CREMA_MSG_RUN_SEAL,
                        .run_seal = {.t_end_ns = 9,
                                     .n_keys = 1,
                                     .keys = later_keys,
                                     .n_values = 1,
                                     .values = later_values,
                                     .n_processor_prefixes = 2,
                                     .processor_prefixes = prefixes,
                                     .n_reasons = 1,
                                     .reasons = body_reasons(1, &reason)}};
    must(sink_meta_take(self, &msg));
    Crema__Reason *const *told;
    assert_int_equal(sink_meta_reasons(self, &told), 1);
    assert_string_equal(told[0]->subject, "a1");
    assert_int_equal(told[0]->count, 3);
    msg.run_seal.n_reasons = 0; /* sealed again: all of them have come */
    must(sink_meta_take(self, &msg));
    assert_int_equal(sink_meta_reasons(self, &told), 0);
    assert_true(sink_meta_ended(self));
    assert_int_equal(sink_meta_start_ns(self), 5);
    assert_int_equal(sink_meta_end_ns(self), 9);
    assert_string_equal(sink_texts_find(sink_meta_attributes(self), "run_label"), "second");
    assert_string_equal(sink_texts_find(sink_meta_attributes(self), "site"), "here");
    assert_string_equal(sink_meta_rules(self).processor_prefixes[1], "Other");
    assert_int_equal(sink_meta_rules(self).n_prefixes, 2);
    sink_meta_destroy(&self);
    assert_null(self);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_keep_order_replace_and_stop_at_the_limit),
        cmocka_unit_test(must_take_the_last_word_and_forget_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
