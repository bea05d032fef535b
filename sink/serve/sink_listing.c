/* Confirms lists of writers after re-reading the journal, one piece at a time so that other runs
 * do not wait. */
#include <czmq.h>

#include "crema_random.h"
#include "sink_private.h"

#define PIECE_MS 1

static void
s_confirm(sink_t *self, const sink_store_scrubbed_t *scrubbed)
{
    for (uint32_t part = 0; part < scrubbed->parts; part++) {
        crema_msg_t msg = {.type = CREMA_MSG_RUN_LISTED,
                           .run_listed = {.run_id = crema_id_field(&scrubbed->run_id),
                                          .part = part,
                                          .parts = scrubbed->parts}};
        if (sink_store_has_part(self->store, &scrubbed->run_id, part))
            sink_peers_broadcast(self->peers, &msg);
    }
}

/* False: nothing is left to read. */
static bool
s_read_on(sink_t *self)
{
    sink_store_scrubbed_t scrubbed;
    if (sink_store_scrub_some(self->store, &scrubbed)) {
        if (scrubbed.fell)
            sink_peers_begin_anew(self->peers, crema_random_u64() | 1);
        else if (scrubbed.for_list)
            s_confirm(self, &scrubbed);
        sink_group_acknowledge(self); /* what was held meanwhile */
    }
    return sink_store_is_scrubbing(self->store);
}

static int
s_on_piece(zloop_t *loop, int timer, void *context)
{
    sink_t *self = context;
    if (s_read_on(self))
        return 0;
    zloop_timer_end(loop, timer);
    self->listing_armed = false;
    return 0;
}

void
sink_listing_go_on(sink_t *self)
{
    if (self->listing_armed || !s_read_on(self))
        return;
    self->listing_armed = zloop_timer(self->loop, PIECE_MS, 0, s_on_piece, self) >= 0;
}
