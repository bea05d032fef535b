/* crema_repeat - how often may the same event be told.
 * Pure: time is an argument.
 *
 * An event may be told CREMA_REPEAT_BURST times in CREMA_REPEAT_PERIOD_NS from its first; what is held back after that is
 * counted, and the count is given once the period is over. At most CREMA_REPEAT_EVENTS events are followed; of more, the one
 * whose period began first is forgotten. */
#ifndef CREMA_REPEAT_H
#define CREMA_REPEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CREMA_REPEAT_BURST 10
#define CREMA_REPEAT_PERIOD_NS (10 * INT64_C(1000000000))
#define CREMA_REPEAT_EVENTS 64

typedef struct {
    const char *event; /* borrowed constant; NULL: free */
    int64_t since_ns;  /* beginning of the period */
    unsigned told;     /* in it */
    uint64_t held;     /* in it, after the burst */
} crema_repeat_slot_t;

/* All zero to begin with. */
typedef struct {
    crema_repeat_slot_t slots[CREMA_REPEAT_EVENTS];
} crema_repeat_t;

typedef struct {
    const char *event;
    uint64_t held;
} crema_repeat_count_t;

/* True if `event` (a constant) may be told at monotonic `now_ns`; false counts it as held back. *ret_lost is a count whose slot had to
 * be given up for this event, its event NULL if there was none. */
bool crema_repeat_take(crema_repeat_t *self, const char *event, int64_t now_ns,
                       crema_repeat_count_t *ret_lost);

/* The next event with something held back whose period is over at `now_ns`; false if there is none. */
bool crema_repeat_due(crema_repeat_t *self, int64_t now_ns, crema_repeat_count_t *ret_count);

#endif
