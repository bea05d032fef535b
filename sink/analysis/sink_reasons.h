/* sink_reasons - a list of reasons or notes with unique code and subject, written as JSON. No
 * socket, file or clock. */
#ifndef SINK_REASONS_H
#define SINK_REASONS_H

#include <stddef.h>

#include "crema_error.h"
#include "crema_json.h"
#include "crema_wire.h"

typedef struct sink_reasons sink_reasons_t;

CREMA_MUST_CHECK crema_err_t sink_reasons_new(sink_reasons_t **ret_self);
void sink_reasons_destroy(sink_reasons_t **self_p);

/* The rest is the text, as for printf. A known reason keeps its position and gets the larger
 * count. */
CREMA_MUST_CHECK crema_err_t sink_reasons_add(sink_reasons_t *self, const char *code,
                                              const char *subject, uint64_t count,
                                              const char *format, ...)
    __attribute__((format(printf, 5, 6)));

size_t sink_reasons_all(const sink_reasons_t *self, const Crema__Reason **ret_reasons);

/* Writes elements {"code", "subject", "count", "text"} into an open list of at most `size`
 * bytes; if they do not all fit, the last one gives the number left out. `one` has `size` bytes
 * too. False: the list is full. */
bool sink_reasons_put(const sink_reasons_t *self, crema_json_t *json, char *one, size_t size);

#endif
