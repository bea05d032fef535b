/* crema_series_doc - the reference page of the series, docs/operation/series.md, made from the
 * table. */
#ifndef CREMA_SERIES_DOC_H
#define CREMA_SERIES_DOC_H

#include <stdio.h>

void crema_series_print_markdown(FILE *file);

#endif
