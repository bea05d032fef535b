/* crema_exposition - what a program counts, written in Prometheus' text format 0.0.4, with # HELP
 * and # TYPE of crema_series.h.
 *
 * All samples of a series are given one after the other. The text is bounded: a line for which
 * there is no room is left out whole. */
#ifndef CREMA_EXPOSITION_H
#define CREMA_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_histogram.h"
#include "crema_series.h"
#include "crema_tally.h"

#define CREMA_EXPOSITION_LABEL_MAX 128 /* bytes of one label's value; more are cut off */

typedef struct {
    char *text; /* borrowed */
    size_t used, size;
    int last; /* the series written last; -1: none */
    bool cut; /* something did not fit */
} crema_exposition_t;

crema_exposition_t crema_exposition_begin(char *text, size_t size);

/* A series without labels. */
void crema_expose(crema_exposition_t *self, crema_series_t series, double value);
/* One sample of a series with labels, whose values come in the order of the table; any bytes will
 * do. */
void crema_expose_one(crema_exposition_t *self, crema_series_t series, const char *first,
                      const char *second, double value);
void crema_expose_histogram(crema_exposition_t *self, crema_series_t series,
                            const crema_histogram_t *histogram);
/* One sample for each name. */
void crema_expose_tally(crema_exposition_t *self, crema_series_t series,
                        const crema_tally_t *tally);

#endif
