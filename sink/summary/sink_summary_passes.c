/* One row per pass over the input. */
#include <math.h>
#include <stdlib.h>

#include "sink_stats.h"
#include "sink_summary.h"

typedef struct {
    int64_t attempts, chunks, events, know_events, bytes_b, know_bytes;
    int64_t t_start_ns, t_end_ns;
    sink_sum_t wall_s, open_s, cpu_s;
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
    if (!chunk->counted) {
        pass->wasted_s += sink_chunk_s(chunk);
        return;
    }
    pass->chunks++;
    pass->events += chunk->n_events > 0 ? chunk->n_events : 0;
    pass->know_events += chunk->n_events >= 0;
    pass->bytes_b += chunk->bytes_read_b > 0 ? chunk->bytes_read_b : 0;
    pass->know_bytes += chunk->bytes_read_b >= 0;
    sink_sum_add(&pass->wall_s, chunk->wall_s);
    sink_sum_add(&pass->open_s, chunk->open_s);
    sink_sum_add(&pass->cpu_s, chunk->cpu_s);
}

static crema_err_t
s_put(const sink_summary_t *self, size_t number, const pass_t *pass)
{
    crema_per_pass_row_t row = {
        .pass = (int64_t)number,
        .n_attempts = pass->attempts,
        .n_chunks = pass->chunks,
        .n_events = pass->know_events > 0 || pass->chunks == 0 ? pass->events : -1,
        .t_start_ns = pass->t_start_ns,
        .t_end_ns = pass->t_end_ns,
        .wall_s = sink_sum(&pass->wall_s),
        .open_s = sink_sum(&pass->open_s),
        .cpu_s = sink_sum(&pass->cpu_s),
        .bytes_read_b = pass->know_bytes > 0 || pass->chunks == 0 ? pass->bytes_b : -1,
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
