/* sink_budget: which seconds come from where, and that they close. */
#include <math.h>

#include "crema_split.h"
#include "must.h"
#include "sink_attempt.h"
#include "sink_budget.h"

#define S 1000000000LL
#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)

enum { TASK_OK, TASK_ERROR, TASK_CANCELLED, TASK_LOST };

typedef struct {
    sink_facts_t facts;
    sink_chunk_t chunks[8];
    sink_task_t tasks[8];
    sink_metered_t metered[8];
    sink_worker_t workers[2];
    sink_load_t loads[2];
} case_t;

/* Two workers of one thread for 100 s, idle for `idle_s` of what the sweep saw. */
static void
s_begin(case_t *c, double starved_s)
{
    *c = (case_t){0};
    c->facts = (sink_facts_t){.t0_ns = 1,
                              .t1_ns = 1 + 100 * S,
                              .chunks = c->chunks,
                              .tasks = c->tasks,
                              .metered = c->metered,
                              .workers = c->workers,
                              .n_workers = 2};
    c->facts.sweep.alloc_s = 200;
    c->facts.sweep.threads_peak = 2;
    c->facts.sweep.idle_s[SINK_IDLE_STARVED] = starved_s;
    c->facts.sweep.workers = c->loads;
}

static void
s_chunk(case_t *c, uint32_t worker, uint8_t status, bool superseded, double open_s, double wall_s,
        double cpu_s)
{
    c->chunks[c->facts.n_chunks++] =
        (sink_chunk_t){.worker = worker,
                       .status = status,
                       .open_s = open_s,
                       .wall_s = wall_s,
                       .cpu_s = cpu_s,
                       .counted = status == CREMA_CHUNK_OK && !superseded};
}

static void
s_task(case_t *c, uint32_t worker, uint8_t status, crema_side_t side, bool is_chunk, int64_t s)
{
    c->tasks[c->facts.n_tasks++] = (sink_task_t){.t_start_ns = 1,
                                                 .t_stop_ns = 1 + s * S,
                                                 .worker = worker,
                                                 .status = status,
                                                 .side = (uint8_t)side,
                                                 .is_chunk = is_chunk};
}

static void
s_meter(case_t *c, uint32_t worker, crema_side_t side, crema_activity_kind_t kind, double s)
{
    c->metered[c->facts.n_metered++] = (sink_metered_t){.worker = worker,
                                                        .side = (uint8_t)side,
                                                        .kind = (uint8_t)kind,
                                                        .in = SINK_UNIT_SECONDS,
                                                        .value = s};
}

static sink_budget_t *
s_make(case_t *c)
{
    sink_budget_t *budget;
    must(sink_budget_new(&c->facts, &budget));
    return budget;
}

static void
must_take_unmetered_workers_from_chunks_and_tasks(void **state)
{
    (void)state;
    case_t c;
    s_begin(&c, 200 - 60);
    s_chunk(&c, 0, CREMA_CHUNK_OK, false, 2, 18, 12);
    s_chunk(&c, 0, CREMA_CHUNK_OK, true, NAN, 10, 5);
    s_chunk(&c, 1, CREMA_CHUNK_ERROR, false, NAN, 3, NAN);
    s_chunk(&c, 1, CREMA_CHUNK_LOST, false, NAN, 7, NAN);
    s_task(&c, 0, TASK_OK, CREMA_SIDE_PROCESSOR, true, 20); /* a chunk: told by /chunks */
    s_task(&c, 0, TASK_OK, CREMA_SIDE_MERGE, false, 6);
    s_task(&c, 1, TASK_OK, CREMA_SIDE_PREPROCESS, false, 8);
    s_task(&c, 1, TASK_ERROR, CREMA_SIDE_PREPROCESS, false, 6);
    sink_budget_t *b = s_make(&c);
    NEAR(b->all.cpu_s, 12);
    NEAR(b->all.noncpu_s, 8);
    NEAR(sink_spent_side_s(&b->all, CREMA_SIDE_MERGE), 6);
    NEAR(sink_spent_side_s(&b->all, CREMA_SIDE_PREPROCESS), 8);
    NEAR(b->all.wasted_s, 10 + 3 + 7 + 6);
    NEAR(b->residual_s, 0);
    assert_false(b->all.metered);
    sink_budget_destroy(&b);
    assert_null(b);
}

/* The processor was not recorded by its chunks, or not on every worker: its tasks are the
 * processor's all the same. */
static void
must_keep_tasks_of_the_processor_that_have_no_chunk(void **state)
{
    (void)state;
    case_t c;
    s_begin(&c, 200 - 44);
    s_chunk(&c, 0, CREMA_CHUNK_OK, false, 2, 18, 12);
    s_task(&c, 0, TASK_OK, CREMA_SIDE_PROCESSOR, true, 20);
    s_task(&c, 0, TASK_OK, CREMA_SIDE_PROCESSOR, false, 7);
    s_task(&c, 1, TASK_OK, CREMA_SIDE_PROCESSOR, false, 17);
    sink_budget_t *b = s_make(&c);
    NEAR(b->all.cpu_s, 12);
    NEAR(b->all.noncpu_s, 8 + 7 + 17);
    NEAR(sink_spent_side_s(&b->all, CREMA_SIDE_PROCESSOR), 0);
    NEAR(b->residual_s, 0);
    assert_true(b->cpu_unknown);
    sink_budget_destroy(&b);
}

/* Slots that other clients and runs took are neither this run's work nor free. */
static void
must_keep_other_runs_apart(void **state)
{
    (void)state;
    for (int metered = 0; metered < 2; metered++) {
        case_t c;
        s_begin(&c, 200 - 50);
        if (metered)
            s_meter(&c, 0, CREMA_SIDE_PROCESSOR, CREMA_ACTIVITY_CPU, 20);
        else
            s_task(&c, 0, TASK_OK, CREMA_SIDE_PROCESSOR, false, 20);
        s_task(&c, 0, TASK_OK, CREMA_SIDE_FOREIGN, false, 17);
        s_task(&c, 1, TASK_ERROR, CREMA_SIDE_FOREIGN, false, 13);
        sink_budget_t *b = s_make(&c);
        NEAR(b->all.cpu_s + b->all.noncpu_s, 20);
        NEAR(sink_spent_side_s(&b->all, CREMA_SIDE_FOREIGN), 30);
        NEAR(b->all.wasted_s, 0);
        NEAR(b->residual_s, 0);
        sink_budget_destroy(&b);
    }
}

static void
must_take_metered_seconds_and_move_what_was_wasted(void **state)
{
    (void)state;
    case_t c;
    s_begin(&c, 200 - 60);
    s_meter(&c, 0, CREMA_SIDE_PROCESSOR, CREMA_ACTIVITY_CPU, 20);
    s_meter(&c, 0, CREMA_SIDE_PROCESSOR, CREMA_ACTIVITY_NONCPU, 14);
    s_meter(&c, 0, CREMA_SIDE_PROCESSOR, CREMA_ACTIVITY_USER, 3);
    s_meter(&c, 0, CREMA_SIDE_RUNTIME, CREMA_ACTIVITY_RUNTIME, 5);
    s_meter(&c, 0, CREMA_SIDE_WASTED, CREMA_ACTIVITY_FAILED, 4);
    s_meter(&c, 1, CREMA_SIDE_OVERHEAD, CREMA_ACTIVITY_CPU, 9);
    s_meter(&c, 1, CREMA_SIDE_UNATTRIBUTED, CREMA_ACTIVITY_IDLE, 999); /* Dask's own idle */
    s_chunk(&c, 0, CREMA_CHUNK_OK, true, 1, 9, 6);                     /* done, lost, done again */
    s_chunk(&c, 0, CREMA_CHUNK_ERROR, false, 0, 2, NAN); /* dropped quietly: Dask saw a success */
    c.chunks[1].task_is_ok = true;
    s_chunk(&c, 0, CREMA_CHUNK_ERROR, false, 0, 4, NAN); /* in the lump of failed seconds already */
    s_chunk(&c, 0, CREMA_CHUNK_LOST, false, 0, 10, NAN); /* Dask never posted it */
    sink_budget_t *b = s_make(&c);
    assert_false(b->cpu_unknown); /* who ran no processor needs no meter */
    NEAR(b->all.cpu_s, 20 - 6);
    NEAR(b->all.noncpu_s, 14 - 4 - 2);
    NEAR(b->all.user_s, 3);
    NEAR(b->all.wasted_s, 4 + 10 + 2 + 10);
    NEAR(sink_spent_side_s(&b->all, CREMA_SIDE_OVERHEAD), 9);
    /* Seconds of the runtime looked free. */
    NEAR(sink_budget_idle_s(b), 140 - 5);
    NEAR(b->residual_s, 200 - (14 + 8 + 3 + 5 + 26 + 9 + 135));
    sink_budget_destroy(&b);
}

static void
must_trust_the_chunks_of_a_killed_worker(void **state)
{
    (void)state;
    case_t c;
    for (int killed = 0; killed < 2; killed++) {
        s_begin(&c, 0);
        c.workers[0].killed = killed;
        s_meter(&c, 0, CREMA_SIDE_PROCESSOR, CREMA_ACTIVITY_CPU, 20);
        s_chunk(&c, 0, CREMA_CHUNK_OK, false, 0, 30, 22);
        sink_budget_t *b = s_make(&c);
        NEAR(b->all.cpu_s, killed ? 22 : 20);
        NEAR(b->all.noncpu_s, killed ? 8 : 0);
        sink_budget_destroy(&b);
    }
}

/* Its last totals were not written: they lack some of what its chunks say, here of one that has to
 * be done again. */
static void
must_waste_all_that_a_killed_worker_did_in_vain(void **state)
{
    (void)state;
    case_t c;
    for (int killed = 0; killed < 2; killed++) {
        s_begin(&c, 200 - 12);
        c.workers[0].killed = killed;
        s_meter(&c, 0, CREMA_SIDE_PROCESSOR, CREMA_ACTIVITY_CPU, 3);
        s_meter(&c, 0, CREMA_SIDE_PROCESSOR, CREMA_ACTIVITY_NONCPU, 2);
        s_chunk(&c, 0, CREMA_CHUNK_OK, true, 1, 7, 5);
        s_chunk(&c, 0, CREMA_CHUNK_LOST, false, 0, 4, NAN);
        sink_budget_t *b = s_make(&c);
        NEAR(b->all.wasted_s, killed ? 12 : 9);
        NEAR(b->all.cpu_s + b->all.noncpu_s, 0);
        NEAR(b->residual_s, killed ? 0 : 3);
        sink_budget_destroy(&b);
    }
}

static void
must_take_runtime_out_of_idle_in_order_and_never_below_zero(void **state)
{
    (void)state;
    case_t c;
    s_begin(&c, 4);
    c.facts.sweep.idle_s[SINK_IDLE_LATENCY] = 3;
    c.facts.sweep.idle_s[SINK_IDLE_DRAINED] = 1;
    s_meter(&c, 0, CREMA_SIDE_RUNTIME, CREMA_ACTIVITY_RUNTIME, 5);
    sink_budget_t *b = s_make(&c);
    NEAR(b->idle_s[SINK_IDLE_LATENCY], 0);
    NEAR(b->idle_s[SINK_IDLE_STARVED], 2);
    NEAR(b->idle_s[SINK_IDLE_DRAINED], 1);
    sink_budget_destroy(&b);
    c.metered[0].value = 50;
    b = s_make(&c);
    NEAR(sink_budget_idle_s(b), 0);
    NEAR(b->residual_s, 200 - 50); /* it shows there instead */
    sink_budget_destroy(&b);
}

/* Two sums of the same seconds differ in their last digits. */
static void
must_not_round_absent_seconds_below_zero(void **state)
{
    (void)state;
    case_t c;
    s_begin(&c, 200);
    c.facts.sweep.alloc_s = nextafter(200, 300);
    sink_budget_t *b = s_make(&c);
    assert_true(b->absent_s == 0);
    sink_budget_destroy(&b);
}

/* Dask meters the whole of a task that fails, with the time in which it handles the exception: by
 * its times the slot is free then. */
static void
must_close_though_failed_tasks_took_longer_than_their_slots(void **state)
{
    (void)state;
    case_t c;
    s_begin(&c, 200 - 4 - 3 - 2);
    s_task(&c, 0, TASK_ERROR, CREMA_SIDE_PROCESSOR, true, 4);
    s_task(&c, 0, TASK_CANCELLED, CREMA_SIDE_MERGE, false, 3);
    s_task(&c, 1, TASK_ERROR, CREMA_SIDE_PREPROCESS, false, 2);
    s_chunk(&c, 0, CREMA_CHUNK_ERROR, false, 0, 4, NAN);
    c.chunks[0].in_task = true;
    s_meter(&c, 0, CREMA_SIDE_WASTED, CREMA_ACTIVITY_FAILED, 7.5);
    s_meter(&c, 1, CREMA_SIDE_WASTED, CREMA_ACTIVITY_FAILED, 2.5);
    sink_budget_t *b = s_make(&c);
    NEAR(b->all.wasted_s, 10);
    NEAR(b->workers[0].failed_runtime_s, 0.5);
    NEAR(b->workers[1].failed_runtime_s, 0.5);
    NEAR(sink_budget_idle_s(b), 200 - 10);
    NEAR(b->residual_s, 0);
    sink_budget_destroy(&b);
}

/* At the end of the run its task still ran: Dask posts its seconds later. */
static void
must_waste_what_was_cancelled_before_dask_metered_it(void **state)
{
    (void)state;
    case_t c;
    s_begin(&c, 200 - 12);
    s_chunk(&c, 0, CREMA_CHUNK_CANCELLED, false, NAN, 5, NAN);
    s_task(&c, 1, TASK_ERROR, CREMA_SIDE_MERGE, false, 4);
    s_meter(&c, 0, CREMA_SIDE_OVERHEAD, CREMA_ACTIVITY_CPU, 3);
    s_meter(&c, 1, CREMA_SIDE_WASTED, CREMA_ACTIVITY_FAILED, 4);
    sink_budget_t *b = s_make(&c);
    NEAR(b->all.wasted_s, 5 + 4);
    NEAR(b->residual_s, 0);
    sink_budget_destroy(&b);
}

/* Two tasks waited 60 s for others, without their slots: Dask meters 55 s of it as theirs, and
 * 5 s as its own. */
static void
must_leave_out_what_tasks_did_without_a_slot(void **state)
{
    (void)state;
    case_t c;
    s_begin(&c, 200 - 40);
    s_task(&c, 0, TASK_OK, CREMA_SIDE_OVERHEAD, false, 40);
    s_meter(&c, 0, CREMA_SIDE_OVERHEAD, CREMA_ACTIVITY_CPU, 10);
    s_meter(&c, 0, CREMA_SIDE_OVERHEAD, CREMA_ACTIVITY_NONCPU, 30 + 55);
    s_meter(&c, 0, CREMA_SIDE_RUNTIME, CREMA_ACTIVITY_RUNTIME, 5);
    s_meter(&c, 0, CREMA_SIDE_RUNTIME, CREMA_ACTIVITY_SPILL, 1);
    s_meter(&c, 0, CREMA_SIDE_OVERHEAD, CREMA_ACTIVITY_IDLE, 60);
    c.metered[4].context = CREMA_CONTEXT_BUSY;
    sink_budget_t *b = s_make(&c);
    NEAR(sink_spent_side_s(&b->all, CREMA_SIDE_OVERHEAD), 40);
    NEAR(b->all.side_cpu_s[CREMA_SIDE_OVERHEAD], 10);
    NEAR(b->all.runtime_s, 1);
    NEAR(sink_budget_idle_s(b), 200 - 40 - 1);
    NEAR(b->residual_s, 0);
    sink_budget_destroy(&b);
    c.metered[4].value = 1e9; /* the time on slots stays */
    b = s_make(&c);
    NEAR(sink_spent_side_s(&b->all, CREMA_SIDE_OVERHEAD), 40);
    NEAR(b->all.runtime_s, 1);
    sink_budget_destroy(&b);
}

static void
must_keep_transfers_beside_the_budget(void **state)
{
    (void)state;
    case_t c;
    s_begin(&c, 200);
    s_meter(&c, 0, CREMA_SIDE_TRANSFER, CREMA_ACTIVITY_IO, 77);
    c.metered[0].context = 1; /* gather_dep */
    sink_budget_t *b = s_make(&c);
    NEAR(b->transfer_s, 77);
    NEAR(b->residual_s, 0);
    sink_budget_destroy(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_take_unmetered_workers_from_chunks_and_tasks),
        cmocka_unit_test(must_keep_tasks_of_the_processor_that_have_no_chunk),
        cmocka_unit_test(must_keep_other_runs_apart),
        cmocka_unit_test(must_take_metered_seconds_and_move_what_was_wasted),
        cmocka_unit_test(must_trust_the_chunks_of_a_killed_worker),
        cmocka_unit_test(must_waste_all_that_a_killed_worker_did_in_vain),
        cmocka_unit_test(must_take_runtime_out_of_idle_in_order_and_never_below_zero),
        cmocka_unit_test(must_not_round_absent_seconds_below_zero),
        cmocka_unit_test(must_close_though_failed_tasks_took_longer_than_their_slots),
        cmocka_unit_test(must_waste_what_was_cancelled_before_dask_metered_it),
        cmocka_unit_test(must_leave_out_what_tasks_did_without_a_slot),
        cmocka_unit_test(must_keep_transfers_beside_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
