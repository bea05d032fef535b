/* crema_series - every series that the programs show to Prometheus: name, type, labels, meaning.
 * Pure: a table.
 *
 * The one place where a series is described: what a program answers to a scrape
 * (crema_exposition.h) and the reference page docs/operation/series.md (`crema-gen --series`) are
 * both made from it. */
#ifndef CREMA_SERIES_H
#define CREMA_SERIES_H

#include "crema_series_list.h"

typedef enum {
    CREMA_SERIES_COUNTER,
    CREMA_SERIES_GAUGE,
    CREMA_SERIES_HISTOGRAM,
} crema_series_type_t;

typedef enum {
#define X(id, type, name, labels, help) CREMA_SERIES_##id,
    CREMA_SERIES_LIST(X)
#undef X
        CREMA_SERIES_N,
} crema_series_t;

#define CREMA_SERIES_LABELS_MAX 2

typedef struct {
    const char *name;
    crema_series_type_t type;
    const char *labels[CREMA_SERIES_LABELS_MAX]; /* NULL: no further one */
    const char *help;                            /* one line */
} crema_series_row_t;

const crema_series_row_t *crema_series_row(crema_series_t series);
const char *crema_series_type_name(crema_series_type_t type);

#endif
