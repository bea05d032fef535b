#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <czmq.h>

#include "crema_clock.h"
#include "crema_failpoint.h"
#include "crema_log.h"
#include "crema_principal.h"
#include "sink_private.h"

#define BATCH_MESSAGES 4096 /* taken from the socket before timers and signals get a turn */
#define QUESTIONS_MAX 16    /* about streams, that wait for the next group of one run */

static void
s_send_full(sink_t *self, size_t peer)
{
    self->counts.full++;
    if (self->sent_full)
        return;
    self->sent_full = true;
    crema_msg_t msg = sink_trouble_full(self, NULL);
    sink_peers_send(self->peers, peer, &msg);
}

/* The aggregator asks how far the stream is, and has it repeated from there. */
static void
s_send_nack(sink_t *self, size_t peer, const Crema__Put *put)
{
    const crema_msg_t nack = {.type = CREMA_MSG_NACK, .nack = {.stream_id = put->stream_id}};
    self->counts.nacks++;
    sink_peers_send(self->peers, peer, &nack);
}

static void
s_on_put(sink_t *self, size_t peer, const Crema__Put *put)
{
    sink_store_put_t answer;
    self->counts.puts++;
    self->counts.records += put->n;
    if (self->space == SINK_SPACE_FULL) {
        s_send_full(self, peer);
        return;
    }
    crema_err_t err = sink_store_put(self->store, put, crema_clock_real_ns(), &answer);
    if (err == CREMA_ENOSPC) {
        self->space = SINK_SPACE_FULL;
        s_send_full(self, peer);
    } else if (err == CREMA_EAGAIN) { /* the aggregator asks, and is answered when there is room */
        s_send_nack(self, peer, put);
    } else if (err != CREMA_OK) {
        self->counts.refused++;
        crema_log_warn("put_refused", CREMA_ID("stream", crema_id_of(put->stream_id)),
                       CREMA_ID("run", crema_id_of(put->run_id)),
                       CREMA_INT("first_seq", put->first_seq),
                       CREMA_TEXT("why", sink_group_why(err)));
    } else if (answer.decision == SINK_PUT_GAP) {
        s_send_nack(self, peer, put);
    } else if (answer.decision != SINK_PUT_APPEND) {
        sink_commit_ask(sink_store_watermarks(self->store), crema_id_of(put->stream_id));
    }
}

/* Sends messages of at most CREMA_WIRE_TABLE_ROWS_SENT rows; all but the last are flagged MORE. */
static void
s_send_rows(sink_t *self, size_t peer, const crema_stream_row_t *rows, size_t n)
{
    size_t done = 0;
    do {
        size_t part = n - done < CREMA_WIRE_TABLE_ROWS_SENT ? n - done : CREMA_WIRE_TABLE_ROWS_SENT;
        crema_stream_table_clear(self->table);
        for (size_t i = 0; i < part; i++)
            crema_stream_table_add(self->table, &rows[done + i]);
        done += part;
        const crema_msg_t msg = {
            .type = CREMA_MSG_STATE,
            .flags = done < n ? CREMA_WIRE_FLAG_MORE : 0,
            .state = {.free_b = self->free_b, .table = crema_stream_table_sent(self->table)},
        };
        sink_peers_send(self->peers, peer, &msg);
    } while (done < n);
}

/* Sends the owner of the run and the key of its agents: a restarted aggregator cannot know them
 * otherwise. */
static void
s_send_owner(sink_t *self, size_t peer, const sink_run_t *run)
{
    if (crema_id_is_zero(&run->state.owner) || run->freed)
        return;
    static const uint8_t c_no_key[CREMA_WIRE_KEY_BYTES];
    crema_msg_t msg = {
        .type = CREMA_MSG_RUN_OPEN,
        .run_open = {.run_id = crema_id_field(&run->run_id),
                     .owner = crema_id_field(&run->state.owner),
                     .t_end_ns = run->state.t_sealed_ns},
    };
    if (memcmp(run->state.agent_key, c_no_key, sizeof c_no_key) != 0)
        msg.run_open.agent_key =
            (ProtobufCBinaryData){sizeof c_no_key, (uint8_t *)run->state.agent_key};
    sink_peers_send(self->peers, peer, &msg);
}

static void
s_send_owners(sink_t *self, size_t peer)
{
    size_t cursor = 0;
    for (const sink_run_t *run; (run = sink_store_next(self->store, &cursor)) != NULL;)
        s_send_owner(self, peer, run);
}

/* Drops refused streams from the rows until they are durable: otherwise spools would discard
 * records without a trace. */
static size_t
s_keep_refused(sink_t *self, crema_stream_row_t *rows, size_t n)
{
    crema_err_t err = sink_store_keep_refused(self->store);
    if (err == CREMA_OK)
        return n;
    char file[PATH_MAX + 16];
    snprintf(file, sizeof file, "%s/refused", self->config.store_dir);
    if (err != CREMA_EAGAIN) /* else they are asked about again, and durable then */
        crema_log_error("refusal_not_kept", CREMA_TEXT("file", file),
                        CREMA_TEXT("why", crema_err_text(err)),
                        CREMA_TEXT("remedy", "make room in the store; until then spools keep what "
                                             "they hold of freed runs"));
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!(rows[i].flags & CREMA_STREAM_FLAG_REFUSED))
            rows[kept++] = rows[i];
    return kept;
}

/* Asks about the streams in the table again, or about all, once the run's next group is durable. */
static void
s_ask_later(sink_t *self, size_t peer, const sink_run_t *run)
{
    const crema_msg_t msg = {.type = CREMA_MSG_OPEN,
                             .open.table = crema_stream_table_sent(self->table)};
    sink_answer_t answer = {.run_id = run->run_id,
                            .type = CREMA_MSG_OPEN,
                            .peer = peer,
                            .appends = run->durable_appends + 1};
    while (answer.part < QUESTIONS_MAX &&
           sink_answers_find(self->answers, &run->run_id, CREMA_MSG_OPEN, answer.part))
        answer.part++;
    if (answer.part == QUESTIONS_MAX ||
        crema_wire_encode(&msg, &answer.bytes, &answer.size) != CREMA_OK)
        return; /* it asks again by itself, only later */
    crema_err_t ignored = sink_answers_add(self->answers, &answer);
    (void)ignored; /* the same */
}

/* Sends all streams of runs without a final file. */
static void
s_send_open_streams(sink_t *self, size_t peer)
{
    crema_stream_row_t *rows;
    size_t n, cursor = 0;
    const sink_run_t *run;
    s_send_owners(self, peer);
    if (sink_store_open_streams(self->store, &rows, &n) == CREMA_OK) {
        s_send_rows(self, peer, rows, n);
        free(rows);
        return;
    }
    while ((run = sink_store_next(self->store, &cursor)) && !run->is_renewing)
        ;
    crema_stream_table_clear(self->table);
    if (run)
        s_ask_later(self, peer, run);
}

/* Finds the state of each stream asked for, but for those of runs that are set aside and streams
 * of another run. The table has those of runs that are behind; returns one of these. */
static const sink_run_t *
s_find_rows(sink_t *self, const Crema__StreamTable *asked, crema_stream_row_t *rows, size_t *ret_n)
{
    crema_id_t behind;
    crema_stream_table_clear(self->table);
    for (size_t i = 0; i < crema_stream_table_rows(asked); i++) {
        const crema_stream_row_t row = crema_stream_table_row(asked, i);
        crema_err_t err = sink_store_stream(self->store, &row, &rows[*ret_n]);
        *ret_n += err == CREMA_OK;
        const sink_run_t *run =
            err == CREMA_EAGAIN ? sink_store_find(self->store, &row.run_id) : NULL;
        if (!run || (!run->is_renewing && !run->is_crowded) ||
            crema_stream_table_rows(self->table) == CREMA_WIRE_TABLE_ROWS_SENT)
            continue;
        behind = row.run_id;
        crema_stream_table_add(self->table, &row);
    }
    return crema_stream_table_rows(self->table) > 0 ? sink_store_find(self->store, &behind) : NULL;
}

/* Sends the state of each stream asked for; if none is named, of all streams of runs without a
 * final file. */
static void
s_on_open(sink_t *self, size_t peer, const Crema__StreamTable *asked)
{
    size_t n = 0, n_asked = crema_stream_table_rows(asked);
    crema_stream_row_t *rows = n_asked > 0 ? calloc(n_asked, sizeof *rows) : NULL;
    if (n_asked == 0)
        s_send_open_streams(self, peer);
    if (!rows)
        return;
    const sink_run_t *behind = s_find_rows(self, asked, rows, &n);
    if (behind)
        s_ask_later(self, peer, behind);
    n = s_keep_refused(self, rows, n);
    if (n > 0)
        s_send_rows(self, peer, rows, n);
    free(rows);
}

/* Repeats the last answer with this start's session. The message that asked is gone then. */
static void
s_answer_seal(sink_t *self, size_t peer, const crema_id_t *run_id)
{
    crema_msg_t answer;
    if (sink_sealing_answer(self->sealing, run_id, self->arena, &answer))
        sink_peers_send(self->peers, peer, &answer);
}

static void
s_on_seal(sink_t *self, size_t peer, const crema_id_t *run_id, bool is_new)
{
    if (!is_new)
        s_answer_seal(self, peer, run_id);
    sink_sealing_ask(self->sealing, run_id, !is_new, crema_clock_mono_ns());
}

static crema_cost_t
s_cost(const sink_t *self)
{
    return (crema_cost_t){.cpu_s = (double)crema_clock_cpu_ns() * 1e-9,
                          .bytes = (int64_t)self->counts.committed_bytes,
                          .records = (int64_t)self->counts.records,
                          .shared = sink_store_known(self->store) > 1};
}

static crema_err_t
s_take_run_msg(sink_t *self, const crema_msg_t *msg, bool *ret_new)
{
    const crema_cost_t cost = s_cost(self);
    return sink_store_run_msg(self->store, msg, msg->type == CREMA_MSG_RUN_SEAL ? &cost : NULL,
                              crema_clock_real_ns(), ret_new);
}

/* Says why a message about a run was not taken. */
static void
s_refuse_run(sink_t *self, size_t peer, crema_msg_type_t type, const crema_id_t *run_id,
             crema_err_t why)
{
    const char *text = sink_group_why(why);
    if (why == CREMA_ENOSPC)
        s_send_full(self, peer);
    if (why == CREMA_EDENIED) {
        self->counts.not_allowed++;
        s_send_owner(self, peer, sink_store_find(self->store, run_id));
    }
    const sink_run_t *run = sink_store_find(self->store, run_id);
    if (run && run->aside && type != CREMA_MSG_RUN_WRITERS)
        s_answer_seal(self, peer, run_id);
    self->counts.refused++;
    crema_log_warn("run_message_refused", CREMA_TEXT("type", crema_msg_name(type)),
                   CREMA_ID("run", run_id), CREMA_TEXT("why", text));
}

/* ---- answers */

/* What follows from a message about a run once it is durable. */
static void
s_follow(sink_t *self, const sink_answer_t *of)
{
    const crema_id_t *run_id = &of->run_id;
    crema_msg_t msg = {.type = CREMA_MSG_COMMITTED};
    switch (of->type) {
    case CREMA_MSG_SEALED:
        if (crema_wire_decode(of->bytes, of->size, self->arena, &msg) == CREMA_OK)
            sink_peers_broadcast(self->peers, &msg);
        break;
    case CREMA_MSG_OPEN:
        if (crema_wire_decode(of->bytes, of->size, self->arena, &msg) == CREMA_OK)
            s_on_open(self, of->peer, msg.open.table);
        break;
    case CREMA_MSG_RUN_SEAL:
        s_on_seal(self, of->peer, run_id, of->is_new);
        break;
    case CREMA_MSG_RUN_WRITERS:
        if (!sink_store_check_list(self->store, run_id)) {
            sink_listing_go_on(self);
            break;
        }
        msg = (crema_msg_t){
            .type = CREMA_MSG_RUN_LISTED,
            .run_listed = {.run_id = crema_id_field(run_id), .part = of->part, .parts = of->parts}};
        sink_peers_send(self->peers, of->peer, &msg);
        break;
    default:
        sink_peers_send(self->peers, of->peer, &msg);
        /* for an aggregator that started after the run was sealed */
        s_answer_seal(self, of->peer, run_id);
    }
}

void
sink_intake_answer(sink_t *self)
{
    for (sink_answer_t *due; (due = sink_answers_take(self->answers)) != NULL;) {
        crema_failpoint_message("sink.after_commit", due->type);
        s_follow(self, due);
        sink_answer_free(due);
    }
}

/* Has what follows from the message happen once it is durable. */
static void
s_answer_later(sink_t *self, sink_answer_t *answer)
{
    crema_failpoint_message("sink.before_commit", answer->type);
    const sink_run_t *run = sink_store_find(self->store, &answer->run_id);
    sink_answer_t *earlier = answer->is_new ? NULL
                                            : sink_answers_find(self->answers, &answer->run_id,
                                                                answer->type, answer->part);
    if (earlier) {
        earlier->peer = answer->peer; /* a peer that came back asks again */
        return;
    }
    const bool waits = run && (answer->is_new ? sink_store_is_pending(self->store, &answer->run_id)
                                              : run->is_renewing);
    if (!waits) {
        s_follow(self, answer);
        return;
    }
    answer->appends = run->appends;
    crema_err_t ignored = sink_answers_add(self->answers, answer);
    (void)ignored; /* out of memory: whoever waits asks again */
}

void
sink_intake_say_sealed(sink_t *self, const crema_msg_t *msg)
{
    const crema_id_t run_id = *crema_id_of(msg->sealed.run_id);
    const sink_run_t *run = sink_store_find(self->store, &run_id);
    sink_answer_t answer = {.run_id = run_id, .type = CREMA_MSG_SEALED, .is_new = true};
    if (run && sink_store_is_pending(self->store, &run_id) &&
        crema_wire_encode(msg, &answer.bytes, &answer.size) == CREMA_OK)
        s_answer_later(self, &answer);
    else
        sink_peers_broadcast(self->peers, msg);
}

/* ---- messages about runs */

static void
s_on_run(sink_t *self, size_t peer, const crema_msg_t *msg)
{
    bool is_new;
    const crema_id_t run_id = *crema_id_of(msg->run_id);
    crema_err_t err = s_take_run_msg(self, msg, &is_new);
    if (err != CREMA_EDENIED)
        sink_store_heard(self->store, &run_id, crema_clock_mono_ns());
    if (err == CREMA_ENOENT) { /* sealed, and its journal is gone */
        if (msg->type == CREMA_MSG_RUN_SEAL)
            s_on_seal(self, peer, &run_id, false);
        else
            s_answer_seal(self, peer, &run_id);
        return;
    }
    if (err != CREMA_OK) {
        s_refuse_run(self, peer, msg->type, &run_id, err);
        return;
    }
    if (is_new && msg->type == CREMA_MSG_RUN_OPEN)
        crema_log_info("run_opened", CREMA_ID("run", &run_id),
                       CREMA_TEXT("user", crema_msg_attribute(&msg->run_open, "user")),
                       CREMA_TEXT("label", crema_msg_attribute(&msg->run_open, "run_label")));
    if (is_new && msg->type == CREMA_MSG_RUN_SEAL)
        crema_log_info("run_sealing", CREMA_ID("run", &run_id),
                       CREMA_INT("reasons", msg->run_seal.n_reasons));
    s_answer_later(self, &(sink_answer_t){
                             .run_id = run_id, .type = msg->type, .peer = peer, .is_new = is_new});
}

static void
s_on_writers(sink_t *self, size_t peer, const Crema__RunWriters *msg)
{
    bool is_new;
    const crema_id_t run_id = *crema_id_of(msg->run_id);
    crema_err_t err = sink_store_writers(self->store, msg, crema_clock_real_ns(), &is_new);
    if (err == CREMA_ENOENT) { /* sealed, and its journal is gone */
        s_answer_seal(self, peer, &run_id);
        return;
    }
    if (err != CREMA_OK) {
        s_refuse_run(self, peer, CREMA_MSG_RUN_WRITERS, &run_id, err);
        return;
    }
    s_answer_later(self, &(sink_answer_t){.run_id = run_id,
                                          .type = CREMA_MSG_RUN_WRITERS,
                                          .peer = peer,
                                          .is_new = is_new,
                                          .part = msg->part,
                                          .parts = msg->parts});
}

static void
s_on_clock(sink_t *self, const Crema__ClockSample *sample)
{
    const sink_run_t *run = sink_store_find(self->store, crema_id_of(sample->run_id));
    if (!run || run->freed || run->aside || self->space == SINK_SPACE_FULL ||
        !sink_sealing_takes_clock(self->sealing, run))
        return;
    if (sink_store_clock(self->store, sample, crema_clock_real_ns()) != CREMA_OK)
        self->counts.refused++;
}

static void
s_on_message(sink_t *self, size_t peer, const crema_msg_t *msg)
{
    switch (msg->type) {
    case CREMA_MSG_PUT:
        s_on_put(self, peer, &msg->put);
        break;
    case CREMA_MSG_OPEN:
        s_on_open(self, peer, msg->open.table);
        break;
    case CREMA_MSG_CLOCK:
        s_on_clock(self, &msg->clock);
        break;
    case CREMA_MSG_RUN_OPEN:
    case CREMA_MSG_RUN_END:
    case CREMA_MSG_RUN_SEAL:
        s_on_run(self, peer, msg);
        break;
    case CREMA_MSG_RUN_WRITERS:
        s_on_writers(self, peer, &msg->run_writers);
        break;
    default:
        self->counts.bad++;
        crema_log_warn("message_unexpected", CREMA_TEXT("type", crema_msg_name(msg->type)));
    }
}

/* ---- the socket */

/* With keys, only a peer with an aggregator's key may send an aggregator's messages. */
static bool
s_may_send(sink_t *self, size_t peer, const char *user_id, crema_msg_type_t type)
{
    crema_principal_t from;
    if (crema_principal_parse(user_id, &from) == CREMA_OK &&
        crema_principal_may_send(&from, type) &&
        crema_keyring_admits(crema_server_ring(self->server), &from))
        return true;
    self->counts.not_allowed++;
    crema_log_warn("message_not_allowed", CREMA_TEXT("type", crema_msg_name(type)),
                   CREMA_TEXT("from", user_id));
    sink_peers_send(
        self->peers, peer,
        &(crema_msg_t){.type = CREMA_MSG_FENCE, .fence = {.reason = CREMA_FENCE_PRINCIPAL}});
    return false;
}

static void
s_on_parts(sink_t *self, zmq_msg_t *id, zmq_msg_t *body)
{
    crema_msg_t msg;
    bool is_new;
    self->counts.messages++;
    crema_err_t err = crema_wire_decode(zmq_msg_data(body), zmq_msg_size(body), self->arena, &msg);
    if (err != CREMA_OK) {
        self->counts.bad++;
        crema_log_warn("message_bad", CREMA_TEXT("why", crema_err_text(err)));
        return;
    }
    size_t peer = sink_peers_heard(self->peers, zmq_msg_data(id), zmq_msg_size(id),
                                   crema_clock_mono_ns(), &is_new);
    sink_peers_came_by(self->peers, peer, zmq_msg_get(body, ZMQ_SRCFD));
    if (is_new)
        crema_log_info("aggregator_connected",
                       CREMA_INT("aggregators", sink_peers_count(self->peers)));
    if (s_may_send(self, peer, zmq_msg_gets(body, "User-Id"), msg.type))
        s_on_message(self, peer, &msg);
}

/* Takes one whole message: routing id and body. Anything else is read to its end and counted.
 * False: none waits. */
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
    bool good;
    size_t bytes = 0;
    self->sent_full = false;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    for (int i = 0; i < BATCH_MESSAGES && bytes < (size_t)self->config.commit_bytes; i++) {
        if (!s_receive(self, &id, &body, &good))
            break;
        bytes += zmq_msg_size(&body);
        if (good)
            s_on_parts(self, &id, &body);
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return sink_group_go_on(self);
}
