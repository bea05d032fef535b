#include "diagnosis/causes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "diagnosis/cluster_record.h"
#include "rows_fixture.h"
#include "sink_summary.h"

/* Uniform between two numbers; `draw` tells the draws of one plan apart. */
static double
s_draw(const cluster_plan_t *plan, unsigned draw, double least, double most)
{
    return least + (most - least) * cluster_uniform(plan->seed, 42, draw);
}

static unsigned
s_pick(const cluster_plan_t *plan, unsigned draw, unsigned least, unsigned most)
{
    return least + (unsigned)(cluster_uniform(plan->seed, 43, draw) * (most - least + 1));
}

cluster_plan_t
causes_healthy(uint64_t seed)
{
    cluster_plan_t p = {.seed = seed};
    p.workers = s_pick(&p, 1, 3, 6);
    p.threads = s_pick(&p, 2, 1, 3);
    p.workers_per_host = 1;
    p.cores = p.threads;
    p.slow_file = CLUSTER_NONE;
    p.slow_worker = s_pick(&p, 17, 0, p.workers - 1); /* no two machines are alike */
    p.slow_worker_factor = s_draw(&p, 18, 1, 1.15);
    p.files = s_pick(&p, 3, 10, 16);
    p.chunks_per_file = (unsigned)ceil(p.workers * p.threads * s_draw(&p, 4, 18, 26) / p.files);
    p.size_spread = s_draw(&p, 5, 0.05, 0.4);
    p.noise = s_draw(&p, 6, 0.03, 0.25);
    p.cpu_s = s_draw(&p, 7, 1, 3);
    p.wait_s = p.cpu_s * s_draw(&p, 8, 0.01, 0.08);
    p.rounds = 6;
    p.python = s_draw(&p, 9, 0.05, 0.5) / p.threads;
    p.garbage = s_draw(&p, 10, 0, 0.05);
    p.open_cpu_s = s_draw(&p, 11, 0.02, 0.06);
    p.open_wait_s = s_draw(&p, 12, 0.01, 0.05);
    p.send_s = s_draw(&p, 13, 0.001, 0.01);
    p.latency_s = s_draw(&p, 14, 0.001, 0.01);
    p.ahead = s_pick(&p, 19, 0, 2);
    p.startup_s = s_draw(&p, 15, 0.3, 1);
    p.batches = 1;
    p.merge_s = s_draw(&p, 16, 0.001, 0.02);
    p.merge_width = 20;
    return p;
}

/* ---- one thing wrong each */

static void
s_nothing(cluster_plan_t *p)
{
    (void)p;
}

static void
s_small_chunks(cluster_plan_t *p)
{
    p->chunks_per_file *= 3;
    p->cpu_s = s_draw(p, 100, 0.05, 0.15);
    p->wait_s = 0.003;
    p->open_cpu_s = s_draw(p, 101, 0.15, 0.3);
}

static void
s_no_small_chunks(cluster_plan_t *p)
{
    p->open_cpu_s = 0;
}

static void
s_slow_opening(cluster_plan_t *p)
{
    p->open_wait_s = p->cpu_s * s_draw(p, 100, 0.8, 2.5);
}

static void
s_no_slow_opening(cluster_plan_t *p)
{
    p->open_wait_s = 0;
}

static void
s_input(cluster_plan_t *p)
{
    p->wait_s = p->cpu_s * s_draw(p, 100, 0.8, 3);
}

static void
s_no_input(cluster_plan_t *p)
{
    p->wait_s = 0;
}

static void
s_slow_file(cluster_plan_t *p)
{
    p->slow_file = s_pick(p, 100, 0, p->files - 1);
    p->slow_file_factor = p->files * s_draw(p, 101, 0.6, 1.2);
}

static void
s_no_slow_file(cluster_plan_t *p)
{
    p->slow_file = CLUSTER_NONE;
}

static void
s_slow_worker(cluster_plan_t *p)
{
    p->slow_worker = s_pick(p, 100, 0, p->workers - 1);
    p->slow_worker_factor = s_draw(p, 101, 2.5, 5);
    p->pinned = true;
}

static void
s_no_slow_worker(cluster_plan_t *p)
{
    p->slow_worker = CLUSTER_NONE;
}

static void
s_gil(cluster_plan_t *p)
{
    p->threads = s_pick(p, 100, 4, 6);
    p->cores = p->threads;
    p->workers = s_pick(p, 101, 2, 4);
    p->python = s_draw(p, 102, 0.85, 1);
}

/* They use a core's worth of Python at most, and would have to take turns if they did not wait. */
static void
s_reading_threads(cluster_plan_t *p)
{
    p->threads = s_pick(p, 100, 6, 8);
    p->cores = p->threads;
    p->workers = s_pick(p, 101, 2, 3);
    p->python = s_draw(p, 102, 0.85, 1);
    p->wait_s = p->cpu_s * s_draw(p, 103, 7, 12);
}

static void
s_no_gil(cluster_plan_t *p)
{
    p->python = 0;
    p->open_cpu_s = 0;
}

static void
s_spill(cluster_plan_t *p)
{
    p->spill_s = p->cpu_s * s_draw(p, 100, 0.5, 1.2);
    p->pause_share = s_draw(p, 101, 0.1, 0.3);
}

static void
s_no_spill(cluster_plan_t *p)
{
    p->spill_s = p->pause_share = 0;
}

static void
s_garbage(cluster_plan_t *p)
{
    p->threads = p->cores = 1;
    p->garbage = s_draw(p, 100, 0.35, 0.65);
}

static void
s_no_garbage(cluster_plan_t *p)
{
    p->cpu_s *= 1 - p->garbage;
    p->garbage = 0;
}

static void
s_slow_scheduler(cluster_plan_t *p)
{
    /* It hands out as many tasks in a second as half of the threads, or fewer, would do. */
    p->send_s = (p->cpu_s + p->wait_s) / (p->workers * p->threads) * s_draw(p, 100, 1.7, 3);
}

static void
s_no_slow_scheduler(cluster_plan_t *p)
{
    p->send_s = 0.001;
}

static void
s_merging(cluster_plan_t *p)
{
    p->merge_s = p->cpu_s * s_draw(p, 100, 0.4, 1);
}

static void
s_no_merging(cluster_plan_t *p)
{
    p->merge_s = 0;
}

static void
s_few_chunks(cluster_plan_t *p)
{
    unsigned threads = p->workers * p->threads;
    p->files = threads + s_pick(p, 100, 1, 1 + threads / 4);
    p->chunks_per_file = 1;
    p->size_spread = 0.1;
    p->cpu_s *= 8;
    p->wait_s *= 8;
}

static void
s_no_few_chunks(cluster_plan_t *p)
{
    p->chunks_per_file = 12;
    p->cpu_s /= 12;
    p->wait_s /= 12;
    p->open_cpu_s /= 12;
    p->open_wait_s /= 12;
}

static void
s_long_chunk(cluster_plan_t *p)
{
    double per_thread = (double)(p->files * p->chunks_per_file) / (p->workers * p->threads);
    p->long_chunk = floor(per_thread) * s_draw(p, 100, 0.8, 1.5);
}

static void
s_imbalance(cluster_plan_t *p)
{
    p->pinned = true;
    p->crowded_share = s_pick(p, 100, 2, 3);
}

static void
s_no_imbalance(cluster_plan_t *p)
{
    p->pinned = false;
    p->crowded_share = 0;
}

static void
s_lost_workers(cluster_plan_t *p)
{
    p->workers = s_pick(p, 100, 3, 5);
    p->killed_workers = (p->workers + 1) / 2;
    p->kill_s = p->startup_s + p->files * p->chunks_per_file * p->cpu_s /
                                   (p->workers * p->threads) * s_draw(p, 101, 0.3, 0.6);
}

static void
s_no_lost_workers(cluster_plan_t *p)
{
    p->killed_workers = 0;
}

static void
s_failures(cluster_plan_t *p)
{
    p->fails = s_draw(p, 100, 0.35, 0.6);
}

static void
s_no_failures(cluster_plan_t *p)
{
    p->fails = 0;
}

static void
s_few_cores(cluster_plan_t *p)
{
    p->workers_per_host = p->workers;
    p->cores = (unsigned)fmax(1, floor(p->workers * p->threads * s_draw(p, 100, 0.25, 0.6)));
    p->python = 0.05;
}

static void
s_no_few_cores(cluster_plan_t *p)
{
    p->workers_per_host = 1;
    p->cores = p->threads;
}

static void
s_preprocessing(cluster_plan_t *p)
{
    p->preprocess_s = p->cpu_s * s_draw(p, 100, 8, 16);
}

static void
s_no_preprocessing(cluster_plan_t *p)
{
    p->preprocess_s = 0;
}

static void
s_startup(cluster_plan_t *p)
{
    p->startup_s = p->files * p->chunks_per_file * p->cpu_s / (p->workers * p->threads) *
                   s_draw(p, 100, 0.4, 1);
}

static void
s_no_startup(cluster_plan_t *p)
{
    p->startup_s = 0;
}

static void
s_late_workers(cluster_plan_t *p)
{
    p->workers = s_pick(p, 100, 4, 6);
    p->late_workers = p->workers - 1;
    p->late_s = p->files * p->chunks_per_file * p->cpu_s / p->threads * s_draw(p, 101, 0.3, 0.6);
}

static void
s_no_late_workers(cluster_plan_t *p)
{
    p->late_workers = 0;
}

static void
s_slow_client(cluster_plan_t *p)
{
    p->batches = s_pick(p, 100, 3, 5);
    p->batch_pause_s = p->files * p->chunks_per_file * p->cpu_s / (p->workers * p->threads) /
                       p->batches * s_draw(p, 101, 0.6, 1.2);
}

static void
s_no_slow_client(cluster_plan_t *p)
{
    p->batch_pause_s = 0;
}

const cause_t causes[] = {
    {"compute", "nothing: a healthy run", s_nothing, NULL},
    {"chunk_overhead", "chunks of a tenth of a second", s_small_chunks, s_no_small_chunks},
    {"opening", "each file takes long to open", s_slow_opening, s_no_slow_opening},
    {"input", "process() waits for input", s_input, s_no_input},
    {"input", "many threads of Python that mostly read", s_reading_threads, s_no_input},
    {"slow_files", "one file is slow", s_slow_file, s_no_slow_file},
    {"slow_workers", "one worker is slow", s_slow_worker, s_no_slow_worker},
    {"gil", "many threads of Python in one worker", s_gil, s_no_gil},
    {"spill", "memory is full: spilling and pauses", s_spill, s_no_spill},
    {"garbage_collection", "half of the CPU collects garbage", s_garbage, s_no_garbage},
    {"latency", "the scheduler cannot keep up", s_slow_scheduler, s_no_slow_scheduler},
    {"merging", "large outputs are merged", s_merging, s_no_merging},
    {"tail", "hardly more chunks than threads", s_few_chunks, s_no_few_chunks},
    {"tail", "one chunk is far larger", s_long_chunk, NULL},
    {"imbalance", "one worker has most files and keeps them", s_imbalance, s_no_imbalance},
    {"wasted", "half of the workers are killed", s_lost_workers, s_no_lost_workers},
    {"wasted", "many attempts fail", s_failures, s_no_failures},
    {"cores", "more threads than cores", s_few_cores, s_no_few_cores},
    {"preprocessing", "every file is preprocessed for long", s_preprocessing, s_no_preprocessing},
    {"startup", "the workers wait for the client", s_startup, s_no_startup},
    {"scaling", "most workers come late", s_late_workers, s_no_late_workers},
    {"starved", "the client submits in parts, with pauses", s_slow_client, s_no_slow_client},
};
const size_t n_causes = sizeof causes / sizeof *causes;

cluster_plan_t
causes_planted(const cause_t *cause, uint64_t seed)
{
    cluster_plan_t plan = causes_healthy(seed);
    cause->plant(&plan);
    return plan;
}

/* ---- judging */

static void
s_read(const decoded_t *d, const cause_t *cause, judged_t *j)
{
    for (size_t i = 0; i < decoded_count(d, CREMA_TABLE_BOTTLENECKS); i++) {
        const char *name = decoded_text(d, CREMA_TABLE_BOTTLENECKS, i, "name");
        double fraction = decoded_real(d, CREMA_TABLE_BOTTLENECKS, i, "fraction");
        size_t length = strlen(j->top);
        if (i == 0)
            snprintf(j->first, sizeof j->first, "%s", name);
        if (i < 4)
            snprintf(j->top + length, sizeof j->top - length, "%s%s %.0f%%", i ? ", " : "", name,
                     100 * fraction);
        if (strcmp(name, cause->name) != 0)
            continue;
        j->fraction = fraction;
        j->saving_s = decoded_real(d, CREMA_TABLE_BOTTLENECKS, i, "saving_s");
        j->lo = decoded_real(d, CREMA_TABLE_BOTTLENECKS, i, "lo");
        j->hi = decoded_real(d, CREMA_TABLE_BOTTLENECKS, i, "hi");
    }
}

judged_t
causes_judge(const cause_t *cause, uint64_t seed)
{
    const char *dir = scratch_dir("cluster");
    cluster_plan_t plan = causes_planted(cause, seed);
    judged_t judged = {.wall_s = cluster_record(&plan, dir), .without_s = NAN};
    if (cause->cure) {
        cause->cure(&plan);
        judged.without_s = cluster_run(&plan, NULL);
    }
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    const sink_summary_t summary = {d.tables, d.run, d.facts, d.budget, d.model, false, NULL};
    if (sink_summary_fill(&summary) == CREMA_OK)
        s_read(&d, cause, &judged);
    decoded_close(&d);
    return judged;
}

/* ---- proof */

static bool
s_is_between(double truth, double lo, double hi)
{
    return truth >= 0.95 * lo && truth <= 1.05 * hi;
}

void
causes_try(const cause_t *cause, uint64_t first, uint64_t seeds, FILE *out, bool all,
           tally_t *ret_tally)
{
    tally_t t = {0};
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        judged_t j = causes_judge(cause, seed);
        double saved_s = j.wall_s - j.without_s;
        bool hit = strcmp(j.first, cause->name) == 0;
        t.runs++;
        t.first += hit;
        if (cause->cure) {
            t.cured++;
            t.near += fabs(j.saving_s - saved_s) <= 0.25 * saved_s;
        }
        if (cause->cure && isfinite(j.lo)) {
            t.bounded++;
            t.within += s_is_between(saved_s, j.lo, j.hi);
        }
        if (out && (all || !hit))
            fprintf(out, "  %s %lu: %.1f s, %.1f s less without, saves %.1f (%.1f to %.1f): %s\n",
                    hit ? "right" : "WRONG", (unsigned long)seed, j.wall_s, saved_s, j.saving_s,
                    j.lo, j.hi, j.top);
    }
    if (out)
        fprintf(out,
                "%-18s %-45s first %3u of %u, saving near in %3u of %u, within bounds %3u of %u\n",
                cause->name, cause->planted, t.first, t.runs, t.near, t.cured, t.within, t.bounded);
    *ret_tally = t;
}
