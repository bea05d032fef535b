#include "sim.h"

static void
s_revive(sim_t *sim, int kind, int a, crema_msg_t *msg)
{
    (void)msg;
    if (kind == SIM_AGENT)
        sim_agent_start(sim, a);
    else if (kind == SIM_AGG)
        sim_agg_start(sim);
    else
        sim_sink_start(sim);
}

static void
s_revive_later(sim_t *sim, sim_kind_t kind, int a)
{
    sim_at(sim, sim->now_ns + sim_between(sim, 20 * SIM_MS, 3 * SIM_S), s_revive, (int)kind, a,
           NULL);
}

static void
s_fill(sim_t *sim, int full, int b, crema_msg_t *msg)
{
    (void)b, (void)msg;
    sim->sink.full = full && !sim->healed;
    if (full)
        sim_at(sim, sim->now_ns + sim_between(sim, 100 * SIM_MS, 6 * SIM_S), s_fill, 0, 0, NULL);
}

static sim_process_t *
s_any_process(sim_t *sim)
{
    int64_t n = sim_between(sim, 0, sim->n_agents + 1);
    if (n < sim->n_agents)
        return &sim->agents[n].process;
    return n == sim->n_agents ? &sim->agg.process : &sim->sink.process;
}

static void
s_kill_agent(sim_t *sim, int a, bool power_cut)
{
    sim->totals->kills++;
    sim_agent_kill(sim, a);
    if (power_cut) {
        sim_say(sim, "host %d loses power", a);
        sim_spool_power_cut(sim, a);
        sim->agents[a].clock = sim_random_clock(sim);
        sim->totals->cuts++;
    }
    s_revive_later(sim, SIM_AGENT, a);
}

static void
s_kill_agg(sim_t *sim)
{
    sim->totals->kills++;
    sim_agg_kill(sim);
    s_revive_later(sim, SIM_AGG, 0);
}

static void
s_kill_sink(sim_t *sim, bool power_cut)
{
    sim->totals->kills++;
    sim->totals->cuts += power_cut;
    sim_sink_kill(sim, power_cut);
    if (sim->regress && !sim->regressed && sim_chance(sim, 0.3))
        sim_sink_regress(sim);
    if (sim->damage && !sim->damaged && sim_chance(sim, 0.5))
        sim_sink_damage(sim);
    s_revive_later(sim, SIM_SINK, 0);
}

/* For good: host and spool are never seen again. */
static void
s_bury_agent(sim_t *sim, int a)
{
    sim_agent_kill(sim, a);
    sim->agents[a].dead = true;
    sim->anybody_dead = true;
    for (int i = 0; i < sim->n_streams; i++)
        if (sim->streams[i].agent == a)
            sim->streams[i].writer_alive = false;
    sim_say(sim, "host %d is gone for good", a);
}

static void
s_fault(sim_t *sim, int a, int b, crema_msg_t *msg)
{
    (void)a, (void)b, (void)msg;
    if (sim->healed)
        return;
    int agent = (int)sim_between(sim, 0, sim->n_agents - 1);
    switch (sim_between(sim, 0, 13)) {
    case 0:
    case 1:
        s_kill_agent(sim, agent, false);
        break;
    case 2:
    case 3:
        s_kill_agg(sim);
        break;
    case 4:
    case 5:
        s_kill_sink(sim, sim_chance(sim, 0.5));
        break;
    case 6:
        s_kill_agent(sim, agent, sim->power);
        break;
    case 7:
        if (sim->agents[agent].conn >= 0)
            sim->conns[sim->agents[agent].conn].cut_until_ns =
                sim->now_ns + sim_between(sim, 100 * SIM_MS, 8 * SIM_S);
        break;
    case 8:
        sim_disconnect(sim, sim_chance(sim, 0.5) ? sim->agents[agent].conn : sim->sink_conn);
        break;
    case 9:
        s_any_process(sim)->stalled_until_ns =
            sim->now_ns + sim_between(sim, 50 * SIM_MS, 6 * SIM_S);
        break;
    case 13:
        sim->agents[agent].blind_until_ns = sim->now_ns + sim_between(sim, SIM_MS, 80 * SIM_S);
        break;
    case 10:
        s_fill(sim, 1, 0, NULL);
        break;
    case 11:
        s_kill_agg(sim);
        s_kill_sink(sim, sim->power);
        for (int i = 0; i < sim->n_agents; i++)
            s_kill_agent(sim, i, sim->power && sim_chance(sim, 0.5));
        break;
    case 12:
        sim->agg.wall_ahead_ns += sim_between(sim, -26, 26) * 3600 * SIM_S;
        sim->totals->wall_steps++;
        break;
    default:
        if (sim->n_agents > 1 && !sim->anybody_dead && sim_chance(sim, 0.15))
            s_bury_agent(sim, agent);
        break;
    }
}

static void
s_heal(sim_t *sim, int a, int b, crema_msg_t *msg)
{
    (void)a, (void)b, (void)msg;
    sim_say(sim, "everything heals");
    sim->healed = true;
    sim->sink.full = false;
    sim_sink_start(sim);
    sim_agg_start(sim);
    for (int i = 0; i < sim->n_agents; i++) {
        sim_agent_start(sim, i);
        sim->agents[i].process.stalled_until_ns = 0;
    }
    sim->agg.process.stalled_until_ns = sim->sink.process.stalled_until_ns = 0;
    for (int conn = 0; conn < sim->n_conns; conn++)
        sim->conns[conn].cut_until_ns = 0;
}

void
sim_faults_start(sim_t *sim)
{
    for (int64_t n = sim->faults ? sim_between(sim, 1, 14) : 0; n > 0; n--)
        sim_at(sim, sim_between(sim, 200 * SIM_MS, sim->heal_ns), s_fault, 0, 0, NULL);
    sim_at(sim, sim->heal_ns, s_heal, 0, 0, NULL);
}
