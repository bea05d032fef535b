#include <stdlib.h>

#include <czmq.h>

#include "crema_clock.h"
#include "crema_log.h"
#include "sink_private.h"

#define BATCH_MESSAGES 4096 /* taken from the socket before timers and signals get their turn */

static void
s_tell_full(sink_t *self, size_t peer)
{
    self->counts.full++;
    if (self->told_full)
        return;
    self->told_full = true;
    crema_msg_t msg = {
        .type = CREMA_MSG_FULL,
        .full = {.retry_after_ms = SINK_FULL_RETRY_MS, .free_b = self->free_b},
    };
    sink_peers_send(self->peers, peer, &msg);
}

static crema_err_t
s_put(sink_t *self, const crema_data_t *put, sink_store_put_t *ret_answer)
{
    crema_err_t err = sink_store_put(self->store, put, crema_clock_real_ns(), ret_answer);
    if (err != CREMA_ELIMIT || sink_store_pending_bytes(self->store) < SINK_GROUP_BYTES_MAX / 2)
        return err;
    if (!sink_group_commit(self))
        return CREMA_EIO;
    return sink_store_put(self->store, put, crema_clock_real_ns(), ret_answer);
}

static void
s_on_put(sink_t *self, size_t peer, const crema_msg_t *msg)
{
    sink_store_put_t answer;
    self->counts.puts++;
    self->counts.records += msg->data.n;
    if (self->space == SINK_SPACE_FULL) {
        s_tell_full(self, peer);
        return;
    }
    crema_err_t err = s_put(self, &msg->data, &answer);
    if (err == CREMA_ENOSPC) {
        self->space = SINK_SPACE_FULL;
        s_tell_full(self, peer);
    } else if (err != CREMA_OK) {
        self->counts.refused++;
        crema_log_warn("put_refused", CREMA_ID("stream", &msg->data.stream_id),
                       CREMA_ID("run", &msg->data.run_id),
                       CREMA_INT("first_seq", msg->data.first_seq),
                       CREMA_TEXT("why", crema_err_text(err)));
    } else if (answer.decision == SINK_PUT_GAP) {
        self->counts.nacks++;
        crema_msg_t nack = {
            .type = CREMA_MSG_NACK,
            .nack = {.stream_id = msg->data.stream_id, .expected_next = answer.next},
        };
        sink_peers_send(self->peers, peer, &nack);
    } else if (answer.decision != SINK_PUT_APPEND) {
        sink_commit_ask(sink_store_watermarks(self->store), &msg->data.stream_id);
    }
}

/* In messages of at most CREMA_WIRE_TABLE_ROWS_SENT; all but the last say that there are more. */
static void
s_send_rows(sink_t *self, size_t peer, const crema_stream_row_t *rows, size_t n)
{
    size_t done = 0;
    do {
        size_t part = n - done < CREMA_WIRE_TABLE_ROWS_SENT ? n - done : CREMA_WIRE_TABLE_ROWS_SENT;
        crema_msg_t msg = {
            .type = CREMA_MSG_STATE,
            .flags = done + part < n ? CREMA_WIRE_FLAG_MORE : 0,
            .state = {.store_id = sink_store_id(self->store),
                      .free_b = self->free_b,
                      .table = {part, n ? rows + done : NULL}},
        };
        sink_peers_send(self->peers, peer, &msg);
        done += part;
    } while (done < n);
}

/* What is known of each stream asked for; of all that belong to runs without a final file if none is named. */
static void
s_on_open(sink_t *self, size_t peer, const crema_stream_table_t *asked)
{
    crema_stream_row_t *rows = NULL;
    size_t n = asked->n;
    if (n == 0) {
        if (sink_store_open_streams(self->store, &rows, &n) != CREMA_OK)
            return; /* it asks again */
    } else {
        rows = calloc(n, sizeof *rows);
        if (!rows)
            return;
    }
    for (size_t i = 0; i < asked->n; i++)
        if (!sink_commit_get(sink_store_watermarks(self->store), &asked->rows[i].stream_id,
                             &rows[i]))
            rows[i].run_id = asked->rows[i].run_id;
    s_send_rows(self, peer, rows, n);
    free(rows);
}

/* Gives the last answer again, as a message of this start. The message that asked is gone then. */
static void
s_answer_seal(sink_t *self, size_t peer, const crema_id_t *run_id)
{
    uint8_t *bytes;
    size_t size;
    crema_msg_t answer;
    if (!sink_sealing_answer(self->sealing, run_id, &bytes, &size))
        return;
    if (crema_wire_decode(bytes, size, self->arena, &answer) == CREMA_OK)
        sink_peers_send(self->peers, peer, &answer);
    free(bytes);
}

static void
s_on_seal(sink_t *self, size_t peer, const crema_run_msg_t *run, bool is_new)
{
    crema_id_t run_id = run->run_id;
    if (is_new)
        crema_log_info("run_sealing", CREMA_ID("run", &run_id),
                       CREMA_INT("reasons", run->n_reasons));
    else
        s_answer_seal(self, peer, &run_id);
    sink_sealing_ask(self->sealing, &run_id, !is_new, crema_clock_real_ns());
}

/* Before the seal, so that the file has it. Without it the file says that nobody told. */
static void
s_tell_cost(sink_t *self, const crema_id_t *run_id)
{
    size_t cursor = 0, runs = 0;
    while (sink_store_next(self->store, &cursor))
        runs++;
    const crema_cost_t cost = {.cpu_s = (double)crema_clock_cpu_ns() * 1e-9,
                               .bytes = (int64_t)self->counts.committed_bytes,
                               .records = (int64_t)self->counts.records,
                               .shared = runs > 1};
    crema_err_t err = sink_store_cost(self->store, run_id, &cost, crema_clock_real_ns());
    (void)err;
}

/* A message about a run is durable before anything follows from it. False: the loop must end. */
static bool
s_on_run(sink_t *self, size_t peer, const crema_msg_t *msg)
{
    bool is_new, is_seal = msg->type == CREMA_MSG_RUN_SEAL;
    crema_id_t run_id = msg->run.run_id;
    const sink_run_t *run = is_seal ? sink_store_find(self->store, &run_id) : NULL;
    if (run && !run->seal_asked && !run->freed)
        s_tell_cost(self, &run_id);
    crema_err_t err =
        sink_store_run_msg(self->store, msg->type, &msg->run, crema_clock_real_ns(), &is_new);
    if (err == CREMA_ENOENT) { /* sealed, and its journal is gone */
        if (is_seal)
            s_on_seal(self, peer, &msg->run, false);
        else
            s_answer_seal(self, peer, &run_id);
        return true;
    }
    if (err == CREMA_ENOSPC)
        s_tell_full(self, peer);
    if (err != CREMA_OK) {
        self->counts.refused++;
        crema_log_warn("run_message_refused", CREMA_TEXT("type", crema_msg_name(msg->type)),
                       CREMA_ID("run", &msg->run.run_id), CREMA_TEXT("why", crema_err_text(err)));
        return true;
    }
    if (is_new && msg->type == CREMA_MSG_RUN_OPEN)
        crema_log_info("run_opened", CREMA_ID("run", &msg->run.run_id));
    if (!sink_group_commit(self))
        return false;
    if (sink_store_pending_bytes(self->store) > 0) /* no room: it is asked again */
        s_tell_full(self, peer);
    else if (is_seal)
        s_on_seal(self, peer, &msg->run, is_new);
    else {
        sink_peers_send(self->peers, peer, &(crema_msg_t){.type = CREMA_MSG_COMMITTED});
        s_answer_seal(self, peer,
                      &run_id); /* an aggregator that began after it was sealed learns it */
    }
    return true;
}

static void
s_on_clock(sink_t *self, const crema_clock_sample_t *sample)
{
    if (!sink_store_find(self->store, &sample->run_id) || self->space == SINK_SPACE_FULL)
        return;
    if (sink_store_clock(self->store, sample, crema_clock_real_ns()) != CREMA_OK)
        self->counts.refused++;
}

static bool
s_on_message(sink_t *self, size_t peer, const crema_msg_t *msg)
{
    switch (msg->type) {
    case CREMA_MSG_PUT:
        s_on_put(self, peer, msg);
        return !self->broken;
    case CREMA_MSG_OPEN:
        s_on_open(self, peer, &msg->table);
        return true;
    case CREMA_MSG_CLOCK:
        s_on_clock(self, &msg->clock);
        return true;
    case CREMA_MSG_RUN_OPEN:
    case CREMA_MSG_RUN_END:
    case CREMA_MSG_RUN_SEAL:
        return s_on_run(self, peer, msg);
    default:
        self->counts.bad++;
        crema_log_warn("message_unexpected", CREMA_TEXT("type", crema_msg_name(msg->type)));
        return true;
    }
}

/* ---- the socket */

static bool
s_on_parts(sink_t *self, zmq_msg_t *id, zmq_msg_t *body)
{
    crema_msg_t msg;
    bool is_new;
    self->counts.messages++;
    crema_err_t err = crema_wire_decode(zmq_msg_data(body), zmq_msg_size(body), self->arena, &msg);
    if (err != CREMA_OK) {
        self->counts.bad++;
        crema_log_warn("message_bad", CREMA_TEXT("why", crema_err_text(err)));
        return true;
    }
    size_t peer = sink_peers_heard(self->peers, zmq_msg_data(id), zmq_msg_size(id),
                                   crema_clock_mono_ns(), &is_new);
    if (is_new)
        crema_log_info("aggregator_connected",
                       CREMA_INT("aggregators", sink_peers_count(self->peers)));
    return s_on_message(self, peer, &msg);
}

/* Takes one message whole: routing id and body. Anything else is read to its end and counted. False: none waits. */
static bool
s_receive(sink_t *self, zmq_msg_t *id, zmq_msg_t *body, bool *ret_good)
{
    void *raw = zsock_resolve(self->router);
    if (zmq_msg_recv(id, raw, ZMQ_DONTWAIT) < 0)
        return false;
    int parts = 1;
    zmq_msg_t *last = id;
    while (zmq_msg_more(last)) {
        if (zmq_msg_recv(body, raw, ZMQ_DONTWAIT) < 0)
            break;
        last = body;
        parts++;
    }
    *ret_good = parts == 2;
    if (parts != 2)
        self->counts.bad++;
    return true;
}

bool
sink_intake_take(sink_t *self)
{
    zmq_msg_t id, body;
    bool go_on = true, good;
    size_t bytes = 0;
    self->told_full = false;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    for (int i = 0; go_on && i < BATCH_MESSAGES && bytes < (size_t)self->config.commit_bytes; i++) {
        if (!s_receive(self, &id, &body, &good))
            break;
        bytes += zmq_msg_size(&body);
        if (good)
            go_on = s_on_parts(self, &id, &body);
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return go_on && sink_group_commit_soon(self);
}
