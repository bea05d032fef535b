/* Live splits of runs: what RUN_STATE says of them adds up to what passed by, until the run has
 * its file. */
#include "core_rig.h"

#include "message_parts.h"
#include "record_frames.h"

static frames_t s_frames;

/* Names and one total of the activity thread-cpu, as records `first` and first + 1 of stream 1. */
static void
s_fill_frames(uint64_t first, double total)
{
    const crema_table_t *table = crema_table(CREMA_TABLE_ACTIVITIES);
    size_t n_ints, n_reals;
    crema_table_wire_columns(table, &n_ints, &n_reals);
    int64_t ints[16] = {0};
    Crema__DictEntry names[] = {
        {.kind = CREMA_DICT_TASK_PREFIX, .text = "p", .uuid = "", .host = ""},
        {.kind = CREMA_DICT_ACTIVITY, .text = "thread-cpu", .uuid = "", .host = ""},
        {.kind = CREMA_DICT_UNIT, .text = "seconds", .uuid = "", .host = ""},
    };
    crema_record_t dict = {.type = CREMA_RECORD_DICT,
                           .dict = {.n_entries = 3, .entries = body_entries(3, names)}};
    crema_record_t batch = {
        .type = CREMA_RECORD_BATCH,
        .batch = {.table = table,
                  .rows = 1,
                  .n_int_columns = n_ints,
                  .n_real_columns = n_reals,
                  .ints = ints,
                  .reals = &total},
    };
    frames_clear(&s_frames);
    frames_add(&s_frames, &dict, first);
    frames_add(&s_frames, &batch, first + 1);
}

static void
s_say_frames(rig_t *rig, uint64_t first)
{
    crema_msg_t msg = {
        .type = CREMA_MSG_DATA,
        .session = SESSION,
        .data = {.stream_id = body_id(s_stream(1)),
                 .run_id = body_id(s_run),
                 .first_seq = first,
                 .n = s_frames.n,
                 .hi = first + s_frames.n - 1,
                 .frames = {s_frames.size, s_frames.bytes}},
    };
    s_peer(rig, 1, &msg);
    s_heard(rig);
}

static void
s_say_total(rig_t *rig, uint64_t first, double total)
{
    s_fill_frames(first, total);
    s_say_frames(rig, first);
}

static void
s_say_prefix(rig_t *rig, const char *prefix)
{
    char *prefixes[] = {(char *)prefix};
    crema_msg_t msg = {.type = CREMA_MSG_RUN_OPEN,
                       .run_open = {.run_id = body_id(s_run),
                                    .n_processor_prefixes = 1,
                                    .processor_prefixes = prefixes}};
    s_peer(rig, 9, &msg);
    s_heard(rig);
}

static void
must_split(rig_t *rig, double processor_s, double overhead_s)
{
    Crema__RunState state;
    assert_true(agg_core_look(rig->core, &s_run, &state));
    assert_true(state.processor_s == processor_s);
    assert_true(state.overhead_s == overhead_s);
    s_say_run(rig, 9, CREMA_MSG_RUN_QUERY, false);
    s_heard(rig);
    assert_true(rig->state.processor_s == processor_s);
    assert_true(rig->state.overhead_s == overhead_s);
}

static void
must_sum_up_what_passes_by(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_say_prefix(&rig, "another");
    s_say_total(&rig, 1, 1.0);
    must_split(&rig, 0.0, 1.0);
    s_say_total(&rig, 3, 2.0);
    must_split(&rig, 0.0, 2.0);
    s_say_total(&rig, 3, 2.0); /* a repeat */
    must_split(&rig, 0.0, 2.0);
    s_say_total(&rig, 5, 5.0);
    s_say_prefix(&rig, "p");
    must_split(&rig, 5.0, 0.0);
    agg_core_destroy(&rig.core);
}

static void
must_pass_over_damage(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_say_prefix(&rig, "another");
    s_say_total(&rig, 1, 2.0);
    s_fill_frames(3, 7.0);
    s_frames.bytes[s_frames.size - 1] ^= 1;
    s_say_frames(&rig, 3);
    must_split(&rig, 0.0, 2.0);
    assert_int_equal(agg_core_stats(rig.core).split_left, 1);
    agg_core_destroy(&rig.core);
}

static void
must_keep_only_sums_of_a_sealed_run(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    Crema__RunState run;
    size_t cursor = 0;
    s_say_prefix(&rig, "p");
    s_say_total(&rig, 1, 2.0);
    assert_non_null(agg_core_split(rig.core, &s_run));
    assert_ptr_equal(agg_core_next_split(rig.core, &cursor, &run),
                     agg_core_split(rig.core, &s_run));
    assert_true(crema_id_equal(crema_id_of(run.run_id), &s_run));
    assert_null(agg_core_next_split(rig.core, &cursor, &run));
    s_sink(
        &rig,
        (crema_msg_t){
            .type = CREMA_MSG_SEALED,
            .sealed = {.run_id = body_id(s_run), .path = "f", .verdict = "PARTIAL", .error = ""}});
    s_heard(&rig);
    must_split(&rig, 2.0, 0.0);
    s_say_total(&rig, 3, 9.0);
    must_split(&rig, 2.0, 0.0);
    assert_null(agg_core_split(rig.core, &s_run));
    assert_null(agg_core_split(rig.core, &s_agent));
    cursor = 0;
    assert_null(agg_core_next_split(rig.core, &cursor, &run));
    agg_core_destroy(&rig.core);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_sum_up_what_passes_by),
        cmocka_unit_test(must_pass_over_damage),
        cmocka_unit_test(must_keep_only_sums_of_a_sealed_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
