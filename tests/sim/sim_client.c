#include "sim.h"

#include "message_parts.h"

#define REPEAT_NS SIM_S
#define LIMIT_NS (60 * SIM_S)

static void
s_send(sim_t *sim, int run, crema_msg_type_t type)
{
    crema_msg_t msg = {.type = type};
    msg.run_id = crema_id_field(&sim->run_ids[run]);
    if (type == CREMA_MSG_RUN_END) {
        msg.run_end.dismiss = sim->runs[run].dismiss;
        msg.run_end.limit_ns = LIMIT_NS;
        msg.run_end.writer_parts = sim->runs[run].is_unlisted ? 0 : SIM_PARTS;
    }
    sim_send(sim, sim->client_conn, true, &msg);
}

/* Everybody was asked, and those who are there have ended their streams: what each of them wrote.
 * Of whoever was killed the number is not known, but that there was somebody is. The agents' own
 * streams are theirs. */
static void
s_make_list(sim_t *sim, int run)
{
    sim_run_t *state = &sim->runs[run];
    state->has_list = true;
    for (int i = 0; i < sim->n_streams; i++) {
        sim_stream_t *stream = &sim->streams[i];
        if (stream->own || stream->hi == 0 || sim_run_of(sim, &stream->run_id) != run)
            continue;
        if (stream->hidden_until_ns == 0 && sim_chance(sim, 0.1))
            continue; /* the collector did not know of it: its agent does */
        stream->is_listed = true;
        state->writers[state->n_writers++] = (Crema__Writer){
            .stream_id = crema_id_field(&stream->id),
            .last = stream->listed,
            .state = stream->listed ? CREMA_WRITER_ENDED : CREMA_WRITER_LEFT,
            .name = "writer",
            .uuid = "",
            .text = "",
        };
    }
}

static void
s_send_list(sim_t *sim, int run)
{
    sim_run_t *state = &sim->runs[run];
    for (uint32_t part = state->kept; part < SIM_PARTS; part++) {
        size_t from = part * state->n_writers / SIM_PARTS;
        size_t to = (part + 1) * state->n_writers / SIM_PARTS;
        crema_msg_t msg = {
            .type = CREMA_MSG_RUN_WRITERS,
            .run_writers = {.run_id = crema_id_field(&sim->run_ids[run]),
                            .part = part,
                            .parts = SIM_PARTS,
                            .n_writers = to - from,
                            .writers = body_writers(to - from, state->writers + from)}};
        sim_send(sim, sim->client_conn, true, &msg);
    }
}

static bool
s_is_gone(const sim_t *sim, const sim_run_t *run)
{
    return run->gone_ns && sim->now_ns >= run->gone_ns &&
           (run->back_ns == 0 || sim->now_ns < run->back_ns);
}

static void
s_tick(sim_t *sim, int run, int b, crema_msg_t *msg)
{
    (void)b, (void)msg;
    sim_run_t *state = &sim->runs[run];
    if (state->sealed)
        return;
    if (s_is_gone(sim, state)) {
        sim_disconnect(sim, sim->client_conn);
        sim->client_conn = -1;
        if (state->back_ns)
            sim_at(sim, state->back_ns, s_tick, run, 0, NULL);
        return;
    }
    bool open = sim->client_conn >= 0 && sim->conns[sim->client_conn].open;
    if (!open && sim->agg.process.up)
        sim->client_conn = sim_connect(sim, SIM_CLIENT, 0);
    if (sim->now_ns >= state->end_at_ns) {
        if (!state->has_list && !state->is_unlisted)
            s_make_list(sim, run);
        if (state->has_list)
            s_send_list(sim, run);
        s_send(sim, run, CREMA_MSG_RUN_END);
    } else if (!state->open_answered)
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
    int run = sim_run_of(sim, crema_id_of(msg->run_id));
    sim_run_t *state = &sim->runs[run];
    state->kept = msg->run_state.writers_kept; /* an aggregator that was started anew has none */
    if (msg->run_state.phase >= CREMA_RUN_OPEN)
        state->open_answered = true;
    if (msg->run_state.phase >= CREMA_RUN_VERDICT && state->verdict_after_ns == 0)
        state->verdict_after_ns = msg->run_state.verdict_after_ns;
    if (msg->run_state.phase == CREMA_RUN_SEALED && !state->sealed &&
        msg->run_state.n_reasons == 0 && /* else it is the file of a run that nobody ended */
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
