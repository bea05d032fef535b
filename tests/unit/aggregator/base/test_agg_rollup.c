/* The live split: the last total of each key counts once, whatever is repeated, lost or named
 * late. */
#include "must.h"

#include <stdio.h>
#include <string.h>

#include "agg_rollup.h"
#include "message_parts.h"
#include "record_frames.h"

enum { UNIT_SECONDS, UNIT_BYTES };
enum { EXECUTE, GATHER_DEP };

static agg_rollup_t *s_rollup;

static int
s_setup(void **state)
{
    (void)state;
    agg_rollup_limits_t limits = {
        .streams_max = 3, .names_max = 8, .keys_max = 6, .locals_max = 4, .bytes_max = 1 << 20};
    return agg_rollup_new(limits, &s_rollup) == CREMA_OK ? 0 : -1;
}

static int
s_teardown(void **state)
{
    (void)state;
    agg_rollup_destroy(&s_rollup);
    return s_rollup == NULL ? 0 : -1;
}

/* ---- verbs */

static void
say_name(uint8_t stream, crema_dict_t kind, uint32_t id, const char *text)
{
    crema_id_t stream_id = frames_id(stream);
    Crema__DictEntry entry = {.kind = kind, .id = id, .text = (char *)text};
    crema_record_t record = {.type = CREMA_RECORD_DICT,
                             .dict = {.n_entries = 1, .entries = body_entries(1, &entry)}};
    agg_rollup_take(s_rollup, &stream_id, &record);
}

/* Prefix 0 is the processor's, prefix 1 another one. */
static void
say_names(uint8_t stream)
{
    say_name(stream, CREMA_DICT_TASK_PREFIX, 0, "my_processor");
    say_name(stream, CREMA_DICT_TASK_PREFIX, 1, "other_task");
    say_name(stream, CREMA_DICT_ACTIVITY, 0, "thread-cpu");
    say_name(stream, CREMA_DICT_ACTIVITY, 1, "serialize");
    say_name(stream, CREMA_DICT_UNIT, UNIT_SECONDS, "seconds");
    say_name(stream, CREMA_DICT_UNIT, UNIT_BYTES, "bytes");
}

typedef struct {
    int64_t worker, prefix, activity, unit, context, side, baseline;
    double total;
} row_t;

static void
say_row(uint8_t stream, row_t row)
{
    const crema_table_t *table = crema_table(CREMA_TABLE_ACTIVITIES);
    int64_t ints[16] = {0};
    size_t n_ints, n_reals, at = 0;
    crema_table_wire_columns(table, &n_ints, &n_reals);
    for (size_t i = 0; i < table->n_columns; i++) {
        const char *name = table->columns[i].name;
        if (table->columns[i].origin == CREMA_FROM_SINK || table->columns[i].type == CREMA_T_F64)
            continue;
        ints[at++] = strcmp(name, "worker_id") == 0        ? row.worker
                     : strcmp(name, "task_prefix_id") == 0 ? row.prefix
                     : strcmp(name, "activity_id") == 0    ? row.activity
                     : strcmp(name, "unit_id") == 0        ? row.unit
                     : strcmp(name, "context") == 0        ? row.context
                     : strcmp(name, "side") == 0           ? row.side
                     : strcmp(name, "baseline") == 0       ? row.baseline
                                                           : 0;
    }
    assert_int_equal(at, n_ints);
    crema_id_t stream_id = frames_id(stream);
    crema_record_t record = {
        .type = CREMA_RECORD_BATCH,
        .batch = {.table = table,
                  .rows = 1,
                  .n_int_columns = n_ints,
                  .n_real_columns = n_reals,
                  .ints = ints,
                  .reals = &row.total},
    };
    agg_rollup_take(s_rollup, &stream_id, &record);
}

static void
say_total(uint8_t stream, int64_t prefix, int64_t activity, double total)
{
    say_row(stream, (row_t){.prefix = prefix, .activity = activity, .total = total});
}

static void
must_split(double processor_s, double overhead_s)
{
    double got = agg_rollup_side_s(s_rollup, CREMA_SIDE_PROCESSOR);
    if (got < processor_s - 1e-9 || got > processor_s + 1e-9)
        fail_msg("processor %g, not %g", got, processor_s);
    got = agg_rollup_overhead_s(s_rollup);
    if (got < overhead_s - 1e-9 || got > overhead_s + 1e-9)
        fail_msg("overhead %g, not %g", got, overhead_s);
}

static void
set_prefixes(char *prefix)
{
    must(agg_rollup_set_prefixes(s_rollup, prefix ? 1 : 0, &prefix));
}

/* ---- tests */

static void
test_rollup_counts_the_last_total_of_each_key_once(void **state)
{
    (void)state;
    set_prefixes("my_processor");
    say_names(1);
    say_total(1, 0, 0, 2.0);
    must_split(2.0, 0.0);
    say_total(1, 0, 0, 2.0); /* repeated */
    must_split(2.0, 0.0);
    say_total(1, 0, 0, 7.5); /* some in between were lost */
    must_split(7.5, 0.0);
    say_total(1, 1, 0, 1.0);
    must_split(7.5, 1.0);
    say_total(1, 0, 1, 0.25); /* serializing is runtime, whatever the task */
    must_split(7.5, 1.25);
    say_row(1, (row_t){.worker = 1, .total = 3.0}); /* another worker of the same stream */
    must_split(10.5, 1.25);
    say_names(2);
    say_total(2, 0, 0, 1.0); /* the same numbers in another stream */
    must_split(11.5, 1.25);
    assert_int_equal(agg_rollup_stats(s_rollup).keys, 5);
}

static void
test_rollup_takes_off_what_was_there_before_the_run(void **state)
{
    (void)state;
    set_prefixes("my_processor");
    say_names(1);
    say_row(1, (row_t){.total = 100.0, .baseline = 1});
    must_split(0.0, 0.0);
    say_total(1, 0, 0, 103.0);
    must_split(3.0, 0.0);
    say_row(1, (row_t){.total = 100.0, .baseline = 1}); /* sent again after a lost connection */
    say_total(1, 0, 0, 103.0);
    must_split(3.0, 0.0);
}

static void
test_rollup_believes_the_hook_that_marked_a_chunk(void **state)
{
    (void)state;
    say_names(1);
    say_row(1, (row_t){.prefix = 1, .side = CREMA_SIDE_PROCESSOR, .total = 4.0});
    must_split(4.0, 0.0);
    say_row(1, (row_t){.prefix = 1, .side = 200, .total = 5.0}); /* no side: as before */
    must_split(5.0, 0.0);
}

static void
test_rollup_leaves_out_transfers_bytes_and_nonsense(void **state)
{
    (void)state;
    set_prefixes("my_processor");
    say_names(1);
    say_row(1, (row_t){.context = GATHER_DEP, .total = 4.0});
    say_row(1, (row_t){.unit = UNIT_BYTES, .total = 4e9});
    say_total(1, 0, 0, -1.0);
    say_total(1, 0, 0, 1e300);
    say_total(1, 0, 0, __builtin_nan(""));
    must_split(0.0, 0.0);
    assert_int_equal(agg_rollup_stats(s_rollup).keys, 0);
}

static void
test_rollup_assigns_anew_when_the_prefixes_come(void **state)
{
    (void)state;
    say_names(1);
    say_total(1, 0, 0, 2.0);
    say_total(1, 1, 0, 3.0);
    must_split(0.0, 0.0); /* whose they are is not known */
    set_prefixes("my_processor");
    must_split(2.0, 3.0);
    set_prefixes("other_task");
    must_split(3.0, 2.0);
    set_prefixes(NULL);
    must_split(0.0, 0.0);
}

static void
test_rollup_counts_rows_without_names(void **state)
{
    (void)state;
    say_total(1, 0, 0, 2.0);
    say_names(1);
    say_total(1, 3, 0, 2.0);
    say_total(1, -1, 0, 2.0);
    say_total(1, 0, INT64_MAX, 2.0);
    assert_int_equal(agg_rollup_stats(s_rollup).nameless, 4);
    assert_false(agg_rollup_is_whole(s_rollup));
    must_split(0.0, 0.0);
}

static void
test_rollup_grows_with_what_was_received(void **state)
{
    (void)state;
    agg_rollup_destroy(&s_rollup);
    must(agg_rollup_new(AGG_ROLLUP_LIMITS, &s_rollup));
    for (crema_dict_t kind = 0; kind < CREMA_DICT_COUNT; kind++)
        say_name(1, kind, 4095, "x");
    assert_in_range(agg_rollup_stats(s_rollup).bytes, 1, 4096);
    assert_true(agg_rollup_is_whole(s_rollup));
}

/* A stream may number its names in any order: after a restart the first ones are missing. */
static void
test_rollup_finds_names_in_any_order(void **state)
{
    (void)state;
    set_prefixes("my_processor");
    say_name(1, CREMA_DICT_TASK_PREFIX, 3, "my_processor");
    say_name(1, CREMA_DICT_TASK_PREFIX, 1, "other_task");
    say_name(1, CREMA_DICT_TASK_PREFIX, 2, "third");
    say_name(1, CREMA_DICT_ACTIVITY, 0, "thread-cpu");
    say_name(1, CREMA_DICT_UNIT, UNIT_SECONDS, "seconds");
    say_total(1, 3, 0, 2.0);
    say_total(1, 1, 0, 3.0);
    must_split(2.0, 3.0);
    assert_true(agg_rollup_is_whole(s_rollup));
    say_total(1, 0, 0, 4.0);
    must_split(2.0, 3.0);
    assert_int_equal(agg_rollup_stats(s_rollup).nameless, 1);
}

static void
test_rollup_learns_nothing_without_room(void **state)
{
    (void)state;
    say_names(1);
    say_total(1, 1, 0, 1.0);
    must_split(0.0, 0.0);
    set_prefixes("my_processor");
    must_split(0.0, 1.0);
    const uint64_t bytes = agg_rollup_stats(s_rollup).bytes;
    agg_rollup_allow(s_rollup, 0);
    say_name(1, CREMA_DICT_ACTIVITY, 2, "seventh");
    say_names(2);
    say_total(1, 0, 0, 1.0);
    char *longer[] = {"my_processor", "another"};
    assert_int_equal(agg_rollup_set_prefixes(s_rollup, 2, longer), CREMA_ELIMIT);
    assert_int_equal(agg_rollup_stats(s_rollup).not_taken, 9);
    assert_int_equal(agg_rollup_stats(s_rollup).bytes, bytes);
    assert_false(agg_rollup_is_whole(s_rollup));
    say_total(1, 1, 0, 2.0); /* what it knows goes on */
    must_split(0.0, 2.0);
}

static void
test_rollup_is_bounded(void **state)
{
    (void)state;
    set_prefixes("another");
    say_names(1);
    say_names(2);
    say_names(3);
    assert_int_equal(agg_rollup_stats(s_rollup).names, 6); /* once a run, not once a stream */
    say_names(4);                                          /* a fourth stream */
    assert_int_equal(agg_rollup_stats(s_rollup).not_taken, 6);
    say_name(1, CREMA_DICT_ACTIVITY, 2, "seventh");
    say_name(1, CREMA_DICT_ACTIVITY, 3, "eighth");
    say_name(2, CREMA_DICT_ACTIVITY, 3, "ninth");
    assert_int_equal(agg_rollup_stats(s_rollup).not_taken, 7);
    say_name(1, CREMA_DICT_ACTIVITY, 4, "eighth"); /* a local number beyond the limit */
    assert_int_equal(agg_rollup_stats(s_rollup).not_taken, 8);
    for (int64_t worker = 0; worker < 9; worker++)
        say_row(1, (row_t){.worker = worker, .total = 1.0});
    assert_int_equal(agg_rollup_stats(s_rollup).keys, 6);
    assert_int_equal(agg_rollup_stats(s_rollup).not_taken, 11);
    must_split(0.0, 6.0);
    say_row(1, (row_t){.worker = 5, .total = 2.0}); /* what it knows goes on */
    must_split(0.0, 7.0);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_rollup_counts_the_last_total_of_each_key_once),
        T(test_rollup_takes_off_what_was_there_before_the_run),
        T(test_rollup_believes_the_hook_that_marked_a_chunk),
        T(test_rollup_leaves_out_transfers_bytes_and_nonsense),
        T(test_rollup_assigns_anew_when_the_prefixes_come),
        T(test_rollup_counts_rows_without_names),
        T(test_rollup_grows_with_what_was_received),
        T(test_rollup_finds_names_in_any_order),
        T(test_rollup_learns_nothing_without_room),
        T(test_rollup_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
