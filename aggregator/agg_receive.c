/* What comes from agents, collectors and the sink. */
#include <czmq.h>

#include "agg_private.h"
#include "crema_clock.h"
#include "crema_log.h"

#define REVOKED_MAX 4096 /* fenced at once */
#define BATCH_MESSAGES                                                                             \
    1024 /* taken from one socket before the other one, timers and signals get a turn */

static void
s_fence_revoked(agg_t *self, agg_peer_t peer)
{
    crema_msg_t msg = {
        .type = CREMA_MSG_FENCE,
        .session = self->session,
        .fence = {.reason = CREMA_FENCE_PRINCIPAL},
    };
    const agg_action_t action = {.type = AGG_TO_PEER, .peer = peer, .msg = &msg};
    agg_send(self, &action);
}

void
agg_fence_revoked(agg_t *self)
{
    agg_peer_t peer, revoked[REVOKED_MAX];
    size_t cursor = 0, n = 0;
    const crema_principal_t *from;
    while (n < REVOKED_MAX && agg_peers_next(self->peers, &cursor, &peer, &from))
        if (!crema_keyring_admits(crema_server_ring(self->server), from)) {
            agg_core_on_revoked(self->core, &from->key, crema_clock_mono_ns(),
                                crema_clock_real_ns());
            revoked[n++] = peer;
        }
    for (size_t i = 0; i < n; i++)
        s_fence_revoked(self, revoked[i]); /* the rest are fenced when they send something */
    crema_principal_t gone;
    while (crema_keyring_revoked(crema_server_ring(self->server), &gone)) {
        if (crema_id_is_zero(&gone.run_id)) /* a run's own keys end with it, or with its owner's */
            crema_log_warn("key_revoked", CREMA_TEXT("role", crema_as_name(gone.as)),
                           CREMA_TEXT("name", gone.name));
        agg_core_on_revoked(self->core, &gone.key, crema_clock_mono_ns(), crema_clock_real_ns());
    }
    agg_act(self);
}

/* ---- receiving */

/* Clients repeat RUN_OPEN as a sign of life, so only a new run is counted. */
static void
s_count_run(agg_t *self, const crema_id_t *run_id)
{
    if (crema_id_equal(run_id, &self->opened))
        return;
    self->opened = *run_id;
    self->counts.runs++;
}

static void
s_on_parts(agg_t *self, zmq_msg_t *id, zmq_msg_t *body)
{
    int64_t mono_ns = crema_clock_mono_ns(), real_ns = crema_clock_real_ns();
    agg_peer_t peer;
    const crema_principal_t *from;
    crema_msg_t msg;
    self->counts.messages++;
    /* From the body: libzmq may lose the property on the frame of the routing id. */
    const char *user_id = zmq_msg_gets(body, "User-Id");
    crema_err_t err = agg_peers_heard(self->peers, zmq_msg_data(id), zmq_msg_size(id), user_id,
                                      mono_ns, &peer, &from);
    if (err != CREMA_OK) {
        self->counts.bad++;
        crema_log_warn("peer_refused", CREMA_TEXT("why", crema_err_text(err)));
        return;
    }
    agg_peers_came_by(self->peers, peer, zmq_msg_get(body, ZMQ_SRCFD));
    if (!crema_keyring_admits(crema_server_ring(self->server),
                              from)) { /* revoked: the connection outlives the key */
        self->counts.revoked++;
        s_fence_revoked(self, peer);
        return;
    }
    err = crema_wire_decode(zmq_msg_data(body), zmq_msg_size(body), self->arena, &msg);
    if (err != CREMA_OK) {
        self->counts.bad++;
        crema_log_warn("message_bad", CREMA_TEXT("why", crema_err_text(err)));
        agg_core_on_bad(self->core, peer, err);
    } else {
        /* a refused message about a run changes nothing */
        bool taken = agg_core_on_peer(self->core, peer, from, &msg, mono_ns, real_ns);
        if (msg.type == CREMA_MSG_RUN_OPEN && taken)
            s_count_run(self, crema_id_of(msg.run_id));
        if (msg.type == CREMA_MSG_RUN_QUERY && taken && msg.run_query.agent_key.len > 0)
            agg_admit_key(self, crema_id_of(msg.run_id), &from->key, msg.run_query.agent_key);
    }
    agg_act(self);
}

/* The sink reports the owner of a run that an earlier aggregator opened. */
static void
s_on_known_run(agg_t *self, const Crema__RunOpen *run)
{
    const crema_id_t *owner = crema_id_of(run->owner);
    if (run->agent_key.len > 0 && crema_keyring_knows(crema_server_ring(self->server), owner))
        agg_admit_key(self, crema_id_of(run->run_id), owner, run->agent_key);
}

/* Where there was no run before, patience with unknown keys would only hold new agents up: a
 * connection that is asked to try again soon is left alone by libzmq until its handshake times
 * out. */
static void
s_end_patience_if_first(agg_t *self)
{
    if (self->patience_s > 0 && agg_core_is_first(self->core)) {
        self->patience_s = 0;
        crema_server_set_patient(self->server, false);
    }
}

/* Takes one whole message. *ret_parts is its number of parts; more than two are discarded.
 * False: none waits. */
static bool
s_receive(zsock_t *sock, zmq_msg_t *first, zmq_msg_t *second, int *ret_parts)
{
    void *raw = zsock_resolve(sock);
    if (zmq_msg_recv(first, raw, ZMQ_DONTWAIT) < 0)
        return false;
    *ret_parts = 1;
    for (zmq_msg_t *last = first; zmq_msg_more(last); last = second) {
        if (zmq_msg_recv(second, raw, ZMQ_DONTWAIT) < 0)
            break;
        ++*ret_parts;
    }
    return true;
}

void
agg_take_from_peers(agg_t *self)
{
    zmq_msg_t id, body;
    int parts;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    for (int i = 0; i < BATCH_MESSAGES && s_receive(self->router, &id, &body, &parts); i++) {
        if (parts == 2)
            s_on_parts(self, &id, &body);
        else
            self->counts.bad++;
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
}

void
agg_take_from_sink(agg_t *self)
{
    zmq_msg_t body, rest;
    int parts;
    zmq_msg_init(&body);
    zmq_msg_init(&rest);
    for (int i = 0; i < BATCH_MESSAGES && s_receive(self->sink, &body, &rest, &parts); i++) {
        crema_msg_t msg;
        if (parts != 1 || crema_wire_decode(zmq_msg_data(&body), zmq_msg_size(&body), self->arena,
                                            &msg) != CREMA_OK) {
            self->counts.bad++;
            crema_log_warn("sink_message_bad", CREMA_INT("parts", parts));
            continue;
        }
        if (msg.type == CREMA_MSG_FENCE)
            crema_log_error("refused_by_sink", CREMA_INT("reason", msg.fence.reason));
        if (msg.type == CREMA_MSG_RUN_OPEN)
            s_on_known_run(self, &msg.run_open);
        agg_core_on_sink(self->core, &msg, crema_clock_mono_ns(), crema_clock_real_ns());
        if (msg.type == CREMA_MSG_RUN_OPEN &&
            !crema_keyring_knows(crema_server_ring(self->server), crema_id_of(msg.run_open.owner)))
            agg_core_on_revoked(self->core, crema_id_of(msg.run_open.owner), crema_clock_mono_ns(),
                                crema_clock_real_ns());
        s_end_patience_if_first(self);
        agg_act(self);
    }
    zmq_msg_close(&body);
    zmq_msg_close(&rest);
}
