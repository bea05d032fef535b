/* sink_presence - who was there when: intervals of threads from change points.
 * Pure: arithmetic on arrays.
 *
 * A worker is present from its join to its leaving; a second join changes its threads. A join that nobody saw end lasts to the end of the window, a
 * leaving without a join began with it; what was only seen at a boundary of the run reaches to the window's end on that side. `retire` ends a presence only if no leaving follows. Pause and resume change nothing: the threads are there. */
#ifndef SINK_PRESENCE_H
#define SINK_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_labels.h"

typedef struct {
    int64_t t_ns;
    int64_t t_uncertainty_ns;
    uint32_t worker;
    uint32_t nthreads; /* 0: as before */
    crema_member_event_t event;
    bool boundary; /* seen at an end of the run only: it was there before, or stays on */
} sink_member_t;

typedef struct {
    int64_t t0_ns, t1_ns;
    uint32_t worker;
    uint32_t nthreads;
} sink_presence_t;

/* Intervals within [t0, t1], ordered by worker and time, at most n + 1 for each worker; `out` needs room for n. `slots[worker]` is used where no event names
 * the threads, 1 where that is 0 too. Sorts the events. */
size_t sink_presence_from(sink_member_t *events, size_t n, const uint32_t *slots, int64_t t0_ns,
                          int64_t t1_ns, sink_presence_t *out);

#endif
