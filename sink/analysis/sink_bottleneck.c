#include "sink_bottleneck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what chunks waited for */

/* Seconds of attempts with known CPU time, of one worker or of all. */
typedef struct {
    double s, gil_s, waits_s; /* waits: neither CPU nor GIL nor core */
} ran_t;

static double
s_known(double s)
{
    return s > 0 ? s : 0; /* NaN too */
}

/* Garbage collection in process(); where that in opening is not known, by the share of CPU time. */
static double
s_process_gc_s(const sink_chunk_t *chunk)
{
    const double gc_s = s_known(chunk->gc_s), open_cpu_s = s_known(chunk->open_cpu_s);
    if (!isnan(chunk->open_gc_s))
        return sink_between(gc_s - chunk->open_gc_s, 0, gc_s);
    return chunk->cpu_s > 0 ? gc_s * (1 - sink_least(1, open_cpu_s / chunk->cpu_s)) : gc_s;
}

static void
s_add_chunk(sink_measured_t *m, const sink_chunk_t *chunk, ran_t *ran)
{
    double s = sink_chunk_s(chunk), noncpu_s = sink_between(s - chunk->cpu_s, 0, s);
    double core_s = sink_least(s_known(chunk->cpu_wait_s), noncpu_s), waits_s = noncpu_s - core_s;
    bool looked = !isnan(chunk->wait_s[CREMA_LOOK_GIL]);
    double open_gil_s = looked ? s_known(chunk->open_gil_s) : 0;
    /* Before process(): exact but for the GIL. */
    double open_s =
        s_known(chunk->open_s - chunk->open_cpu_s - s_known(chunk->open_cpu_wait_s) - open_gil_s);
    open_s = sink_least(open_s, waits_s);
    m->n_chunks++;
    m->chunk_s += s;
    m->chunk_noncpu_s += noncpu_s;
    m->open_cpu_s += sink_least(s_known(chunk->open_cpu_s), chunk->cpu_s);
    m->cores_known |= !isnan(chunk->cpu_wait_s);
    m->waits[CREMA_LOOK_CORE].value += core_s;
    m->opening_s += open_s;
    m->open_gil_s += open_gil_s;
    double rest_s = waits_s - open_s, seen_s = 0;
    for (int i = CREMA_LOOK_GIL; looked && i < CREMA_LOOK_COUNT; i++)
        seen_s += s_known(chunk->wait_s[i]);
    /* In opening all but the GIL is `open_s`; input has a column of its own for it, and what
     * else there was is in proportion. */
    double input_s = s_known(chunk->wait_s[CREMA_LOOK_INPUT] - s_known(chunk->open_input_s));
    double gil_s = s_known(chunk->wait_s[CREMA_LOOK_GIL]);
    double others_s = seen_s - gil_s - s_known(chunk->wait_s[CREMA_LOOK_INPUT]);
    double left_s = s_known(rest_s - gil_s - input_s);
    double part = others_s > 0 ? sink_least(left_s / others_s, 1) : 0, found_s = 0;
    for (int i = CREMA_LOOK_GIL; looked && i < CREMA_LOOK_COUNT; i++) {
        double of_s = i == CREMA_LOOK_GIL     ? gil_s
                      : i == CREMA_LOOK_INPUT ? input_s
                                              : part * s_known(chunk->wait_s[i]);
        of_s = sink_least(of_s, rest_s - found_s);
        m->waits[i].value += of_s;
        found_s += of_s;
    }
    m->waits[CREMA_LOOK_UNKNOWN].value += rest_s - found_s;
    m->seen |= looked;
    ran->s += s;
    ran->gil_s += looked ? gil_s : 0;
    ran->waits_s += waits_s - (looked ? gil_s : 0);
}

/* A state's share of what was blocked, with the error of the looks that found it. */
static void
s_bound_waits(sink_measured_t *m, size_t n_looks)
{
    double blocked_s = m->opening_s;
    for (int i = CREMA_LOOK_GIL; i < CREMA_LOOK_COUNT; i++)
        blocked_s += m->waits[i].value;
    for (int i = 0; i < CREMA_LOOK_COUNT; i++) {
        sink_range_t *wait = &m->waits[i];
        wait->lo = wait->hi = wait->value;
        if (i < CREMA_LOOK_GIL || !(blocked_s > 0))
            continue;
        sink_range_t share = sink_queue_share(wait->value / blocked_s, n_looks);
        wait->lo = sink_least(share.lo * blocked_s, wait->value);
        wait->hi = fmax(share.hi * blocked_s, wait->value);
    }
}

/* Looks at threads of chunks that were blocked, and what other tasks did. */
static size_t
s_count_looks(sink_measured_t *m, const sink_facts_t *facts, const sink_tables_t *tables)
{
    size_t n_looks = 0;
    const sink_rows_t *prefixes = sink_tables_rows(tables, CREMA_TABLE_DICT_TASK_PREFIX);
    for (size_t i = 0; i < facts->n_looks; i++) {
        const sink_look_t *look = &facts->looks[i];
        if (look->phase != CREMA_LOOK_PHASE_OTHER) {
            n_looks += look->state >= CREMA_LOOK_GIL ? look->n : 0;
            continue;
        }
        if (look->prefix >= sink_rows_count(prefixes))
            continue;
        const crema_dict_task_prefix_row_t *prefix = sink_rows_at(prefixes, look->prefix);
        if (prefix->side != CREMA_SIDE_PREPROCESS && prefix->side != CREMA_SIDE_MERGE)
            m->others_s[look->state] += look->seconds;
    }
    return n_looks;
}

/* ---- what less waiting would save where threads share the GIL */

static double
s_saved_s(const ran_t *ran, double at_once)
{
    double gil = sink_between(ran->gil_s / ran->s, 0, 1), waits = ran->waits_s / ran->s;
    double demand = sink_queue_demand(at_once, gil), delay = sink_between(1 - demand - gil, 0, 1);
    if (!(demand > 0) || !(waits > 0))
        return ran->waits_s;
    double before = sink_queue_cycle(at_once, demand, delay);
    double after = sink_queue_cycle(at_once, demand, sink_between(delay - waits, 0, 1));
    return sink_between(1 - after / before, 0, waits) * ran->s;
}

/* Workers of one process share its GIL. */
static double
s_in_process(const sink_rows_t *workers, size_t worker)
{
    double n = 0;
    const crema_dict_worker_row_t *own =
        worker < sink_rows_count(workers) ? sink_rows_at(workers, worker) : NULL;
    for (size_t w = 0; own && own->pid > 0 && w < sink_rows_count(workers); w++) {
        const crema_dict_worker_row_t *row = sink_rows_at(workers, w);
        n += row->pid == own->pid && memcmp(row->host, own->host, sizeof row->host) == 0;
    }
    return fmax(n, 1);
}

static void
s_save(sink_measured_t *m, const sink_facts_t *facts, const sink_tables_t *tables, const ran_t *ran)
{
    const sink_rows_t *workers = sink_tables_rows(tables, CREMA_TABLE_DICT_WORKER);
    double waits_s = 0, saved_s = 0;
    for (size_t w = 0; w < facts->n_workers; w++) {
        const sink_load_t *load = &facts->sweep.workers[w];
        if (ran[w].s <= 0)
            continue;
        double at_once = load->active_s > 0 ? load->busy_s / load->active_s : 1;
        at_once = ran[w].gil_s > 0 ? at_once * s_in_process(workers, w) : 1;
        waits_s += ran[w].waits_s;
        saved_s += s_saved_s(&ran[w], sink_between(at_once, 1, SINK_QUEUE_CUSTOMERS_MAX));
    }
    m->wait_pays = waits_s > 0 ? saved_s / waits_s : 1;
}

/* ---- killed workers */

/* Their threads from when they were last seen to the end of the run. */
static double
s_missing_s(const sink_facts_t *facts)
{
    double sum = 0;
    for (size_t i = 0; i < facts->n_presence; i++) {
        const sink_presence_t *p = &facts->presence[i];
        bool last = i + 1 == facts->n_presence || facts->presence[i + 1].worker != p->worker;
        if (last && facts->workers[p->worker].killed)
            sum += (double)(facts->t1_ns - p->t1_ns) * 1e-9 * p->nthreads;
    }
    return sum;
}

crema_err_t
sink_bottleneck_measure(const sink_facts_t *facts, const sink_model_t *model,
                        const sink_tables_t *tables, sink_measured_t *ret_found)
{
    sink_measured_t m = {.n_tasks = facts->n_tasks, .opening_known = true};
    ran_t *ran = calloc(facts->n_workers + 1, sizeof *ran);
    if (!ran)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        if (!chunk->counted)
            continue;
        m.opening_known = m.opening_known && !isnan(chunk->open_s) && !isnan(chunk->open_cpu_s);
        m.gc_s += s_process_gc_s(chunk);
        if (!isnan(chunk->cpu_s) && sink_chunk_s(chunk) > 0)
            s_add_chunk(&m, chunk,
                        &ran[chunk->worker < facts->n_workers ? chunk->worker : facts->n_workers]);
    }
    s_bound_waits(&m, s_count_looks(&m, facts, tables));
    s_save(&m, facts, tables, ran);
    free(ran);
    m.missing_s = s_missing_s(facts);
    crema_err_t err = sink_growth_find(facts, &m.growth);
    if (err == CREMA_OK)
        err = sink_slow_find(facts, model, tables, &m.workers, &m.servers, &m.files);
    if (err == CREMA_OK)
        *ret_found = m;
    return err;
}
