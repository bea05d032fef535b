#include "sink_offset.h"

#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"
#include "sink_bound.h"
#include "sink_intern.h"

typedef struct {
    int64_t t_ns, offset_ns, uncertainty_ns;
} sample_t;

typedef struct {
    sample_t *samples;
    size_t n, room;
    uint32_t stride; /* one sample in this many is kept, the most certain one */
    uint32_t seen;   /* since the last kept sample was begun */
    bool applies;
} agent_t;

struct sink_offset {
    crema_limits_t *limits;
    sink_intern_t *ids; /* with an agent_t each */
    bool applies;
    uint64_t times[CREMA_TABLE_COUNT]; /* bit i: column i is a time of the agent's clock */
};

/* Times of the sink's clock, and how uncertain a time is, are not corrected. */
static bool
s_is_time(const crema_column_t *column)
{
    size_t n = strlen(column->name);
    return column->size == 8 && column->type == CREMA_T_I64 && column->name[0] == 't' && n > 3 &&
           strcmp(column->name + n - 3, "_ns") == 0 && strcmp(column->name, "t_recv_ns") != 0 &&
           strcmp(column->name, "t_uncertainty_ns") != 0;
}

static uint64_t
s_times(const crema_table_t *table)
{
    uint64_t times = 0;
    for (size_t i = 0; i < table->n_columns; i++)
        if (s_is_time(&table->columns[i]))
            times |= UINT64_C(1) << i;
    return times;
}

crema_err_t
sink_offset_new(crema_limits_t *limits, sink_offset_t **ret_self)
{
    sink_offset_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->limits = limits;
    for (size_t i = 0; i < CREMA_TABLE_COUNT; i++)
        self->times[i] = s_times(crema_table((crema_table_id_t)i));
    crema_err_t err = sink_intern_new_with(sizeof(agent_t), &self->ids);
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
    for (uint32_t i = 0; self->ids && i < sink_intern_count(self->ids); i++)
        free(((agent_t *)sink_intern_value(self->ids, i))->samples);
    sink_intern_destroy(&self->ids);
    free(self);
    *self_p = NULL;
}

/* ---- taking samples */

static const sample_t *
s_surer(const sample_t *a, const sample_t *b)
{
    return b->uncertainty_ns < a->uncertainty_ns ? b : a;
}

/* Of each two neighbours keeps the more certain one. */
static void
s_halve(agent_t *agent)
{
    for (size_t i = 0; i < agent->n / 2; i++)
        agent->samples[i] = *s_surer(&agent->samples[2 * i], &agent->samples[2 * i + 1]);
    agent->n /= 2;
    agent->stride *= 2;
    agent->seen = 0;
}

static crema_err_t
s_take(agent_t *agent, const sample_t *sample)
{
    if (agent->seen > 0 && agent->seen < agent->stride) {
        agent->samples[agent->n - 1] = *s_surer(&agent->samples[agent->n - 1], sample);
        agent->seen++;
        return CREMA_OK;
    }
    if (agent->n == SINK_OFFSET_SAMPLES_MAX)
        s_halve(agent);
    sample_t *samples = crema_grow(agent->samples, agent->n, &agent->room, sizeof *samples);
    if (!samples)
        return CREMA_ENOMEM;
    agent->samples = samples;
    agent->samples[agent->n++] = *sample;
    agent->seen = 1;
    return CREMA_OK;
}

/* True if arithmetic on the sample cannot overflow. */
static bool
s_can_be(const sample_t *sample)
{
    const int64_t most = SINK_BOUND_TIME_NS / 2;
    return sample->t_ns == sink_bound_time_ns(sample->t_ns) && sample->offset_ns > -most &&
           sample->offset_ns < most && sample->uncertainty_ns >= 0 && sample->uncertainty_ns < most;
}

crema_err_t
sink_offset_add(sink_offset_t *self, const Crema__ClockSample *sample)
{
    const crema_id_t *agent_id = crema_id_of(sample->agent_id);
    const sample_t taken = {sample->t_ns, sample->offset_ns, sample->uncertainty_ns};
    uint32_t number;
    bool fresh;
    if (!s_can_be(&taken))
        return CREMA_OK;
    if (sink_intern_count(self->ids) >= self->limits->limit[CREMA_LIMIT_AGENTS] &&
        !sink_offset_known(self, agent_id)) {
        crema_limits_met(self->limits, CREMA_LIMIT_AGENTS, 1);
        return CREMA_OK;
    }
    crema_err_t err = sink_intern_add(self->ids, agent_id, sizeof *agent_id, &number, &fresh);
    if (err != CREMA_OK)
        return err;
    agent_t *agent = sink_intern_value(self->ids, number);
    if (fresh)
        agent->stride = 1;
    return s_take(agent, &taken);
}

/* ---- settling */

static int
s_by_time(const void *a, const void *b)
{
    const sample_t *left = a, *right = b;
    return (left->t_ns > right->t_ns) - (left->t_ns < right->t_ns);
}

static bool
s_differs(const sample_t *sample)
{
    int64_t off = sample->offset_ns < 0 ? -sample->offset_ns : sample->offset_ns;
    return off > sample->uncertainty_ns;
}

/* Keeps an agent's good samples, sorted by time. */
static void
s_keep_good(agent_t *agent)
{
    int64_t best_ns = INT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < agent->n; i++)
        best_ns =
            agent->samples[i].uncertainty_ns < best_ns ? agent->samples[i].uncertainty_ns : best_ns;
    for (size_t i = 0; i < agent->n; i++)
        if (agent->samples[i].uncertainty_ns / 2 <= best_ns)
            agent->samples[kept++] = agent->samples[i];
    agent->n = kept;
    if (kept > 1)
        qsort(agent->samples, kept, sizeof *agent->samples, s_by_time);
}

void
sink_offset_settle(sink_offset_t *self)
{
    for (uint32_t a = 0; a < sink_intern_count(self->ids); a++) {
        agent_t *agent = sink_intern_value(self->ids, a);
        s_keep_good(agent);
        for (size_t i = 0; i < agent->n; i++)
            agent->applies = agent->applies || s_differs(&agent->samples[i]);
        self->applies = self->applies || agent->applies;
    }
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

/* NULL: its clock needs no correction. */
static const agent_t *
s_agent(const sink_offset_t *self, const crema_id_t *agent_id)
{
    uint32_t number = sink_intern_find(self->ids, agent_id, sizeof *agent_id);
    const agent_t *agent = number == SINK_INTERN_NONE ? NULL : sink_intern_value(self->ids, number);
    return agent && agent->applies ? agent : NULL;
}

static int64_t
s_correct(const agent_t *agent, int64_t t_ns)
{
    if (sink_bound_time_ns(t_ns) == 0)
        return t_ns;
    return sink_bound_time_ns(t_ns - s_offset_ns(agent->samples, agent->n, t_ns));
}

int64_t
sink_offset_correct(const sink_offset_t *self, const crema_id_t *agent_id, int64_t t_ns)
{
    const agent_t *agent = s_agent(self, agent_id);
    return agent ? s_correct(agent, t_ns) : t_ns;
}

void
sink_offset_correct_row(const sink_offset_t *self, const crema_id_t *agent_id,
                        const crema_table_t *table, uint8_t *row)
{
    const agent_t *agent = s_agent(self, agent_id);
    for (uint64_t left = agent ? self->times[table->id] : 0; left != 0; left &= left - 1) {
        const size_t i = (size_t)__builtin_ctzll(left);
        crema_row_set_i64(table, row, i, s_correct(agent, crema_row_get_i64(table, row, i)));
    }
}

bool
sink_offset_applies(const sink_offset_t *self)
{
    return self->applies;
}
