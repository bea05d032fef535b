/* sink_attribute - root attributes of a run file: their names, types and values. Pure: memory
 * only.
 *
 * Every attribute of the contract is in every file, unknown ones as "", -1 or NaN, so that the
 * attributes of N files form a table of N rows. Other attributes from the collector are kept as
 * text. */
#ifndef SINK_ATTRIBUTE_H
#define SINK_ATTRIBUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_texts.h"

typedef enum {
    SINK_ATTRIBUTE_TEXT,
    SINK_ATTRIBUTE_INT,
    SINK_ATTRIBUTE_REAL,
    SINK_ATTRIBUTE_U8
} sink_attribute_type_t;

typedef struct {
    const char *name;
    sink_attribute_type_t type;
    const char *text;
    int64_t integer;
    double real;
} sink_attribute_t;

#define SINK_FORMAT "crema.run"
#define SINK_FORMAT_VERSION "1.1.0"
#define SINK_FORMAT_MAJOR 1
#define SINK_FORMAT_MINOR 1

/* The attributes of the contract, in file order. */
size_t sink_attribute_contract(const sink_attribute_t **ret_attributes);

typedef struct sink_attributes sink_attributes_t;

/* All attributes of the contract, unknown. */
CREMA_MUST_CHECK crema_err_t sink_attributes_new(sink_attributes_t **ret_self);
void sink_attributes_destroy(sink_attributes_t **self_p);

/* A text that is not a number leaves a numeric attribute unknown. A name that does not match
 * [a-z0-9_.]+ is ignored. */
CREMA_MUST_CHECK crema_err_t sink_attributes_text(sink_attributes_t *self, const char *name,
                                                  const char *text);
/* The attribute must be in the contract and numeric. */
void sink_attributes_int(sink_attributes_t *self, const char *name, int64_t value);

/* Sets every non-empty text of the list, except names that only the sink writes. `replace`
 * false: only attributes that are still unknown. */
CREMA_MUST_CHECK crema_err_t sink_attributes_texts(sink_attributes_t *self,
                                                   const sink_texts_t *texts, bool replace);

size_t sink_attributes_all(const sink_attributes_t *self, const sink_attribute_t **ret_attributes);

#endif
