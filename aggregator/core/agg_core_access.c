/* Whose a thing is, and what one key may make this aggregator keep.
 *
 * Every run, stream, agent and copied text counts for one key: a run and all of its streams for
 * the key that opened it, and before that for the key whose agent brought it; an agent for its own
 * key, or, if a run lent it that, for the key of the run. A key at its share is refused what is
 * new, or loses the oldest of its own that is over; no other key notices. Without keys clients are
 * indistinguishable, and only the limits of all together apply. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agg_core_private.h"

#define AGENTS_LEFT 4                 /* a quarter of all places for agents is left to other keys */
#define STREAMS_SHARE 4               /* of all streams one key has at most a quarter */
#define LISTED_SHARE 16               /* of streams that only lists of writers know, a sixteenth */
#define RUNS_SHARE 4                  /* of runs, finished ones included, a quarter */
#define KEPT_MAX ((uint64_t)64 << 20) /* bytes of copies: messages about runs, lists, texts */
#define HELLOS_SHARE 0.9              /* of the HELLOs admitted per second */

static crema_id_t
s_key(const agg_core_t *self, agg_peer_t peer)
{
    return crema_id_is_zero(&self->from.key) ? agg_peer_key(peer) : self->from.key;
}

agg_owner_t *
agg_owner_of_client(const agg_core_t *self, agg_peer_t peer)
{
    crema_id_t key = s_key(self, peer);
    return crema_map_find(self->owners, &key);
}

static bool
s_has_too_much(const agg_core_t *self, agg_peer_t peer)
{
    const agg_owner_t *owner = agg_owner_of_client(self, peer);
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

/* ---------------------------------------------------------------- budgets */

/* The owner with that key, created if necessary; NULL: out of memory. */
static agg_owner_t *
s_get(agg_core_t *self, const crema_id_t *key)
{
    crema_err_t err;
    agg_owner_t *owner = crema_map_find(self->owners, key);
    if (!owner && (owner = crema_map_make(self->owners, key, sizeof *owner, &err))) {
        owner->key = *key;
        owner->is_limited = !crema_id_is_zero(&self->from.key);
        crema_list_init(&owner->gone);
    }
    return owner;
}

static void
s_free_if_unused(agg_core_t *self, agg_owner_t *owner)
{
    if (owner->entries == 0 && owner->agents == 0)
        free(crema_map_take(self->owners, &owner->key));
}

agg_owner_t *
agg_owner_of_sender(agg_core_t *self)
{
    const agg_entry_t *entry = crema_map_find(self->entries, &self->from.run_id);
    if (crema_id_is_zero(&self->from.key))
        return NULL;
    bool is_lent = !crema_id_is_zero(&self->from.run_id) && entry && entry->has_opener;
    return s_get(self, is_lent ? &entry->opened_by.key : &self->from.key);
}

bool
agg_owner_may_have_agent(const agg_core_t *self, const agg_owner_t *owner)
{
    uint64_t most = agg_credit_accounts_max(self->credit);
    most = most < self->config.agents_max ? most : self->config.agents_max;
    return !owner || !owner->is_limited || owner->agents < most - most / AGENTS_LEFT;
}

bool
agg_owner_may_have_stream(const agg_core_t *self, const agg_owner_t *owner)
{
    return !owner || !owner->is_limited ||
           owner->streams < self->config.streams_max / STREAMS_SHARE;
}

bool
agg_owner_may_have_run(const agg_core_t *self, const agg_owner_t *owner)
{
    uint64_t most = self->config.runs_max / RUNS_SHARE, open = self->config.owner_runs_max;
    most = most > 2 * open ? most : 2 * open; /* as many finished ones as it may have open */
    return !owner || !owner->is_limited || owner->entries < most;
}

bool
agg_owner_may_keep(const agg_owner_t *owner, uint64_t bytes)
{
    return !owner || !owner->is_limited || owner->kept_b + bytes <= KEPT_MAX;
}

size_t
agg_owner_room_listed(const agg_core_t *self, const agg_entry_t *entry)
{
    size_t room = self->config.streams_max / LISTED_SHARE;
    const agg_owner_t *owner = entry->owner;
    if (!owner || !owner->is_limited)
        return self->config.streams_max;
    return owner->n_only_listed < room ? room - owner->n_only_listed : 0;
}

bool
agg_owner_may_say_hello(agg_owner_t *owner, double per_second, int64_t now_ns)
{
    if (!owner || !owner->is_limited)
        return true;
    double most = per_second * HELLOS_SHARE;
    double tokens = owner->hello_tokens + (double)(now_ns - owner->hello_ns) / AGG_S * most;
    if (owner->hello_ns == 0 || tokens > most)
        tokens = most;
    owner->hello_ns = now_ns;
    owner->hello_tokens = tokens < 1 ? tokens : tokens - 1;
    return tokens >= 1;
}

static void
s_attach(agg_entry_t *entry, agg_owner_t *owner)
{
    entry->owner = owner;
    owner->entries++;
    owner->n_only_listed += entry->n_only_listed;
    owner->streams += entry->n_streams;
    owner->kept_b += entry->kept_b;
}

void
agg_owner_adopt(agg_core_t *self, agg_entry_t *entry)
{
    agg_owner_t *owner = entry->owner ? NULL : agg_owner_of_sender(self);
    if (owner)
        s_attach(entry, owner);
}

void
agg_owner_take(agg_core_t *self, agg_entry_t *entry, agg_peer_t peer)
{
    if (!entry->has_opener) {
        entry->has_opener = true;
        entry->opened_by = self->from;
    }
    crema_id_t key = s_key(self, peer);
    if (entry->owner && !crema_id_equal(&entry->owner->key, &key))
        agg_owner_leave(self, entry); /* its agents came first */
    if (!entry->owner) {
        agg_owner_t *owner = s_get(self, &key);
        if (owner)
            s_attach(entry, owner);
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
    owner->streams -= entry->n_streams;
    owner->kept_b -= entry->kept_b;
    owner->entries--;
    s_free_if_unused(self, owner);
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

void
agg_owner_count_stream(agg_entry_t *entry, size_t n)
{
    entry->n_streams += n;
    if (entry->owner)
        entry->owner->streams += n;
}

void
agg_owner_keep(agg_entry_t *entry, uint64_t *kept_b, uint64_t bytes)
{
    entry->kept_b += bytes - *kept_b;
    if (entry->owner)
        entry->owner->kept_b += bytes - *kept_b;
    *kept_b = bytes;
}

void
agg_owner_keep_messages(agg_entry_t *entry)
{
    const agg_run_t *run = entry->run;
    agg_owner_keep(entry, &entry->messages_b,
                   (run->open_msg ? crema_msg_bytes(run->open_msg) : 0) +
                       (run->end_msg ? crema_msg_bytes(run->end_msg) : 0));
}

void
agg_owner_add_agent(agg_client_t *client, agg_owner_t *owner)
{
    client->payer = owner;
    if (owner)
        owner->agents++;
}

void
agg_owner_keep_faults(agg_client_t *client, uint64_t bytes)
{
    if (client->payer)
        client->payer->kept_b += bytes - client->faults_b;
    client->faults_b = bytes;
}

void
agg_owner_remove_agent(agg_core_t *self, agg_client_t *client)
{
    agg_owner_t *owner = client->payer;
    agg_owner_keep_faults(client, 0);
    client->payer = NULL;
    if (!owner)
        return;
    owner->agents--;
    s_free_if_unused(self, owner);
}

/* ---------------------------------------------------------------- agents and streams */

static bool
s_admits(const crema_id_t *only_run, const agg_entry_t *entry)
{
    return crema_id_is_zero(only_run) || crema_id_equal(only_run, &entry->run->run_id);
}

bool
agg_client_may_have(const agg_client_t *client, const agg_entry_t *entry)
{
    const agg_member_t *member = agg_run_find(entry->run, agg_agent_id(client->agent));
    bool has_streams = member && member->streams > 0;
    return has_streams || (s_admits(&client->bound, entry) && s_admits(&client->serves, entry));
}

/* Claims an owner for the first key. Without keys all are equal. */
static bool
s_claim(crema_id_t *owner, bool *claimed, const crema_id_t *key)
{
    if (!*claimed) {
        *claimed = true;
        *owner = *key;
    }
    return crema_id_equal(owner, key);
}

bool
agg_key_has_agent(agg_core_t *self, agg_client_t *client)
{
    client->bound = self->from.run_id;
    return s_claim(&client->owner, &client->claimed, &self->from.key);
}

bool
agg_key_may_bring(agg_core_t *self, const crema_id_t *run_id)
{
    const crema_id_t *bound = &self->from.run_id;
    return crema_id_is_zero(bound) || crema_id_equal(bound, run_id);
}

bool
agg_key_is_over(const agg_core_t *self, const crema_id_t *run_id)
{
    if (crema_id_is_zero(&self->from.run_id))
        return false;
    const agg_entry_t *entry = crema_map_find(self->entries, run_id);
    return entry && entry->run->phase >= CREMA_RUN_VERDICT && !agg_run_wants_answers(entry->run);
}

bool
agg_key_may_have_written(const agg_core_t *self, const crema_id_t *stream_id,
                         const crema_id_t *run_id, uint32_t user)
{
    if (!self->config.user_of || !crema_id_is_zero(&self->from.run_id))
        return true; /* agents started by a run belong to its owner, wherever they run */
    const agg_flow_t *flow = crema_map_find(self->flows, stream_id);
    const agg_entry_t *entry = flow ? flow->entry : crema_map_find(self->entries, run_id);
    if (!entry || !entry->has_opener)
        return true;
    uint32_t bound = self->config.user_of(self->config.user_context, &entry->opened_by.key);
    return bound == 0 || bound == user;
}

bool
agg_key_has_flow(agg_core_t *self, agg_flow_t *flow)
{
    return agg_key_may_bring(self, &flow->entry->run->run_id) &&
           s_claim(&flow->owner, &flow->claimed, &self->from.key);
}
