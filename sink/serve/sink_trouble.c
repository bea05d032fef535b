#include <stdio.h>

#include "sink_private.h"

crema_msg_t
sink_trouble_full(sink_t *self, const char *why)
{
    const char *store = self->config.store_dir;
    if (why)
        snprintf(self->trouble, sizeof self->trouble,
                 "the sink cannot write to its store %s: %s; records wait in the spools", store,
                 why);
    else
        snprintf(self->trouble, sizeof self->trouble,
                 "the sink's store %s is %s: %llu MiB are left of its disk or of --journal-limit; "
                 "%s",
                 store, self->space == SINK_SPACE_FULL ? "full" : "nearly full",
                 (unsigned long long)(self->free_b >> 20),
                 self->space == SINK_SPACE_FULL ? "records wait in the spools until there is room"
                                                : "records are taken slowly");
    return (crema_msg_t){
        .type = CREMA_MSG_FULL,
        .full = {.retry_after_ms = SINK_FULL_RETRY_MS,
                 .free_b = why ? 0 : self->free_b,
                 .why = self->trouble},
    };
}

void
sink_trouble_report_runs(sink_t *self)
{
    size_t cursor = 0;
    for (const sink_run_t *run; (run = sink_store_next(self->store, &cursor)) != NULL;) {
        crema_msg_t msg = {.type = CREMA_MSG_FULL, .full.run_id = crema_id_field(&run->run_id)};
        if (run->is_full && run->state.revision == 0)
            sink_peers_broadcast(self->peers, &msg);
    }
}
