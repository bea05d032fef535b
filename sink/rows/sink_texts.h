/* sink_texts - a bounded list of names and values in order of arrival. Pure: memory only. */
#ifndef SINK_TEXTS_H
#define SINK_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_limit.h"

typedef struct sink_texts sink_texts_t;

/* Pairs beyond CREMA_LIMIT_ATTRIBUTES are left out and counted in `limits`, which the caller
 * owns. */
CREMA_MUST_CHECK crema_err_t sink_texts_new(crema_limits_t *limits, sink_texts_t **ret_self);
void sink_texts_destroy(sink_texts_t **self_p);

/* Copies both. An existing name keeps its position; its value is replaced only if `replace` is
 * set. */
CREMA_MUST_CHECK crema_err_t sink_texts_put(sink_texts_t *self, const char *name, const char *value,
                                            bool replace);

size_t sink_texts_count(const sink_texts_t *self);
const char *sink_texts_name(const sink_texts_t *self, size_t i);
const char *sink_texts_value(const sink_texts_t *self, size_t i);

/* NULL if the name is unknown. */
const char *sink_texts_find(const sink_texts_t *self, const char *name);

#endif
