/* crema_cost - the cost of a program (CPU, bytes, records) as attributes of a run message. */
#ifndef CREMA_COST_H
#define CREMA_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CREMA_COST_PREFIX "crema." /* of the attributes, before "<part>.cpu_s" and its like */
#define CREMA_COST_ATTRIBUTES 4

typedef struct {
    double cpu_s;  /* of the process, since it was started */
    int64_t bytes; /* -1 unknown, also below */
    int64_t records;
    bool shared; /* it has also served other runs */
} crema_cost_t;

/* The attributes; their texts are in the struct. */
typedef struct {
    char texts[CREMA_COST_ATTRIBUTES][2][48];
    char *keys[CREMA_COST_ATTRIBUTES];
    char *values[CREMA_COST_ATTRIBUTES];
} crema_cost_attributes_t;
void crema_cost_describe(const crema_cost_t *self, const char *part,
                         crema_cost_attributes_t *ret_words);

/* Reads the cost from attributes; `find` returns the value of a key or NULL. False: not given. */
bool crema_cost_read(const char *part, const char *(*find)(const void *context, const char *key),
                     const void *context, crema_cost_t *ret_cost);

/* True if the attribute is about cost: a change in these alone does not make a message new. */
bool crema_cost_is_key(const char *key);

#endif
