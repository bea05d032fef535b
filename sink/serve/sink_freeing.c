/* Journals of sealed runs are freed: after their time, or when there is no room for others. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "crema_log.h"
#include "sink_private.h"

#define FREED_PER_TICK 8 /* journals per tick, to bound the time it takes */

/* False: the loop must end. After a failed sync a second one could succeed without proving
 * anything. */
static bool
s_free(sink_t *self, const crema_id_t *run_id, const char *option)
{
    char file[PATH_MAX + 16];
    crema_err_t err = sink_store_free(self->store, run_id);
    if (err == CREMA_OK) {
        crema_log_info("journal_freed", CREMA_ID("run", run_id), CREMA_TEXT("why", option));
        return true;
    }
    snprintf(file, sizeof file, "%s/tombstones", self->config.store_dir);
    if (err != CREMA_EIO) {
        crema_log_warn("journal_not_freed", CREMA_ID("run", run_id), CREMA_TEXT("file", file),
                       CREMA_TEXT("why", crema_err_text(err)),
                       CREMA_TEXT("remedy", "it is tried again automatically"));
        return true;
    }
    self->broken = true;
    crema_log_error("tombstone_broken", CREMA_ID("run", run_id), CREMA_TEXT("file", file),
                    CREMA_TEXT("why", strerror(errno)),
                    CREMA_TEXT("remedy", "check the disk, then start crema-sink again: the run "
                                         "is sealed and loses nothing"));
    return false;
}

bool
sink_free_old(sink_t *self)
{
    for (int i = 0; i < FREED_PER_TICK; i++) {
        int64_t sealed_for_ns;
        uint64_t bytes = sink_store_resting_bytes(self->store);
        const sink_run_t *run = sink_store_oldest(self->store, &sealed_for_ns);
        bool aged = run && sealed_for_ns >= self->config.retain_ns;
        bool crowded = self->config.retain_bytes > 0 && bytes > (uint64_t)self->config.retain_bytes;
        if (!run || (!aged && !crowded))
            return true;
        const crema_id_t run_id = run->run_id;
        self->is_quiet = false; /* there may be more */
        if (!s_free(self, &run_id, aged ? "retain" : "retain-bytes"))
            return false;
    }
    return true;
}

bool
sink_make_room(sink_t *self)
{
    for (int i = 0; i < FREED_PER_TICK && self->space != SINK_SPACE_FREE; i++) {
        bool is_complete;
        const sink_run_t *run = sink_store_redundant(self->store, &is_complete);
        if (!run || (!is_complete && self->space != SINK_SPACE_FULL))
            return true;
        const crema_id_t run_id = run->run_id;
        self->is_quiet = false; /* there may be more */
        if (!is_complete)
            crema_log_warn("partial_journal_gives_way", CREMA_ID("run", &run_id),
                           CREMA_TEXT("why", "there is no other room for records"),
                           CREMA_TEXT("effect", "its file stays as it is: records that still come "
                                                "late are refused"));
        if (!s_free(self, &run_id, "no space"))
            return false;
        self->space = sink_store_space(self->store, &self->free_b);
    }
    return true;
}
