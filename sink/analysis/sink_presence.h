/* sink_presence - when workers were present: intervals of threads from change points. Pure:
 * arithmetic on arrays.
 *
 * A worker is present from its join until it leaves; a second join changes its threads. A join
 * without a leave lasts to the end of the window, a leave without a join starts at its
 * beginning; an event seen only at a boundary of the run extends to the end of the window on
 * that side. `retire` ends a presence only if no leave follows. Pause and resume change nothing:
 * the threads are still there. */
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
    bool boundary; /* seen only at an end of the run: the worker was there before, or stays */
} sink_member_t;

typedef struct {
    int64_t t0_ns, t1_ns;
    uint32_t worker;
    uint32_t nthreads;
} sink_presence_t;

/* Intervals within [t0, t1], sorted by worker and time, at most n + 1 per worker; `out` needs
 * room for n. `slots[worker]` is used where no event gives the number of threads, 1 if that is 0
 * too. Sorts the events. */
size_t sink_presence_from(sink_member_t *events, size_t n, const uint32_t *slots, int64_t t0_ns,
                          int64_t t1_ns, sink_presence_t *out);

#endif
