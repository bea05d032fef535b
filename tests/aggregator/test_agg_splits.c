/* Live splits by run: what is told adds up to what is known, and quiet runs are forgotten. */
#include "must.h"

#include <string.h>

#include "agg_splits.h"
#include "frames.h"

#define MINUTE_NS INT64_C(60000000000)

static agg_splits_t *s_splits;
static crema_arena_t *s_arena;
static frames_t s_frames;

static int
s_setup(void **state)
{
    (void)state;
    return agg_splits_new(2, &s_splits) == CREMA_OK &&
                   crema_arena_new(1 << 22, &s_arena) == CREMA_OK
               ? 0
               : -1;
}

static int
s_teardown(void **state)
{
    (void)state;
    agg_splits_destroy(&s_splits);
    crema_arena_destroy(&s_arena);
    return 0;
}

/* Names and one total of the activity thread-cpu, as records 1 and 2 of a stream. */
static void
must_put(uint8_t stream, uint8_t run, double total, int64_t now_ns)
{
    const crema_table_t *table = crema_table(CREMA_TABLE_ACTIVITIES);
    size_t n_ints, n_reals;
    crema_table_wire_columns(table, &n_ints, &n_reals);
    int64_t ints[16] = {0};
    const crema_dict_entry_t names[] = {
        {.kind = CREMA_DICT_TASK_PREFIX, .text = "p", .uuid = "", .host = ""},
        {.kind = CREMA_DICT_ACTIVITY, .text = "thread-cpu", .uuid = "", .host = ""},
        {.kind = CREMA_DICT_UNIT, .text = "seconds", .uuid = "", .host = ""},
    };
    crema_record_t dict = {.type = CREMA_RECORD_DICT, .dict = {3, names}};
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
    frames_add(&s_frames, &dict, 1);
    frames_add(&s_frames, &batch, 2);
    crema_data_t put = frames_put(&s_frames, stream, run, 1);
    agg_splits_on_put(s_splits, &put, s_arena, now_ns);
}

static void
must_tell(uint8_t run, double processor_s, double overhead_s)
{
    agg_split_news_t news;
    crema_id_t id = frames_id(run);
    assert_true(agg_splits_news(s_splits, &news));
    assert_true(crema_id_equal(&news.run_id, &id));
    assert_true(news.processor_s == processor_s);
    assert_true(news.overhead_s == overhead_s);
    assert_false(agg_splits_news(s_splits, &news));
}

static void
s_open(const char *processor_prefix, int64_t now_ns)
{
    crema_run_msg_t open = {
        .run_id = frames_id(1), .n_prefixes = 1, .processor_prefixes = &processor_prefix};
    agg_splits_on_message(s_splits, &open, now_ns);
}

static void
test_splits_tell_by_how_much_sums_moved(void **state)
{
    (void)state;
    must_put(7, 1, 1.0, 0); /* whose second that is is not known yet */
    s_open("another", 0);
    must_tell(1, 0.0, 1.0);
    must_put(7, 1, 2.0, 1);
    must_tell(1, 0.0, 1.0);
    must_put(7, 1, 2.0, 2);
    must_tell(1, 0.0, 0.0);
    must_put(7, 1, 5.0, 3);
    must_tell(1, 0.0, 3.0);
    s_open("p", 4);
    must_tell(1, 5.0, -5.0);
}

static void
test_splits_pass_over_damage(void **state)
{
    (void)state;
    must_put(7, 1, 2.0, 1);
    s_frames.bytes[s_frames.size - 1] ^= 1;
    crema_data_t put = frames_put(&s_frames, 8, 1, 1);
    agg_splits_on_put(s_splits, &put, s_arena, 2);
    assert_int_equal(agg_splits_not_taken(s_splits), 1);
    s_open("another", 3);
    must_tell(1, 0.0, 2.0);
}

static void
test_splits_are_bounded_and_forget(void **state)
{
    (void)state;
    crema_id_t first = frames_id(1), second = frames_id(2);
    must_put(7, 1, 2.0, 0);
    must_put(7, 2, 2.0, 0);
    must_put(7, 3, 2.0, 0);
    assert_int_equal(agg_splits_not_taken(s_splits), 1);
    agg_splits_on_done(s_splits, &first);
    agg_splits_sweep(s_splits, 9 * MINUTE_NS);
    assert_non_null(agg_splits_find(s_splits, &first));
    assert_true(agg_splits_find(s_splits, &first)->done);
    agg_splits_sweep(s_splits, 11 * MINUTE_NS);
    assert_null(agg_splits_find(s_splits, &first));
    assert_non_null(agg_splits_find(s_splits, &second));
    agg_splits_sweep(s_splits, 24 * 61 * MINUTE_NS);
    size_t cursor = 0;
    assert_null(agg_splits_next(s_splits, &cursor));
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_splits_tell_by_how_much_sums_moved),
        T(test_splits_pass_over_damage),
        T(test_splits_are_bounded_and_forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
