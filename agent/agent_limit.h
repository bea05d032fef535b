/* agent_limit - records that one of the agent's own limits was met. */
#ifndef AGENT_LIMIT_H
#define AGENT_LIMIT_H

#include <stdint.h>

#include "crema_error.h"
#include "crema_limit.h"
#include "crema_spool.h"

/* The limit was met `n` more times at that time. The stream must not name other units and
 * metrics. */
CREMA_MUST_CHECK crema_err_t agent_limit_write(crema_spool_writer_t *writer, crema_limit_id_t id,
                                               uint64_t n, int64_t real_ns, int64_t mono_ns);

#endif
