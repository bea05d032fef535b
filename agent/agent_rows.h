/* agent_rows - collects rows of one table in the layout of the file and writes them as Batch
 * records. */
#ifndef AGENT_ROWS_H
#define AGENT_ROWS_H

#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_spool.h"

#define AGENT_ROWS_MAX 256 /* of one record; far below what a record may hold */

typedef struct agent_rows agent_rows_t;

/* For a table that is sent in Batch records. */
CREMA_MUST_CHECK crema_err_t agent_rows_new(crema_table_id_t table, agent_rows_t **ret_self);
void agent_rows_destroy(agent_rows_t **self_p);

uint32_t agent_rows_count(const agent_rows_t *self);

/* A new row with all columns unknown, of the type that crema_columns.h has for the table, borrowed
 * until the next call; NULL if there are AGENT_ROWS_MAX rows. */
void *agent_rows_add(agent_rows_t *self);

/* Appends one record with all rows, if there are any, and clears them even after an error. */
CREMA_MUST_CHECK crema_err_t agent_rows_write(agent_rows_t *self, crema_spool_writer_t *writer,
                                              int64_t mono_ns);

#endif
