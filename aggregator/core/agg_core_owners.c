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

/* True if the run is open and not in the sums of its owner yet. */
static bool
s_is_to_be_counted(const agg_entry_t *entry)
{
    return !entry->is_counted && entry->run->phase < CREMA_RUN_SEALED;
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
    if (opens && was && was->run_open.t_start_ns != msg->run_open.t_start_ns)
        return CREMA_REFUSED_OTHER_START;
    bool is_taken = msg->type != CREMA_MSG_RUN_QUERY && s_is_to_be_counted(entry);
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

void
agg_owner_take(agg_core_t *self, agg_entry_t *entry, agg_peer_t peer)
{
    if (!entry->has_opener) {
        entry->has_opener = true;
        entry->opened_by = self->from;
    }
    crema_id_t key = s_key(self, peer);
    if (!entry->owner && (entry->owner = s_get(self, &key))) {
        entry->owner->entries++;
        entry->owner->n_only_listed += entry->n_only_listed;
    }
    if (!entry->owner || !s_is_to_be_counted(entry))
        return; /* without memory it is not counted */
    entry->is_counted = true;
    entry->owner->runs++;
    entry->owner->bytes += entry->bytes;
}

void
agg_owner_release(agg_entry_t *entry)
{
    if (!entry->is_counted)
        return;
    entry->is_counted = false;
    entry->owner->runs--;
    entry->owner->bytes -= entry->bytes;
}

void
agg_owner_leave(agg_core_t *self, agg_entry_t *entry)
{
    agg_owner_t *owner = entry->owner;
    agg_owner_release(entry);
    entry->owner = NULL;
    if (!owner)
        return;
    owner->n_only_listed -= entry->n_only_listed;
    if (--owner->entries == 0)
        free(crema_map_take(self->owners, &owner->key));
}

void
agg_owner_add_bytes(agg_entry_t *entry, uint64_t bytes)
{
    entry->bytes += bytes;
    if (entry->is_counted)
        entry->owner->bytes += bytes;
}

void
agg_owner_list(agg_entry_t *entry, size_t n)
{
    entry->n_only_listed += n;
    if (entry->owner)
        entry->owner->n_only_listed += n;
}
