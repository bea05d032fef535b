/* One row per pass over the input. */
#include <stdlib.h>

#include "sink_summary.h"

typedef struct {
    int64_t attempts, t_start_ns, t_end_ns;
    sink_tally_t counted;
    double wasted_s;
} pass_t;

static void
s_take(pass_t *pass, const sink_chunk_t *chunk)
{
    pass->attempts++;
    if (pass->t_start_ns == 0 || chunk->t_start_ns < pass->t_start_ns)
        pass->t_start_ns = chunk->t_start_ns;
    if (chunk->t_end_ns > pass->t_end_ns)
        pass->t_end_ns = chunk->t_end_ns;
    if (chunk->counted)
        sink_tally_add(&pass->counted, chunk);
    else
        pass->wasted_s += sink_chunk_s(chunk);
}

static crema_err_t
s_put(const sink_summary_t *self, size_t number, const pass_t *pass)
{
    crema_per_pass_row_t row = {
        .pass = (int64_t)number,
        .n_attempts = pass->attempts,
        .n_chunks = pass->counted.chunks,
        .n_events = sink_tally_int(&pass->counted.events),
        .t_start_ns = pass->t_start_ns,
        .t_end_ns = pass->t_end_ns,
        .wall_s = sink_sum(&pass->counted.wall_s),
        .open_s = sink_sum(&pass->counted.open_s),
        .cpu_s = sink_sum(&pass->counted.cpu_s),
        .bytes_read_b = sink_tally_int(&pass->counted.bytes_b),
        .wasted_s = pass->wasted_s,
    };
    return sink_tables_add(self->tables, CREMA_TABLE_PER_PASS, &row);
}

crema_err_t
sink_summary_passes(const sink_summary_t *self)
{
    const sink_facts_t *facts = self->facts;
    pass_t *passes = calloc((size_t)UINT16_MAX + 1, sizeof *passes);
    crema_err_t err = passes ? CREMA_OK : CREMA_ENOMEM;
    for (size_t i = 0; err == CREMA_OK && i < facts->n_chunks; i++)
        s_take(&passes[facts->chunks[i].pass], &facts->chunks[i]);
    for (size_t n = 0; err == CREMA_OK && n <= UINT16_MAX; n++)
        if (passes[n].attempts > 0)
            err = s_put(self, n, &passes[n]);
    free(passes);
    return err;
}
