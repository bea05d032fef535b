#include "agg_awaited.h"

#include <stdint.h>
#include <stdlib.h>

#include "crema_map.h"

/* An agent while any run has it as a member. */
typedef struct {
    crema_link_t members;
    size_t joined;
} agent_t;

struct agg_awaited {
    crema_map_t *agents;
    crema_link_t mended;
};

crema_err_t
agg_awaited_new(agg_awaited_t **ret_self)
{
    agg_awaited_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_list_init(&self->mended);
    /* Members are bounded per run, and runs by the aggregator. */
    crema_err_t err = crema_map_new(SIZE_MAX, &self->agents);
    if (err != CREMA_OK) {
        agg_awaited_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agg_awaited_destroy(agg_awaited_t **self_p)
{
    agg_awaited_t *self = *self_p;
    if (!self)
        return;
    crema_map_destroy(&self->agents);
    free(self);
    *self_p = NULL;
}

crema_err_t
agg_awaited_join(agg_awaited_t *self, const crema_id_t *agent_id, crema_link_t **ret_list)
{
    crema_err_t err;
    agent_t *agent = crema_map_find(self->agents, agent_id);
    if (!agent) {
        agent = crema_map_make(self->agents, agent_id, sizeof *agent, &err);
        if (!agent)
            return err;
        crema_list_init(&agent->members);
    }
    agent->joined++;
    *ret_list = &agent->members;
    return CREMA_OK;
}

void
agg_awaited_leave(agg_awaited_t *self, const crema_id_t *agent_id)
{
    agent_t *agent = crema_map_find(self->agents, agent_id);
    if (agent && --agent->joined == 0)
        free(crema_map_take(self->agents, agent_id));
}

crema_link_t *
agg_awaited_of(const agg_awaited_t *self, const crema_id_t *agent_id)
{
    agent_t *agent = crema_map_find(self->agents, agent_id);
    return agent ? &agent->members : NULL;
}

crema_link_t *
agg_awaited_mended(agg_awaited_t *self)
{
    return &self->mended;
}
