/* One row per user section. */
#include <math.h>

#include "sink_grouped.h"
#include "sink_scratch.h"
#include "sink_stats.h"
#include "sink_summary.h"

static crema_err_t
s_put_section(const sink_summary_t *self, const sink_rows_t *rows, const sink_grouped_t *entries,
              size_t n, double *durations)
{
    sink_sum_t wall_s = {0}, self_s = {0}, cpu_s = {0};
    double delta = 0, delta_max = NAN;
    int64_t bytes_b = 0, know_bytes = 0, n_deltas = 0;
    size_t n_durations = 0;
    for (size_t i = 0; i < n; i++) {
        const crema_sections_row_t *entry = sink_rows_at(rows, entries[i].row);
        int64_t before = entry->rss_start_b;
        int64_t after = entry->rss_end_b;
        int64_t read_b = entry->bytes_read_b;
        double duration_s = entry->wall_s;
        if (!isnan(duration_s))
            durations[n_durations++] = duration_s;
        sink_sum_add(&wall_s, duration_s);
        sink_sum_add(&self_s, entry->self_s);
        sink_sum_add(&cpu_s, entry->cpu_s);
        bytes_b += read_b > 0 ? read_b : 0;
        know_bytes += read_b >= 0;
        if (before < 0 || after < 0)
            continue;
        double grown = (double)(after - before);
        n_deltas++;
        delta += grown;
        delta_max = isnan(delta_max) || grown > delta_max ? grown : delta_max;
    }
    crema_per_section_row_t row = {
        .section_id = entries[0].group,
        .n = (int64_t)n,
        .wall_s = sink_sum(&wall_s),
        .self_s = sink_sum(&self_s),
        .cpu_s = sink_sum(&cpu_s),
        .dur_mean_s = sink_ratio(wall_s.known, (double)n_durations),
        .dur_p95_s = sink_stats_select(durations, n_durations, 0.95),
        .dur_max_s = sink_stats_select(durations, n_durations, 1),
        .rss_delta_mean_b = sink_ratio(delta, (double)n_deltas),
        .rss_delta_max_b = delta_max,
        .bytes_b = know_bytes > 0 ? bytes_b : -1,
    };
    SINK_NAME(row.section,
              sink_dict_text(sink_decoder_dict(self->run), CREMA_DICT_SECTION, entries[0].group));
    return sink_tables_add(self->tables, CREMA_TABLE_PER_SECTION, &row);
}

crema_err_t
sink_summary_sections(const sink_summary_t *self)
{
    const sink_rows_t *rows = sink_tables_rows(self->tables, CREMA_TABLE_SECTIONS);
    size_t n = sink_rows_count(rows);
    const char *dir = sink_tables_dir(self->tables);
    crema_err_t err = CREMA_OK;
    sink_grouped_t *entries = sink_scratch(dir, n + 1, sizeof *entries, &err);
    double *durations = sink_scratch(dir, n + 1, sizeof *durations, &err);
    if (err == CREMA_OK) {
        for (size_t i = 0; i < n; i++)
            entries[i] = (sink_grouped_t){
                ((const crema_sections_row_t *)sink_rows_at(rows, i))->section_id, i};
        sink_grouped_sort(entries, n);
    }
    for (size_t i = 0, end; err == CREMA_OK && i < n; i = end) {
        end = sink_grouped_end(entries, n, i);
        err = s_put_section(self, rows, entries + i, end - i, durations);
    }
    sink_scratch_free(entries);
    sink_scratch_free(durations);
    return err;
}
