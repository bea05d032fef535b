#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_text.h"

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

/* ---------------------------------------------------------------- what happens next: a binary heap */

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
    free(event.msg);
    return true;
}

void
sim_clear(sim_t *sim)
{
    for (size_t i = 0; i < sim->n_heap; i++)
        free(sim->heap[i].msg);
    free(sim->heap);
    sim->heap = NULL;
    sim->n_heap = sim->heap_capacity = 0;
}

/* ---------------------------------------------------------------- copies of messages */

static crema_stream_table_t *
s_table(crema_msg_t *msg)
{
    switch (msg->type) {
    case CREMA_MSG_HELLO:
        return &msg->hello.table;
    case CREMA_MSG_HEARTBEAT:
        return &msg->heartbeat.table;
    case CREMA_MSG_BYE:
        return &msg->bye.table;
    case CREMA_MSG_WELCOME:
        return &msg->welcome.table;
    case CREMA_MSG_ACK:
        return &msg->ack.table;
    case CREMA_MSG_STATE:
        return &msg->state.table;
    case CREMA_MSG_OPEN:
    case CREMA_MSG_COMMITTED:
        return &msg->table;
    default:
        return NULL;
    }
}

static crema_faults_t *
s_faults(crema_msg_t *msg)
{
    switch (msg->type) {
    case CREMA_MSG_HELLO:
        return &msg->hello.faults;
    case CREMA_MSG_HEARTBEAT:
        return &msg->heartbeat.faults;
    case CREMA_MSG_BYE:
        return &msg->bye.faults;
    default:
        return NULL;
    }
}

/* They are the session's, which may have others by then. Causes are not looked at. */
typedef struct {
    char code[24], file[64];
} fault_text_t;

#define FAULT_BYTES (sizeof(crema_reason_t) + sizeof(fault_text_t))

static void
s_copy_faults(crema_reason_t *rows, crema_faults_t *faults)
{
    fault_text_t *texts = (fault_text_t *)(rows + faults->n);
    for (size_t i = 0; i < faults->n; i++) {
        const crema_reason_t *row = &faults->rows[i];
        crema_text_copy(texts[i].code, sizeof texts[i].code, row->code);
        crema_text_copy(texts[i].file, sizeof texts[i].file, row->subject);
        rows[i] = (crema_reason_t){texts[i].code, texts[i].file, "", row->count};
    }
    faults->rows = rows;
}

/* Other texts are constants or nobody looks at them on the other side, so they are not copied. */
crema_msg_t *
sim_copy(const crema_msg_t *msg)
{
    crema_msg_t plain = *msg;
    crema_stream_table_t *table = s_table(&plain);
    bool has_writers = msg->type == CREMA_MSG_RUN_WRITERS;
    size_t writers_b = has_writers ? msg->writers.n * sizeof *msg->writers.writers : 0;
    bool has_frames = msg->type == CREMA_MSG_DATA || msg->type == CREMA_MSG_PUT;
    crema_faults_t *faults = s_faults(&plain);
    size_t rows_b = table ? table->n * sizeof *table->rows : 0;
    size_t faults_b = faults ? faults->n * FAULT_BYTES : 0;
    size_t frames_b = has_frames ? msg->data.frames_bytes : 0;
    crema_msg_t *copy = malloc(sizeof *copy + rows_b + faults_b + frames_b + writers_b);
    if (!copy)
        abort();
    if (rows_b) {
        memcpy(copy + 1, table->rows, rows_b);
        table->rows = (const crema_stream_row_t *)(copy + 1);
    }
    if (faults_b)
        s_copy_faults((crema_reason_t *)((uint8_t *)(copy + 1) + rows_b), faults);
    *copy = plain;
    if (frames_b) {
        memcpy(copy + 1, msg->data.frames, frames_b);
        copy->data.frames = (const uint8_t *)(copy + 1);
    }
    if (writers_b) {
        memcpy(copy + 1, msg->writers.writers, writers_b);
        copy->writers.writers = (const crema_writer_t *)(copy + 1);
    }
    if (msg->type == CREMA_MSG_RUN_STATE) {
        static const crema_reason_t c_not_ended = {CREMA_LIFE_NOT_ENDED, "", "", 0};
        copy->run_state.n_reasons =
            crema_life_lacks_end(msg->run_state.n_reasons, msg->run_state.reasons);
        copy->run_state.reasons = &c_not_ended;
        copy->run_state.waiting_for = NULL;
    }
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
