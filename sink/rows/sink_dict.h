/* sink_dict - the run's dictionaries: every name once, whatever stream it came with.
 * Pure: memory only.
 *
 * Worker and span are the same if their uuid is, a file if name and uuid are, everything else by its text. Rows lie packed as the file holds them;
 * a changed or new row is given once to whoever writes a live file. The uncut text stays beside a row whose column cut it. */
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

/* All dictionaries together take CREMA_LIMIT_NAMES bytes; an entry beyond it is SINK_DICT_NONE and counted in `limits`, which the caller keeps. */
CREMA_MUST_CHECK crema_err_t sink_dict_new(crema_limits_t *limits, sink_dict_t **ret_self);
void sink_dict_destroy(sink_dict_t **self_p);

/* The run's id of an entry, made if new; `parent` is the run's id of the dataset or unit that entry->parent names in its stream. What an entry knows
 * better than the row (a host, a size, slots) is put in. SINK_DICT_NONE if it cannot be held. */
CREMA_MUST_CHECK crema_err_t sink_dict_entry(sink_dict_t *self, const crema_dict_entry_t *entry,
                                             uint32_t parent, uint32_t *ret_id);

/* CREMA_ELIMIT: beyond CREMA_LIMIT_STREAMS; the caller counts what it leaves out. */
CREMA_MUST_CHECK crema_err_t sink_dict_stream(sink_dict_t *self, const crema_id_t *stream_id,
                                              uint32_t *ret_id);

/* SINK_DICT_NONE if it is not there. */
uint32_t sink_dict_find_stream(const sink_dict_t *self, const crema_id_t *stream_id);

/* `table` is one of the dict/ tables. */
size_t sink_dict_count(const sink_dict_t *self, crema_table_id_t table);
const void *sink_dict_row(const sink_dict_t *self, crema_table_id_t table, uint32_t id);
/* The same, to be changed. */
void *sink_dict_change(sink_dict_t *self, crema_table_id_t table, uint32_t id);

/* Uncut text; "" for SINK_DICT_NONE. */
const char *sink_dict_text(const sink_dict_t *self, crema_dict_t kind, uint32_t id);

/* The id of a text (a worker's or span's uuid), or SINK_DICT_NONE. */
uint32_t sink_dict_find(const sink_dict_t *self, crema_dict_t kind, const char *text);

/* The next run of neighbouring rows that changed since they were last taken. False: there is none. */
bool sink_dict_take(sink_dict_t *self, crema_table_id_t table, uint32_t *ret_first,
                    uint32_t *ret_n);

#endif
