#include <stdio.h>
#include <stdlib.h>

#include "agg_core_private.h"

static crema_id_t
s_key(const agg_core_t *self, agg_peer_t peer)
{
    return crema_id_is_zero(&self->from.key) ? agg_peer_key(peer) : self->from.key;
}

void
agg_core_limit_owners(agg_core_t *self, uint64_t runs_max, uint64_t bytes_max)
{
    self->config.owner_runs_max = runs_max;
    self->config.owner_bytes_max = bytes_max;
}

static bool
s_has_too_much(const agg_core_t *self, agg_peer_t peer)
{
    crema_id_t key = s_key(self, peer);
    const agg_owner_t *owner = crema_map_find(self->owners, &key);
    return owner && (owner->runs >= self->config.owner_runs_max ||
                     owner->bytes >= self->config.owner_bytes_max);
}

/* True if the run is open and has no owner yet. */
static bool
s_is_to_be_owned(const agg_entry_t *entry)
{
    return !entry->owner && entry->run->phase < CREMA_RUN_SEALED;
}

bool
agg_owner_is_known(const agg_core_t *self, const agg_entry_t *entry)
{
    return self->sink_known || self->from.as == CREMA_AS_ANY || (entry && entry->has_opener);
}

crema_refusal_t
agg_refusal(const agg_core_t *self, const agg_entry_t *entry, agg_peer_t peer,
            const crema_msg_t *msg)
{
    bool opens = msg->type == CREMA_MSG_RUN_OPEN;
    if (!entry && msg->type == CREMA_MSG_RUN_QUERY)
        return CREMA_REFUSED_UNKNOWN_RUN;
    if (!entry)
        return s_has_too_much(self, peer) ? CREMA_REFUSED_QUOTA : CREMA_REFUSED_NOT;
    if (entry->has_opener && !crema_principal_is_same(&entry->opened_by, &self->from))
        return CREMA_REFUSED_OTHER_KEY;
    if (!opens && !entry->has_opener && msg->type == CREMA_MSG_RUN_QUERY &&
        self->from.as != CREMA_AS_ANY) /* only its agents have sent messages: it has no owner yet */
        return CREMA_REFUSED_UNKNOWN_RUN;
    const crema_msg_t *was = entry->run->open_msg;
    if (opens && was && was->run.t_start_ns != msg->run.t_start_ns)
        return CREMA_REFUSED_OTHER_START;
    bool is_taken = msg->type != CREMA_MSG_RUN_QUERY && s_is_to_be_owned(entry);
    return is_taken && s_has_too_much(self, peer) ? CREMA_REFUSED_QUOTA : CREMA_REFUSED_NOT;
}

const char *
agg_refusal_text(agg_core_t *self, crema_refusal_t refusal)
{
    switch (refusal) {
    case CREMA_REFUSED_UNKNOWN_RUN:
        return "the aggregator does not know a run with this id";
    case CREMA_REFUSED_BAD_ID:
        return "a run id must not be zero";
    case CREMA_REFUSED_NO_ROOM:
        snprintf(self->text, sizeof self->text,
                 "the aggregator has %zu runs in progress, its maximum", self->config.runs_max);
        return self->text;
    case CREMA_REFUSED_QUOTA:
        snprintf(self->text, sizeof self->text,
                 "this client cannot open another run: at most %llu at a time "
                 "(crema-aggregator --runs-per-client), and none while they hold %llu MiB "
                 "(--bytes-per-client); end one, or wait until one that was abandoned is sealed",
                 (unsigned long long)self->config.owner_runs_max,
                 (unsigned long long)(self->config.owner_bytes_max >> 20));
        return self->text;
    case CREMA_REFUSED_OTHER_START:
        return "there is a run with this id that began at another time: each run needs its own "
               "id";
    case CREMA_REFUSED_OTHER_KEY:
        return "the run with this id belongs to another client's key";
    default:
        return "";
    }
}

/* The owner with that key, created if necessary; NULL: out of memory. */
static agg_owner_t *
s_get(agg_core_t *self, const crema_id_t *key)
{
    crema_err_t err;
    agg_owner_t *owner = crema_map_find(self->owners, key);
    if (!owner && (owner = crema_map_make(self->owners, key, sizeof *owner, &err)))
        owner->key = *key;
    return owner;
}

static void
s_free_if_idle(agg_core_t *self, agg_owner_t *owner)
{
    if (owner->runs == 0 && owner->n_only_listed == 0)
        free(crema_map_take(self->owners, &owner->key));
}

void
agg_owner_take(agg_core_t *self, agg_entry_t *entry, agg_peer_t peer)
{
    if (!entry->has_opener) {
        entry->has_opener = true;
        entry->opened_by = self->from;
    }
    if (!s_is_to_be_owned(entry))
        return;
    crema_id_t key = s_key(self, peer);
    agg_owner_t *owner = s_get(self, &key);
    if (!owner)
        return; /* taken without being counted */
    owner->runs++;
    owner->bytes += entry->bytes;
    entry->owner = owner;
}

void
agg_owner_release(agg_core_t *self, agg_entry_t *entry)
{
    agg_owner_t *owner = entry->owner;
    if (!owner)
        return;
    entry->owner = NULL;
    owner->runs--;
    owner->bytes -= entry->bytes;
    s_free_if_idle(self, owner);
}

void
agg_owner_add_bytes(agg_entry_t *entry, uint64_t bytes)
{
    entry->bytes += bytes;
    if (entry->owner)
        entry->owner->bytes += bytes;
}

size_t
agg_owner_listed(const agg_core_t *self, const agg_entry_t *entry)
{
    const agg_owner_t *owner = crema_map_find(self->owners, &entry->opened_by.key);
    return owner ? owner->n_only_listed : 0;
}

bool
agg_owner_list(agg_core_t *self, agg_entry_t *entry)
{
    if (!entry->lister)
        entry->lister = s_get(self, &entry->opened_by.key);
    if (!entry->lister)
        return false;
    entry->n_only_listed++;
    entry->lister->n_only_listed++;
    return true;
}

void
agg_owner_unlist(agg_core_t *self, agg_entry_t *entry)
{
    agg_owner_t *lister = entry->lister;
    entry->n_only_listed--;
    lister->n_only_listed--;
    if (entry->n_only_listed == 0)
        entry->lister = NULL;
    s_free_if_idle(self, lister);
}

void
agg_owner_follow(agg_core_t *self, agg_entry_t *entry)
{
    agg_owner_t *was = entry->lister, *is = was ? s_get(self, &entry->opened_by.key) : NULL;
    if (!is)
        return;
    was->n_only_listed -= entry->n_only_listed;
    is->n_only_listed += entry->n_only_listed;
    entry->lister = is;
    s_free_if_idle(self, was);
}
