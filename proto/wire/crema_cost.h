/* crema_cost - what a program tells of its own cost with a run message: CPU, bytes, records, and whether other runs had their part. */
#ifndef CREMA_COST_H
#define CREMA_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CREMA_COST_PREFIX "crema." /* of the attributes, before "<part>.cpu_s" and its like */
#define CREMA_COST_ATTRIBUTES 4

typedef struct {
    double cpu_s;  /* of the process, since it was started */
    int64_t bytes; /* -1 unknown, as all below */
    int64_t records;
    bool shared; /* it has served other runs too */
} crema_cost_t;

/* The attributes that tell it; the texts belong to the struct. */
typedef struct {
    char texts[CREMA_COST_ATTRIBUTES][2][48];
    const char *keys[CREMA_COST_ATTRIBUTES];
    const char *values[CREMA_COST_ATTRIBUTES];
} crema_cost_attributes_t;
void crema_cost_describe(const crema_cost_t *self, const char *part,
                         crema_cost_attributes_t *ret_words);

/* From attributes; `find` gives the value of a key or NULL. False: it was not told. */
bool crema_cost_read(const char *part, const char *(*find)(const void *context, const char *key),
                     const void *context, crema_cost_t *ret_cost);

/* Whether an attribute tells of cost: such ones make no message a new one. */
bool crema_cost_is_key(const char *key);

#endif
