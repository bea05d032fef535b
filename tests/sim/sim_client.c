#include "sim.h"

#define REPEAT_NS SIM_S

static void
s_send(sim_t *sim, int run, crema_msg_type_t type)
{
    crema_msg_t msg = {.type = type};
    if (type == CREMA_MSG_RUN_QUERY) {
        msg.query = sim->run_ids[run];
    } else {
        msg.run.run_id = sim->run_ids[run];
        msg.run.dismiss = sim->runs[run].dismiss;
    }
    sim_send(sim, sim->client_conn, true, &msg);
}

static void
s_tick(sim_t *sim, int run, int b, crema_msg_t *msg)
{
    (void)b, (void)msg;
    sim_run_t *state = &sim->runs[run];
    if (state->sealed)
        return;
    bool open = sim->client_conn >= 0 && sim->conns[sim->client_conn].open;
    if (!open && sim->agg.process.up)
        sim->client_conn = sim_connect(sim, SIM_CLIENT, 0);
    if (sim->now_ns >= state->end_at_ns)
        s_send(sim, run, CREMA_MSG_RUN_END);
    else if (!state->open_answered)
        s_send(sim, run, CREMA_MSG_RUN_OPEN);
    else
        s_send(sim, run, CREMA_MSG_RUN_QUERY);
    int64_t next = sim->now_ns + REPEAT_NS;
    if (sim->now_ns < state->end_at_ns && next > state->end_at_ns)
        next = state->end_at_ns;
    sim_at(sim, next, s_tick, run, 0, NULL);
}

void
sim_client_on_message(sim_t *sim, const crema_msg_t *msg)
{
    if (msg->type != CREMA_MSG_RUN_STATE)
        return;
    int run = sim_run_of(sim, &msg->run_state.run_id);
    sim_run_t *state = &sim->runs[run];
    if (msg->run_state.phase >= CREMA_RUN_OPEN)
        state->open_answered = true;
    if (msg->run_state.phase >= CREMA_RUN_VERDICT && state->verdict_after_ns == 0)
        state->verdict_after_ns = msg->run_state.verdict_after_ns;
    if (msg->run_state.phase == CREMA_RUN_SEALED && !state->sealed &&
        sim->now_ns >= state->end_at_ns) {
        state->sealed = true;
        state->sealed_ns = sim->now_ns;
        sim_say(sim, "run %d is sealed", run);
    }
}

void
sim_client_start(sim_t *sim)
{
    sim->client_conn = -1;
    for (int run = 0; run < sim->n_runs; run++)
        sim_at(sim, sim_between(sim, 0, 300 * SIM_MS), s_tick, run, 0, NULL);
}
