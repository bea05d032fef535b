#include "sink_answers.h"

#include <stdlib.h>

#include "crema_map.h"

#define S_ANSWER(at) CREMA_LIST_ITEM(at, sink_answer_t, link)

struct sink_answers {
    crema_map_t *runs; /* crema_link_t * by run_id: the answers that wait, oldest first */
    crema_link_t due;
};

crema_err_t
sink_answers_new(size_t runs_max, sink_answers_t **ret_self)
{
    sink_answers_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_list_init(&self->due);
    crema_err_t err = crema_map_new(runs_max, &self->runs);
    if (err != CREMA_OK) {
        free(self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_answer_free(sink_answer_t *answer)
{
    free(answer->bytes);
    free(answer);
}

static void
s_free_list(crema_link_t *list)
{
    for (crema_link_t *link = list->next, *next; link != list; link = next) {
        next = link->next;
        sink_answer_free(CREMA_LIST_ITEM(link, sink_answer_t, link));
    }
    crema_list_init(list);
}

static void
s_release(void *list)
{
    s_free_list(list);
    free(list);
}

void
sink_answers_destroy(sink_answers_t **self_p)
{
    sink_answers_t *self = *self_p;
    if (!self)
        return;
    crema_map_destroy_all(&self->runs, s_release);
    s_free_list(&self->due);
    free(self);
    *self_p = NULL;
}

crema_err_t
sink_answers_add(sink_answers_t *self, const sink_answer_t *answer)
{
    crema_err_t err = CREMA_ENOMEM;
    sink_answer_t *kept = malloc(sizeof *kept);
    crema_link_t *list = crema_map_find(self->runs, &answer->run_id);
    if (kept && !list &&
        (list = crema_map_make(self->runs, &answer->run_id, sizeof *list, &err)) != NULL)
        crema_list_init(list);
    if (!kept || !list) {
        free(kept);
        free(answer->bytes);
        return err;
    }
    *kept = *answer;
    kept->link = (crema_link_t){0};
    crema_list_append(list, &kept->link);
    return CREMA_OK;
}

sink_answer_t *
sink_answers_find(const sink_answers_t *self, const crema_id_t *run_id, crema_msg_type_t type,
                  uint32_t part)
{
    const crema_link_t *list = crema_map_find(self->runs, run_id);
    for (crema_link_t *at = list ? list->next : NULL; at && at != list; at = at->next)
        if (S_ANSWER(at)->type == type && S_ANSWER(at)->part == part)
            return S_ANSWER(at);
    return NULL;
}

void
sink_answers_drop(sink_answers_t *self, const crema_id_t *run_id)
{
    crema_link_t *list = crema_map_find(self->runs, run_id);
    if (list)
        s_release(crema_map_take(self->runs, run_id));
}

void
sink_answers_durable(sink_answers_t *self, const crema_id_t *run_id, uint64_t appends)
{
    crema_link_t *list = crema_map_find(self->runs, run_id);
    for (sink_answer_t *answer;
         list && (answer = CREMA_LIST_FIRST(list, sink_answer_t, link)) != NULL;) {
        if (answer->appends > appends)
            return;
        crema_list_remove(&answer->link);
        crema_list_append(&self->due, &answer->link);
    }
    if (list)
        free(crema_map_take(self->runs, run_id));
}

sink_answer_t *
sink_answers_take(sink_answers_t *self)
{
    sink_answer_t *answer = CREMA_LIST_FIRST(&self->due, sink_answer_t, link);
    if (answer)
        crema_list_remove(&answer->link);
    return answer;
}
