/* sink_spot - where the seconds of some state were spent: the line, section, place and dataset with
 * most of them. Pure: arithmetic on /looks. */
#ifndef SINK_SPOT_H
#define SINK_SPOT_H

#include "sink_facts.h"

#define SINK_SPOT_NONE UINT32_MAX

/* Rows of the dictionaries, and the part of the seconds that each has; SINK_SPOT_NONE: no part. */
typedef struct {
    uint32_t frame, section, place, dataset; /* frame: the innermost one that is the user's code */
    double of_frame, of_section, of_place, of_dataset;
    double seconds;
} sink_spot_t;

/* Which seconds of /looks; `states` and `phases` have bit 1 << n for each number n. */
typedef struct {
    unsigned states, phases;
    bool gc;         /* those of garbage collections */
    double at_least; /* seconds of which parts are stated, where those that were seen are fewer */
} sink_spot_filter_t;

CREMA_MUST_CHECK crema_err_t sink_spot_find(const sink_facts_t *facts, const sink_tables_t *tables,
                                            const sink_spot_filter_t *filter,
                                            sink_spot_t *ret_spot);

#endif
