#include "sink_meta.h"

#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"
#include "sink_bound.h"

struct sink_meta {
    int64_t t_start_ns, t_end_ns;
    bool ended, judged;
    uint32_t writer_parts;
    sink_texts_t *attributes;
    crema_limits_t *limits;
    char **prefixes;
    size_t n_prefixes, prefixes_room;
    crema_msg_t *reasons; /* the last RUN_SEAL, without anything else; NULL: none */
    crema_writers_t *writers;
};

crema_err_t
sink_meta_new(crema_limits_t *limits, sink_meta_t **ret_self)
{
    sink_meta_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->limits = limits;
    crema_err_t err = sink_texts_new(limits, &self->attributes);
    if (err == CREMA_OK)
        err = crema_writers_new(&self->writers);
    if (err != CREMA_OK)
        sink_meta_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_meta_destroy(sink_meta_t **self_p)
{
    sink_meta_t *self = *self_p;
    if (!self)
        return;
    crema_msg_destroy(&self->reasons);
    for (size_t i = 0; i < self->n_prefixes; i++)
        free(self->prefixes[i]);
    free(self->prefixes);
    sink_texts_destroy(&self->attributes);
    crema_writers_destroy(&self->writers);
    free(self);
    *self_p = NULL;
}

static crema_err_t
s_take_prefix(sink_meta_t *self, const char *prefix)
{
    for (size_t i = 0; i < self->n_prefixes; i++)
        if (strcmp(self->prefixes[i], prefix) == 0)
            return CREMA_OK;
    if (self->n_prefixes >= self->limits->limit[CREMA_LIMIT_PREFIXES]) {
        crema_limits_met(self->limits, CREMA_LIMIT_PREFIXES, 1);
        return CREMA_OK;
    }
    char **prefixes =
        crema_grow(self->prefixes, self->n_prefixes, &self->prefixes_room, sizeof(char *));
    if (!prefixes)
        return CREMA_ENOMEM;
    self->prefixes = prefixes;
    if (!(self->prefixes[self->n_prefixes] = strdup(prefix)))
        return CREMA_ENOMEM;
    self->n_prefixes++;
    return CREMA_OK;
}

static crema_err_t
s_take_prefixes(sink_meta_t *self, const Crema__RunOpen *msg)
{
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < msg->n_processor_prefixes && err == CREMA_OK; i++)
        err = s_take_prefix(self, msg->processor_prefixes[i]);
    return err;
}

static crema_err_t
s_take_reasons(sink_meta_t *self, const Crema__RunSeal *seal)
{
    const crema_msg_t only = {
        .type = CREMA_MSG_RUN_SEAL,
        .run_seal = {.n_reasons = seal->n_reasons, .reasons = seal->reasons},
    };
    crema_msg_destroy(&self->reasons);
    return crema_msg_copy(&only, &self->reasons);
}

crema_err_t
sink_meta_take(sink_meta_t *self, const crema_msg_t *msg)
{
    const Crema__RunOpen *common = &msg->run_open;
    if (sink_bound_time_ns(common->t_start_ns) != 0)
        self->t_start_ns = common->t_start_ns;
    if (msg->type != CREMA_MSG_RUN_OPEN) {
        self->ended = true;
        if (sink_bound_time_ns(common->t_end_ns) != 0)
            self->t_end_ns = common->t_end_ns;
        if (msg->run_end.writer_parts > 0)
            self->writer_parts = msg->run_end.writer_parts;
        self->judged |= msg->type == CREMA_MSG_RUN_SEAL;
    }
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < common->n_keys && err == CREMA_OK; i++)
        err = sink_texts_put(self->attributes, common->keys[i], common->values[i], true);
    if (err == CREMA_OK)
        err = s_take_prefixes(self, common);
    if (err == CREMA_OK && msg->type == CREMA_MSG_RUN_SEAL)
        err = s_take_reasons(self, &msg->run_seal);
    return err;
}

crema_err_t
sink_meta_writers(sink_meta_t *self, const Crema__RunWriters *msg)
{
    crema_err_t err = crema_writers_take(self->writers, msg);
    return err == CREMA_EREPEAT ? CREMA_OK : err;
}

const crema_writers_t *
sink_meta_list(const sink_meta_t *self)
{
    return self->writers;
}

uint32_t
sink_meta_parts(const sink_meta_t *self)
{
    return self->writer_parts;
}

int64_t
sink_meta_start_ns(const sink_meta_t *self)
{
    return self->t_start_ns;
}

int64_t
sink_meta_end_ns(const sink_meta_t *self)
{
    return self->t_end_ns;
}

bool
sink_meta_ended(const sink_meta_t *self)
{
    return self->ended;
}

bool
sink_meta_judged(const sink_meta_t *self)
{
    return self->judged;
}

const sink_texts_t *
sink_meta_attributes(const sink_meta_t *self)
{
    return self->attributes;
}

bool
sink_meta_clock_stepped(const sink_meta_t *self)
{
    return sink_texts_find(sink_meta_attributes(self), "clock_stepped_s") != NULL;
}

crema_split_rules_t
sink_meta_rules(const sink_meta_t *self)
{
    return (crema_split_rules_t){self->n_prefixes, (const char *const *)self->prefixes};
}

size_t
sink_meta_reasons(const sink_meta_t *self, Crema__Reason *const **ret_reasons)
{
    *ret_reasons = self->reasons ? self->reasons->run_seal.reasons : NULL;
    return self->reasons ? self->reasons->run_seal.n_reasons : 0;
}
