#include "crema_metrics.h"

#include <string.h>

#include "crema_metrics_list.h"

#define OF_CHUNKS (sizeof crema_metrics_of_chunks / sizeof crema_metrics_of_chunks[0])
#define OF_TIME (sizeof crema_metrics_of_time / sizeof crema_metrics_of_time[0])

const char crema_metric_notation[] =
    "W: seconds of the run's window. n(t): threads present, a step function of the change points "
    "in `/membership`. "
    "A: integral of n(t), thread-seconds. Cap: most threads at one time x W. Over *counted* "
    "attempts (their output is in "
    "the result: `process()` returned, and no later attempt at the same chunk replaced it): E "
    "events, P seconds of "
    "`process()`, C seconds of thread CPU over opening and `process()`, B compressed bytes "
    "requested. noncpu: seconds of "
    "the processor's tasks without CPU.";

const crema_metric_group_t *
crema_metric_group(size_t i)
{
    if (i < OF_CHUNKS)
        return &crema_metrics_of_chunks[i];
    i -= OF_CHUNKS;
    return i < OF_TIME ? &crema_metrics_of_time[i] : NULL;
}

size_t
crema_metric_count(void)
{
    size_t n = 0;
    const crema_metric_group_t *group;
    for (size_t i = 0; (group = crema_metric_group(i)); i++)
        n += group->n;
    return n;
}

const crema_metric_t *
crema_metric(size_t i)
{
    const crema_metric_group_t *group;
    for (size_t g = 0; (group = crema_metric_group(g)); g++) {
        if (i < group->n)
            return &group->metrics[i];
        i -= group->n;
    }
    return NULL;
}

size_t
crema_metric_find(const char *name)
{
    const crema_metric_t *metric;
    size_t i = 0;
    while ((metric = crema_metric(i)) && strcmp(metric->name, name) != 0)
        i++;
    return i;
}
