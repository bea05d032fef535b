#include "agent_delivery.h"

#include <stdlib.h>
#include <string.h>

#include <czmq.h>

#include "agent_inventory.h"
#include "agent_reach.h"
#include "agent_words.h"
#include "crema_clock.h"
#include "crema_failpoint.h"
#include "crema_log.h"
#include "crema_reactor.h"

#define PUMP_MAX 64      /* actions per turn of the loop */
#define TURN_MAX 64      /* messages per turn, so that signals and timers get one */
#define SILENCE_MS 10000 /* silence on the way over Dask before another search */
#define OVER_DASK_HEARTBEAT_NS INT64_C(5000000000)
#define ARENA_BYTES (8u << 20) /* for one message; only what is used is ever touched */

struct agent_delivery {
    agent_delivery_config_t config;
    zloop_t *loop;
    crema_spool_t *spool;
    agent_sampler_t *sampler;
    agent_reach_t *reach;
    zsock_t *sock;        /* a DEALER to the aggregator; NULL: hung up, or still searching */
    int silence_timer;    /* -1: not over Dask, or expired */
    bool heard;           /* since the socket was found */
    int logged_over_dask; /* last logged: 1 if it goes over Dask, 0 if directly; -1: nothing yet */
    crema_session_t *session;
    crema_arena_t *arena;
    agent_inventory_t inventory;
    int more_timer; /* set if more is to be done in the next turn; -1: not set */
    crema_fence_reason_t refusal;
    int64_t heard_ns;
    bool trim_failed; /* files that are delivered are still there */
    bool trim_warned; /* since the last time that all could be removed */
    uint8_t frames[CREMA_WIRE_BATCH_MAX];
};

/* ---- the socket, created again for each dial; a search finds a route first (agent_reach.h) */

static void
s_hang_up(agent_delivery_t *self)
{
    agent_reach_end(self->reach);
    if (self->silence_timer >= 0)
        zloop_timer_end(self->loop, self->silence_timer);
    self->silence_timer = -1;
    if (self->sock)
        zloop_reader_end(self->loop, self->sock);
    zsock_destroy(&self->sock);
}

static void
s_dial(agent_delivery_t *self)
{
    s_hang_up(self);
    crema_err_t err = agent_reach_begin(self->reach);
    if (err != CREMA_OK) /* the session dials again */
        crema_log_warn("dial_failed", CREMA_TEXT("endpoint", self->config.endpoints),
                       CREMA_TEXT("why", crema_err_text(err)));
}

/* Logs the way when it is first found and when it changes. */
static void
s_log_way(agent_delivery_t *self, const char *endpoint, bool over_dask)
{
    if (self->logged_over_dask == over_dask)
        return;
    self->logged_over_dask = over_dask;
    if (over_dask)
        crema_log_warn("goes_over_dask",
                       CREMA_TEXT("why", "no address of the aggregator proved itself within 1 s"));
    else
        crema_log_info("connects", CREMA_TEXT("endpoint", endpoint));
}

/* ---- from the spool */

static void
s_trim(agent_delivery_t *self, const crema_id_t *stream_id, uint64_t committed)
{
    crema_err_t err = crema_spool_trim(self->spool, stream_id, committed);
    if (err != CREMA_OK && err != CREMA_ENOENT) {
        if (!self->trim_warned)
            crema_log_warn("trim_failed", CREMA_ID("stream", stream_id),
                           CREMA_TEXT("why", agent_words_error(err)),
                           CREMA_TEXT("remedy", "its files are delivered; it is tried again"));
        self->trim_failed = self->trim_warned = true;
    }
}

static void
s_on_gone(void *context, crema_spool_stream_t *stream)
{
    crema_session_on_stream_gone(((agent_delivery_t *)context)->session, stream);
}

/* Removes once more what could not be removed. A stream that goes leaves its place to a later
 * one. */
static void
s_trim_again(agent_delivery_t *self)
{
    const bool failed = self->trim_failed;
    self->trim_failed = false;
    for (size_t i = failed ? crema_spool_count(self->spool) : 0; i > 0; i--) {
        const crema_spool_stream_t *stream = crema_spool_stream(self->spool, i - 1);
        const crema_id_t id = stream->stream_id;
        if (stream->committed > 0)
            s_trim(self, &id, stream->committed);
    }
    self->trim_warned = self->trim_warned && self->trim_failed;
}

static void
s_scan(agent_delivery_t *self)
{
    s_trim_again(self);
    crema_err_t err = crema_spool_scan(self->spool);
    if (err == CREMA_OK && agent_sampler_follow(self->sampler, self->spool))
        err = crema_spool_scan(self->spool);
    (void)err; /* failures are reported below, by name */
    (void)crema_spool_evict(self->spool, self->config.spool_limit_b);
    int64_t now_ns = crema_clock_mono_ns();
    agent_inventory_report(&self->inventory, now_ns);
    /* Files that wait for room are among the faults just reported: the aggregator knows by its list
     * of writers which runs they may belong to. */
    crema_session_on_scanned(self->session, now_ns);
}

/* ---- from the aggregator */

/* A dismissal concerns agents that were started for that run. */
static bool
s_concerns_us(const agent_delivery_t *self, const crema_msg_t *msg)
{
    return msg->type != CREMA_MSG_FENCE || msg->fence.reason != CREMA_FENCE_DISMISSED ||
           (!crema_id_is_zero(&self->config.run_id) &&
            crema_id_equal(&self->config.run_id, crema_id_of(msg->fence.run_id)));
}

static void
s_on_message(agent_delivery_t *self, const uint8_t *bytes, size_t size)
{
    crema_msg_t msg;
    crema_err_t err = crema_wire_decode(bytes, size, self->arena, &msg);
    if (err == CREMA_EVERSION) { /* another version of the protocol */
        msg = (crema_msg_t){.type = CREMA_MSG_FENCE, .fence = {.reason = CREMA_FENCE_VERSION}};
    } else if (err != CREMA_OK) {
        crema_log_warn("message_refused", CREMA_TEXT("why", crema_err_text(err)),
                       CREMA_INT("size_b", size));
        return;
    }
    self->heard_ns = crema_clock_mono_ns();
    /* After the end everything is ignored: a message in flight could give another reason for it. */
    if (!s_concerns_us(self, &msg) || crema_session_state(self->session) == CREMA_SESSION_CLOSED)
        return;
    if (msg.type == CREMA_MSG_FENCE) {
        self->refusal = msg.fence.reason;
        crema_log_info("fenced", CREMA_TEXT("reason", agent_words_fence(msg.fence.reason)));
    }
    crema_session_on_message(self->session, &msg, self->heard_ns);
}

static crema_err_t
s_pass_on(agent_delivery_t *self, const crema_msg_t *msg)
{
    uint8_t *bytes;
    size_t size;
    crema_err_t err = crema_wire_encode(msg, &bytes, &size);
    crema_failpoint_message("agent.before_send", msg->type);
    if (err == CREMA_OK && self->sock) {
        err = crema_socket_send(self->sock, &bytes, size);
    } else if (err == CREMA_OK) {
        free(bytes);
        err = CREMA_EAGAIN;
    }
    crema_failpoint_message("agent.after_send", msg->type);
    return err;
}

static void
s_send(agent_delivery_t *self, const crema_msg_t *msg)
{
    crema_err_t err = s_pass_on(self, msg);
    if (err == CREMA_EAGAIN)
        crema_session_on_unsent(self->session, crema_clock_mono_ns());
    else if (err != CREMA_OK)
        crema_log_error("message_not_sent", CREMA_TEXT("type", crema_msg_name(msg->type)),
                        CREMA_TEXT("why", agent_words_error(err)));
}

/* *ret_numbers: how many numbers were sent; with a LOSS more than frames. */
static crema_err_t
s_read_and_send(agent_delivery_t *self, const crema_session_action_t *action, size_t *ret_bytes,
                uint64_t *ret_numbers)
{
    const crema_spool_stream_t *stream = crema_spool_find(self->spool, &action->stream_id);
    if (!stream)
        return CREMA_ENOENT;
    size_t room = action->max_bytes < sizeof self->frames ? action->max_bytes : sizeof self->frames;
    uint64_t last;
    crema_msg_t msg = {.type = CREMA_MSG_DATA,
                       .session = action->session,
                       .data = {.stream_id = crema_id_field(&action->stream_id),
                                .run_id = crema_id_field(&action->run_id),
                                .first_seq = action->first_seq,
                                .hi = stream->hi,
                                .flags = stream->closed ? CREMA_STREAM_FLAG_CLOSED : 0,
                                .frames.data = self->frames}};
    crema_err_t err =
        crema_spool_read(self->spool, &action->stream_id, action->first_seq, self->frames, room,
                         &msg.data.frames.len, &msg.data.n, &last);
    if (err != CREMA_OK)
        return err;
    if (msg.data.n == 0)
        return CREMA_EAGAIN;
    err = s_pass_on(self, &msg);
    if (err != CREMA_OK)
        return err;
    agent_sampler_note_sent(self->sampler, msg.data.n, msg.data.frames.len);
    *ret_bytes = msg.data.frames.len;
    *ret_numbers = last - action->first_seq + 1;
    return CREMA_OK;
}

static void
s_send_data(agent_delivery_t *self, const crema_session_action_t *action)
{
    size_t bytes = 0;
    uint64_t numbers = 0;
    crema_err_t err = s_read_and_send(self, action, &bytes, &numbers);
    if (err != CREMA_OK && err != CREMA_EAGAIN && err != CREMA_ENOENT)
        crema_log_warn("data_not_sent", CREMA_ID("stream", &action->stream_id),
                       CREMA_INT("seq", action->first_seq),
                       CREMA_TEXT("why", agent_words_error(err)));
    /* A range larger than the count field is reported in part: the rest is sent later as the
     * same LOSS. */
    uint32_t n = numbers < UINT32_MAX ? (uint32_t)numbers : UINT32_MAX;
    crema_session_on_data_sent(self->session, &action->stream_id, action->first_seq, n, bytes,
                               crema_clock_mono_ns());
}

/* ---- actions of the session */

static void
s_act(agent_delivery_t *self, const crema_session_action_t *action)
{
    switch (action->type) {
    case CREMA_SESSION_DIAL:
        s_dial(self);
        break;
    case CREMA_SESSION_HANGUP:
        s_hang_up(self);
        break;
    case CREMA_SESSION_SEND:
        s_send(self, action->msg);
        break;
    case CREMA_SESSION_SEND_DATA:
        s_send_data(self, action);
        break;
    case CREMA_SESSION_END_RUN:
        (void)agent_sampler_end_run(self->sampler, &action->run_id);
        break;
    case CREMA_SESSION_SCAN: /* for a barrier, whose answer trusts no time of the directory */
        crema_spool_list_anew(self->spool);
        s_scan(self);
        break;
    case CREMA_SESSION_TRIM:
        s_trim(self, &action->stream_id, action->committed);
        break;
    }
}

static int s_on_more(zloop_t *loop, int timer, void *arg);

/* Carries out the session's actions up to a bound; the rest waits for the next turn of the loop. */
static void
s_pump(agent_delivery_t *self)
{
    for (int i = 0; i < PUMP_MAX; i++) {
        crema_session_action_t action;
        if (!crema_session_next(self->session, crema_clock_mono_ns(), crema_clock_real_ns(),
                                &action))
            return;
        s_act(self, &action);
    }
    if (self->more_timer < 0)
        self->more_timer = zloop_timer(self->loop, 0, 1, s_on_more, self);
}

static int
s_on_more(zloop_t *loop, int timer, void *arg)
{
    (void)loop;
    agent_delivery_t *self = arg;
    if (timer != self->more_timer)
        return 0;
    self->more_timer = -1;
    s_pump(self);
    return 0;
}

/* ---- events of the socket */

static int
s_on_readable(zloop_t *loop, zsock_t *sock, void *arg)
{
    (void)loop;
    agent_delivery_t *self = arg;
    int got = 0;
    for (int i = 0; i < TURN_MAX && got >= 0; i++) {
        zmq_msg_t msg;
        zmq_msg_init(&msg);
        got = zmq_msg_recv(&msg, zsock_resolve(sock), ZMQ_DONTWAIT);
        self->heard = self->heard || got >= 0;
        if (got >= 0)
            s_on_message(self, zmq_msg_data(&msg), (size_t)got);
        zmq_msg_close(&msg);
    }
    s_pump(self); /* may destroy this reader */
    if (self->config.on_turn)
        self->config.on_turn(self->config.context);
    return 0;
}

static int
s_on_silence(zloop_t *loop, int timer, void *arg)
{
    (void)loop;
    agent_delivery_t *self = arg;
    if (timer != self->silence_timer)
        return 0;
    self->silence_timer = -1;
    if (!self->heard)
        s_dial(self);
    return 0;
}

/* A scheduler serves thousands of agents and may be busy for half a minute: over Dask there are
 * fewer messages and longer timeouts. */
static void
s_on_found(void *context, zsock_t *sock, const char *endpoint, bool over_dask)
{
    agent_delivery_t *self = context;
    int64_t interval_ns = self->config.session.heartbeat_ns;
    self->heard = false;
    if (over_dask)
        self->silence_timer = zloop_timer(self->loop, SILENCE_MS, 1, s_on_silence, self);
    if ((over_dask && self->silence_timer < 0) ||
        zloop_reader(self->loop, sock, s_on_readable, self) != 0) {
        zsock_destroy(&sock); /* out of memory; the session dials again */
        return;
    }
    zloop_reader_set_tolerant(self->loop, sock);
    self->sock = sock;
    s_log_way(self, endpoint, over_dask);
    if (over_dask && interval_ns < OVER_DASK_HEARTBEAT_NS)
        interval_ns = OVER_DASK_HEARTBEAT_NS;
    crema_session_set_interval(self->session, interval_ns);
}

/* ---- creation */

crema_err_t
agent_delivery_new(const agent_delivery_config_t *config, zloop_t *loop, crema_spool_t *spool,
                   agent_sampler_t *sampler, agent_delivery_t **ret_self)
{
    agent_delivery_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->config = *config;
    self->loop = loop;
    self->spool = spool;
    self->sampler = sampler;
    self->more_timer = self->silence_timer = self->logged_over_dask = -1;
    self->heard_ns = crema_clock_mono_ns();
    const agent_reach_config_t reach = {config->endpoints, config->way_dir, config->keys,
                                        s_on_found, self};
    crema_err_t err = agent_reach_new(loop, &reach, &self->reach);
    if (err == CREMA_OK)
        err = crema_arena_new(ARENA_BYTES, &self->arena);
    if (err == CREMA_OK)
        err = crema_session_new(&config->session, self->heard_ns, &self->session);
    if (err != CREMA_OK) {
        agent_delivery_destroy(&self);
        return err;
    }
    self->inventory = (agent_inventory_t){.spool = spool,
                                          .session = self->session,
                                          .run_id = config->run_id,
                                          .spool_limit_b = config->spool_limit_b};
    crema_spool_on_gone(spool, s_on_gone, self);
    *ret_self = self;
    return CREMA_OK;
}

crema_err_t
agent_delivery_begin_anew(agent_delivery_t *self, uint64_t boot)
{
    crema_session_t *session;
    self->config.session.boot = boot;
    crema_err_t err = crema_session_new(&self->config.session, crema_clock_mono_ns(), &session);
    if (err != CREMA_OK)
        return err;
    s_hang_up(self);
    crema_session_destroy(&self->session);
    self->session = self->inventory.session = session;
    return CREMA_OK;
}

void
agent_delivery_destroy(agent_delivery_t **self_p)
{
    agent_delivery_t *self = *self_p;
    if (!self)
        return;
    if (self->more_timer >= 0)
        zloop_timer_end(self->loop, self->more_timer);
    if (self->reach)
        s_hang_up(self);
    agent_reach_destroy(&self->reach);
    crema_spool_on_gone(self->spool, NULL, NULL);
    crema_session_destroy(&self->session);
    crema_arena_destroy(&self->arena);
    free(self);
    *self_p = NULL;
}

/* ---- calls from the reactor */

void
agent_delivery_scan(agent_delivery_t *self)
{
    s_scan(self);
    s_pump(self);
}

void
agent_delivery_tick(agent_delivery_t *self)
{
    crema_session_on_tick(self->session, crema_clock_mono_ns());
    s_pump(self);
}

void
agent_delivery_drain(agent_delivery_t *self, int64_t deadline_ns)
{
    crema_session_drain(self->session, deadline_ns, crema_clock_mono_ns());
    s_pump(self);
}

bool
agent_delivery_is_over(const agent_delivery_t *self)
{
    crema_session_state_t state = crema_session_state(self->session);
    return state == CREMA_SESSION_BYE_SENT || state == CREMA_SESSION_CLOSED;
}

const crema_session_t *
agent_delivery_session(const agent_delivery_t *self)
{
    return self->session;
}

bool
agent_delivery_is_busy(const agent_delivery_t *self)
{
    return crema_session_state(self->session) == CREMA_SESSION_STREAMING &&
           crema_session_stats(self->session).uncommitted_records > 0;
}

crema_fence_reason_t
agent_delivery_refusal(const agent_delivery_t *self)
{
    return self->refusal;
}

bool
agent_delivery_key_is_refused(const agent_delivery_t *self)
{
    return agent_reach_is_refused(self->reach);
}

int64_t
agent_delivery_heard_ns(const agent_delivery_t *self)
{
    return self->heard_ns;
}

uint64_t
agent_delivery_remaining(const agent_delivery_t *self)
{
    uint64_t remaining = 0;
    for (size_t i = 0; i < crema_spool_count(self->spool); i++) {
        const crema_spool_stream_t *stream = crema_spool_stream(self->spool, i);
        uint64_t gone = stream->first_avail > 0 ? stream->first_avail - 1 : 0;
        if (stream->committed > gone)
            gone = stream->committed;
        remaining += stream->hi > gone ? stream->hi - gone : 0;
    }
    return remaining;
}
