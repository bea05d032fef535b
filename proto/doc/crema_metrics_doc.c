/* docs/metrics.md, from the metrics, the words and the table of columns. */
#include <string.h>

#include "crema_columns_doc.h"
#include "crema_metrics.h"

/* Metrics of other tools and their place in the file, if not /summary/workflow. */
typedef struct {
    const char *reference;
    const char *table;
    const char *columns; /* separated by one space */
    const char *why;
} place_t;

static const place_t s_places[] = {
    {"Chunk ID, a counter", "chunks", "chunk_id attempt",
     "a counter is not unique over workers and says nothing of retries"},
    {"Event Count, Dataset, Filename, entry range", "chunks",
     "n_events dataset_id file_id entry_start entry_stop", ""},
    {"Processing Time", "chunks", "wall_s open_s cpu_s proc_cpu_s gc_s",
     "`process()` alone hides opening, CPU and garbage collection"},
    {"Memory Start, End, Delta", "chunks", "rss_start_b rss_end_b rss_peak_b",
     "delta = end less start; resident memory is shared by the threads of a worker"},
    {"timestamps in UTC", "chunks", "t_start_ns t_end_ns",
     "one clock: `/clock` has the corrections"},
    {"bytes read, accessed branches", "chunks",
     "bytes_read_b bytes_accessed_b bytes_uncompressed_b n_branches", ""},
    {"Dataset attribution", "summary/per_dataset", "dataset wall_s cpu_s s_per_event", ""},
    {"worker count timeline", "worker_count", "t_ns n_workers n_threads",
     "change points, no samples"},
    {"active tasks", "worker_samples", "processing executing",
     "what is assigned is not what runs: two columns"},
    {"occupancy", "worker_samples", "occupancy_s", "an estimate of work, not CPU"},
    {"`metrics['cpu']`, `spilled_bytes`", "worker_samples", "cpu_pct spilled_b", ""},
    {"`host_net_io`, `host_disk_io`", "worker_samples",
     "net_read_b net_write_b disk_read_b disk_write_b",
     "net is the host's: once a host, never per worker"},
    {"per-task CPU, bytes, overhead", "summary/per_task_prefix", "cpu_s noncpu_s other_s bytes_b",
     "the unit belongs to the key: a dictionary by activity alone keeps the last unit only"},
    {"per-worker CPU, bytes, overhead", "summary/per_worker",
     "cpu_s noncpu_s overhead_s bytes_read_b", ""},
    {"activities, user labels, `digest_metric`", "summary/per_activity",
     "context task_prefix activity unit value", ""},
    {"idle", "summary/waterfall", "category thread_seconds",
     "Dask's idle is max(0, all - known), so it always closes; here it comes from task intervals"},
    {"executor, offload, other", "summary/per_activity", "task_prefix activity unit side value",
     "a side of their own, `runtime`, and so a row of the waterfall"},
    {"memory-monitor, gather-dep, get-data", "summary/per_activity", "context activity unit value",
     "beside tasks: never added to their seconds"},
    {"`cumulative_worker_metrics`, raw span metrics", "activities",
     "t0_ns t1_ns value total task_prefix_id activity_id unit_id span_id",
     "the workers' own totals, which no lost heartbeat shortens"},
    {"span", "dict/span", "name uuid", "the first span of a task group wins: a run is its window"},
    {"task prefix", "dict/task_prefix", "name side rule", "with the rule that gave it its side"},
    {"activity", "dict/activity", "name kind", "any label: those of users are `user`"},
    {"worker memory, memory limit, cores (samples)", "worker_samples",
     "rss_b memory_limit_b nthreads", "by workers, agents and the scheduler: `source`"},
    {"spilling", "worker_samples", "spilled_b",
     "now on disk; what it cost: `disk_read_seconds`, `disk_write_seconds`"},
    {"chunk, a unit of work", "chunks", "file_id entry_start entry_stop task_key",
     "a row is an attempt at it: several may share a `chunk_id`"},
    {"section `time_delta`", "sections", "wall_s self_s",
     "one row an entry: repeats stay, `self_s` counts nested time once"},
    {"section `memory_start_gb`, `_end_gb`, `_delta_gb`", "sections", "rss_start_b rss_end_b",
     "bytes, not GB"},
    {"custom metrics", "custom", "metric_id value unit_id kind", ""},
    {"task stream, performance report", "task_events", "t_start_ns t_stop_ns worker_id thread side",
     "a file, not a picture with a capped buffer"},
    {"scaling efficiency", "summary/efficiency", "x_total_hz n_threads_avg pe lb sched_e alloc_e",
     "needs several runs; one file gives the factors of one"},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void
s_print_metrics(FILE *file)
{
    const crema_metric_group_t *group;
    for (size_t g = 0; (group = crema_metric_group(g)); g++) {
        fprintf(file,
                "\n### %s\n\nname | unit | formula | meaning, and what it cannot tell | from | "
                "elsewhere called\n---|---|---|---|---|---\n",
                group->title);
        for (size_t i = 0; i < group->n; i++) {
            const crema_metric_t *m = &group->metrics[i];
            fprintf(file, "`%s` | %s | %s | %s | %s | %s\n", m->name, m->units, m->formula,
                    m->meaning, m->source, m->reference);
        }
    }
}

static void
s_print_words(FILE *file, const char *title, const char *head, const crema_word_t *words, size_t n)
{
    bool advice = false;
    for (size_t i = 0; i < n; i++)
        advice = advice || words[i].advice[0] != '\0';
    fprintf(file, "\n## `/summary/%s`\n\n%s\n\nname | meaning | cannot tell%s\n---|---|---%s\n",
            title, head, advice ? " | what to try" : "", advice ? "|---" : "");
    for (size_t i = 0; i < n; i++) {
        fprintf(file, "`%s` | %s | %s", words[i].name, words[i].meaning, words[i].limits);
        fprintf(file, advice ? " | %s\n" : "\n", words[i].advice);
    }
}

static void
s_print_grid(FILE *file)
{
    fprintf(file,
            "\n## `/grid`\n\nThe run in even steps of time, at most 1000. `time`: start of a "
            "step, ns since 1970-01-01 UTC; `worker`: names, as in `/dict/worker`. A value is "
            "that of its step; NaN where a worker was not there or nobody looked.\n\n"
            "name | of | unit | formula | meaning | from | elsewhere called\n"
            "---|---|---|---|---|---|---\n");
    for (size_t i = 0; i < CREMA_GRID_COUNT; i++) {
        const crema_grid_variable_t *v = &crema_grid_variables[i];
        fprintf(file, "`%s` | %s | %s | %s | %s | %s | %s\n", v->name,
                v->per_worker ? "worker, time" : "time", v->units, v->formula, v->long_name,
                v->source, v->reference);
    }
}

static void
s_print_places(FILE *file)
{
    fprintf(file, "\n## Where else to look\n\nelsewhere called | here | why so\n---|---|---\n");
    for (size_t i = 0; i < COUNT(s_places); i++) {
        const place_t *place = &s_places[i];
        fprintf(file, "%s | `/%s`:", place->reference, place->table);
        for (const char *at = place->columns; *at; at += *at == ' ') {
            size_t length = strcspn(at, " ");
            fprintf(file, " `%.*s`", (int)length, at);
            at += length;
        }
        fprintf(file, " | %s\n", place->why);
    }
}

/* True for the three columns that end every row of a stream. */
static bool
s_is_of_every_stream(const crema_table_t *table, const char *name)
{
    static const char *const names[] = {"seq", "t_recv_ns", "stream_id"};
    if (table->kind != CREMA_KIND_STREAM)
        return false;
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void
s_print_columns(FILE *file)
{
    fprintf(file, "\n## Every column\n\nUnits in brackets. Rows that a stream recorded end with "
                  "`seq`, the record's number in its stream, `t_recv_ns`, the sink's clock at "
                  "commit, and `stream_id`, the row of `/dict/stream`.\n");
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

void
crema_metrics_print_markdown(FILE *file)
{
    fprintf(file,
            "# Metrics\n\n<!-- Printed by `crema-gen --metrics`; the tables in "
            "proto/crema_metrics*.c are the source. -->\n\n"
            "What every number in a run file means, how it is computed, from what, and what it "
            "cannot tell. *Elsewhere called*: the "
            "name in roastcoffea and in the reference of coffea-metrics. Where their formula is "
            "wrong, a row with the ending "
            "`_raw` (or their own name) has their value, and beside it stands the right one.\n\n"
            "%s\n\n## `/summary/workflow`\n\n"
            "One row each. `status`: `ok`; `estimated`, a stand-in for what was not measured, or a "
            "share over 1, which is shown "
            "as it is; `incomplete`, the run's verdict is PARTIAL, or a sum does not close; "
            "`unavailable`, nobody could know, and the "
            "value is NaN, never zero. `lo`, `hi`: bounds where there are any; `n`: rows it was "
            "computed from.\n",
            crema_metric_notation);
    s_print_metrics(file);
    s_print_words(file, "waterfall",
                  "Thread-seconds; they sum to Cap. Every second is in one row only. A free thread "
                  "belongs to the first of the idle "
                  "rows that holds. Transfers run beside tasks and are not in it.",
                  crema_waterfall_words, CREMA_WATERFALL_COUNT);
    s_print_words(
        file, "bottlenecks",
        "What holds the run back: the waterfall again, divided by cause and ordered by "
        "what it costs. `compute` is work, not loss: it comes first if no loss takes a "
        "fifth of Cap, else after the losses that do. `evidence` has the figures. "
        "`saving_s`: the run would be shorter by this without it, if all else were spread "
        "evenly over the threads; where threads share the GIL, less waiting saves less than "
        "its seconds, as they would wait for the GIL instead. `lo`, `hi`: its bounds where "
        "the data give any (`diagnosis.md`). Savings do not add up: what is left may hold the run "
        "back next. `status` `ambiguous`: another cause, named in `evidence`, explains the "
        "same seconds as well. The rules that divide are apart from the arithmetic, in "
        "`sink_diagnosis`; the root attribute `diagnosis_rules` has their version.",
        crema_bottleneck_words, CREMA_BOTTLENECK_COUNT);
    s_print_grid(file);
    s_print_places(file);
    s_print_columns(file);
}
