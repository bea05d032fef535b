#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sim_event {
    int64_t at_ns;
    uint64_t order; /* what was arranged first happens first */
    sim_fn_t fn;
    int a, b;
    crema_msg_t *msg;
} sim_event_t;

uint64_t
sim_random(sim_t *sim)
{
    uint64_t z = sim->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t
sim_between(sim_t *sim, int64_t low, int64_t high)
{
    return low + (int64_t)(sim_random(sim) % (uint64_t)(high - low + 1));
}

bool
sim_chance(sim_t *sim, double p)
{
    return (double)(sim_random(sim) >> 11) / 9007199254740992.0 < p;
}

crema_id_t
sim_random_id(sim_t *sim)
{
    crema_id_t id;
    uint64_t half[2] = {sim_random(sim), sim_random(sim)};
    memcpy(id.bytes, half, sizeof id.bytes);
    return id;
}

/* ------------------------------------------------ what happens next: a binary heap */

static bool
s_before(const sim_event_t *a, const sim_event_t *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void
s_swap(sim_event_t *a, sim_event_t *b)
{
    sim_event_t kept = *a;
    *a = *b;
    *b = kept;
}

void
sim_at(sim_t *sim, int64_t at_ns, sim_fn_t fn, int a, int b, crema_msg_t *msg)
{
    if (sim->n_heap == sim->heap_capacity) {
        sim->heap_capacity = sim->heap_capacity ? 2 * sim->heap_capacity : 1024;
        sim->heap = realloc(sim->heap, sim->heap_capacity * sizeof *sim->heap);
        if (!sim->heap)
            abort();
    }
    size_t i = sim->n_heap++;
    sim->heap[i] =
        (sim_event_t){at_ns > sim->now_ns ? at_ns : sim->now_ns, sim->order++, fn, a, b, msg};
    for (; i > 0 && s_before(&sim->heap[i], &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s_swap(&sim->heap[i], &sim->heap[(i - 1) / 2]);
}

bool
sim_step(sim_t *sim)
{
    if (sim->n_heap == 0)
        return false;
    sim_event_t event = sim->heap[0];
    sim->heap[0] = sim->heap[--sim->n_heap];
    for (size_t i = 0, child; (child = 2 * i + 1) < sim->n_heap; i = child) {
        if (child + 1 < sim->n_heap && s_before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!s_before(&sim->heap[child], &sim->heap[i]))
            break;
        s_swap(&sim->heap[child], &sim->heap[i]);
    }
    sim->now_ns = event.at_ns;
    sim->totals->events++;
    event.fn(sim, event.a, event.b, event.msg);
    crema_msg_destroy(&event.msg);
    return true;
}

void
sim_clear(sim_t *sim)
{
    for (size_t i = 0; i < sim->n_heap; i++)
        crema_msg_destroy(&sim->heap[i].msg);
    free(sim->heap);
    sim->heap = NULL;
    sim->n_heap = sim->heap_capacity = 0;
}

/* ---------------------------------------------------------------- copies of messages */

/* Through the bytes of its body, as between programs. */
crema_msg_t *
sim_copy(const crema_msg_t *msg)
{
    crema_msg_t *copy;
    if (crema_msg_copy(msg, &copy) != CREMA_OK)
        abort();
    return copy;
}

/* ---------------------------------------------------------------- saying and complaining */

void
sim_violation(sim_t *sim, const char *format, ...)
{
    va_list arguments;
    if (sim->violated)
        return;
    sim->violated = true;
    va_start(arguments, format);
    vsnprintf(sim->why, sizeof sim->why, format, arguments);
    va_end(arguments);
    sim_say(sim, "VIOLATION %s", sim->why);
}

void
sim_say(const sim_t *sim, const char *format, ...)
{
    va_list arguments;
    if (!sim->verbose)
        return;
    printf("%12.6f ", (double)sim->now_ns / 1e9);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

bool
sim_is_running(const sim_t *sim, const sim_process_t *process)
{
    return process->up && sim->now_ns >= process->stalled_until_ns;
}

int64_t
sim_clock(const sim_t *sim, const sim_clock_t *clock)
{
    return clock->base_ns + sim->now_ns + sim->now_ns / 1000 * clock->drift_ppb / 1000000;
}

/* Two of them drift apart by 100 ppm at most. */
sim_clock_t
sim_random_clock(sim_t *sim)
{
    return (sim_clock_t){.base_ns = sim_between(sim, SIM_S, 1000000 * SIM_S),
                         .drift_ppb = sim_between(sim, -50000, 50000)};
}

int
sim_run_of(const sim_t *sim, const crema_id_t *run_id)
{
    for (int run = 0; run < sim->n_runs; run++)
        if (crema_id_equal(&sim->run_ids[run], run_id))
            return run;
    return -1;
}
