#include "sim.h"

int
sim_connect(sim_t *sim, sim_kind_t from, int who)
{
    if (sim->n_conns == SIM_CONNS_MAX)
        return -1;
    int conn = sim->n_conns++;
    sim->conns[conn] = (sim_conn_t){.open = true, .from = from, .who = who, .peer = ++sim->peers};
    return conn;
}

/* What is on its way is lost with it. */
void
sim_disconnect(sim_t *sim, int conn)
{
    if (conn >= 0)
        sim->conns[conn].open = false;
}

int
sim_conn_of_peer(const sim_t *sim, agg_peer_t peer)
{
    for (int conn = sim->n_conns - 1; conn >= 0; conn--)
        if (sim->conns[conn].peer == peer && sim->conns[conn].from != SIM_AGG)
            return conn;
    return -1;
}

static const sim_process_t *
s_receiver(const sim_t *sim, const sim_conn_t *conn, bool away)
{
    static const sim_process_t client = {.up = true};
    if (conn->from == SIM_AGG)
        return away ? &sim->sink.process : &sim->agg.process;
    if (away)
        return &sim->agg.process;
    return conn->from == SIM_AGENT ? &sim->agents[conn->who].process : &client;
}

static void
s_arrive(sim_t *sim, int c, int away, crema_msg_t *msg)
{
    const sim_conn_t *conn = &sim->conns[c];
    const sim_process_t *receiver = s_receiver(sim, conn, away);
    if (!conn->open || !receiver->up)
        return;
    if (sim->now_ns < conn->cut_until_ns || sim->now_ns < receiver->stalled_until_ns) {
        int64_t at = conn->cut_until_ns > receiver->stalled_until_ns ? conn->cut_until_ns
                                                                     : receiver->stalled_until_ns;
        sim_at(sim, at, s_arrive, c, away, sim_copy(msg));
        return;
    }
    if (conn->from == SIM_AGG && away)
        sim_sink_on_message(sim, msg);
    else if (conn->from == SIM_AGG)
        sim_agg_on_sink(sim, msg);
    else if (away)
        sim_agg_on_peer(sim, conn->peer, msg);
    else if (conn->from == SIM_AGENT)
        sim_agent_on_message(sim, conn->who, msg);
    else
        sim_client_on_message(sim, msg);
}

static void
s_post(sim_t *sim, int c, bool away, const crema_msg_t *msg, bool in_order)
{
    sim_conn_t *conn = &sim->conns[c];
    int64_t at = sim->now_ns + sim_between(sim, 50000, 3 * SIM_MS);
    bool late = sim_chance(sim, 0.02);
    sim->totals->late += late;
    if (late)
        at += sim_between(sim, 0, sim->hostile ? SIM_S : 60 * SIM_MS);
    if (in_order) {
        if (at <= conn->last_ns[away])
            at = conn->last_ns[away] + 1;
        conn->last_ns[away] = at;
    }
    sim_at(sim, at, s_arrive, c, away, sim_copy(msg));
}

bool
sim_send(sim_t *sim, int c, bool away, const crema_msg_t *msg)
{
    if (c < 0 || !sim->conns[c].open)
        return false;
    bool hostile = sim->hostile && !sim->healed;
    if (hostile && sim_chance(sim, sim->drop_p)) {
        sim->totals->dropped++;
        return true; /* taken, and lost */
    }
    s_post(sim, c, away, msg, !hostile);
    if (hostile && sim_chance(sim, sim->double_p)) {
        sim->totals->doubled++;
        s_post(sim, c, away, msg, false);
    }
    return true;
}
