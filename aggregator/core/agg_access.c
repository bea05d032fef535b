#include "agg_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agg_core_impl.h"

#define AGENTS_LEFT 4                 /* a quarter of all places for agents is left to other keys */
#define STREAMS_SHARE 4               /* of all streams one key has at most a quarter */
#define LISTED_SHARE 16               /* of streams that only lists of writers know, a sixteenth */
#define RUNS_SHARE 4                  /* of runs, finished ones included, a quarter */
#define KEPT_MAX ((uint64_t)64 << 20) /* bytes of copies: messages about runs, lists, texts */
/* Bytes of live splits, apart from the copies: a split that is full must not cost a list of
 * writers, on which a verdict depends. */
#define SPLIT_MAX ((uint64_t)64 << 20)
#define HELLOS_SHARE 0.9 /* of the HELLOs admitted per second */

static crema_id_t
s_key(const agg_core_t *core, agg_peer_t peer)
{
    return crema_id_is_zero(&core->from.key) ? agg_peer_key(peer) : core->from.key;
}

agg_owner_t *
agg_owner_of_client(const agg_core_t *core, agg_peer_t peer)
{
    crema_id_t key = s_key(core, peer);
    return crema_map_find(core->owners, &key);
}

static bool
s_has_too_much(const agg_core_t *core, agg_peer_t peer)
{
    const agg_owner_t *owner = agg_owner_of_client(core, peer);
    return owner && (owner->n_open >= core->config.owner_runs_max ||
                     owner->open_b >= core->config.owner_bytes_max);
}

/* True if the run is open and not in the sums of its owner yet. */
static bool
s_is_to_be_counted(const agg_run_t *run)
{
    return !run->is_counted && run->phase < CREMA_RUN_SEALED;
}

bool
agg_owner_is_known(const agg_core_t *core, const agg_run_t *run)
{
    return core->sink_known || core->from.as == CREMA_AS_ANY || (run && run->has_opener);
}

crema_refusal_t
agg_refusal(const agg_core_t *core, const agg_run_t *run, agg_peer_t peer, const crema_msg_t *msg)
{
    bool opens = msg->type == CREMA_MSG_RUN_OPEN;
    if (!run && msg->type == CREMA_MSG_RUN_QUERY)
        return CREMA_REFUSED_UNKNOWN_RUN;
    if (!run)
        return s_has_too_much(core, peer) ? CREMA_REFUSED_QUOTA : CREMA_REFUSED_NOT;
    if (run->has_opener && !crema_principal_is_same(&run->opened_by, &core->from))
        return CREMA_REFUSED_OTHER_KEY;
    if (!opens && !run->has_opener && msg->type == CREMA_MSG_RUN_QUERY &&
        core->from.as != CREMA_AS_ANY) /* only its agents have sent messages: it has no owner yet */
        return CREMA_REFUSED_UNKNOWN_RUN;
    const crema_msg_t *was = run->open_msg;
    if (opens && was && was->run_open.t_start_ns != msg->run_open.t_start_ns)
        return CREMA_REFUSED_OTHER_START;
    bool is_taken = msg->type != CREMA_MSG_RUN_QUERY && s_is_to_be_counted(run);
    return is_taken && s_has_too_much(core, peer) ? CREMA_REFUSED_QUOTA : CREMA_REFUSED_NOT;
}

const char *
agg_refusal_text(agg_core_t *core, crema_refusal_t refusal)
{
    switch (refusal) {
    case CREMA_REFUSED_UNKNOWN_RUN:
        return "the aggregator does not know a run with this id";
    case CREMA_REFUSED_BAD_ID:
        return "a run id must not be zero";
    case CREMA_REFUSED_NO_ROOM:
        snprintf(core->text, sizeof core->text,
                 "the aggregator has %zu runs in progress, its maximum", core->config.runs_max);
        return core->text;
    case CREMA_REFUSED_QUOTA:
        snprintf(core->text, sizeof core->text,
                 "this client cannot open another run: at most %llu at a time "
                 "(crema-aggregator --runs-per-client), and none while they hold %llu MiB "
                 "(--bytes-per-client); end one, or wait until one that was abandoned is sealed",
                 (unsigned long long)core->config.owner_runs_max,
                 (unsigned long long)(core->config.owner_bytes_max >> 20));
        return core->text;
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
s_get(agg_core_t *core, const crema_id_t *key)
{
    crema_err_t err;
    agg_owner_t *owner = crema_map_find(core->owners, key);
    if (!owner && (owner = crema_map_make(core->owners, key, sizeof *owner, &err))) {
        owner->key = *key;
        owner->is_limited = !crema_id_is_zero(&core->from.key);
        crema_list_init(&owner->gone);
    }
    return owner;
}

static void
s_free_if_unused(agg_core_t *core, agg_owner_t *owner)
{
    if (owner->n_runs == 0 && owner->agents == 0)
        free(crema_map_take(core->owners, &owner->key));
}

agg_owner_t *
agg_owner_of_sender(agg_core_t *core)
{
    const agg_run_t *run = crema_map_find(core->runs, &core->from.run_id);
    if (crema_id_is_zero(&core->from.key))
        return NULL;
    bool is_of_run = !crema_id_is_zero(&core->from.run_id) && run && run->has_opener;
    return s_get(core, is_of_run ? &run->opened_by.key : &core->from.key);
}

bool
agg_owner_may_have_agent(const agg_core_t *core, const agg_owner_t *owner)
{
    uint64_t most = agg_credit_accounts_max(core->credit);
    most = most < core->config.agents_max ? most : core->config.agents_max;
    return !owner || !owner->is_limited || owner->agents < most - most / AGENTS_LEFT;
}

bool
agg_owner_may_have_stream(const agg_core_t *core, const agg_owner_t *owner)
{
    return !owner || !owner->is_limited ||
           owner->uses.streams < core->config.streams_max / STREAMS_SHARE;
}

bool
agg_owner_may_have_run(const agg_core_t *core, const agg_owner_t *owner)
{
    uint64_t most = core->config.runs_max / RUNS_SHARE, open = core->config.owner_runs_max;
    most = most > 2 * open ? most : 2 * open; /* as many finished ones as it may have open */
    return !owner || !owner->is_limited || owner->n_runs < most;
}

bool
agg_owner_may_keep(const agg_owner_t *owner, uint64_t bytes)
{
    return !owner || !owner->is_limited || owner->uses.kept_b + bytes <= KEPT_MAX;
}

uint64_t
agg_owner_room_split(const agg_owner_t *owner)
{
    if (!owner || !owner->is_limited)
        return UINT64_MAX;
    return owner->uses.split_b < SPLIT_MAX ? SPLIT_MAX - owner->uses.split_b : 0;
}

size_t
agg_owner_room_listed(const agg_core_t *core, const agg_run_t *run)
{
    size_t room = core->config.streams_max / LISTED_SHARE;
    const agg_owner_t *owner = run->owner;
    if (!owner || !owner->is_limited)
        return core->config.streams_max;
    return owner->uses.only_listed < room ? room - owner->uses.only_listed : 0;
}

bool
agg_tokens_take(agg_tokens_t *self, double per_second, int64_t now_ns)
{
    double n = self->n + (double)(now_ns - self->at_ns) / AGG_S * per_second;
    self->n = self->at_ns == 0 || n > per_second ? per_second : n;
    self->at_ns = now_ns;
    if (self->n < 1)
        return false;
    self->n -= 1;
    return true;
}

bool
agg_owner_may_say_hello(agg_owner_t *owner, double per_second, int64_t now_ns)
{
    return !owner || !owner->is_limited ||
           agg_tokens_take(&owner->hellos, per_second * HELLOS_SHARE, now_ns);
}

/* `sign`: 1, or (size_t)-1 to subtract. */
static void
s_add(agg_usage_t *sum, agg_usage_t more, size_t sign)
{
    sum->streams += sign * more.streams;
    sum->only_listed += sign * more.only_listed;
    sum->kept_b += sign * more.kept_b;
    sum->split_b += sign * more.split_b;
}

static void
s_attach(agg_run_t *run, agg_owner_t *owner)
{
    run->owner = owner;
    owner->n_runs++;
    s_add(&owner->uses, run->uses, 1);
}

void
agg_owner_adopt(agg_core_t *core, agg_run_t *run)
{
    agg_owner_t *owner = run->owner ? NULL : agg_owner_of_sender(core);
    if (owner)
        s_attach(run, owner);
}

void
agg_owner_take(agg_core_t *core, agg_run_t *run, agg_peer_t peer)
{
    if (!run->has_opener) {
        run->has_opener = true;
        run->opened_by = core->from;
    }
    crema_id_t key = s_key(core, peer);
    if (run->owner && !crema_id_equal(&run->owner->key, &key))
        agg_owner_leave(core, run); /* its agents came first */
    if (!run->owner) {
        agg_owner_t *owner = s_get(core, &key);
        if (owner)
            s_attach(run, owner);
    }
    if (!run->owner || !s_is_to_be_counted(run))
        return; /* without memory it is not counted */
    run->is_counted = true;
    run->owner->n_open++;
    run->owner->open_b += run->bytes;
}

void
agg_owner_release(agg_run_t *run)
{
    if (!run->is_counted)
        return;
    run->is_counted = false;
    run->owner->n_open--;
    run->owner->open_b -= run->bytes;
}

void
agg_owner_leave(agg_core_t *core, agg_run_t *run)
{
    agg_owner_t *owner = run->owner;
    agg_owner_release(run);
    run->owner = NULL;
    if (!owner)
        return;
    s_add(&owner->uses, run->uses, (size_t)-1);
    owner->n_runs--;
    s_free_if_unused(core, owner);
}

void
agg_owner_add_bytes(agg_run_t *run, uint64_t bytes)
{
    run->bytes += bytes;
    if (run->is_counted)
        run->owner->open_b += bytes;
}

void
agg_owner_use(agg_run_t *run, agg_usage_t more)
{
    s_add(&run->uses, more, 1);
    if (run->owner)
        s_add(&run->owner->uses, more, 1);
}

void
agg_owner_keep(agg_run_t *run, uint64_t *kept_b, uint64_t bytes)
{
    agg_owner_use(run, (agg_usage_t){.kept_b = bytes - *kept_b});
    *kept_b = bytes;
}

void
agg_owner_keep_messages(agg_run_t *run)
{
    agg_owner_keep(run, &run->messages_b,
                   (run->open_msg ? crema_msg_bytes(run->open_msg) : 0) +
                       (run->end_msg ? crema_msg_bytes(run->end_msg) : 0));
}

void
agg_owner_add_agent(agg_session_t *session, agg_owner_t *owner)
{
    session->owner = owner;
    if (owner)
        owner->agents++;
}

void
agg_owner_keep_faults(agg_session_t *session, uint64_t bytes)
{
    if (session->owner)
        session->owner->uses.kept_b += bytes - session->faults_b;
    session->faults_b = bytes;
}

void
agg_owner_remove_agent(agg_core_t *core, agg_session_t *session)
{
    agg_owner_t *owner = session->owner;
    agg_owner_keep_faults(session, 0);
    session->owner = NULL;
    if (!owner)
        return;
    owner->agents--;
    s_free_if_unused(core, owner);
}

/* ---------------------------------------------------------------- agents and streams */

/* True if that is its key; the first one that asks is. Without keys all are equal. */
static bool
s_is_its_key(crema_id_t *its, bool *has_key, const crema_id_t *key)
{
    if (!*has_key) {
        *has_key = true;
        *its = *key;
    }
    return crema_id_equal(its, key);
}

bool
agg_key_has_agent(const agg_core_t *core, agg_session_t *session)
{
    return s_is_its_key(&session->key, &session->has_key, &core->from.key);
}

bool
agg_key_may_bring(const agg_core_t *core, const crema_id_t *run_id)
{
    const crema_id_t *bound = &core->from.run_id;
    return crema_id_is_zero(bound) || crema_id_equal(bound, run_id);
}

bool
agg_key_may_have_written(const agg_core_t *core, const crema_id_t *stream_id,
                         const crema_id_t *run_id, uint32_t user)
{
    if (!core->config.user_of || !crema_id_is_zero(&core->from.run_id))
        return true; /* agents started by a run belong to its owner, wherever they run */
    const agg_stream_t *stream = crema_map_find(core->streams, stream_id);
    const agg_run_t *run = stream ? stream->run : crema_map_find(core->runs, run_id);
    if (!run || !run->has_opener)
        return true;
    uint32_t bound = core->config.user_of(core->config.user_context, &run->opened_by.key);
    return bound == 0 || bound == user;
}

bool
agg_key_has_stream(const agg_core_t *core, agg_stream_t *stream)
{
    return agg_key_may_bring(core, &stream->run->run_id) &&
           s_is_its_key(&stream->key, &stream->has_key, &core->from.key);
}
