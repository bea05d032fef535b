#include "sink_spot.h"

#include <math.h>
#include <stdlib.h>

/* By row of /dict/stack: the row of /dict/frame of its innermost frame that is the user's. */
static crema_err_t
s_users_frames(const sink_tables_t *tables, uint32_t **ret_frames)
{
    const sink_rows_t *stacks = sink_tables_rows(tables, CREMA_TABLE_DICT_STACK);
    const sink_rows_t *frames = sink_tables_rows(tables, CREMA_TABLE_DICT_FRAME);
    const size_t n = sink_rows_count(stacks);
    uint32_t *found = malloc((n + 1) * sizeof *found);
    if (!found)
        return CREMA_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        const crema_dict_stack_row_t *stack = sink_rows_at(stacks, i);
        const crema_dict_frame_row_t *frame = stack->frame_id < sink_rows_count(frames)
                                                  ? sink_rows_at(frames, stack->frame_id)
                                                  : NULL;
        if (frame && frame->owner == CREMA_FRAME_USER)
            found[i] = stack->frame_id;
        else
            found[i] = stack->parent_id < i ? found[stack->parent_id] : SINK_SPOT_NONE;
    }
    *ret_frames = found;
    return CREMA_OK;
}

typedef struct {
    double *seconds;
    size_t n;
} tally_t;

static bool
s_tally(const sink_tables_t *tables, crema_table_id_t dict, tally_t *ret_tally)
{
    ret_tally->n = sink_rows_count(sink_tables_rows(tables, dict));
    return (ret_tally->seconds = calloc(ret_tally->n + 1, sizeof *ret_tally->seconds)) != NULL;
}

static void
s_add(tally_t *self, uint32_t row, double seconds)
{
    if (row < self->n)
        self->seconds[row] += seconds;
}

static void
s_most(const tally_t *self, double whole_s, uint32_t *ret_row, double *ret_part)
{
    *ret_row = SINK_SPOT_NONE;
    *ret_part = 0;
    for (size_t i = 0; i < self->n; i++)
        if (self->seconds[i] > *ret_part * whole_s) {
            *ret_row = (uint32_t)i;
            *ret_part = self->seconds[i] / whole_s;
        }
}

crema_err_t
sink_spot_find(const sink_facts_t *facts, const sink_tables_t *tables,
               const sink_spot_filter_t *filter, sink_spot_t *ret_spot)
{
    tally_t frames = {0}, sections = {0}, places = {0}, datasets = {0};
    uint32_t *users = NULL;
    sink_spot_t spot = {.frame = SINK_SPOT_NONE,
                        .section = SINK_SPOT_NONE,
                        .place = SINK_SPOT_NONE,
                        .dataset = SINK_SPOT_NONE};
    crema_err_t err = s_users_frames(tables, &users);
    if (err == CREMA_OK && !(s_tally(tables, CREMA_TABLE_DICT_FRAME, &frames) &&
                             s_tally(tables, CREMA_TABLE_DICT_SECTION, &sections) &&
                             s_tally(tables, CREMA_TABLE_DICT_PLACE, &places) &&
                             s_tally(tables, CREMA_TABLE_DICT_DATASET, &datasets)))
        err = CREMA_ENOMEM;
    const size_t n_stacks = sink_rows_count(sink_tables_rows(tables, CREMA_TABLE_DICT_STACK));
    for (size_t i = 0; err == CREMA_OK && i < facts->n_looks; i++) {
        const sink_look_t *look = &facts->looks[i];
        const double s = filter->gc ? look->gc_s : look->seconds;
        if (!(filter->states >> look->state & 1) || !(filter->phases >> look->phase & 1))
            continue;
        spot.seconds += s;
        s_add(&frames, look->stack < n_stacks ? users[look->stack] : SINK_SPOT_NONE, s);
        s_add(&sections, look->section, s);
        s_add(&places, look->place, s);
        s_add(&datasets, look->dataset, s);
    }
    if (err == CREMA_OK && spot.seconds > 0) {
        spot.seconds = fmax(spot.seconds, filter->at_least);
        s_most(&frames, spot.seconds, &spot.frame, &spot.of_frame);
        s_most(&sections, spot.seconds, &spot.section, &spot.of_section);
        s_most(&places, spot.seconds, &spot.place, &spot.of_place);
        s_most(&datasets, spot.seconds, &spot.dataset, &spot.of_dataset);
    }
    free(users);
    free(frames.seconds);
    free(sections.seconds);
    free(places.seconds);
    free(datasets.seconds);
    *ret_spot = spot;
    return err;
}
