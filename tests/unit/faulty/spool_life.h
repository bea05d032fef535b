/* spool_life - what an agent does with its spool in a short life, and what must be true of the
 * spool whatever went wrong in it. */
#ifndef SPOOL_LIFE_H
#define SPOOL_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_spool.h"

#define SPOOL_LIFE_STREAMS                                                                         \
    3 /* one with its END, two whose writers were killed, one of them in the middle of a record */

/* What the far side holds, and what was said to it. */
typedef struct {
    uint64_t durable[SPOOL_LIFE_STREAMS]; /* taken whole, without a LOSS, up to here */
    bool ended[SPOOL_LIFE_STREAMS];       /* the last of them was END */
} spool_life_t;

/* The files, three small segments a stream. */
void spool_life_write(const char *dir);

/* Serves `dir` for a few rounds: scans, reads, has each stream committed in steps, trims. After a
 * scan that says it left nothing out every stream that is not delivered must be in its table.
 * CREMA_OK: everything was delivered and is gone. */
crema_err_t spool_life_serve(spool_life_t *self, const char *dir);

/* What the far side does not hold is still in the spool. */
void spool_life_check(const spool_life_t *self, const char *dir);

/* Called with 1 before and 0 after what a life does on the test's behalf and an agent would not;
 * NULL: nothing is. */
extern void (*spool_life_pause)(int paused);

#endif
