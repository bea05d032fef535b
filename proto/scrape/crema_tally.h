/* crema_tally - how often each of a few names came: the reasons of verdicts.
 * Pure: a table. Names beyond its room are counted under "other". */
#ifndef CREMA_TALLY_H
#define CREMA_TALLY_H

#include <stddef.h>
#include <stdint.h>

#define CREMA_TALLY_MAX 48
#define CREMA_TALLY_NAME_BYTES 40

/* Zeroed: empty. */
typedef struct {
    char names[CREMA_TALLY_MAX + 1][CREMA_TALLY_NAME_BYTES];
    uint64_t counts[CREMA_TALLY_MAX + 1];
    size_t n;
} crema_tally_t;

/* A name longer than there is room for counts as "other" too. */
void crema_tally_add(crema_tally_t *self, const char *name, uint64_t count);

#endif
