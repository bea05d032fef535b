/* What the program does when the core says so: messages, events, keys. */
#include <errno.h>
#include <stdlib.h>

#include <czmq.h>

#include "agg_private.h"
#include "crema_clock.h"
#include "crema_cost.h"
#include "crema_failpoint.h"
#include "crema_log.h"
#include "crema_reactor.h"

static void
s_send_peer(agg_t *self, agg_peer_t peer, uint8_t **bytes_p, size_t size)
{
    agg_routing_id_t id;
    void *raw = zsock_resolve(self->router);
    if (!agg_peers_find(self->peers, peer, &id)) {
        self->counts.unroutable++;
        return;
    }
    if (!agg_peers_takes(self->peers, peer, size)) { /* it does not read */
        self->counts.untaken++;
        return;
    }
    if (zmq_send(raw, id.bytes, id.size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        if (errno == EHOSTUNREACH) {
            self->counts.unroutable++;
            agg_peers_forget(self->peers, peer);
        } else {
            self->counts.dropped++;
        }
        return;
    }
    if (crema_socket_send(self->router, bytes_p, size) != CREMA_OK)
        self->counts.dropped++;
}

void
agg_send(agg_t *self, const agg_action_t *action)
{
    uint8_t *bytes;
    size_t size;
    if (crema_wire_encode(action->msg, &bytes, &size) != CREMA_OK) {
        self->counts.dropped++;
        return;
    }
    crema_failpoint_message("aggregator.before_send", action->msg->type);
    if (action->type == AGG_TO_PEER)
        s_send_peer(self, action->peer, &bytes, size);
    else if (crema_socket_send(self->sink, &bytes, size) != CREMA_OK) {
        self->counts.sink_dropped++;
        agg_core_not_sent(self->core);
    }
    crema_failpoint_message("aggregator.after_send", action->msg->type);
    free(bytes);
}

/* The verdict also carries this program's cost so far. */
static void
s_send_seal(agg_t *self, const agg_action_t *action)
{
    const crema_cost_t cost = {.cpu_s = (double)crema_clock_cpu_ns() * 1e-9,
                               .bytes = (int64_t)self->counts.put_bytes,
                               .records = (int64_t)self->counts.put_records,
                               .shared = self->counts.runs > 1};
    crema_cost_attributes_t words;
    crema_msg_t msg = *action->msg;
    Crema__RunSeal *seal = &msg.run_seal;
    size_t n = seal->n_keys;
    char **keys = calloc(2 * (n + CREMA_COST_ATTRIBUTES), sizeof *keys);
    char **values = keys + n + CREMA_COST_ATTRIBUTES;
    crema_cost_describe(&cost, "aggregator", &words);
    for (size_t i = 0; keys && i < n + CREMA_COST_ATTRIBUTES; i++) {
        keys[i] = i < n ? seal->keys[i] : words.keys[i - n];
        values[i] = i < n ? seal->values[i] : words.values[i - n];
    }
    if (keys) {
        seal->n_keys = seal->n_values = n + CREMA_COST_ATTRIBUTES;
        seal->keys = keys;
        seal->values = values;
    }
    agg_action_t copy = *action;
    copy.msg = &msg;
    agg_send(self, &copy);
    free(keys);
}

/* ---- events */

static crema_log_level_t
s_level(agg_event_t event)
{
    switch (event) {
    case AGG_EVENT_AGENT_SUSPECT:
    case AGG_EVENT_AGENT_LOST:
    case AGG_EVENT_AGENT_FENCED:
    case AGG_EVENT_STREAM_REFUSED:
    case AGG_EVENT_SINK_SILENT:
    case AGG_EVENT_SINK_FULL:
    case AGG_EVENT_RUN_LATE:
        return CREMA_LOG_WARN;
    default:
        return CREMA_LOG_INFO;
    }
}

static void
s_log_split(const agg_t *self, const crema_id_t *run_id)
{
    const agg_rollup_t *rollup = agg_core_split(self->core, run_id);
    if (!rollup)
        return;
    crema_log_info("run_split", CREMA_ID("run", run_id),
                   CREMA_REAL("processor_s", agg_rollup_side_s(rollup, CREMA_SIDE_PROCESSOR)),
                   CREMA_REAL("overhead_s", agg_rollup_overhead_s(rollup)),
                   CREMA_REAL("wasted_s", agg_rollup_side_s(rollup, CREMA_SIDE_WASTED)),
                   CREMA_INT("not_taken", agg_rollup_stats(rollup).not_taken));
}

static void
s_on_event(agg_t *self, const agg_action_t *action)
{
    crema_log_field_t fields[5] = {{0}};
    size_t n = 0;
    if (!crema_id_is_zero(&action->run_id))
        fields[n++] = (crema_log_field_t)CREMA_ID("run", &action->run_id);
    if (!crema_id_is_zero(&action->agent_id))
        fields[n++] = (crema_log_field_t)CREMA_ID("agent", &action->agent_id);
    if (action->subject)
        fields[n++] = (crema_log_field_t)CREMA_TEXT("subject", action->subject);
    if (action->detail)
        fields[n++] = (crema_log_field_t)CREMA_TEXT("detail", action->detail);
    crema_log_write(s_level(action->event), agg_event_name(action->event), fields);
    if (self->tap)
        agg_tap_event(self->tap, action, crema_clock_real_ns());
    if (action->event == AGG_EVENT_RUN_VERDICT) {
        agg_scrape_count(&self->counts, self->core, &action->run_id);
        s_log_split(self, &action->run_id);
    }
}

/* ---- carrying out actions */

static bool
s_knows_run(const void *context, const crema_id_t *run_id)
{
    Crema__RunState state;
    return agg_core_look(context, run_id, &state);
}

void
agg_take_back_keys(agg_t *self, bool spares_new)
{
    crema_keyring_t *ring = crema_server_ring(self->server);
    crema_keyring_take_back(ring, s_knows_run, self->core);
    if (!spares_new)
        crema_keyring_take_back(ring, s_knows_run, self->core);
}

void
agg_admit_key(agg_t *self, const crema_id_t *run_id, const crema_id_t *owner,
              ProtobufCBinaryData key)
{
    crema_keyring_t *ring = crema_server_ring(self->server);
    crema_err_t err = crema_keyring_lend(ring, run_id, owner, key.data);
    /* Finished runs of the same owner give way, running ones never. */
    while (err == CREMA_ELIMIT && agg_core_forget_finished(self->core, owner)) {
        agg_take_back_keys(self, false);
        err = crema_keyring_lend(ring, run_id, owner, key.data);
    }
    if (err != CREMA_OK)
        crema_log_warn("agent_key_refused", CREMA_ID("run", run_id),
                       CREMA_TEXT("why", crema_err_text(err)),
                       CREMA_TEXT("remedy", err == CREMA_ELIMIT
                                                ? "the client's running runs have as many keys as "
                                                  "it may have; end one, or use another key"
                                                : "each agent needs a key of its own"));
}

void
agg_act(agg_t *self)
{
    agg_action_t action;
    while (agg_core_next(self->core, crema_clock_mono_ns(), &action)) {
        if (action.type == AGG_EVENT) {
            s_on_event(self, &action);
            continue;
        }
        if (action.type == AGG_ADMIT_KEY) {
            const Crema__RunOpen *run = &action.msg->run_open;
            agg_admit_key(self, crema_id_of(run->run_id), crema_id_of(run->owner), run->agent_key);
            continue;
        }
        if (action.type == AGG_TO_SINK && action.msg->type == CREMA_MSG_RUN_SEAL) {
            s_send_seal(self, &action);
            continue;
        }
        if (action.type == AGG_TO_SINK && action.msg->type == CREMA_MSG_PUT) {
            self->counts.put_bytes += action.msg->put.frames.len;
            self->counts.put_records += action.msg->put.n;
        }
        agg_send(self, &action);
    }
}
