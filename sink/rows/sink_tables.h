/* sink_tables - all rows of a run by table, until its file is written. */
#ifndef SINK_TABLES_H
#define SINK_TABLES_H

#include "crema_columns.h"
#include "crema_error.h"
#include "sink_dict.h"
#include "sink_rows.h"

typedef struct sink_tables sink_tables_t;

/* Large tables spill into `spill_dir`. */
CREMA_MUST_CHECK crema_err_t sink_tables_new(const char *spill_dir, sink_tables_t **ret_self);
void sink_tables_destroy(sink_tables_t **self_p);

CREMA_MUST_CHECK crema_err_t sink_tables_add(sink_tables_t *self, crema_table_id_t table,
                                             const void *row);
CREMA_MUST_CHECK crema_err_t sink_tables_append(sink_tables_t *self, crema_table_id_t table,
                                                const uint8_t *rows, size_t n);
/* Where they spill. */
const char *sink_tables_dir(const sink_tables_t *self);
sink_rows_t *sink_tables_rows(const sink_tables_t *self, crema_table_id_t table);

/* Sorts the stream and accounting tables into their final order and numbers the attempts. */
CREMA_MUST_CHECK crema_err_t sink_tables_sort(sink_tables_t *self);

/* Copies the dictionaries. */
CREMA_MUST_CHECK crema_err_t sink_tables_add_dict(sink_tables_t *self, const sink_dict_t *dict);

#endif
