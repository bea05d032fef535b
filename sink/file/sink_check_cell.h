/* sink_check_cell - what cells of a run file may hold, and which names its dictionaries may have.
 * Pure: rows in, findings out. */
#ifndef SINK_CHECK_CELL_H
#define SINK_CHECK_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "sink_intern.h"

/* Of the cells of a column. */
typedef struct {
    bool is_bounded;
    int64_t below, unknown; /* of an integer: 0 <= value < below, or unknown */
    double from, to;        /* of a real: finite, from <= value < to, or NaN */
    crema_table_id_t of;    /* the table of which it is a row; CREMA_TABLE_COUNT: it is a number */
} sink_check_range_t;

/* `rows` are the rows of each table. `older`: the file is of an earlier 1.x, which took any real;
 * `newer`: of a later one, which may have more labels. */
sink_check_range_t sink_check_range(const crema_table_t *table, size_t column,
                                    const uint64_t rows[CREMA_TABLE_COUNT], bool older, bool newer);

/* True if it can be. */
bool sink_check_integer(const sink_check_range_t *range, int64_t value);
bool sink_check_real(const sink_check_range_t *range, double value);

/* True if it is UTF-8 and nothing follows the text's first NUL. */
bool sink_check_is_text(const char *field, size_t size);

/* What is wrong with the name in a row of a dictionary, as the end of a sentence, else NULL;
 * `names` has those of the rows before it, and takes this one. */
CREMA_MUST_CHECK crema_err_t sink_check_name(sink_intern_t *names, const crema_table_t *table,
                                             const uint8_t *row, const char **ret_wrong);

#endif
