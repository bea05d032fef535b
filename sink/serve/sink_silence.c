#include "sink_silence.h"

#include <stdlib.h>

#include "crema_map.h"

/* State of an open run. */
typedef struct {
    crema_id_t run_id;
    uint64_t news; /* sink_run_t.news at the last look */
    int64_t heard_ns;
} heard_t;

struct sink_silence {
    const sink_store_t *store;
    int64_t after_ns;
    crema_map_t *heard; /* heard_t * by run id */
};

crema_err_t
sink_silence_new(const sink_store_t *store, size_t runs_max, int64_t after_ns,
                 sink_silence_t **ret_self)
{
    sink_silence_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->store = store;
    self->after_ns = after_ns;
    crema_err_t err = crema_map_new(runs_max, &self->heard);
    if (err != CREMA_OK) {
        sink_silence_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_silence_destroy(sink_silence_t **self_p)
{
    sink_silence_t *self = *self_p;
    if (self) {
        size_t cursor = 0;
        heard_t *heard;
        while (self->heard && (heard = crema_map_next(self->heard, &cursor)))
            free(heard);
        crema_map_destroy(&self->heard);
        free(self);
    }
    *self_p = NULL;
}

void
sink_silence_heard(sink_silence_t *self, const crema_id_t *run_id, int64_t mono_ns)
{
    heard_t *heard = crema_map_find(self->heard, run_id);
    if (heard)
        heard->heard_ns = mono_ns;
}

/* NULL without memory: retried at the next look. */
static heard_t *
s_follow(sink_silence_t *self, const sink_run_t *run, int64_t mono_ns)
{
    heard_t *heard = crema_map_find(self->heard, &run->run_id);
    if (!heard) {
        heard = calloc(1, sizeof *heard);
        if (!heard)
            return NULL;
        *heard = (heard_t){run->run_id, run->news, mono_ns};
        if (crema_map_add(self->heard, &run->run_id, heard) != CREMA_OK) {
            free(heard);
            return NULL;
        }
    }
    if (heard->news != run->news) {
        heard->news = run->news;
        heard->heard_ns = mono_ns;
    }
    return heard;
}

/* True if the run still needs its end or a verdict. */
static bool
s_is_awaited(const sink_run_t *run)
{
    return run->life == CREMA_LIFE_OPEN || (run->life == CREMA_LIFE_ENDED && !run->seal_asked);
}

bool
sink_silence_look(sink_silence_t *self, int64_t mono_ns, crema_id_t *ret_run_id)
{
    size_t cursor = 0;
    const sink_run_t *run;
    bool found = false;
    while ((run = sink_store_next(self->store, &cursor))) {
        if (!s_is_awaited(run)) {
            free(crema_map_take(self->heard, &run->run_id));
            continue;
        }
        const heard_t *heard = s_follow(self, run, mono_ns);
        if (!heard || found || mono_ns - heard->heard_ns < self->after_ns)
            continue;
        *ret_run_id = run->run_id;
        found = true;
    }
    return found;
}
