/* sink_dict: identity of names, what rows hold, and what changed. */
#include <math.h>
#include <string.h>

#include "must.h"
#include "row_cell.h"
#include "sink_dict.h"

static uint32_t
s_put(sink_dict_t *dict, crema_dict_t kind, const char *text, const char *uuid)
{
    Crema__DictEntry entry = {.kind = kind, .text = (char *)text, .uuid = (char *)uuid, .host = ""};
    uint32_t id;
    must(sink_dict_entry(dict, &entry, 7, &id));
    return id;
}

/* A file is named when its first chunk begins, and described once it is open; what a later writer
 * does not know stays. */
static void
must_keep_what_is_known_of_a_file(void **state)
{
    (void)state;
    const Crema__DictEntry entries[] = {
        {.kind = CREMA_DICT_FILE, .text = "x", .uuid = "u", .size_b = -1, .n_entries = -1},
        {.kind = CREMA_DICT_FILE,
         .text = "x",
         .uuid = "u",
         .size_b = 4000,
         .n_entries = 10,
         .tree_b = 3000,
         .n_branches = 2656},
        {.kind = CREMA_DICT_FILE, .text = "x", .uuid = "u"},
    };
    const int64_t want[][4] = {{-1, -1, -1, -1}, {4000, 10, 3000, 2656}, {4000, 10, 3000, 2656}};
    const char *columns[] = {"size_b", "n_entries", "tree_b", "n_branches"};
    sink_dict_t *dict;
    crema_limits_t limits = crema_limits();
    must(sink_dict_new(&limits, &dict));
    const crema_table_t *file = crema_table(CREMA_TABLE_DICT_FILE);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        uint32_t id;
        must(sink_dict_entry(dict, &entries[i], 0, &id));
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            assert_int_equal(cell_int(file, sink_dict_row(dict, file->id, id), columns[c]),
                             want[i][c]);
    }
    sink_dict_destroy(&dict);
}

/* The same callers and frame are the same stack, whichever stream names them; its depth follows. */
static void
must_keep_stacks_as_a_tree(void **state)
{
    (void)state;
    sink_dict_t *dict;
    crema_limits_t limits = crema_limits();
    must(sink_dict_new(&limits, &dict));
    uint32_t frames[2], stacks[3];
    for (int32_t i = 0; i < 2; i++) {
        Crema__DictEntry frame = {.kind = CREMA_DICT_FRAME, .text = "a.py", .uuid = "f", .line = i};
        must(sink_dict_entry(dict, &frame, SINK_DICT_NONE, &frames[i]));
    }
    assert_int_not_equal(frames[0], frames[1]);
    for (int i = 0; i < 3; i++) {
        Crema__DictEntry stack = {.kind = CREMA_DICT_STACK, .frame = frames[i > 0]};
        must(sink_dict_entry(dict, &stack, i == 0 ? SINK_DICT_NONE : stacks[0], &stacks[i]));
    }
    assert_int_equal(stacks[1], stacks[2]);
    const crema_dict_stack_row_t *inner = sink_dict_row(dict, CREMA_TABLE_DICT_STACK, stacks[1]);
    assert_int_equal(inner->parent_id, stacks[0]);
    assert_int_equal(inner->frame_id, frames[1]);
    assert_int_equal(inner->depth, 1);
    sink_dict_destroy(&dict);
}

static void
must_know_when_two_entries_are_the_same(void **state)
{
    (void)state;
    const struct {
        crema_dict_t kind;
        const char *text, *uuid;
        uint32_t want;
    } steps[] = {
        {CREMA_DICT_WORKER, "tcp://a", "u1", 0},
        {CREMA_DICT_WORKER, "tcp://a", "u2", 1},     /* restarted at the same address */
        {CREMA_DICT_WORKER, "tcp://moved", "u1", 0}, /* the same process */
        {CREMA_DICT_WORKER, "tcp://a", "", 1},       /* by name: the newest of that name */
        {CREMA_DICT_WORKER, "tcp://b", "", 2},
        {CREMA_DICT_SPAN, "default", "s1", 0},
        {CREMA_DICT_SPAN, "default", "s2", 1},
        {CREMA_DICT_FILE, "x.root", "f1", 0},
        {CREMA_DICT_FILE, "y.root", "f1", 1}, /* one file under two names is two inputs */
        {CREMA_DICT_FILE, "x.root", "f2", 2},
        {CREMA_DICT_FILE, "x.root", "f1", 0},
        {CREMA_DICT_ACTIVITY, "thread-cpu", "", 0},
        {CREMA_DICT_ACTIVITY, "thread-cpu", "ignored", 0},
        {CREMA_DICT_UNIT, "seconds", "", 0},
        {CREMA_DICT_UNIT, "furlongs", "", 1},
    };
    sink_dict_t *dict;
    crema_limits_t limits = crema_limits();
    must(sink_dict_new(&limits, &dict));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        assert_int_equal(s_put(dict, steps[i].kind, steps[i].text, steps[i].uuid), steps[i].want);
    const crema_table_t *unit = crema_table(CREMA_TABLE_DICT_UNIT);
    assert_true(cell_real(unit, sink_dict_row(dict, unit->id, 0), "si_factor") == 1);
    assert_true(isnan(cell_real(unit, sink_dict_row(dict, unit->id, 1), "si_factor")));
    const crema_table_t *file = crema_table(CREMA_TABLE_DICT_FILE);
    assert_int_equal(cell_int(file, sink_dict_row(dict, file->id, 1), "dataset_id"), 7);
    assert_int_equal(sink_dict_find(dict, CREMA_DICT_WORKER, "u2"), 1);
    assert_int_equal(sink_dict_find(dict, CREMA_DICT_ACTIVITY, "nothing"), SINK_DICT_NONE);
    assert_string_equal(sink_dict_text(dict, CREMA_DICT_WORKER, 0), "tcp://a");
    assert_string_equal(sink_dict_text(dict, CREMA_DICT_FILE, 2), "x.root");
    assert_string_equal(sink_dict_text(dict, CREMA_DICT_FILE, SINK_DICT_NONE), "");
    sink_dict_destroy(&dict);
    assert_null(dict);
}

static void
must_flag_what_it_cut_and_keep_it_whole(void **state)
{
    (void)state;
    char long_name[301], full_name[129];
    memset(long_name, 'x', 300);
    memset(full_name, 'y', 128);
    long_name[300] = full_name[128] = '\0';
    sink_dict_t *dict;
    crema_limits_t limits = crema_limits();
    must(sink_dict_new(&limits, &dict));
    uint32_t cut = s_put(dict, CREMA_DICT_WORKER, long_name, "u1");
    uint32_t full = s_put(dict, CREMA_DICT_WORKER, full_name, "u2");
    const crema_table_t *t = crema_table(CREMA_TABLE_DICT_WORKER);
    assert_int_equal(cell_int(t, sink_dict_row(dict, t->id, cut), "truncated"), 1);
    assert_int_equal(cell_int(t, sink_dict_row(dict, t->id, full), "truncated"), 0);
    assert_string_equal(sink_dict_text(dict, CREMA_DICT_WORKER, cut), long_name);
    assert_string_equal(sink_dict_text(dict, CREMA_DICT_WORKER, full), full_name);
    sink_dict_destroy(&dict);
}

/* sink_dict writes the columns that all of them have by their place. */
static void
must_find_the_common_columns_in_their_places(void **state)
{
    (void)state;
    for (int i = 0; i <= CREMA_DICT_COUNT; i++) {
        const crema_table_t *t = crema_table(crema_dict_table((crema_dict_t)i));
        const crema_column_t *last = &t->columns[t->n_columns - 1];
        assert_string_equal(t->columns[0].name, "id");
        if (i != CREMA_DICT_STACK) /* it has no name */
            assert_string_equal(t->columns[1].name, i == CREMA_DICT_STREAM ? "uuid" : "name");
        assert_string_equal(last[-1].name, "truncated");
        assert_int_equal(last[-1].type, CREMA_T_U8);
        assert_string_equal(last->name, "hash");
        assert_int_equal(last->type, CREMA_T_I64);
    }
}

static void
must_give_each_change_once_in_runs_of_neighbours(void **state)
{
    (void)state;
    sink_dict_t *dict;
    uint32_t first, n;
    crema_limits_t limits = crema_limits();
    must(sink_dict_new(&limits, &dict));
    assert_false(sink_dict_take(dict, CREMA_TABLE_DICT_DATASET, &first, &n));
    const char *names[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < 5; i++)
        s_put(dict, CREMA_DICT_DATASET, names[i], "");
    assert_true(sink_dict_take(dict, CREMA_TABLE_DICT_DATASET, &first, &n));
    assert_int_equal(first, 0);
    assert_int_equal(n, 5);
    assert_false(sink_dict_take(dict, CREMA_TABLE_DICT_DATASET, &first, &n));
    sink_dict_change(dict, CREMA_TABLE_DICT_DATASET, 3);
    sink_dict_change(dict, CREMA_TABLE_DICT_DATASET, 1);
    sink_dict_change(dict, CREMA_TABLE_DICT_DATASET, 4);
    assert_true(sink_dict_take(dict, CREMA_TABLE_DICT_DATASET, &first, &n));
    assert_int_equal(first, 1);
    assert_int_equal(n, 1);
    assert_true(sink_dict_take(dict, CREMA_TABLE_DICT_DATASET, &first, &n));
    assert_int_equal(first, 3);
    assert_int_equal(n, 2);
    assert_false(sink_dict_take(dict, CREMA_TABLE_DICT_DATASET, &first, &n));
    sink_dict_destroy(&dict);
}

static void
must_learn_from_later_entries(void **state)
{
    (void)state;
    sink_dict_t *dict;
    crema_limits_t limits = crema_limits();
    must(sink_dict_new(&limits, &dict));
    Crema__DictEntry entry = {.kind = CREMA_DICT_WORKER, .text = "tcp://a", .uuid = "u1"};
    uint32_t id;
    must(sink_dict_entry(dict, &entry, SINK_DICT_NONE, &id));
    const crema_table_t *t = crema_table(CREMA_TABLE_DICT_WORKER);
    assert_int_equal(cell_int(t, sink_dict_row(dict, t->id, id), "nthreads"), UINT16_MAX);
    entry.nthreads = 8;
    entry.memory_limit_b = 4096;
    entry.host = "node";
    must(sink_dict_entry(dict, &entry, SINK_DICT_NONE, &id));
    entry.nthreads = 0; /* knows less: takes nothing away */
    must(sink_dict_entry(dict, &entry, SINK_DICT_NONE, &id));
    assert_int_equal(cell_int(t, sink_dict_row(dict, t->id, id), "nthreads"), 8);
    assert_int_equal(cell_int(t, sink_dict_row(dict, t->id, id), "memory_limit_b"), 4096);
    sink_dict_destroy(&dict);
}

static void
must_number_streams(void **state)
{
    (void)state;
    sink_dict_t *dict;
    crema_id_t one = {{1}}, two = {{2}};
    uint32_t id;
    crema_limits_t limits = crema_limits();
    must(sink_dict_new(&limits, &dict));
    must(sink_dict_stream(dict, &one, &id));
    assert_int_equal(id, 0);
    must(sink_dict_stream(dict, &two, &id));
    assert_int_equal(id, 1);
    must(sink_dict_stream(dict, &one, &id));
    assert_int_equal(id, 0);
    assert_int_equal(sink_dict_count(dict, CREMA_TABLE_DICT_STREAM), 2);
    sink_dict_destroy(&dict);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_keep_stacks_as_a_tree),
        cmocka_unit_test(must_know_when_two_entries_are_the_same),
        cmocka_unit_test(must_flag_what_it_cut_and_keep_it_whole),
        cmocka_unit_test(must_find_the_common_columns_in_their_places),
        cmocka_unit_test(must_give_each_change_once_in_runs_of_neighbours),
        cmocka_unit_test(must_learn_from_later_entries),
        cmocka_unit_test(must_keep_what_is_known_of_a_file),
        cmocka_unit_test(must_number_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
