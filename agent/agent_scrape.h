/* agent_scrape - what the agent counts, shown to Prometheus. */
#ifndef AGENT_SCRAPE_H
#define AGENT_SCRAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_delivery.h"
#include "crema_exposition.h"
#include "crema_spool.h"

/* Everything is borrowed. */
typedef struct {
    const char *phase; /* one of AGENT_SCRAPE_PHASES */
    bool healthy;
    const crema_spool_t *spool;       /* NULL: not open yet */
    const agent_delivery_t *delivery; /* NULL: another agent serves the spool */
    int64_t spool_limit_b;
    int64_t now_ns; /* monotonic */
} agent_scrape_t;

#define AGENT_SCRAPE_PHASES                                                                        \
    {                                                                                              \
        "standby", "serving", "leaving"                                                            \
    }

void agent_scrape_expose(const agent_scrape_t *self, crema_exposition_t *out);

#endif
