#include "sink_offset.h"

#include <stdlib.h>
#include <string.h>

#include "sink_intern.h"

#define AGENTS_MAX (1u << 18)

typedef struct {
    uint32_t agent;
    int64_t t_ns, offset_ns, uncertainty_ns;
} sample_t;

typedef struct {
    size_t first, n; /* its samples */
    bool applies;
} agent_t;

struct sink_offset {
    sink_intern_t *ids;
    agent_t *agents; /* by number of the id, once settled */
    sample_t *samples;
    size_t n, room;
    bool applies;
};

crema_err_t
sink_offset_new(sink_offset_t **ret_self)
{
    sink_offset_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = sink_intern_new(AGENTS_MAX, &self->ids);
    if (err == CREMA_OK && !(self->agents = calloc(1, sizeof *self->agents)))
        err = CREMA_ENOMEM;
    if (err != CREMA_OK)
        sink_offset_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_offset_destroy(sink_offset_t **self_p)
{
    sink_offset_t *self = *self_p;
    if (!self)
        return;
    sink_intern_destroy(&self->ids);
    free(self->agents);
    free(self->samples);
    free(self);
    *self_p = NULL;
}

crema_err_t
sink_offset_add(sink_offset_t *self, const crema_clock_sample_t *sample)
{
    uint32_t agent;
    bool fresh;
    if (self->n == SINK_OFFSET_SAMPLES_MAX)
        return CREMA_OK;
    crema_err_t err =
        sink_intern_add(self->ids, &sample->agent_id, sizeof sample->agent_id, &agent, &fresh);
    if (err == CREMA_ELIMIT)
        return CREMA_OK;
    if (err == CREMA_OK && fresh) {
        agent_t *agents = realloc(self->agents, (agent + 1) * sizeof *agents);
        if (!agents)
            return CREMA_ENOMEM;
        agents[agent] = (agent_t){0};
        self->agents = agents;
    }
    if (err == CREMA_OK && self->n == self->room) {
        size_t room = self->room ? self->room * 2 : 64;
        sample_t *samples = realloc(self->samples, room * sizeof *samples);
        if (!samples)
            return CREMA_ENOMEM;
        self->samples = samples;
        self->room = room;
    }
    if (err == CREMA_OK)
        self->samples[self->n++] =
            (sample_t){agent, sample->t_ns, sample->offset_ns, sample->uncertainty_ns};
    return err;
}

static int
s_by_agent_and_time(const void *a, const void *b)
{
    const sample_t *left = a, *right = b;
    if (left->agent != right->agent)
        return left->agent < right->agent ? -1 : 1;
    return (left->t_ns > right->t_ns) - (left->t_ns < right->t_ns);
}

static bool
s_differs(const sample_t *sample)
{
    int64_t off = sample->offset_ns < 0 ? -sample->offset_ns : sample->offset_ns;
    return off > sample->uncertainty_ns;
}

/* Keeps the good samples of one agent; returns how many. */
static size_t
s_keep_good(const sample_t *from, size_t n, sample_t *to)
{
    int64_t best_ns = INT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (from[i].uncertainty_ns < best_ns)
            best_ns = from[i].uncertainty_ns;
    for (size_t i = 0; i < n; i++)
        if (from[i].uncertainty_ns / 2 <= best_ns)
            to[kept++] = from[i];
    return kept;
}

void
sink_offset_settle(sink_offset_t *self)
{
    size_t kept = 0;
    if (self->n > 1)
        qsort(self->samples, self->n, sizeof *self->samples, s_by_agent_and_time);
    for (size_t i = 0, end = 0; i < self->n; i = end) {
        uint32_t number = self->samples[i].agent;
        while (end < self->n && self->samples[end].agent == number)
            end++;
        agent_t agent = {.first = kept};
        agent.n = s_keep_good(&self->samples[i], end - i, &self->samples[kept]);
        for (size_t k = 0; k < agent.n; k++)
            agent.applies = agent.applies || s_differs(&self->samples[kept + k]);
        self->applies = self->applies || agent.applies;
        kept += agent.n;
        self->agents[number] = agent;
    }
    self->n = kept;
}

bool
sink_offset_known(const sink_offset_t *self, const crema_id_t *agent_id)
{
    return sink_intern_find(self->ids, agent_id, sizeof *agent_id) != SINK_INTERN_NONE;
}

static int64_t
s_offset_ns(const sample_t *samples, size_t n, int64_t t_ns)
{
    size_t low = 0, high = n;
    if (t_ns <= samples[0].t_ns)
        return samples[0].offset_ns;
    if (t_ns >= samples[n - 1].t_ns)
        return samples[n - 1].offset_ns;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (samples[middle].t_ns <= t_ns)
            low = middle;
        else
            high = middle;
    }
    const sample_t *a = &samples[low], *b = &samples[low + 1];
    double part = (double)(t_ns - a->t_ns) / (double)(b->t_ns - a->t_ns);
    return a->offset_ns + (int64_t)(part * (double)(b->offset_ns - a->offset_ns));
}

int64_t
sink_offset_correct(const sink_offset_t *self, const crema_id_t *agent_id, int64_t t_ns)
{
    uint32_t number = sink_intern_find(self->ids, agent_id, sizeof *agent_id);
    if (t_ns == 0 || number == SINK_INTERN_NONE || !self->agents[number].applies)
        return t_ns;
    const agent_t *agent = &self->agents[number];
    return t_ns - s_offset_ns(self->samples + agent->first, agent->n, t_ns);
}

static bool
s_is_time(const crema_column_t *column)
{
    size_t n = strlen(column->name);
    return column->size == 8 && column->type == CREMA_T_I64 && column->name[0] == 't' && n > 3 &&
           strcmp(column->name + n - 3, "_ns") == 0 && strcmp(column->name, "t_recv_ns") != 0 &&
           strcmp(column->name, "t_uncertainty_ns") != 0;
}

void
sink_offset_correct_row(const sink_offset_t *self, const crema_id_t *agent_id,
                        const crema_table_t *table, uint8_t *row)
{
    for (size_t i = 0; i < table->n_columns; i++) {
        if (!s_is_time(&table->columns[i]))
            continue;
        int64_t t_ns = crema_row_get_i64(table, row, i);
        crema_row_set_i64(table, row, i, sink_offset_correct(self, agent_id, t_ns));
    }
}

bool
sink_offset_applies(const sink_offset_t *self)
{
    return self->applies;
}
