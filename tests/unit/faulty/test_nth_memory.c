/* Every allocation of what lives in memory only fails once: it is made whole or refused, never
 * made of nothing. */
#include "must.h"

#include <errno.h>
#include <stdlib.h>

#include "faulty.h"
#include "message_parts.h"
#include "record_frames.h"
#include "sink_activity.h"
#include "sink_attribute.h"
#include "sink_bottleneck.h"
#include "sink_journal.h"
#include "sink_meta.h"
#include "sink_store_private.h"

typedef crema_err_t (*call_t)(void *context);

/* Calls until nothing fails any more; `least` allocations at least. */
static void
must_fail_with_each_allocation(call_t call, void *context, uint64_t least)
{
    uint64_t n = 0;
    for (int failed = 1; failed;) {
        faulty_arm("memory", "", ++n, ENOMEM);
        crema_err_t err = call(context);
        failed = faulty_has_failed();
        faulty_disarm();
        assert_int_equal(err, failed ? CREMA_ENOMEM : CREMA_OK);
    }
    assert_in_range(n, least + 1, 1000);
}

static crema_err_t
s_measure(void *context)
{
    const sink_facts_t facts = {0};
    const sink_model_t model = {0};
    sink_measured_t found;
    return sink_bottleneck_measure(&facts, &model, context, &found);
}

static crema_err_t
s_tail(void *context)
{
    (void)context;
    const sink_journal_visitor_t visitor = {0};
    sink_journal_tail_t *self = NULL;
    crema_err_t err = sink_journal_tail_new("/nowhere", &visitor, &self);
    sink_journal_tail_destroy(&self);
    return err;
}

static crema_err_t
s_attributes(void *context)
{
    (void)context;
    sink_attributes_t *self = NULL;
    crema_err_t err = sink_attributes_new(&self);
    if (err == CREMA_OK)
        err = sink_attributes_text(self, "another", "text");
    sink_attributes_destroy(&self);
    return err;
}

static crema_err_t
s_activity(void *context)
{
    sink_activity_t *self = NULL;
    crema_err_t err = sink_activity_new(context, &self);
    sink_activity_destroy(&self);
    return err;
}

/* The checkpoint of a run: its state and the marks of its streams. */
static crema_err_t
s_checkpoint(void *context)
{
    const crema_id_t run_id = frames_id(7);
    sink_journal_head_t head = sink_store_head(context);
    sink_journal_state_t state;
    sink_journal_mark_t *marks = NULL;
    crema_err_t err = head.fn(head.context, &run_id, &state, &marks);
    free(marks);
    return err;
}

static void
must_write_no_checkpoint_of_nothing(void **state)
{
    (void)state;
    char *dir = scratch_make(), why[256];
    const sink_store_config_t config = {.dir = dir, .streams_max = 100, .runs_max = 10};
    const crema_id_t run_id = frames_id(7);
    sink_store_t *store;
    sink_store_run_t *run;
    if (sink_store_open(&config, why, sizeof why, &store) != CREMA_OK)
        fail_msg("%s", why);
    must(sink_store_take_run(store, &run_id, &run));
    must_fail_with_each_allocation(s_checkpoint, store, 1);
    sink_store_close(&store);
    scratch_remove(&dir);
}

static void
must_be_made_or_refused(void **state)
{
    (void)state;
    crema_limits_t limits = crema_limits();
    sink_tables_t *tables;
    char *dir = scratch_make();
    must(sink_tables_new(dir, &tables));
    must_fail_with_each_allocation(s_measure, tables, 1);
    sink_tables_destroy(&tables);
    scratch_remove(&dir);
    must_fail_with_each_allocation(s_tail, NULL, 2);
    must_fail_with_each_allocation(s_attributes, NULL, 6);
    must_fail_with_each_allocation(s_activity, &limits, 2);
}

static char *s_keys[] = {"run_label"}, *s_values[] = {"here"}, *s_prefixes[] = {"Dijets"};

static crema_err_t
s_tell(void *context)
{
    Crema__Reason reasons[] = {crema_reason("agent_lost", "a1", "gone", 3),
                               crema_reason("writer_killed", "w", "9", 1)};
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_SEAL,
                             .run_seal = {.t_end_ns = 9,
                                          .n_keys = 1,
                                          .keys = s_keys,
                                          .n_values = 1,
                                          .values = s_values,
                                          .n_processor_prefixes = 1,
                                          .processor_prefixes = s_prefixes,
                                          .n_reasons = 2,
                                          .reasons = body_reasons(2, reasons)}};
    return sink_meta_take(context, &msg);
}

/* Said again, with memory, it is all there. */
static void
must_keep_what_was_said_or_say_so(void **state)
{
    (void)state;
    crema_limits_t limits = crema_limits();
    uint64_t n = 0;
    for (int failed = 1; failed;) {
        sink_meta_t *self;
        Crema__Reason *const *told;
        must(sink_meta_new(&limits, &self));
        faulty_arm("memory", "", ++n, ENOMEM);
        crema_err_t err = s_tell(self);
        failed = faulty_has_failed();
        faulty_disarm();
        assert_int_equal(err, failed ? CREMA_ENOMEM : CREMA_OK);
        must(s_tell(self));
        assert_int_equal(sink_meta_reasons(self, &told), 2);
        assert_string_equal(told[1]->subject, "w");
        assert_int_equal(sink_meta_rules(self).n_prefixes, 1);
        sink_meta_destroy(&self);
    }
    assert_true(n > 6);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_be_made_or_refused),
        cmocka_unit_test(must_write_no_checkpoint_of_nothing),
        cmocka_unit_test(must_keep_what_was_said_or_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
