#include "crema_repeat.h"

#include <string.h>

static bool
s_is_over(const crema_repeat_slot_t *slot, int64_t now_ns)
{
    return now_ns - slot->since_ns >= CREMA_REPEAT_PERIOD_NS;
}

/* The slot of the event, or a free one, or the one whose period began first. */
static crema_repeat_slot_t *
s_slot(crema_repeat_t *self, const char *event)
{
    crema_repeat_slot_t *best = &self->slots[0];
    for (size_t i = 0; i < CREMA_REPEAT_EVENTS; i++) {
        crema_repeat_slot_t *slot = &self->slots[i];
        if (slot->event && strcmp(slot->event, event) == 0)
            return slot;
        if (best->event && (!slot->event || slot->since_ns < best->since_ns))
            best = slot;
    }
    return best;
}

bool
crema_repeat_take(crema_repeat_t *self, const char *event, int64_t now_ns,
                  crema_repeat_count_t *ret_lost)
{
    crema_repeat_slot_t *slot = s_slot(self, event);
    bool same = slot->event && strcmp(slot->event, event) == 0;
    *ret_lost = (crema_repeat_count_t){0};
    if (!same || s_is_over(slot, now_ns)) {
        if (slot->held)
            *ret_lost = (crema_repeat_count_t){slot->event, slot->held};
        *slot = (crema_repeat_slot_t){.event = event, .since_ns = now_ns};
    }
    if (slot->logged < CREMA_REPEAT_BURST) {
        slot->logged++;
        return true;
    }
    slot->held++;
    return false;
}

bool
crema_repeat_due(crema_repeat_t *self, int64_t now_ns, crema_repeat_count_t *ret_count)
{
    for (size_t i = 0; i < CREMA_REPEAT_EVENTS; i++) {
        crema_repeat_slot_t *slot = &self->slots[i];
        if (!slot->event || slot->held == 0 || !s_is_over(slot, now_ns))
            continue;
        *ret_count = (crema_repeat_count_t){slot->event, slot->held};
        *slot = (crema_repeat_slot_t){0};
        return true;
    }
    return false;
}
