/* agent_stream - what the agent writes at the beginning of its own stream: what it is, on which
 * machine, and the names of the workers that its rows refer to by number. */
#ifndef AGENT_STREAM_H
#define AGENT_STREAM_H

#include "agent_sampler.h"

#define AGENT_BOOT_ID_SIZE 64

/* Empty if unknown. */
void agent_stream_boot_id(const char *proc, char out[AGENT_BOOT_ID_SIZE]);

/* `owner` is the user whose stream it is. */
CREMA_MUST_CHECK crema_err_t agent_stream_open(const agent_sampler_config_t *config,
                                               const char *boot_id, const crema_id_t *run_id,
                                               uint32_t owner, crema_spool_writer_t **ret_writer);

/* Names the worker whose stream begins with `info`. */
CREMA_MUST_CHECK crema_err_t agent_stream_name_worker(crema_spool_writer_t *writer, uint32_t number,
                                                      const crema_stream_info_t *info);

#endif
