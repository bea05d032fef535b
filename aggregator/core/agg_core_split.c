/* Live splits of the runs that go on, summed from records in transit. */
#include "agg_core_private.h"
#include "crema_frame.h"

/* NULL: the run has its file, or memory ran out. */
static agg_rollup_t *
s_rollup(agg_core_t *self, agg_entry_t *entry)
{
    if (!entry->rollup && !entry->split_is_over &&
        agg_rollup_new(AGG_ROLLUP_LIMITS, &entry->rollup) != CREMA_OK)
        self->stats.split_left++;
    return entry->rollup;
}

static void
s_take_record(agg_core_t *self, agg_entry_t *entry, const crema_id_t *stream_id,
              const agg_frames_t *frames)
{
    crema_frame_t frame;
    crema_record_t record;
    if (crema_frame_decode(frames->at, frames->left, &frame) != CREMA_OK ||
        crema_record_decode(&frame, self->record_arena, &record) != CREMA_OK)
        self->stats.split_left++;
    else
        agg_rollup_take(entry->rollup, stream_id, &record);
}

void
agg_split_take(agg_core_t *self, agg_entry_t *entry, const crema_id_t *stream_id,
               agg_frames_t frames)
{
    crema_frame_t peek;
    if (!s_rollup(self, entry))
        return;
    while (crema_frame_look(frames.at, frames.left, &peek)) {
        if (peek.type == CREMA_RECORD_DICT ||
            crema_record_is_batch_of(&peek, CREMA_TABLE_ACTIVITIES))
            s_take_record(self, entry, stream_id, &frames);
        frames.at += crema_frame_bytes(&peek);
        frames.left -= crema_frame_bytes(&peek);
    }
}

void
agg_split_set_prefixes(agg_core_t *self, agg_entry_t *entry, const Crema__RunOpen *msg)
{
    agg_rollup_t *rollup = s_rollup(self, entry);
    if (rollup && msg->n_processor_prefixes > 0 &&
        agg_rollup_set_prefixes(rollup, msg->n_processor_prefixes, msg->processor_prefixes) !=
            CREMA_OK)
        self->stats.split_left++;
}

void
agg_split_end(agg_entry_t *entry)
{
    if (entry->rollup) {
        entry->processor_s = agg_rollup_side_s(entry->rollup, CREMA_SIDE_PROCESSOR);
        entry->overhead_s = agg_rollup_overhead_s(entry->rollup);
    }
    entry->split_is_over = true;
    agg_rollup_destroy(&entry->rollup);
}

Crema__RunState
agg_entry_state(const agg_core_t *self, const agg_entry_t *entry)
{
    Crema__RunState state = agg_run_state(entry->run);
    const agg_rollup_t *rollup = entry->rollup;
    state.agents = (uint32_t)self->n_reported[AGG_AGENT_LIVE];
    state.processor_s =
        rollup ? agg_rollup_side_s(rollup, CREMA_SIDE_PROCESSOR) : entry->processor_s;
    state.overhead_s = rollup ? agg_rollup_overhead_s(rollup) : entry->overhead_s;
    return state;
}

const agg_rollup_t *
agg_core_split(const agg_core_t *self, const crema_id_t *run_id)
{
    const agg_entry_t *entry = crema_map_find(self->entries, run_id);
    return entry ? entry->rollup : NULL;
}

const agg_rollup_t *
agg_core_next_split(const agg_core_t *self, size_t *cursor, Crema__RunState *ret_state)
{
    const agg_entry_t *entry;
    while ((entry = crema_map_next(self->entries, cursor)) != NULL)
        if (entry->rollup) {
            *ret_state = agg_entry_state(self, entry);
            return entry->rollup;
        }
    return NULL;
}
