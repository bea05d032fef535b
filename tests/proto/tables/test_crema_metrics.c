/* The table of metrics: sound, short enough for the file, and what docs/metrics.md says.
 *
 * CREMA_GOLDEN=write writes the page anew. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_columns_doc.h"
#include "crema_metrics.h"
#include "table_by_path.h"

static size_t
s_room(crema_table_id_t table, const char *column)
{
    const crema_table_t *t = crema_table(table);
    return t->columns[crema_table_column(t, column)].size;
}

static void
test_every_metric_is_whole_and_fits_its_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < crema_metric_count(); i++) {
        const crema_metric_t *m = crema_metric(i);
        if (crema_metric_find(m->name) != i)
            fail_msg("%s is there twice", m->name);
        assert_true(m->name[0] && m->units[0] && m->formula[0] && m->source[0]);
        assert_true(strlen(m->name) <= s_room(CREMA_TABLE_WORKFLOW, "name"));
        assert_true(strlen(m->units) <= s_room(CREMA_TABLE_WORKFLOW, "units"));
        assert_true(strlen(m->formula) <= s_room(CREMA_TABLE_WORKFLOW, "definition"));
        assert_null(strchr(m->formula, '|')); /* cells of a table */
        assert_null(strchr(m->meaning, '|'));
    }
    assert_int_equal(crema_metric_find("no such metric"), crema_metric_count());
    assert_null(crema_metric(crema_metric_count()));
}

static void
test_every_word_fits_its_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < CREMA_WATERFALL_COUNT; i++)
        assert_true(strlen(crema_waterfall_words[i].name) <=
                    s_room(CREMA_TABLE_WATERFALL, "category"));
    for (size_t i = 0; i < CREMA_BOTTLENECK_COUNT; i++) {
        assert_true(strlen(crema_bottleneck_words[i].name) <=
                    s_room(CREMA_TABLE_BOTTLENECKS, "name"));
        assert_true(strlen(crema_bottleneck_words[i].advice) <=
                    s_room(CREMA_TABLE_BOTTLENECKS, "advice"));
        assert_true(crema_bottleneck_words[i].advice[0]);
    }
}

/* The page sends readers to columns: each must be there. */
static void
s_must_name_columns(const char *page)
{
    const char *at = strstr(page, "## Where else to look"), *end = strstr(at, "\n## Every column");
    assert_non_null(end);
    while ((at = strstr(at, "| `/")) && at < end) {
        char path[64], column[64];
        int used;
        assert_int_equal(sscanf(at, "| `/%63[^`]`:%n", path, &used), 1);
        at += used;
        const crema_table_t *table = table_by_path(path);
        if (!table)
            fail_msg("there is no table %s", path);
        while (sscanf(at, " `%63[^`]`%n", column, &used) == 1) {
            if (crema_table_column(table, column) < 0)
                fail_msg("there is no column %s in %s", column, path);
            at += used;
        }
    }
}

/* Last cell of a row that begins with a metric or variable, first cell of a row that sends readers elsewhere. */
static bool
s_is_called(const char *page, const char *name)
{
    const char *places = strstr(page, "\n## Where else to look");
    for (const char *at = page; (at = strstr(at, name)); at++) {
        const char *line = at, *end = strchr(at, '\n');
        while (line > page && line[-1] != '\n')
            line--;
        const char *bar = strstr(line, " | ");
        if (at > places && bar && at < bar)
            return true;
        while (bar && bar < at && strstr(bar + 1, " | ") && strstr(bar + 1, " | ") < end)
            bar = strstr(bar + 1, " | ");
        if (at < places && *line == '`' && bar && at > bar)
            return true;
    }
    return false;
}

/* What coffea-metrics' reference, roastcoffea's concepts, Dask's fine metrics and coffea-casa's page give a name to. */
static void
test_every_name_of_the_references_is_there(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Data Rate (Gbps)",
        "Data Rate (MB/s)",
        "Event Rate (Wall Clock)",
        "Event Rate (Aggregated)",
        "Event Rate (Core-Averaged)",
        "Total Bytes Read (Coffea)",
        "Memory Read (Dask Spans)",
        "Disk Read",
        "Disk Write",
        "Total Events",
        "Wall Time",
        "Total CPU Time",
        "Number of Chunks",
        "Avg CPU Time per Chunk",
        "Time-Averaged Workers",
        "Average Workers",
        "Peak Workers",
        "Total Cores",
        "Cores per Worker",
        "Avg Memory per Worker",
        "Peak Memory per Worker",
        "Memory Utilization %",
        "CPU Utilization %",
        "CPU occupancy",
        "Chunk ID",
        "Event Count",
        "Processing Time",
        "Memory Start, End, Delta",
        "Dataset",
        "Filename",
        "timestamps in UTC",
        "min chunk time",
        "max chunk time",
        "mean chunk time",
        "Time per event",
        "Memory per event",
        "Dataset attribution",
        "thread-cpu",
        "thread-noncpu",
        "`cpu_time_seconds`",
        "`io_time_seconds`",
        "compress",
        "decompress",
        "serialize",
        "deserialize",
        "executor, offload, other",
        "idle",
        "memory-monitor",
        "gather-dep",
        "get-data",
        "grand total",
        "cache hits",
        "`digest_metric`",
        "Processor CPU Time",
        "Processor Non-CPU Time",
        "Processor CPU Percentage",
        "Processor Non-CPU Percentage",
        "Overhead CPU Time",
        "Overhead Non-CPU Time",
        "Total Compression Overhead",
        "Total Serialization Overhead",
        "Compression Ratio",
        "Uncompressed Bytes",
        "`time_delta`",
        "`memory_start_gb`",
        "custom metrics",
        "CPU Efficiency",
        "CPU Efficiency, with fine metrics",
        "Speedup Factor",
        "I/O Overhead",
        "Efficiency Ratio",
        "scaling efficiency",
        "active tasks",
        "occupancy",
        "worker count timeline",
        "worker memory, memory limit, cores",
        "`metrics['cpu']`",
        "`spilled_bytes`",
        "`host_net_io`",
        "`host_disk_io`",
        "`bytesread`",
        "`entries`",
        "`processtime`",
        "`num_chunks`",
        "columns",
        "per-task CPU, bytes, overhead",
        "per-worker CPU, bytes, overhead",
        "task stream",
        "performance report",
        "span",
        "task prefix",
        "activity",
        "spilling",
        "chunk, a unit of work",
        "`cumulative_worker_metrics`",
    };
    char *page = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&page, &size);
    assert_non_null(memory);
    crema_metrics_print_markdown(memory);
    assert_int_equal(fclose(memory), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!s_is_called(page, names[i]))
            fail_msg("nothing is elsewhere called %s", names[i]);
    assert_false(s_is_called(page, "no such name"));
    assert_false(s_is_called(page, "How fast the answer comes")); /* a meaning is no name */
    free(page);
}

static void
test_the_page_is_what_the_table_says(void **state)
{
    (void)state;
    char path[512], *want = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&want, &size);
    assert_non_null(memory);
    crema_metrics_print_markdown(memory);
    assert_int_equal(fclose(memory), 0);
    s_must_name_columns(want);
    snprintf(path, sizeof path, "%s/../docs/metrics.md", CREMA_TESTS_DIR);
    const char *word = getenv("CREMA_GOLDEN");
    bool write = word && strcmp(word, "write") == 0;
    FILE *file = fopen(path, write ? "w" : "r");
    if (!file)
        fail_msg("%s cannot be opened", path);
    char *page = calloc(size + 2, 1);
    if (write) {
        assert_int_equal(fwrite(want, 1, size, file), size);
    } else if (fread(page, 1, size + 1, file) != size || memcmp(page, want, size) != 0) {
        fail_msg("%s is not what the tables say: write it with `crema-gen --metrics`", path);
    }
    assert_int_equal(fclose(file), 0);
    free(page);
    free(want);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_metric_is_whole_and_fits_its_row),
        cmocka_unit_test(test_every_word_fits_its_row),
        cmocka_unit_test(test_every_name_of_the_references_is_there),
        cmocka_unit_test(test_the_page_is_what_the_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
