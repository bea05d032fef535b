/* store_life - what a sink does with its store in a short life, and what must be true of the store
 * whatever went wrong in it. */
#ifndef STORE_LIFE_H
#define STORE_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#define LIFE_REFUSED 60
#define LIFE_STREAMS 3 /* two of one run, which is sealed and freed, and one of another */

/* What was acknowledged: for each stream the last number of it, moved only after a commit that
 * said it was durable. */
typedef struct {
    uint64_t acked[LIFE_STREAMS];
    bool freed;   /* the run was called freed */
    bool refused; /* LIFE_REFUSED records of the freed run were called settled */
} store_life_t;

/* A whole life in `dir`, from wherever the store stands: opens it, takes records, commits, seals,
 * frees, closes. As the sink does, it ends at an I/O error of the journal, and tries again what
 * was refused otherwise. */
void store_life_live(store_life_t *self, const char *dir);

/* Opens the store, which must go; nothing that was acknowledged may be missing, nothing there
 * twice or different. */
void store_life_check(const store_life_t *self, const char *dir);

/* Called with 1 before and 0 after what a life does on the test's behalf and the sink would not;
 * NULL: nothing is. */
extern void (*store_life_pause)(int paused);

/* Nonzero when the whole of a long loop is asked for (CREMA_LONG=1). */
int store_life_is_long(void);

#endif
