/* The split: task identity decides, never a class name. */
#include "must.h"

#include <string.h>

#include "crema_split.h"

/* What the collector found for a processor called _Under, whose prefix Dask makes "Under". */
static const char *const s_list[] = {"Under", "my_processor"};
static const crema_split_rules_t s_rules = {2, s_list};
static const crema_split_rules_t s_no_rules;

static void
test_prefixes(void **state)
{
    (void)state;
    static const struct {
        const crema_split_rules_t *rules;
        const char *prefix;
        crema_side_t want;
        const char *rule;
    } steps[] = {
        {&s_rules, "Under", CREMA_SIDE_PROCESSOR, "processor_prefixes"},
        {&s_rules, "my_processor", CREMA_SIDE_PROCESSOR, "processor_prefixes"},
        {&s_rules, "_Under", CREMA_SIDE_OVERHEAD, "other"},
        {&s_rules, "Unde", CREMA_SIDE_OVERHEAD, "other"},
        {&s_rules, "under", CREMA_SIDE_OVERHEAD, "other"},
        {&s_rules, "reduce", CREMA_SIDE_MERGE, "coffea:reduce"},
        {&s_rules, "reduce_all", CREMA_SIDE_OVERHEAD, "other"},
        {&s_rules, "automatic_retries", CREMA_SIDE_PREPROCESS, "coffea:automatic_retries"},
        {&s_rules, "lambda", CREMA_SIDE_OVERHEAD, "coffea:lambda"},
        {&s_rules, "", CREMA_SIDE_OVERHEAD, "other"},
        {&s_no_rules, "Under", CREMA_SIDE_UNATTRIBUTED, "no_processor"},
        {&s_no_rules, "reduce", CREMA_SIDE_MERGE, "coffea:reduce"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const char *rule = NULL;
        assert_int_equal(crema_split_prefix(steps[i].rules, steps[i].prefix, &rule), steps[i].want);
        assert_string_equal(rule, steps[i].rule);
        assert_int_equal(crema_split_prefix(steps[i].rules, steps[i].prefix, NULL), steps[i].want);
    }
}

/* A list that names one of coffea's own prefixes means it. */
static void
test_the_list_comes_first(void **state)
{
    (void)state;
    static const char *const list[] = {"automatic_retries"};
    const crema_split_rules_t rules = {1, list};
    assert_int_equal(crema_split_prefix(&rules, "automatic_retries", NULL), CREMA_SIDE_PROCESSOR);
}

/* Contexts by their place in the column's labels, so that the two cannot drift apart. */
static int
s_context(const char *name)
{
    const crema_table_t *table = crema_table(CREMA_TABLE_ACTIVITIES);
    const char *at = table->columns[crema_table_column(table, "context")].labels;
    for (int i = 0; at; i++, at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, strlen(name)) == 0 && strchr(",", at[strlen(name)]))
            return i;
    return -1;
}

static void
test_sides(void **state)
{
    (void)state;
    static const struct {
        const char *context, *prefix, *activity;
        crema_side_t marked, want;
    } steps[] = {
        {"execute", "Under", "thread-cpu", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_PROCESSOR},
        {"execute", "Under", "thread-noncpu", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_PROCESSOR},
        {"execute", "Under", "my label", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_PROCESSOR},
        {"execute", "reduce", "thread-cpu", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_MERGE},
        {"execute", "automatic_retries", "thread-cpu", CREMA_SIDE_UNATTRIBUTED,
         CREMA_SIDE_PREPROCESS},
        /* compression=None: a chunk is called automatic_retries too, and only the hook can tell */
        {"execute", "automatic_retries", "thread-cpu", CREMA_SIDE_PROCESSOR, CREMA_SIDE_PROCESSOR},
        {"execute", "lambda", "thread-cpu", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_OVERHEAD},
        {"execute", "anything", "thread-noncpu", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_OVERHEAD},
        {"execute", "Under", "failed", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_WASTED},
        {"execute", "Under", "cancelled", CREMA_SIDE_PROCESSOR, CREMA_SIDE_WASTED},
        {"execute", "Under", "executor", CREMA_SIDE_PROCESSOR, CREMA_SIDE_RUNTIME},
        {"execute", "Under", "offload", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_RUNTIME},
        {"execute", "Under", "other", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_RUNTIME},
        {"execute", "Under", "serialize", CREMA_SIDE_PROCESSOR, CREMA_SIDE_RUNTIME},
        {"execute", "Under", "deserialize", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_RUNTIME},
        {"execute", "reduce", "compress", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_RUNTIME},
        {"execute", "reduce", "decompress", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_RUNTIME},
        {"execute", "Under", "disk-read", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_RUNTIME},
        {"execute", "Under", "disk-write", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_RUNTIME},
        {"execute", "N/A", "idle or other spans", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_UNATTRIBUTED},
        {"gather_dep", "", "network", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_TRANSFER},
        {"gather_dep", "", "failed", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_TRANSFER},
        {"get_data", "", "serialize", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_TRANSFER},
        {"p2p", "", "thread-cpu", CREMA_SIDE_PROCESSOR, CREMA_SIDE_TRANSFER},
        {"memory_monitor", "", "disk-write", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_UNATTRIBUTED},
        {"other", "Under", "thread-cpu", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_UNATTRIBUTED},
        {"busy", "Under", "executing", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_UNATTRIBUTED},
        {"busy", "Under", "seceded", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_PROCESSOR},
        {"busy", "reduce", "seceded", CREMA_SIDE_UNATTRIBUTED, CREMA_SIDE_MERGE},
        {"execute", "Under", "thread-cpu", (crema_side_t)99, CREMA_SIDE_PROCESSOR},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        crema_side_t side = crema_split_side(&s_rules, s_context(steps[i].context), steps[i].prefix,
                                             steps[i].activity, steps[i].marked);
        if (side != steps[i].want)
            fail_msg("step %zu, %s/%s/%s: %s", i, steps[i].context, steps[i].prefix,
                     steps[i].activity, crema_side_name(side));
    }
    assert_int_equal(crema_split_side(&s_rules, 99, "Under", "thread-cpu", CREMA_SIDE_PROCESSOR),
                     CREMA_SIDE_UNATTRIBUTED);
}

/* Kinds are stored by number in /dict/activity: their order is that of the labels. */
static void
test_kinds_have_the_labels_of_the_column(void **state)
{
    (void)state;
    static const struct {
        const char *activity;
        crema_activity_kind_t want;
    } steps[] = {
        {"thread-cpu", CREMA_ACTIVITY_CPU},
        {"thread-noncpu", CREMA_ACTIVITY_NONCPU},
        {"network", CREMA_ACTIVITY_IO},
        {"deserialize", CREMA_ACTIVITY_SERIALIZATION},
        {"compress", CREMA_ACTIVITY_COMPRESSION},
        {"memory-read", CREMA_ACTIVITY_SPILL},
        {"offload", CREMA_ACTIVITY_RUNTIME},
        {"idle", CREMA_ACTIVITY_IDLE},
        {"busy", CREMA_ACTIVITY_FAILED},
        {"thread-cp", CREMA_ACTIVITY_USER},
        {"", CREMA_ACTIVITY_USER},
        {"('a', 1)", CREMA_ACTIVITY_USER},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        assert_int_equal(crema_split_activity_kind(steps[i].activity), steps[i].want);
    const crema_table_t *table = crema_table(CREMA_TABLE_DICT_ACTIVITY);
    assert_string_equal(table->columns[crema_table_column(table, "kind")].labels,
                        "cpu,noncpu,io,serialization,compression,spill,runtime,idle,failed,user");
    assert_int_equal(CREMA_ACTIVITY_USER, 9);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_the_list_comes_first),
        cmocka_unit_test(test_sides),
        cmocka_unit_test(test_kinds_have_the_labels_of_the_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
