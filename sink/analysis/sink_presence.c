#include "sink_presence.h"

#include <stdbool.h>
#include <stdlib.h>

static int
s_by_worker_and_time(const void *a, const void *b)
{
    const sink_member_t *left = a, *right = b;
    if (left->worker != right->worker)
        return left->worker < right->worker ? -1 : 1;
    if (left->t_ns != right->t_ns)
        return left->t_ns < right->t_ns ? -1 : 1;
    return (int)left->event - (int)right->event;
}

static bool
s_ends(const sink_member_t *events, size_t i, size_t n)
{
    switch (events[i].event) {
    case CREMA_MEMBER_LEAVE:
    case CREMA_MEMBER_LOST:
        return true;
    case CREMA_MEMBER_RETIRE:
        for (size_t k = i + 1; k < n && events[k].worker == events[i].worker; k++)
            if (events[k].event == CREMA_MEMBER_LEAVE || events[k].event == CREMA_MEMBER_LOST)
                return false;
        return true;
    default:
        return false;
    }
}

static size_t
s_put(sink_presence_t *out, size_t n, sink_presence_t presence, int64_t t0_ns, int64_t t1_ns)
{
    if (presence.t0_ns < t0_ns)
        presence.t0_ns = t0_ns;
    if (presence.t1_ns > t1_ns)
        presence.t1_ns = t1_ns;
    if (presence.t1_ns <= presence.t0_ns)
        return n;
    out[n] = presence;
    return n + 1;
}

size_t
sink_presence_from(sink_member_t *events, size_t n, const uint32_t *slots, int64_t t0_ns,
                   int64_t t1_ns, sink_presence_t *out)
{
    size_t n_out = 0;
    if (n > 1)
        qsort(events, n, sizeof *events, s_by_worker_and_time);
    for (size_t i = 0; i < n;) {
        uint32_t worker = events[i].worker;
        bool first = true, present = false;
        sink_presence_t now = {t0_ns, t0_ns, worker, slots[worker] ? slots[worker] : 1};
        for (; i < n && events[i].worker == worker; i++) {
            const sink_member_t *event = &events[i];
            bool ends = s_ends(events, i, n);
            uint32_t nthreads = event->nthreads ? event->nthreads : now.nthreads;
            if (first && (event->event != CREMA_MEMBER_JOIN || event->boundary)) {
                present = true; /* it was there before */
                now.nthreads = nthreads;
            }
            first = false;
            if (present && (ends || nthreads != now.nthreads)) {
                now.t1_ns = ends && event->boundary ? t1_ns : event->t_ns;
                n_out = s_put(out, n_out, now, t0_ns, t1_ns);
                present = !ends;
                now.t0_ns = event->t_ns;
            } else if (!present && event->event == CREMA_MEMBER_JOIN) {
                present = true;
                now.t0_ns = event->t_ns;
            }
            now.nthreads = nthreads;
        }
        if (present) {
            now.t1_ns = t1_ns;
            n_out = s_put(out, n_out, now, t0_ns, t1_ns);
        }
    }
    return n_out;
}
