/* agent_inventory - reports to the session what the spool holds: streams that came and grew,
 * and what of it cannot be read. Logs once what has gone wrong in the spool. */
#ifndef AGENT_INVENTORY_H
#define AGENT_INVENTORY_H

#include <stddef.h>
#include <stdint.h>

#include "crema_session.h"
#include "crema_spool.h"

/* Its owner sets the first four; the rest begins as zero. */
typedef struct {
    const crema_spool_t *spool;
    crema_session_t *session;
    crema_id_t run_id;      /* zero: all runs */
    uint64_t spool_limit_b; /* for the log */
    uint64_t warned_evicted, warned_errors, warned_foreign, warned_faults;
} agent_inventory_t;

/* After a scan of the spool. */
void agent_inventory_report(agent_inventory_t *self, int64_t now_ns);

#endif
