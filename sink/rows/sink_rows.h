/* sink_rows - the rows of one table, kept until the file is written.
 *
 * Packed rows, in memory up to SINK_SCRATCH_MEMORY bytes, beyond that in an unlinked, mapped
 * temporary file: see sink_scratch.h. */
#ifndef SINK_ROWS_H
#define SINK_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"

typedef struct sink_rows sink_rows_t;

/* `spill_dir` NULL: memory only. */
CREMA_MUST_CHECK crema_err_t sink_rows_new(size_t row_bytes, const char *spill_dir,
                                           sink_rows_t **ret_self);
void sink_rows_destroy(sink_rows_t **self_p);

/* Copies one row, or `n`. CREMA_ENOMEM, CREMA_ENOSPC. */
CREMA_MUST_CHECK crema_err_t sink_rows_add(sink_rows_t *self, const void *row);
CREMA_MUST_CHECK crema_err_t sink_rows_append(sink_rows_t *self, const void *rows, size_t n);

size_t sink_rows_count(const sink_rows_t *self);
/* Valid until the next add or sort. */
void *sink_rows_at(const sink_rows_t *self, size_t i);

/* Gives back the rows' memory and file; their number stays. None may be looked at or added
 * after. */
void sink_rows_drop(sink_rows_t *self);

/* Stable sort by the table's first column, then stream, then seq (first_seq in /gaps). Tables
 * without these columns are left as they are. CREMA_ELIMIT: more than 2^32 - 1 rows. */
CREMA_MUST_CHECK crema_err_t sink_rows_sort(sink_rows_t *self, const crema_table_t *table);

/* Gives back what the file has beyond the rows; a file that stays too long is not an error. */
void sink_rows_trim(sink_rows_t *self);

#endif
