/* store_events - keeps what a store reports, for tests that look at it: give store_events_note()
 * to the store. */
#ifndef STORE_EVENTS_H
#define STORE_EVENTS_H

#include "crema_text.h"
#include "sink_store.h"

static struct {
    sink_store_event_t events[256];
    char texts[256][1024];
    size_t n, taken;
} s_store_events;

static inline void
store_events_note(void *context, const sink_store_event_t *event)
{
    (void)context;
    size_t at = s_store_events.n % 256;
    crema_text_copy(s_store_events.texts[at], sizeof s_store_events.texts[at], event->text);
    s_store_events.events[at] = *event;
    s_store_events.events[at].text = s_store_events.texts[at];
    s_store_events.n++;
}

/* Forgets them; the function to note the next ones. */
static inline void (*store_events_anew(void))(void *, const sink_store_event_t *)
{
    s_store_events.n = s_store_events.taken = 0;
    return store_events_note;
}

/* The oldest that was not taken; false: none. */
static inline bool
store_events_take(sink_store_event_t *ret_event)
{
    if (s_store_events.taken == s_store_events.n)
        return false;
    *ret_event = s_store_events.events[s_store_events.taken++ % 256];
    return true;
}

#endif
