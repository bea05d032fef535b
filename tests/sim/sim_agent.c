#include "sim.h"

#define TICK_NS (100 * SIM_MS)
#define SAMPLE_NS SIM_S

static void s_drive(sim_t *sim, int a);

static int64_t
s_clock(const sim_t *sim, int a)
{
    return sim_clock(sim, &sim->agents[a].clock);
}

static void
s_report(sim_t *sim, int a, int i)
{
    sim_stream_t *stream = &sim->streams[i];
    stream->seen.stream_id = stream->id;
    stream->seen.run_id = stream->run_id;
    stream->seen.first_avail = stream->first_avail;
    stream->seen.hi = stream->hi;
    stream->seen.closed = stream->closed;
    stream->unread = false;
    stream->seen_life = sim->agents[a].process.life;
    if (crema_session_on_stream(sim->agents[a].session, &stream->seen, s_clock(sim, a)) != CREMA_OK)
        stream->unread = true;
}

static bool
s_is_blind(const sim_t *sim, int a)
{
    return sim->now_ns < sim->agents[a].blind_until_ns;
}

/* What it cannot read of its spool, for whatever reason. */
static bool
s_is_hidden(const sim_t *sim, const sim_stream_t *stream)
{
    return sim->now_ns < stream->hidden_until_ns ||
           (s_is_blind(sim, stream->agent) &&
            stream->seen_life != sim->agents[stream->agent].process.life);
}

/* As crema_spool_faults(): a directory that cannot be listed, and what cannot be read of those
 * files that it knows of. */
static void
s_tell_faults(sim_t *sim, int a)
{
    Crema__Reason rows[CREMA_WIRE_FAULTS_MAX];
    const size_t room = CREMA_WIRE_FAULTS_MAX - 1;
    size_t n = 0;
    uint64_t more = 0;
    if (s_is_blind(sim, a))
        rows[n++] = crema_reason(CREMA_FAULT_SPOOL, "", "too many open files", 0);
    for (int i = 0; i < sim->n_streams && !s_is_blind(sim, a); i++) {
        const sim_stream_t *stream = &sim->streams[i];
        if (stream->agent != a || stream->gone || stream->hi == 0 || !s_is_hidden(sim, stream))
            continue;
        if (n < room)
            rows[n++] = crema_reason(CREMA_FAULT_FILE, stream->file, "permission denied", 0);
        else
            more++;
    }
    if (more)
        rows[n++] = crema_reason(CREMA_FAULT_MORE, "", "", more);
    crema_session_on_faults(sim->agents[a].session, n, rows);
}

/* What a look at the directory shows. `whole`: every stream, else only those that grew. */
static void
s_scan(sim_t *sim, int a, bool whole)
{
    for (int i = 0; i < sim->n_streams; i++) {
        if (sim->streams[i].agent != a || sim->streams[i].gone ||
            s_is_hidden(sim, &sim->streams[i]))
            continue;
        sim_stream_abandon(sim, i);
        bool is_new = sim->streams[i].seen_life != sim->agents[a].process.life;
        if ((whole || is_new || sim->streams[i].unread) && sim->streams[i].hi > 0)
            s_report(sim, a, i);
    }
    s_tell_faults(sim, a);
}

/* The agent's own stream of a run ends with the run, or with its last worker. */
static void
s_end_own(sim_t *sim, int a, const crema_id_t *run_id)
{
    int run = sim_run_of(sim, run_id);
    int own = run >= 0 ? sim->agents[a].own_stream[run] : -1;
    if (own < 0)
        return;
    sim_record(sim, own, true);
    sim->streams[own].writer_alive = false;
    sim->agents[a].own_stream[run] = -1;
}

static void
s_send_data(sim_t *sim, int a, const crema_session_action_t *action)
{
    static uint8_t frames[CREMA_WIRE_BATCH_MAX];
    sim_agent_t *agent = &sim->agents[a];
    int i = sim_stream_find(sim, &action->stream_id);
    const sim_stream_t *stream = &sim->streams[i];
    crema_msg_t msg = {.type = CREMA_MSG_DATA, .session = action->session};
    uint64_t last = 0;
    /* Batches of a few records, so that histories have many. */
    size_t size = (size_t)sim_between(sim, 40, 600);
    size = size < action->max_bytes ? size : action->max_bytes;
    msg.data = (Crema__Data){
        .stream_id = crema_id_field(&stream->id),
        .run_id = crema_id_field(&stream->run_id),
        .first_seq = action->first_seq,
        .hi = stream->hi,
        .flags = stream->closed ? CREMA_STREAM_FLAG_CLOSED : 0,
        .frames.data = frames,
    };
    msg.data.frames.len =
        sim_spool_read(sim, i, action->first_seq, frames, size, &msg.data.n, &last);
    bool refused = sim->faults && !sim->healed && sim_chance(sim, 0.02);
    if (msg.data.n == 0 || refused || !sim_send(sim, agent->conn, true, &msg))
        crema_session_on_data_sent(agent->session, &stream->id, action->first_seq, 0, 0,
                                   s_clock(sim, a));
    else
        crema_session_on_data_sent(agent->session, &stream->id, action->first_seq,
                                   (uint32_t)(last - action->first_seq + 1), msg.data.frames.len,
                                   s_clock(sim, a));
}

static void
s_redial(sim_t *sim, int a, int life, crema_msg_t *msg)
{
    (void)msg;
    sim_agent_t *agent = &sim->agents[a];
    if (agent->process.life != (unsigned)life || agent->redial_ns != sim->now_ns)
        return;
    agent->redial_ns = 0;
    if (!sim->agg.process.up) {
        agent->redial_ns = sim->now_ns + sim_between(sim, SIM_REDIAL_MIN_NS, SIM_REDIAL_MAX_NS);
        sim_at(sim, agent->redial_ns, s_redial, a, life, NULL);
        return;
    }
    agent->conn = sim_connect(sim, SIM_AGENT, a);
}

/* The socket connects in the background, as ZeroMQ does. */
static void
s_dial(sim_t *sim, int a, int64_t in_ns)
{
    sim_agent_t *agent = &sim->agents[a];
    agent->redial_ns = sim->now_ns + in_ns;
    sim_at(sim, agent->redial_ns, s_redial, a, (int)agent->process.life, NULL);
}

static void
s_act(sim_t *sim, int a, const crema_session_action_t *action)
{
    sim_agent_t *agent = &sim->agents[a];
    switch (action->type) {
    case CREMA_SESSION_DIAL:
        sim_disconnect(sim, agent->conn);
        agent->conn = -1;
        s_dial(sim, a, sim_between(sim, SIM_MS / 10, 5 * SIM_MS));
        break;
    case CREMA_SESSION_HANGUP:
        sim_disconnect(sim, agent->conn);
        agent->conn = -1;
        agent->redial_ns = 0;
        break;
    case CREMA_SESSION_SEND:
        sim_send(sim, agent->conn, true, action->msg);
        break;
    case CREMA_SESSION_SEND_DATA:
        s_send_data(sim, a, action);
        break;
    case CREMA_SESSION_END_RUN:
        s_end_own(sim, a, &action->run_id);
        break;
    case CREMA_SESSION_SCAN:
        s_scan(sim, a, true);
        crema_session_on_scanned(agent->session, s_clock(sim, a));
        break;
    case CREMA_SESSION_TRIM: {
        int i = sim_stream_find(sim, &action->stream_id);
        sim_spool_trim(sim, i, action->committed);
        sim->streams[i].seen.committed = action->committed;
        if (sim->streams[i].gone)
            crema_session_on_stream_gone(agent->session, &sim->streams[i].seen);
        break;
    }
    }
}

static void
s_drive(sim_t *sim, int a)
{
    sim_agent_t *agent = &sim->agents[a];
    crema_session_action_t action;
    int actions = 0;
    while (agent->process.up &&
           crema_session_next(agent->session, s_clock(sim, a), s_clock(sim, a), &action)) {
        s_act(sim, a, &action);
        if (++actions > 100000) {
            sim_violation(sim, "agent %d never runs out of actions", a);
            break;
        }
    }
    if (crema_session_state(agent->session) == CREMA_SESSION_CLOSED) {
        agent->dismissed = crema_session_end(agent->session) == CREMA_SESSION_END_DISMISSED;
        sim_say(sim, "agent %d ends%s", a, agent->dismissed ? ", dismissed" : "");
        sim_agent_kill(sim, a);
        agent->dead = agent->dismissed;
        if (agent->dismissed)
            sim_check_dismissed(sim, a);
        else
            sim_violation(sim, "agent %d was refused", a);
    }
}

void
sim_agent_on_message(sim_t *sim, int a, const crema_msg_t *msg)
{
    sim_agent_t *agent = &sim->agents[a];
    crema_session_on_message(agent->session, msg, s_clock(sim, a));
    s_drive(sim, a);
}

static bool
s_has_workers(const sim_t *sim, int a, int run)
{
    for (int i = 0; i < sim->n_streams; i++) {
        const sim_stream_t *stream = &sim->streams[i];
        if (stream->agent == a && stream->writer_alive && !stream->own && !stream->closed &&
            sim_run_of(sim, &stream->run_id) == run)
            return true;
    }
    return false;
}

/* Sees broken connections as the library does, scans, samples, ticks. */
static void
s_tick(sim_t *sim, int a, int life, crema_msg_t *msg)
{
    (void)msg;
    sim_agent_t *agent = &sim->agents[a];
    if (agent->process.life != (unsigned)life || !agent->process.up)
        return;
    sim_at(sim, sim->now_ns + TICK_NS, s_tick, a, life, NULL);
    if (sim->now_ns < agent->process.stalled_until_ns)
        return;
    if (agent->conn >= 0 && !sim->conns[agent->conn].open) {
        agent->conn = -1;
        s_dial(sim, a, sim_between(sim, SIM_REDIAL_MIN_NS, SIM_REDIAL_MAX_NS));
    }
    for (int run = 0; run < sim->n_runs; run++) {
        if (agent->own_stream[run] < 0)
            continue;
        if (!s_has_workers(sim, a, run))
            s_end_own(sim, a, &sim->run_ids[run]);
        else if (sim->now_ns % SAMPLE_NS < TICK_NS)
            sim_record(sim, agent->own_stream[run], false);
    }
    s_scan(sim, a, false);
    crema_session_on_tick(agent->session, s_clock(sim, a));
    s_drive(sim, a);
}

static void
s_begin_own(sim_t *sim, int a)
{
    for (int run = 0; run < sim->n_runs; run++)
        sim->agents[a].own_stream[run] =
            s_has_workers(sim, a, run) && sim->n_streams < SIM_STREAMS_MAX * 3 / 4
                ? sim_stream_new(sim, a, run, true)
                : -1;
}

void
sim_agent_start(sim_t *sim, int a)
{
    sim_agent_t *agent = &sim->agents[a];
    if (agent->process.up || agent->dead)
        return;
    agent->boot = sim_random(sim);
    crema_id_t agent_id = {{(uint8_t)(a + 1), 0xa9}};
    const crema_session_config_t config = {
        .agent_id = agent_id,
        .boot = agent->boot,
        .host = "node",
        .version = "sim",
        .heartbeat_ns = agent->interval_ns,
        .streams_max = SIM_STREAMS_MAX,
    };
    if (crema_session_new(&config, s_clock(sim, a), &agent->session) != CREMA_OK) {
        sim_violation(sim, "agent %d has no memory", a);
        return;
    }
    agent->process.up = true;
    agent->process.life++;
    agent->conn = -1;
    s_begin_own(sim, a);
    s_scan(sim, a, true);
    sim_say(sim, "agent %d starts", a);
    s_tick(sim, a, (int)agent->process.life, NULL);
}

void
sim_agent_kill(sim_t *sim, int a)
{
    sim_agent_t *agent = &sim->agents[a];
    if (!agent->process.up)
        return;
    sim_say(sim, "agent %d is gone", a);
    agent->process.up = false;
    agent->redial_ns = 0;
    sim_disconnect(sim, agent->conn);
    agent->conn = -1;
    crema_session_destroy(&agent->session);
    for (int i = 0; i < sim->n_streams; i++)
        if (sim->streams[i].agent == a) /* the next one has looked at nothing */
            sim->streams[i].seen = (crema_spool_stream_t){0};
    for (int run = 0; run < sim->n_runs; run++) {
        if (agent->own_stream[run] >= 0)
            sim->streams[agent->own_stream[run]].writer_alive = false;
        agent->own_stream[run] = -1;
    }
}
