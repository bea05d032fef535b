#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_NS (500 * SIM_S) /* from healing to the end */
#define LOOK_NS (100 * SIM_MS)

static void
s_look(sim_t *sim, int a, int b, crema_msg_t *msg)
{
    (void)a, (void)b, (void)msg;
    sim_at(sim, sim->now_ns + LOOK_NS, s_look, 0, 0, NULL);
}

static void
s_set_up(sim_t *sim, sim_totals_t *totals)
{
    sim->faults = sim_chance(sim, 0.95);
    sim->hostile = sim->faults && sim_chance(sim, 0.35);
    sim->power = sim->faults && sim_chance(sim, 0.35);
    sim->regress = sim->faults && sim_chance(sim, 0.05);
    sim->drop_p = sim_chance(sim, 0.5) ? 0.02 : 0.1;
    sim->double_p = 0.05;
    sim->n_agents = (int)sim_between(sim, 1, SIM_AGENTS_MAX);
    sim->n_runs = sim_chance(sim, 0.25) ? 2 : 1;
    sim->heal_ns = sim_between(sim, 4 * SIM_S, 14 * SIM_S);
    sim->sink_conn = -1;
    static const int64_t intervals_ms[] = {200, 500, 1000, 1000, 2000, 26000};
    int64_t interval_ns = intervals_ms[sim_between(sim, 0, sim->faults ? 4 : 5)] * SIM_MS;
    for (int a = 0; a < sim->n_agents; a++)
        sim->agents[a] =
            (sim_agent_t){.conn = -1, .interval_ns = interval_ns, .clock = sim_random_clock(sim)};
    sim->agg.clock = sim_random_clock(sim);
    for (int run = 0; run < sim->n_runs; run++) {
        sim->run_ids[run] = sim_random_id(sim);
        sim->runs[run].end_at_ns = sim_between(sim, 2 * SIM_S, sim->heal_ns + 2 * SIM_S);
        sim->runs[run].dismiss = sim->n_runs == 1 && sim_chance(sim, 0.5);
        sim->runs[run].is_unlisted = sim->faults && sim_chance(sim, 0.1);
    }
    sim->damage = sim->faults && !sim->regress && sim_chance(sim, 0.1);
    sim_run_t *run = &sim->runs[0];
    if (sim->n_runs > 1 || !sim->faults || !sim_chance(sim, 0.15))
        return;
    run->gone_ns = sim_between(sim, SIM_S, run->end_at_ns);
    if (sim_chance(sim, 0.5))
        run->back_ns = run->end_at_ns + sim_between(sim, 0, 150 * SIM_S);
    totals->abandoned += run->back_ns == 0;
    totals->returned += run->back_ns > 0;
}

void
sim_history(uint64_t seed, bool verbose, sim_totals_t *totals)
{
    sim_t *sim = calloc(1, sizeof *sim);
    if (!sim)
        abort();
    sim->seed = seed;
    sim->random = seed * 0x2545f4914f6cdd1du;
    sim->verbose = verbose;
    sim->totals = totals;
    s_set_up(sim, totals);
    sim_say(sim, "%d agents, %d runs%s%s%s%s%s", sim->n_agents, sim->n_runs,
            sim->faults ? "" : ", nothing wrong", sim->hostile ? ", hostile network" : "",
            sim->power ? ", power cuts" : "", sim->regress ? ", older store" : "",
            sim->damage ? ", damaged journal" : "");
    sim_sink_start(sim);
    sim_agg_start(sim);
    for (int a = 0; a < sim->n_agents; a++)
        sim_agent_start(sim, a);
    sim_writers_start(sim);
    sim_client_start(sim);
    sim_faults_start(sim);
    s_look(sim, 0, 0, NULL);
    while (!sim->violated && sim->now_ns < sim->heal_ns + PATIENCE_NS && sim_step(sim))
        if (sim->healed && sim_is_finished(sim))
            break;
    if (!sim->violated)
        sim_check_end(sim);
    totals->histories++;
    if (sim->now_ns - sim->heal_ns > totals->slowest_ns)
        totals->slowest_ns = sim->now_ns - sim->heal_ns;
    if (sim->violated) {
        totals->violations++;
        printf("seed %llu: %s\n", (unsigned long long)seed, sim->why);
    }
    for (int a = 0; a < sim->n_agents; a++)
        crema_session_destroy(&sim->agents[a].session);
    agg_core_destroy(&sim->agg.core);
    sim_sink_destroy(sim);
    sim_clear(sim);
    free(sim);
}
