#include "sink_bound.h"

#include <assert.h>
#include <string.h>

#include "crema_bytes.h"

#define COUNT_BELOW ((int64_t)1 << 40)
#define BYTES_BELOW ((int64_t)1 << 50)

int64_t
sink_bound_time_ns(int64_t t_ns)
{
    return t_ns >= 0 && t_ns < SINK_BOUND_TIME_NS ? t_ns : 0;
}

int64_t
sink_bound_sum(int64_t a, uint64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

sink_bound_t
sink_bound_of(const crema_table_t *table)
{
    static const struct {
        const char *units;
        int64_t below, unknown;
    } kinds[] = {{"ns", SINK_BOUND_TIME_NS, 0}, {"count", COUNT_BELOW, -1}, {"B", BYTES_BELOW, -1}};
    sink_bound_t self = {0};
    for (size_t i = 0; i < table->n_columns; i++) {
        const crema_column_t *column = &table->columns[i];
        if (column->type != CREMA_T_I64 || column->size == 0 || column->origin == CREMA_FROM_SINK)
            continue;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            if (strcmp(column->units, kinds[k].units) != 0)
                continue;
            assert(self.n < sizeof self.columns / sizeof *self.columns);
            self.columns[self.n].column = (uint8_t)i;
            self.columns[self.n].below =
                table->id == CREMA_TABLE_WORKER_SAMPLES ? SINK_BOUND_TIME_NS : kinds[k].below;
            self.columns[self.n++].unknown = kinds[k].unknown;
        }
    }
    return self;
}

void
sink_bound_rows(const sink_bound_t *self, const crema_table_t *table, uint8_t *rows, size_t n)
{
    const size_t row_bytes = crema_table_row_bytes(table);
    for (uint8_t i = 0; i < self->n; i++) {
        uint8_t *at = rows + crema_table_offset(table, self->columns[i].column);
        for (size_t r = 0; r < n; r++, at += row_bytes) {
            int64_t value = (int64_t)crema_get_u64(at);
            if (value < 0 || value >= self->columns[i].below)
                crema_put_u64(at, (uint64_t)self->columns[i].unknown);
        }
    }
}
