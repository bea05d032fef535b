/* crema_repeat - limits how often the same event is logged. Pure: time is an argument.
 *
 * An event may be logged CREMA_REPEAT_BURST times within CREMA_REPEAT_PERIOD_NS of its first
 * occurrence; further ones are counted, and the count is reported when the period is over. At
 * most CREMA_REPEAT_EVENTS events are tracked; beyond that, the one whose period began first is
 * dropped. */
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
    int64_t since_ns;  /* start of the period */
    unsigned logged;   /* logged in this period */
    uint64_t held;     /* held back in this period */
} crema_repeat_slot_t;

/* All zero to begin with. */
typedef struct {
    crema_repeat_slot_t slots[CREMA_REPEAT_EVENTS];
} crema_repeat_t;

typedef struct {
    const char *event;
    uint64_t held;
} crema_repeat_count_t;

/* True if `event` (a constant) may be logged at monotonic `now_ns`; otherwise it is counted.
 * *ret_lost is the count of an event that was dropped to make room for this one; its event is
 * NULL if there was none. */
bool crema_repeat_take(crema_repeat_t *self, const char *event, int64_t now_ns,
                       crema_repeat_count_t *ret_lost);

/* The next event with a count whose period is over at `now_ns`; false: none. */
bool crema_repeat_due(crema_repeat_t *self, int64_t now_ns, crema_repeat_count_t *ret_count);

#endif
