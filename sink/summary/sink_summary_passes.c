/* One row per pass over the input. */
#include "sink_summary.h"

crema_err_t
sink_summary_passes(const sink_summary_t *self)
{
    crema_err_t err = CREMA_OK;
    for (size_t n = 0; err == CREMA_OK && n < self->sums->n_passes; n++) {
        const sink_pass_sum_t *pass = &self->sums->passes[n];
        const crema_per_pass_row_t row = {
            .pass = (int64_t)n,
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
        if (pass->attempts > 0)
            err = sink_tables_add(self->tables, CREMA_TABLE_PER_PASS, &row);
    }
    return err;
}
