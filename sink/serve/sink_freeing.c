/* Journals of sealed runs are freed: after their time, or when there is no room for others. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "crema_log.h"
#include "sink_private.h"

#define ROOM_PER_TICK 2 /* journals that give way per tick: then the disk is looked at again */

void
sink_freeing_on_freed(void *context, const crema_id_t *run_id, const char *option, crema_err_t err)
{
    sink_t *self = context;
    char file[PATH_MAX + 16];
    snprintf(file, sizeof file, "%s/tombstones", self->config.store_dir);
    if (err == CREMA_OK)
        crema_log_info("journal_freed", CREMA_ID("run", run_id), CREMA_TEXT("why", option));
    else if (err != CREMA_EIO)
        crema_log_warn("journal_not_freed", CREMA_ID("run", run_id), CREMA_TEXT("file", file),
                       CREMA_TEXT("why", crema_err_text(err)),
                       CREMA_TEXT("remedy", "it is tried again automatically"));
    else /* after a failed sync a second one could succeed without proving anything */
        crema_log_error("tombstone_broken", CREMA_ID("run", run_id), CREMA_TEXT("file", file),
                        CREMA_TEXT("why", strerror(errno)),
                        CREMA_TEXT("remedy", "check the disk, then start crema-sink again: the "
                                             "run is sealed and loses nothing"));
}

/* False: not now. */
static bool
s_free(sink_t *self, const crema_id_t *run_id, const char *option)
{
    self->is_quiet = false; /* there may be more */
    crema_err_t err = sink_store_begin_free(self->store, run_id, option);
    if (err != CREMA_OK && err != CREMA_EAGAIN)
        sink_freeing_on_freed(self, run_id, option, err);
    return err == CREMA_OK;
}

void
sink_free_old(sink_t *self)
{
    for (;;) {
        int64_t sealed_for_ns;
        uint64_t bytes = sink_store_resting_bytes(self->store);
        const sink_run_t *run = sink_store_oldest(self->store, &sealed_for_ns);
        bool aged = run && sealed_for_ns >= self->config.retain_ns;
        bool crowded = self->config.retain_bytes > 0 && bytes > (uint64_t)self->config.retain_bytes;
        if (!run || (!aged && !crowded))
            return;
        const crema_id_t run_id = run->run_id;
        if (!s_free(self, &run_id, aged ? "retain" : "retain-bytes"))
            return;
    }
}

void
sink_make_room(sink_t *self)
{
    for (int i = 0; i < ROOM_PER_TICK && self->space != SINK_SPACE_FREE; i++) {
        bool is_complete;
        const sink_run_t *run = sink_store_redundant(self->store, &is_complete);
        if (!run || (!is_complete && self->space != SINK_SPACE_FULL))
            return;
        const crema_id_t run_id = run->run_id;
        if (!s_free(self, &run_id, "no space"))
            return;
        if (!is_complete)
            crema_log_warn("partial_journal_gives_way", CREMA_ID("run", &run_id),
                           CREMA_TEXT("why", "there is no other room for records"),
                           CREMA_TEXT("effect", "its file stays as it is: records that still come "
                                                "late are refused"));
        self->space = sink_store_space(self->store, &self->free_b);
    }
}
