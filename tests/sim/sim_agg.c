#include "sim.h"

#define TICK_NS (50 * SIM_MS)

static void s_drive(sim_t *sim);

static int64_t
s_clock(const sim_t *sim)
{
    return sim_clock(sim, &sim->agg.clock);
}

static int64_t
s_wall(const sim_t *sim)
{
    return s_clock(sim) + sim->agg.wall_ahead_ns;
}

static void
s_on_event(sim_t *sim, const agg_action_t *action)
{
    sim_say(sim, "aggregator: %s %s", agg_event_name(action->event),
            action->detail ? action->detail : "");
    int run = sim_run_of(sim, &action->run_id);
    if (action->event == AGG_EVENT_RUN_ABANDONED && run >= 0)
        sim_check_abandoned(sim, run);
    if (action->event == AGG_EVENT_RUN_VERDICT && run >= 0) {
        sim->runs[run].verdict_life = sim->agg.process.life;
        sim_check_verdict(sim, run, action->detail ? 1 : 0);
    }
}

static void
s_to_peer(sim_t *sim, const agg_action_t *action)
{
    int conn = sim_conn_of_peer(sim, action->peer);
    if (conn < 0)
        return;
    if (action->msg->type == CREMA_MSG_FENCE)
        sim_say(sim, "FENCE %d to %d", action->msg->fence.reason, sim->conns[conn].who);
    sim_send(sim, conn, false, action->msg);
}

static void
s_to_sink(sim_t *sim, const crema_msg_t *msg)
{
    if (msg->type == CREMA_MSG_CLOCK)
        sim_check_offset(sim, &msg->clock);
    sim_send(sim, sim->sink_conn, true, msg);
}

static void
s_drive(sim_t *sim)
{
    agg_action_t action;
    int actions = 0;
    while (agg_core_next(sim->agg.core, s_clock(sim), &action)) {
        if (action.type == AGG_EVENT)
            s_on_event(sim, &action);
        else if (action.type == AGG_TO_PEER)
            s_to_peer(sim, &action);
        else
            s_to_sink(sim, action.msg);
        if (++actions > 100000) {
            sim_violation(sim, "the aggregator never runs out of actions");
            break;
        }
    }
    sim_check_credit(sim);
}

void
sim_agg_on_peer(sim_t *sim, agg_peer_t peer, const crema_msg_t *msg)
{
    if (msg->type == CREMA_MSG_RUN_QUERY)
        sim->runs[sim_run_of(sim, crema_id_of(msg->run_id))].client_ns = sim->now_ns;
    if (msg->type == CREMA_MSG_RUN_OPEN || msg->type == CREMA_MSG_RUN_END) {
        int run = sim_run_of(sim, crema_id_of(msg->run_id));
        sim->runs[run].client_ns = sim->now_ns;
        if (msg->type == CREMA_MSG_RUN_OPEN)
            sim->agg.opened[run] = true;
        else if (!sim->agg.ended[run]) {
            sim->agg.ended[run] = true;
            sim->runs[run].ended_ns = sim->now_ns;
            sim_say(sim, "run %d ends", run);
        }
    }
    if (msg->type == CREMA_MSG_HELLO)
        sim->agents[sim->conns[sim_conn_of_peer(sim, peer)].who].known = true;
    static const crema_principal_t c_anybody;
    agg_core_on_peer(sim->agg.core, peer, &c_anybody, msg, s_clock(sim), s_wall(sim));
    s_drive(sim);
}

void
sim_agg_on_sink(sim_t *sim, const crema_msg_t *msg)
{
    sim->agg.heard_boot = msg->session;
    agg_core_on_sink(sim->agg.core, msg, s_clock(sim), s_wall(sim));
    s_drive(sim);
}

static void
s_tick(sim_t *sim, int a, int life, crema_msg_t *msg)
{
    (void)a, (void)msg;
    if (sim->agg.process.life != (unsigned)life || !sim->agg.process.up)
        return;
    sim_at(sim, sim->now_ns + TICK_NS, s_tick, 0, life, NULL);
    if (sim->now_ns < sim->agg.process.stalled_until_ns)
        return;
    bool open = sim->sink_conn >= 0 && sim->conns[sim->sink_conn].open;
    if (!open && sim->sink_redial_ns == 0)
        sim->sink_redial_ns = sim->now_ns + sim_between(sim, SIM_REDIAL_MIN_NS, SIM_REDIAL_MAX_NS);
    if (!open && sim->now_ns >= sim->sink_redial_ns && sim->sink.process.up) {
        sim->sink_conn = sim_connect(sim, SIM_AGG, 0);
        sim->sink_redial_ns = 0;
    }
    agg_core_on_tick(sim->agg.core, s_clock(sim), s_wall(sim));
    s_drive(sim);
}

void
sim_agg_start(sim_t *sim)
{
    if (sim->agg.process.up)
        return;
    sim->agg.boot = sim_random(sim) | 1;
    const agg_config_t config = {
        .session = sim->agg.boot,
        .credit_pool_b = SIM_CREDIT_B,
        .sink_silence_ns = 3 * SIM_S,
        .barrier_retries = 5,
        .barrier_cap_ns = 30 * SIM_S,
        .abandon_after_ns = SIM_ABANDON_NS,
        .owner_runs_max = SIM_RUNS_MAX,
        .owner_bytes_max = UINT64_MAX,
        .agents_max = SIM_AGENTS_MAX,
        .streams_max = SIM_STREAMS_MAX,
        .runs_max = SIM_RUNS_MAX,
    };
    if (agg_core_new(&config, &sim->agg.core) != CREMA_OK) {
        sim_violation(sim, "the aggregator has no memory");
        return;
    }
    sim->agg.process.up = true;
    sim->agg.process.life++;
    for (int run = 0; run < SIM_RUNS_MAX; run++)
        sim->agg.opened[run] = sim->agg.ended[run] = false;
    for (int a = 0; a < sim->n_agents; a++)
        sim->agents[a].known = false;
    sim->sink_conn = -1;
    sim->sink_redial_ns = sim->now_ns;
    sim_say(sim, "aggregator starts");
    s_tick(sim, 0, (int)sim->agg.process.life, NULL);
}

void
sim_agg_kill(sim_t *sim)
{
    if (!sim->agg.process.up)
        return;
    sim_say(sim, "aggregator is gone");
    sim->agg.process.up = false;
    for (int conn = 0; conn < sim->n_conns; conn++)
        sim_disconnect(sim, conn);
    sim->sink_conn = -1;
    agg_core_destroy(&sim->agg.core);
}
