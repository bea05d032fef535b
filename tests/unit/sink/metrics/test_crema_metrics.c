/* The tables of metrics and of columns: sound, short enough for the file, and what docs/metrics.md
 * says.
 *
 * CREMA_GOLDEN=write writes the last section of the page, the columns, anew. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_columns.h"
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
        assert_true(m->name[0] && m->units[0] && m->formula[0]);
        assert_true(strlen(m->name) <= s_room(CREMA_TABLE_WORKFLOW, "name"));
        assert_true(strlen(m->units) <= s_room(CREMA_TABLE_WORKFLOW, "units"));
        assert_true(strlen(m->formula) <= s_room(CREMA_TABLE_WORKFLOW, "definition"));
        assert_null(strchr(m->formula, '|')); /* a cell of a table */
    }
    assert_int_equal(crema_metric_find("no such metric"), crema_metric_count());
    assert_null(crema_metric(crema_metric_count()));
}

static void
test_every_word_fits_its_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < CREMA_WATERFALL_COUNT; i++)
        assert_true(strlen(crema_waterfall_names[i]) <= s_room(CREMA_TABLE_WATERFALL, "category"));
    for (size_t i = 0; i < CREMA_BOTTLENECK_COUNT; i++) {
        assert_true(strlen(crema_bottleneck_words[i].name) <=
                    s_room(CREMA_TABLE_BOTTLENECKS, "name"));
        assert_true(strlen(crema_bottleneck_words[i].advice) <=
                    s_room(CREMA_TABLE_BOTTLENECKS, "advice"));
        assert_true(crema_bottleneck_words[i].advice[0]);
    }
}

/* ---- docs/metrics.md */

static FILE *
s_open_page(const char *mode)
{
    char path[512];
    snprintf(path, sizeof path, "%s/../docs/metrics.md", CREMA_TESTS_DIR);
    FILE *file = fopen(path, mode);
    if (!file)
        fail_msg("%s cannot be opened", path);
    return file;
}

/* The caller frees the text. */
static void
s_read_page(char **ret_page)
{
    FILE *file = s_open_page("r");
    size_t size = 0;
    *ret_page = NULL;
    assert_true(getdelim(ret_page, &size, '\0', file) > 0);
    assert_int_equal(fclose(file), 0);
}

/* The next row of a table after *at, which must begin with these cells. */
static void
s_must_be_next(const char **at, const char *cells)
{
    *at = strstr(*at, "\n`");
    if (!*at || strncmp(++*at, cells, strlen(cells)) != 0)
        fail_msg("docs/metrics.md: %s should come next", cells);
}

static void
s_must_be_last(const char *at)
{
    const char *row = strstr(at, "\n`"), *section = strstr(at, "\n## ");
    assert_non_null(section);
    if (row && row < section)
        fail_msg("docs/metrics.md: not in the tables: %.40s", row);
}

static void
test_the_page_has_a_row_for_every_name(void **state)
{
    (void)state;
    char *page, row[1024];
    s_read_page(&page);
    const char *at = page;
    for (size_t i = 0; i < crema_metric_count(); i++) {
        const crema_metric_t *m = crema_metric(i);
        snprintf(row, sizeof row, "`%s` | %s | %s | ", m->name, m->units, m->formula);
        s_must_be_next(&at, row);
    }
    s_must_be_last(at);
    for (size_t i = 0; i < CREMA_WATERFALL_COUNT; i++) {
        snprintf(row, sizeof row, "`%s` | ", crema_waterfall_names[i]);
        s_must_be_next(&at, row);
    }
    s_must_be_last(at);
    for (size_t i = 0; i < CREMA_BOTTLENECK_COUNT; i++) {
        const crema_word_t *word = &crema_bottleneck_words[i];
        snprintf(row, sizeof row, "`%s` | ", word->name);
        s_must_be_next(&at, row);
        assert_memory_equal(strchr(at, '\n') - strlen(word->advice), word->advice,
                            strlen(word->advice));
    }
    s_must_be_last(at);
    for (size_t i = 0; i < CREMA_GRID_COUNT; i++) {
        const crema_grid_variable_t *v = &crema_grid_variables[i];
        char meaning[128];
        snprintf(row, sizeof row, "`%s` | %s | %s | ", v->name,
                 v->per_worker ? "worker, time" : "time", v->units);
        snprintf(meaning, sizeof meaning, " | %s | ", v->long_name);
        s_must_be_next(&at, row);
        assert_true(strstr(at, meaning) && strstr(at, meaning) < strchr(at, '\n'));
    }
    s_must_be_last(at);
    free(page);
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

/* Last cell of a row that begins with a metric or variable, first cell of a row that sends readers
 * elsewhere. */
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

/* What coffea-metrics' reference, roastcoffea's concepts, Dask's fine metrics and coffea-casa's
 * page give a name to. */
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
    char *page;
    s_read_page(&page);
    s_must_name_columns(page);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!s_is_called(page, names[i]))
            fail_msg("nothing is elsewhere called %s", names[i]);
    assert_false(s_is_called(page, "no such name"));
    assert_false(s_is_called(page, "How fast the answer comes")); /* a meaning is no name */
    free(page);
}

/* True for the three columns that end every row of a stream. */
static bool
s_is_of_every_stream(const crema_table_t *table, const char *name)
{
    return table->kind == CREMA_KIND_STREAM &&
           (strcmp(name, "seq") == 0 || strcmp(name, "t_recv_ns") == 0 ||
            strcmp(name, "stream_id") == 0);
}

static void
s_print_columns(FILE *file)
{
    fprintf(file,
            "\n## Every column\n\nUnits are in brackets. Rows that a stream recorded also have "
            "`seq`, the number of the record in its\nstream, `t_recv_ns`, the sink's clock at "
            "the commit, and `stream_id`, the row of `/dict/stream`.\n");
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        fprintf(file, "\n- `/%s`, %s:", table->path, table->description);
        const char *comma = "";
        for (size_t i = 0; i < table->n_columns; i++) {
            const crema_column_t *c = &table->columns[i];
            if (c->size == 0 || s_is_of_every_stream(table, c->name))
                continue;
            fprintf(file, "%s\n  `%s` [%s] %s", comma, c->name, c->units, c->meaning);
            if (c->labels)
                fprintf(file, " {%s}", c->labels);
            comma = ";";
        }
    }
    fprintf(file, "\n");
}

static void
test_the_page_has_every_column(void **state)
{
    (void)state;
    char *page, *want = NULL;
    size_t size = 0;
    s_read_page(&page);
    char *columns = strstr(page, "\n## Every column");
    FILE *memory = open_memstream(&want, &size);
    assert_non_null(memory);
    s_print_columns(memory);
    assert_int_equal(fclose(memory), 0);
    assert_non_null(columns);
    const char *word = getenv("CREMA_GOLDEN");
    if (word && strcmp(word, "write") == 0) {
        *columns = '\0';
        FILE *file = s_open_page("w");
        assert_true(fprintf(file, "%s%s", page, want) > 0);
        assert_int_equal(fclose(file), 0);
    } else if (strcmp(columns, want) != 0) {
        fail_msg("the columns in docs/metrics.md are not those of the tables: run this test with "
                 "CREMA_GOLDEN=write");
    }
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
        cmocka_unit_test(test_the_page_has_a_row_for_every_name),
        cmocka_unit_test(test_the_page_has_every_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
