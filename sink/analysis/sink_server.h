/* sink_server - servers that make chunks wait longer than others do. Pure: arithmetic on facts.
 *
 * What a chunk waited for its input, before process() and in it, is divided by its requests and by
 * its bytes: a server is slow if both are larger there, by SINK_SERVER_RATIO and more surely than
 * chance would have it. Of what its chunks waited, the excess over the others is its cost. */
#ifndef SINK_SERVER_H
#define SINK_SERVER_H

#include "sink_slow.h"

#define SINK_SERVER_RATIO 1.5
#define SINK_SERVER_SCORE 2.5 /* standard deviations of a fair coin: above the others' median */
#define SINK_SERVER_CHUNKS 4  /* on it, and on others */

/* `of_slow[i]` is set to `mark` for each chunk of a slow server. */
CREMA_MUST_CHECK crema_err_t sink_server_find(const sink_facts_t *facts,
                                              const sink_tables_t *tables, uint8_t *of_slow,
                                              uint8_t mark, sink_slow_t *ret_slow);

#endif
