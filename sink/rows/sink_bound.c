#include "sink_bound.h"

#include <assert.h>
#include <string.h>

#include "crema_bytes.h"

#define COUNT_BELOW ((int64_t)1 << 40)
#define BYTES_BELOW ((int64_t)1 << 50)
#define UNKNOWN_REAL 0x7FF8000000000000 /* NaN */

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
        crema_type_t type;
        int64_t from, below, unknown;
    } kinds[] = {
        {"ns", CREMA_T_I64, 0, SINK_BOUND_TIME_NS, 0},
        {"count", CREMA_T_I64, 0, COUNT_BELOW, -1},
        {"B", CREMA_T_I64, 0, BYTES_BELOW, -1},
        {"count", CREMA_T_I32, 0, INT64_C(1) << 31, -1},
        {"1", CREMA_T_I32, 0, INT64_C(1) << 31, -1},
        {"s", CREMA_T_F64, 0, COUNT_BELOW, 0},
        {"%", CREMA_T_F64, 0, COUNT_BELOW, 0},
        {"1", CREMA_T_F64, 0, COUNT_BELOW, 0},
        {"unit_id", CREMA_T_F64, -SINK_BOUND_TIME_NS, SINK_BOUND_TIME_NS, 0},
    };
    sink_bound_t self = {0};
    for (size_t i = 0; i < table->n_columns; i++) {
        const crema_column_t *column = &table->columns[i];
        const bool is_users = table->id == CREMA_TABLE_CUSTOM && column->type == CREMA_T_F64;
        if (column->size == 0 || column->origin == CREMA_FROM_SINK || is_users)
            continue;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            if (column->type != kinds[k].type || strcmp(column->units, kinds[k].units) != 0)
                continue;
            assert(self.n < sizeof self.columns / sizeof *self.columns);
            const bool is_sample =
                table->id == CREMA_TABLE_WORKER_SAMPLES && column->type == CREMA_T_I64;
            self.columns[self.n].column = (uint8_t)i;
            self.columns[self.n].type = column->type;
            self.columns[self.n].from = kinds[k].from;
            self.columns[self.n].below = is_sample ? SINK_BOUND_TIME_NS : kinds[k].below;
            self.columns[self.n++].unknown = kinds[k].unknown;
        }
    }
    return self;
}

static void
s_bound_integers(uint8_t *at, size_t row_bytes, size_t n, int64_t from, int64_t below,
                 int64_t unknown)
{
    for (size_t r = 0; r < n; r++, at += row_bytes) {
        const int64_t value = (int64_t)crema_get_u64(at);
        if (value < from || value >= below)
            crema_put_u64(at, (uint64_t)unknown);
    }
}

static void
s_bound_small(uint8_t *at, size_t row_bytes, size_t n, int64_t from, int64_t unknown)
{
    for (size_t r = 0; r < n; r++, at += row_bytes)
        if ((int32_t)crema_get_u32(at) < from)
            crema_put_u32(at, (uint32_t)unknown);
}

static void
s_bound_reals(uint8_t *at, size_t row_bytes, size_t n, double from, double below)
{
    for (size_t r = 0; r < n; r++, at += row_bytes) {
        const uint64_t bits = crema_get_u64(at);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!(value >= from && value < below))
            crema_put_u64(at, UNKNOWN_REAL);
    }
}

void
sink_bound_rows(const sink_bound_t *self, const crema_table_t *table, uint8_t *rows, size_t n)
{
    const size_t row_bytes = crema_table_row_bytes(table);
    for (uint8_t i = 0; i < self->n; i++) {
        const int64_t from = self->columns[i].from, below = self->columns[i].below;
        uint8_t *at = rows + crema_table_offset(table, self->columns[i].column);
        const int64_t unknown = self->columns[i].unknown;
        if (self->columns[i].type == CREMA_T_F64)
            s_bound_reals(at, row_bytes, n, (double)from, (double)below);
        else if (self->columns[i].type == CREMA_T_I32)
            s_bound_small(at, row_bytes, n, from, unknown);
        else
            s_bound_integers(at, row_bytes, n, from, below, unknown);
    }
}
