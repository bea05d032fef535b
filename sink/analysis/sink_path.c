#include "sink_path.h"

#include "sink_scratch.h"
#include "sink_sort.h"

static int
s_by_need(const void *a, const void *b)
{
    const sink_edge_t *left = a, *right = b;
    if (left->needs != right->needs)
        return left->needs < right->needs ? -1 : 1;
    return (left->task > right->task) - (left->task < right->task);
}

crema_err_t
sink_path_longest(const char *dir, const double *durations_s, size_t n_tasks, sink_edge_t *edges,
                  size_t n_edges, double *ret_s)
{
    crema_err_t err = CREMA_OK;
    double *begin_s = sink_scratch(dir, n_tasks + 1, sizeof *begin_s, &err), longest = 0;
    uint32_t *waits_for = sink_scratch(dir, n_tasks + 1, sizeof *waits_for, &err);
    uint32_t *ready = sink_scratch(dir, n_tasks + 1, sizeof *ready, &err);
    size_t *first = sink_scratch(dir, n_tasks + 1, sizeof *first, &err); /* edge of each task */
    size_t n_ready = 0, done = 0;
    if (err == CREMA_OK)
        sink_sort(edges, n_edges, sizeof *edges, s_by_need);
    for (size_t i = n_edges; err == CREMA_OK && i-- > 0;) {
        waits_for[edges[i].task]++;
        first[edges[i].needs] = i;
    }
    for (uint32_t t = 0; err == CREMA_OK && t < n_tasks; t++)
        if (waits_for[t] == 0)
            ready[n_ready++] = t;
    while (err == CREMA_OK && done < n_ready) {
        uint32_t task = ready[done++];
        double end_s = begin_s[task] + durations_s[task];
        if (end_s > longest)
            longest = end_s;
        for (size_t i = first[task]; i < n_edges && edges[i].needs == task; i++) {
            uint32_t next = edges[i].task;
            if (end_s > begin_s[next])
                begin_s[next] = end_s;
            if (--waits_for[next] == 0)
                ready[n_ready++] = next;
        }
    }
    if (err == CREMA_OK && done < n_tasks)
        err = CREMA_EINVAL;
    sink_scratch_free(begin_s);
    sink_scratch_free(waits_for);
    sink_scratch_free(ready);
    sink_scratch_free(first);
    if (err == CREMA_OK)
        *ret_s = longest;
    return err;
}
