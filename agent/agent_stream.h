/* agent_stream - the records of the agent's own stream: what it is, on which machine, the names of
 * the workers that its rows refer to by number, and the rows. */
#ifndef AGENT_STREAM_H
#define AGENT_STREAM_H

#include "agent_sampler.h"
#include "crema_limit.h"

#define AGENT_BOOT_ID_SIZE 64

/* Empty if unknown. */
void agent_stream_boot_id(const char *proc, char out[AGENT_BOOT_ID_SIZE]);

/* `owner` is the user whose stream it is. */
CREMA_MUST_CHECK crema_err_t agent_stream_open(const agent_sampler_config_t *config,
                                               const char *boot_id, const crema_id_t *stream_id,
                                               const crema_id_t *run_id, uint32_t owner,
                                               crema_spool_writer_t **ret_writer);

/* Names the worker whose stream begins with `info`. */
CREMA_MUST_CHECK crema_err_t agent_stream_name_worker(crema_spool_writer_t *writer, uint32_t number,
                                                      const Crema__StreamInfo *info);

#define AGENT_STREAM_ROWS_MAX 256 /* of one record; far below what a record may hold */

/* Writes rows of a table, in the layout of the file, as one Batch record. */
CREMA_MUST_CHECK crema_err_t agent_stream_write_rows(crema_spool_writer_t *writer,
                                                     crema_table_id_t table, const void *rows,
                                                     uint32_t n, int64_t mono_ns);

/* One of the agent's own limits was met `n` more times at that time. The stream must not name other
 * units and metrics. */
CREMA_MUST_CHECK crema_err_t agent_stream_write_limit(crema_spool_writer_t *writer,
                                                      crema_limit_id_t id, uint64_t n,
                                                      int64_t real_ns, int64_t mono_ns);

#endif
