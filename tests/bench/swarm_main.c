/* swarm - many agents in one process: the sessions and sockets that crema-agent has, with streams
 * that exist in memory only.
 *
 *   swarm ENDPOINT KEYS|- AGENTS H_MS [RATE] [abuse]
 *
 * RATE: records a second that each agent has to deliver. `abuse`: once welcomed, each agent sends
 * as fast as its socket takes it and looks at no credit. Prints `{"welcomed": N}` each 100 ms, N
 * being how many the newest aggregator let in, and at SIGHUP and SIGTERM a line on the time from a
 * record's existence to its acknowledgement since the last such line. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <czmq.h>

#include "crema_clock.h"
#include "crema_frame.h"
#include "crema_keys.h"
#include "crema_random.h"
#include "crema_reactor.h"
#include "crema_record.h"
#include "crema_session.h"
#include "message_parts.h"

#define MS 1000000ll
#define TICK_NS (50 * MS)
#define TICK_SLICES 50 /* of the members, which get their ticks one slice after the other */
#define REPORT_NS (100 * MS)
#define EVENTS_MAX 256
#define STARTS_PER_S 400     /* at the beginning; a return is as sudden as it is */
#define MARKS 64             /* records whose time is remembered, per agent */
#define LATENCIES (1u << 20) /* beyond: not counted */
#define ABUSE_MESSAGES 20    /* a turn */

/* When a number came to be. */
typedef struct {
    uint64_t seq;
    int64_t at_ns;
} mark_t;

typedef struct {
    crema_session_t *session;
    zsock_t *sock; /* NULL: hung up */
    crema_spool_stream_t stream;
    uint64_t agg_session; /* of the last WELCOME that let it in */
    int64_t began_ns;     /* of its records: those of all members are spread over their period */
    mark_t marks[MARKS];  /* a ring */
    size_t first_mark, n_marks;
    uint64_t abused; /* numbers sent beyond what the session knows */
} member_t;

typedef struct {
    const char *endpoint;
    crema_keys_t *keys;
    double rate_per_s;
    bool abuse;
    crema_arena_t *arena;
    int epoll; /* of the members' sockets */
    size_t n;
    member_t *members;
    uint64_t newest; /* aggregator's session number seen last */
    uint64_t fences[16];
    size_t n_latencies;
    float *latencies_ms;
    uint8_t frames[CREMA_WIRE_BATCH_MAX];
} swarm_t;

/* ---- records */

/* StreamInfo as number 1, then names: the least that says something. */
static crema_err_t
s_encode(const member_t *member, uint64_t seq, uint8_t *out, size_t room, size_t *ret_bytes)
{
    const Crema__StreamInfo info = {
        .run_id = body_id(member->stream.run_id),
        .kind = CREMA_STREAM_WORKER,
        .host = "swarm",
        .pid = 1,
        .worker_uuid = "swarm",
        .worker_name = "swarm",
        .nthreads = 1,
        .memory_limit_b = -1,
        .t_real_ns = crema_clock_real_ns(),
        .t_mono_ns = crema_clock_mono_ns(),
        .boot_id = "",
    };
    Crema__DictEntry name = {.kind = CREMA_DICT_METRIC,
                             .id = (uint32_t)(seq % 100),
                             .text = "a name as long as most of them are",
                             .memory_limit_b = -1};
    crema_record_t record = {.type = CREMA_RECORD_DICT,
                             .dict = {.n_entries = 1, .entries = body_entries(1, &name)}};
    if (seq == 1)
        record = (crema_record_t){.type = CREMA_RECORD_STREAM, .stream = info};
    return crema_record_encode(&record, seq, crema_clock_mono_ns(), out, room, ret_bytes);
}

/* Fills self->frames with numbers first..last as far as they fit into `most`; *ret_n may be 0. */
static size_t
s_fill(swarm_t *self, const member_t *member, uint64_t first, uint64_t last, size_t most,
       uint32_t *ret_n)
{
    size_t used = 0, bytes;
    uint32_t n = 0;
    most = most < sizeof self->frames ? most : sizeof self->frames;
    while (first + n <= last &&
           s_encode(member, first + n, self->frames + used, most - used, &bytes) == CREMA_OK) {
        used += bytes;
        n++;
    }
    *ret_n = n;
    return used;
}

/* ---- messages */

static bool
s_send(member_t *member, crema_msg_t *msg)
{
    uint8_t *bytes;
    size_t size;
    if (!member->sock || crema_wire_encode(msg, &bytes, &size) != CREMA_OK)
        return false;
    int rc = zmq_send(zsock_resolve(member->sock), bytes, size, ZMQ_DONTWAIT);
    free(bytes);
    return rc >= 0;
}

static bool
s_send_data(swarm_t *self, member_t *member, uint64_t first, uint64_t last, size_t most,
            uint64_t session, uint32_t *ret_n, size_t *ret_bytes)
{
    *ret_bytes = s_fill(self, member, first, last, most, ret_n);
    crema_msg_t msg = {.type = CREMA_MSG_DATA,
                       .session = session,
                       .data = {.stream_id = body_id(member->stream.stream_id),
                                .run_id = body_id(member->stream.run_id),
                                .first_seq = first,
                                .hi = last,
                                .n = *ret_n,
                                .frames = {*ret_bytes, self->frames}}};
    return *ret_n > 0 && s_send(member, &msg);
}

static void
s_hang_up(swarm_t *self, member_t *member)
{
    if (member->sock)
        epoll_ctl(self->epoll, EPOLL_CTL_DEL, zsock_fd(member->sock), NULL);
    zsock_destroy(&member->sock);
}

static void
s_dial(swarm_t *self, member_t *member)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = member};
    s_hang_up(self, member);
    member->sock = zsock_new(ZMQ_DEALER);
    if (!member->sock) {
        fprintf(stderr, "swarm: no socket: %s\n", strerror(errno));
        exit(1);
    }
    crema_socket_prepare(member->sock, CREMA_ROLE_AGENT);
    crema_keys_connect(self->keys, member->sock);
    if (crema_socket_connect(member->sock, self->endpoint) != CREMA_OK) {
        fprintf(stderr, "swarm: %s is not an endpoint\n", self->endpoint);
        exit(1);
    }
    if (epoll_ctl(self->epoll, EPOLL_CTL_ADD, zsock_fd(member->sock), &event) != 0) {
        fprintf(stderr, "swarm: %s\n", strerror(errno));
        exit(1);
    }
}

static void
s_note_acknowledged(swarm_t *self, member_t *member, uint64_t committed, int64_t now_ns)
{
    while (member->n_marks > 0 && member->marks[member->first_mark].seq <= committed) {
        int64_t at_ns = member->marks[member->first_mark].at_ns;
        if (self->n_latencies < LATENCIES)
            self->latencies_ms[self->n_latencies++] = (float)(now_ns - at_ns) / (float)MS;
        member->first_mark = (member->first_mark + 1) % MARKS;
        member->n_marks--;
    }
}

static void
s_act(swarm_t *self, member_t *member, const crema_session_action_t *action)
{
    const int64_t now_ns = crema_clock_mono_ns();
    uint32_t n = 0;
    size_t bytes = 0;
    crema_msg_t msg;
    switch (action->type) {
    case CREMA_SESSION_DIAL:
        s_dial(self, member);
        break;
    case CREMA_SESSION_HANGUP:
        s_hang_up(self, member);
        break;
    case CREMA_SESSION_SEND:
        msg = *action->msg;
        if (!s_send(member, &msg))
            crema_session_on_unsent(member->session, now_ns);
        break;
    case CREMA_SESSION_SEND_DATA:
        if (!s_send_data(self, member, action->first_seq, member->stream.hi, action->max_bytes,
                         action->session, &n, &bytes))
            n = 0;
        crema_session_on_data_sent(member->session, &action->stream_id, action->first_seq, n, bytes,
                                   now_ns);
        break;
    case CREMA_SESSION_END_RUN:
        break;
    case CREMA_SESSION_SCAN:
        crema_session_on_scanned(member->session, now_ns);
        break;
    case CREMA_SESSION_TRIM:
        s_note_acknowledged(self, member, action->committed, now_ns);
        break;
    }
}

static void
s_pump(swarm_t *self, member_t *member)
{
    crema_session_action_t action;
    while (
        crema_session_next(member->session, crema_clock_mono_ns(), crema_clock_real_ns(), &action))
        s_act(self, member, &action);
}

static void
s_receive(swarm_t *self, member_t *member)
{
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (member->sock && zmq_msg_recv(&part, zsock_resolve(member->sock), ZMQ_DONTWAIT) >= 0) {
        crema_msg_t msg;
        if (crema_wire_decode(zmq_msg_data(&part), zmq_msg_size(&part), self->arena, &msg) !=
            CREMA_OK)
            continue;
        if (msg.type == CREMA_MSG_WELCOME && msg.welcome.retry_after_ms == 0)
            self->newest = member->agg_session = msg.session;
        if (msg.type == CREMA_MSG_FENCE && (size_t)msg.fence.reason < 16)
            self->fences[msg.fence.reason]++;
        crema_session_on_message(member->session, &msg, crema_clock_mono_ns());
        s_pump(self, member);
    }
    zmq_msg_close(&part);
}

/* ---- time */

/* The records that exist by now. */
static void
s_write(swarm_t *self, member_t *member, int64_t now_ns)
{
    uint64_t hi = (uint64_t)((double)(now_ns - member->began_ns) / 1e9 * self->rate_per_s);
    if (hi <= member->stream.hi)
        return;
    member->stream.hi = hi;
    if (member->n_marks < MARKS)
        member->marks[(member->first_mark + member->n_marks++) % MARKS] = (mark_t){hi, now_ns};
    (void)!crema_session_on_stream(member->session, &member->stream, now_ns);
}

static void
s_abuse(swarm_t *self, member_t *member)
{
    crema_session_state_t state = crema_session_state(member->session);
    uint32_t n;
    size_t bytes;
    if (state != CREMA_SESSION_STREAMING && state != CREMA_SESSION_STALLED)
        return;
    for (int i = 0; i < ABUSE_MESSAGES; i++, member->abused += n)
        if (!s_send_data(self, member, member->abused + 1, UINT64_MAX / 2, sizeof self->frames,
                         member->agg_session, &n, &bytes))
            return;
}

static void
s_report(const swarm_t *self)
{
    size_t welcomed = 0;
    for (size_t i = 0; i < self->n; i++)
        welcomed += self->newest && self->members[i].agg_session == self->newest;
    printf("{\"welcomed\": %zu}\n", welcomed);
    fflush(stdout);
}

static int
s_compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void
s_print_latencies(swarm_t *self)
{
    size_t n = self->n_latencies;
    qsort(self->latencies_ms, n, sizeof *self->latencies_ms, s_compare);
    printf("{\"acknowledged\": %zu, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"credit_fences\": %" PRIu64
           "}\n",
           n, n ? (double)self->latencies_ms[n / 2] : 0.,
           n ? (double)self->latencies_ms[n * 99 / 100] : 0.,
           self->fences[CREMA_FENCE_CREDIT_ABUSE]);
    fflush(stdout);
    self->n_latencies = 0;
}

/* Sends what is due and receives what is there. A send may take the sign that something can be
 * received off the socket's descriptor, so that receiving comes last. */
static void
s_attend(swarm_t *self, member_t *member)
{
    s_pump(self, member);
    s_receive(self, member);
}

static void
s_tick(swarm_t *self, member_t *member)
{
    const int64_t now_ns = crema_clock_mono_ns();
    if (self->abuse)
        s_abuse(self, member);
    else if (self->rate_per_s > 0)
        s_write(self, member, now_ns);
    crema_session_on_tick(member->session, now_ns);
    s_attend(self, member);
}

/* Members get their ticks in turn, so that one of them waits for few others. */
static void
s_run(swarm_t *self, int signals)
{
    struct epoll_event events[EVENTS_MAX];
    const int64_t began_ns = crema_clock_mono_ns();
    int64_t ticked_ns = began_ns, reported_ns = 0;
    size_t slice = 0;
    for (int number; (number = crema_signals_read(signals)) != SIGTERM;) {
        if (number == SIGHUP)
            s_print_latencies(self);
        int n = epoll_wait(self->epoll, events, EVENTS_MAX, 1);
        for (int i = 0; i < n; i++)
            s_attend(self, events[i].data.ptr);
        int64_t now_ns = crema_clock_mono_ns();
        if (now_ns - ticked_ns >= TICK_NS / TICK_SLICES) {
            size_t started = 1 + (size_t)((now_ns - began_ns) * STARTS_PER_S / (1000 * MS));
            for (size_t i = slice; i < self->n && i < started; i += TICK_SLICES)
                s_tick(self, &self->members[i]);
            slice = (slice + 1) % TICK_SLICES;
            ticked_ns = now_ns;
        }
        if (now_ns - reported_ns >= REPORT_NS) {
            s_report(self);
            reported_ns = now_ns;
        }
    }
}

/* ---- life */

static bool
s_make_members(swarm_t *self, int64_t heartbeat_ns)
{
    const crema_id_t run_id = crema_random_id();
    const double period_ns = self->rate_per_s > 0 ? 1e9 / self->rate_per_s : 0;
    self->members = calloc(self->n, sizeof *self->members);
    self->latencies_ms = calloc(LATENCIES, sizeof *self->latencies_ms);
    if (!self->members || !self->latencies_ms)
        return false;
    for (size_t i = 0; i < self->n; i++) {
        member_t *member = &self->members[i];
        const crema_session_config_t config = {
            .agent_id = crema_random_id(),
            .boot = crema_random_u64(),
            .host = "swarm",
            .version = "1",
            .heartbeat_ns = heartbeat_ns,
            .streams_max = 1,
        };
        member->stream.stream_id = crema_random_id();
        member->stream.run_id = run_id;
        member->stream.first_avail = 1;
        const int64_t now_ns = crema_clock_mono_ns();
        member->began_ns = now_ns - (int64_t)((double)i / (double)self->n * period_ns);
        if (crema_session_new(&config, now_ns, &member->session) != CREMA_OK)
            return false;
    }
    return true;
}

int
main(int argc, char **argv)
{
    static swarm_t self;
    const char *why = NULL;
    int signals;
    if (argc < 5) {
        fprintf(stderr, "usage: swarm ENDPOINT KEYS|- AGENTS H_MS [RATE] [abuse]\n");
        return 2;
    }
    self.endpoint = argv[1];
    self.n = strtoul(argv[3], NULL, 10);
    self.rate_per_s = argc > 5 ? strtod(argv[5], NULL) : 0;
    self.abuse = argc > 6 && strcmp(argv[6], "abuse") == 0;
    zsys_set_max_sockets(0); /* as many as the library can */
    zsys_set_io_threads(
        16); /* libzmq's cost of a heartbeat grows with the connections in a thread */
    self.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (self.epoll < 0 || crema_signals_new(&signals) != CREMA_OK ||
        crema_keys_load(strcmp(argv[2], "-") == 0 ? NULL : argv[2], CREMA_AS_AGENT, &self.keys,
                        &why) != CREMA_OK ||
        crema_arena_new(CREMA_WIRE_ARENA_BYTES, &self.arena) != CREMA_OK ||
        !s_make_members(&self, strtol(argv[4], NULL, 10) * MS)) {
        fprintf(stderr, "swarm: cannot start: %s\n", why ? why : strerror(errno));
        return 1;
    }
    s_run(&self, signals);
    s_print_latencies(&self);
    _exit(0); /* thousands of sockets take their time to close */
}
