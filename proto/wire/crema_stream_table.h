/* crema_stream_table - the rows of a stream table, which a message carries as columns. Pure:
 * memory only. */
#ifndef CREMA_STREAM_TABLE_H
#define CREMA_STREAM_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "crema_body.h"
#include "crema_error.h"

#define CREMA_WIRE_TABLE_ROWS_MAX 4096u  /* of a table */
#define CREMA_WIRE_TABLE_ROWS_SENT 3072u /* so many fit one message whatever their numbers */

#define CREMA_STREAM_FLAG_CLOSED 1u /* its END record exists: hi is final */
/* 2 is reserved. */
/* From a sink: the run accepts nothing more; what is not committed never will be. */
#define CREMA_STREAM_FLAG_REFUSED 4u

typedef struct {
    crema_id_t stream_id;
    crema_id_t run_id;
    uint64_t first_avail; /* first seq still held; 0 unknown */
    uint64_t hi;          /* last complete seq */
    uint64_t committed;
    uint64_t recv_next;
    uint32_t flags;
    /* 1 + uid that owns its segments, from an agent that serves all runs; 0: not stated */
    uint32_t user;
} crema_stream_row_t;

/* Number of rows; NULL has none. */
size_t crema_stream_table_rows(const Crema__StreamTable *self);
/* Row i of a checked table; 0 where it lacks a column. */
crema_stream_row_t crema_stream_table_row(const Crema__StreamTable *self, size_t i);

/* An empty table for so many rows, in one block that free() takes. CREMA_ELIMIT above
 * CREMA_WIRE_TABLE_ROWS_MAX, CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t crema_stream_table_new(size_t room, Crema__StreamTable **ret_self);
/* Removes all rows. */
void crema_stream_table_clear(Crema__StreamTable *self);
/* There must be room. */
void crema_stream_table_add(Crema__StreamTable *self, const crema_stream_row_t *row);
/* The table for a message: NULL if it has no rows, since an empty one is not sent. */
Crema__StreamTable *crema_stream_table_sent(Crema__StreamTable *self);

#endif
