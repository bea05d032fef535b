/* sink_dict - the run's dictionaries: each name once, whichever stream it came from. Pure:
 * memory only.
 *
 * Workers and spans are identified by uuid, files by name and uuid, everything else by text.
 * Rows are packed as in the file. New and changed rows are handed out once, for the live file.
 * If a column cuts a text, the whole text is kept beside the row. */
#ifndef SINK_DICT_H
#define SINK_DICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_id.h"
#include "crema_limit.h"
#include "crema_record.h"

#define SINK_DICT_NONE UINT32_MAX

typedef struct sink_dict sink_dict_t;

/* All dictionaries together may take CREMA_LIMIT_NAMES bytes; an entry beyond that is
 * SINK_DICT_NONE and counted in `limits`, which the caller owns. */
CREMA_MUST_CHECK crema_err_t sink_dict_new(crema_limits_t *limits, sink_dict_t **ret_self);
void sink_dict_destroy(sink_dict_t **self_p);

/* The run's id of an entry, created if it is new; `parent` is the run's id of the dataset or
 * unit that entry->parent names in its stream. Details that the row lacks (host, size, slots)
 * are filled in. SINK_DICT_NONE if there is no room. */
CREMA_MUST_CHECK crema_err_t sink_dict_entry(sink_dict_t *self, const Crema__DictEntry *entry,
                                             uint32_t parent, uint32_t *ret_id);

/* CREMA_ELIMIT: above CREMA_LIMIT_STREAMS; the caller counts what it leaves out. */
CREMA_MUST_CHECK crema_err_t sink_dict_stream(sink_dict_t *self, const crema_id_t *stream_id,
                                              uint32_t *ret_id);

/* SINK_DICT_NONE if unknown. */
uint32_t sink_dict_find_stream(const sink_dict_t *self, const crema_id_t *stream_id);

/* `table` is one of the dict/ tables. */
size_t sink_dict_count(const sink_dict_t *self, crema_table_id_t table);
const void *sink_dict_row(const sink_dict_t *self, crema_table_id_t table, uint32_t id);
/* The row for writing; it is marked as changed. */
void *sink_dict_change(sink_dict_t *self, crema_table_id_t table, uint32_t id);

/* The whole text; "" for SINK_DICT_NONE. */
const char *sink_dict_text(const sink_dict_t *self, crema_dict_t kind, uint32_t id);

/* The id of a text (a worker's or span's uuid), or SINK_DICT_NONE. */
uint32_t sink_dict_find(const sink_dict_t *self, crema_dict_t kind, const char *text);

/* The next range of adjacent rows that changed since they were last taken. False: none. */
bool sink_dict_take(sink_dict_t *self, crema_table_id_t table, uint32_t *ret_first,
                    uint32_t *ret_n);

#endif
