/* crema_metrics_list - the groups of crema_metrics.c, one file each for what they are about; nobody else includes it. */
#ifndef CREMA_METRICS_LIST_H
#define CREMA_METRICS_LIST_H

#include "crema_metrics.h"

#define CREMA_METRIC_GROUP(title, metrics)                                                         \
    {                                                                                              \
        title, metrics, sizeof metrics / sizeof metrics[0]                                         \
    }

extern const crema_metric_group_t
    crema_metrics_of_chunks[4];                             /* throughput, data, chunks, closure */
extern const crema_metric_group_t crema_metrics_of_time[3]; /* workers, activities, efficiency */

#endif
