#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <czmq.h>

#include "agent_delivery.h"
#include "agent_spool_dir.h"
#include "agent_words.h"
#include "crema_clock.h"
#include "crema_log.h"
#include "crema_random.h"
#include "crema_reactor.h"
#include "message_parts.h"
#include "record_frames.h"

#define PATIENCE_NS 20000000000ll
#define SESSION 77

/* A spool with its delivery, and an aggregator that has no sink: it commits what it takes, when it
 * is told to. */
typedef struct {
    char dir[SCRATCH_BYTES];
    crema_spool_t *spool;
    agent_sampler_t *sampler;
    agent_delivery_t *delivery;
    zloop_t *loop;
    crema_id_t run_id;
    int64_t until_ns;
    int64_t wait_until_ns;

    zsock_t *router;
    zframe_t *peer; /* routing id of the last message */
    crema_arena_t *arena;
    bool commits;
    uint64_t credit_b;
    crema_stream_row_t rows[16]; /* by stream: hi is the last number taken */
    size_t n_rows;
    unsigned hellos, heartbeats, byes, data, frames, losses;
    uint64_t barrier_seen;
    crema_stream_row_t told[16]; /* of the last heartbeat */
    size_t n_told;
    bool (*done)(const void *bench);
    bool was_done;
    int ends; /* of the session, as reported */
} bench_t;

static void
must(crema_err_t err)
{
    assert_string_equal(crema_err_text(err), crema_err_text(CREMA_OK));
}

/* ---- the aggregator */

static crema_stream_row_t *
row_of(bench_t *b, const crema_id_t *stream_id)
{
    for (size_t i = 0; i < b->n_rows; i++)
        if (crema_id_equal(&b->rows[i].stream_id, stream_id))
            return &b->rows[i];
    assert_true(b->n_rows < 16);
    b->rows[b->n_rows] = (crema_stream_row_t){.stream_id = *stream_id};
    return &b->rows[b->n_rows++];
}

static void
answer(bench_t *b, crema_msg_t *msg)
{
    uint8_t *bytes;
    size_t size;
    msg->session = SESSION;
    must(crema_wire_encode(msg, &bytes, &size));
    void *raw = zsock_resolve(b->router);
    assert_true(zmq_send(raw, zframe_data(b->peer), zframe_size(b->peer), ZMQ_SNDMORE) >= 0);
    assert_true(zmq_send(raw, bytes, size, 0) >= 0);
    free(bytes);
}

/* Everything taken is committed if `commits`; else nothing is. */
static Crema__StreamTable *
table_of(bench_t *b)
{
    static crema_stream_row_t rows[16];
    for (size_t i = 0; i < b->n_rows; i++) {
        rows[i] = b->rows[i];
        rows[i].recv_next = rows[i].hi + 1;
        rows[i].committed = b->commits ? rows[i].hi : 0;
    }
    return body_table(b->n_rows, rows);
}

static void
acknowledge(bench_t *b, uint64_t hb_no)
{
    crema_msg_t ack = {
        .type = CREMA_MSG_ACK,
        .ack = {.table = table_of(b), .credit_total_b = b->credit_b, .hb_no = hb_no}};
    answer(b, &ack);
}

static void
take_data(bench_t *b, const Crema__Data *data)
{
    crema_stream_row_t *row = row_of(b, crema_id_of(data->stream_id));
    assert_true(crema_id_equal(crema_id_of(data->run_id), &b->run_id));
    assert_true(data->first_seq <= row->hi + 1);
    size_t at = 0;
    for (uint32_t i = 0; i < data->n; i++) {
        crema_frame_t frame;
        must(crema_frame_decode(data->frames.data + at, data->frames.len - at, &frame));
        at += crema_frame_bytes(&frame);
        b->frames++;
        b->losses += frame.type == CREMA_RECORD_LOSS;
        if (frame.seq <= row->hi)
            continue;
        if (frame.type != CREMA_RECORD_LOSS)
            assert_int_equal(frame.seq, row->hi + 1);
        row->hi = frame.seq;
    }
    assert_int_equal(at, data->frames.len);
    b->data++;
    acknowledge(b, 0);
}

static void
take(bench_t *b, const crema_msg_t *msg)
{
    if (msg->type == CREMA_MSG_HELLO) {
        b->hellos++;
        for (size_t i = 0; i < crema_stream_table_rows(msg->hello.table); i++) {
            const crema_stream_row_t row = crema_stream_table_row(msg->hello.table, i);
            (void)row_of(b, &row.stream_id);
        }
        crema_msg_t welcome = {.type = CREMA_MSG_WELCOME,
                               .welcome = {.credit_total_b = b->credit_b,
                                           .max_batch_b = CREMA_WIRE_BATCH_MAX,
                                           .table = table_of(b)}};
        answer(b, &welcome);
    } else if (msg->type == CREMA_MSG_HEARTBEAT) {
        b->heartbeats++;
        b->barrier_seen = msg->heartbeat.barrier_seen;
        b->n_told = crema_stream_table_rows(msg->heartbeat.table);
        assert_true(b->n_told <= 16);
        for (size_t i = 0; i < b->n_told; i++) {
            b->told[i] = crema_stream_table_row(msg->heartbeat.table, i);
            (void)row_of(b, &b->told[i].stream_id);
        }
        acknowledge(b, msg->heartbeat.hb_no);
    } else if (msg->type == CREMA_MSG_DATA) {
        take_data(b, &msg->data);
    } else if (msg->type == CREMA_MSG_BYE) {
        b->byes++;
        acknowledge(b, 0);
    }
}

static void
serve(bench_t *b)
{
    zmq_pollitem_t item = {zsock_resolve(b->router), 0, ZMQ_POLLIN, 0};
    while (zmq_poll(&item, 1, 0) > 0) {
        zframe_destroy(&b->peer);
        b->peer = zframe_recv(b->router);
        zframe_t *body = zframe_recv(b->router);
        crema_msg_t msg;
        must(crema_wire_decode(zframe_data(body), zframe_size(body), b->arena, &msg));
        take(b, &msg);
        zframe_destroy(&body);
    }
}

/* ---- the bench */

static int
on_step(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
    bench_t *b = arg;
    serve(b);
    agent_delivery_tick(b->delivery);
    b->was_done = b->done(b);
    return b->was_done || crema_clock_mono_ns() > b->until_ns ? -1 : 0;
}

static void
must_come_to(bench_t *b, bool (*done)(const void *bench))
{
    b->done = done;
    b->until_ns = crema_clock_mono_ns() + PATIENCE_NS;
    int timer = zloop_timer(b->loop, 5, 0, on_step, b);
    zloop_start(b->loop);
    zloop_timer_end(b->loop, timer);
    assert_true(b->was_done);
}

static void
s_count_end(void *context)
{
    bench_t *b = context;
    b->ends += crema_session_end(agent_delivery_session(b->delivery)) != CREMA_SESSION_END_NONE;
}

/* `own`: the delivery is for this run only. */
static bench_t *
bench_new(bool own)
{
    bench_t *b = calloc(1, sizeof *b);
    char endpoint[64];
    scratch_template("delivery", b->dir);
    assert_non_null(mkdtemp(b->dir));
    b->run_id = crema_random_id();
    b->credit_b = 1 << 30;
    b->commits = true;
    must(crema_arena_new(8 << 20, &b->arena));
    b->router = zsock_new(ZMQ_ROUTER);
    crema_socket_prepare(b->router, CREMA_ROLE_AGENTS);
    must(crema_socket_bind(b->router, "tcp://127.0.0.1:*", endpoint, sizeof endpoint));
    b->loop = crema_loop_new();
    must(crema_spool_open(b->dir, &b->spool));
    must(crema_spool_lock(b->spool));
    crema_id_t agent_id = crema_random_id();
    agent_sampler_config_t sampler = {.dir = b->dir,
                                      .proc = "/proc",
                                      .sys = "/sys",
                                      .host = "here",
                                      .version = "1",
                                      .agent_id = agent_id};
    must(agent_sampler_new(&sampler, &b->sampler));
    static char where[64];
    strcpy(where, endpoint);
    agent_delivery_config_t delivery = {.session = {.agent_id = agent_id,
                                                    .boot = crema_random_u64(),
                                                    .host = "here",
                                                    .version = "1",
                                                    .pid = 1,
                                                    .heartbeat_ns = 200000000,
                                                    .streams_max = 100},
                                        .spool_limit_b = 1 << 30,
                                        .endpoints = where};
    delivery.on_turn = s_count_end;
    delivery.context = b;
    if (own)
        delivery.run_id = b->run_id;
    must(agent_delivery_new(&delivery, b->loop, b->spool, b->sampler, &b->delivery));
    return b;
}

static void
bench_destroy(bench_t *b)
{
    agent_delivery_destroy(&b->delivery);
    agent_sampler_destroy(&b->sampler);
    crema_spool_close(&b->spool);
    crema_arena_destroy(&b->arena);
    zframe_destroy(&b->peer);
    zsock_destroy(&b->router);
    zloop_destroy(&b->loop);
    char *dir = strdup(b->dir);
    scratch_remove(&dir);
    free(b);
}

static crema_spool_writer_t *
must_start_writer(const bench_t *b, const crema_id_t *run_id, crema_stream_kind_t kind,
                  crema_id_t *ret_stream_id)
{
    crema_spool_writer_t *writer;
    *ret_stream_id = crema_random_id();
    Crema__StreamInfo info = {.run_id = body_id(*run_id),
                              .kind = kind,
                              .host = "w",
                              .pid = getpid(),
                              .worker_uuid = "u",
                              .worker_name = "n",
                              .memory_limit_b = -1,
                              .t_mono_ns = crema_clock_mono_ns(),
                              .boot_id = ""};
    must(crema_spool_writer_open(b->dir, ret_stream_id, &info, CREMA_SPOOL_SELF, &writer));
    return writer;
}

static void
must_append(crema_spool_writer_t *writer, uint32_t n)
{
    static char text[CREMA_NAME_MAX];
    memset(text, 'z', sizeof text - 1);
    while (n--) {
        Crema__DictEntry entry = {
            .kind = CREMA_DICT_FILE, .id = n, .text = text, .memory_limit_b = -1, .size_b = -1};
        crema_record_t record = {.type = CREMA_RECORD_DICT,
                                 .dict = {.n_entries = 1, .entries = body_entries(1, &entry)}};
        must(crema_spool_writer_append(writer, &record, 1));
    }
}

static bool
spool_is_empty(const void *bench)
{
    const bench_t *b = bench;
    return crema_spool_count(b->spool) == 0;
}

static bool
has_heartbeat(const void *bench)
{
    const bench_t *b = bench;
    return b->heartbeats > 0;
}

static bool
is_over(const void *bench)
{
    const bench_t *b = bench;
    return crema_session_end(agent_delivery_session(b->delivery)) != CREMA_SESSION_END_NONE;
}

/* ---- what must hold */

static void
test_what_is_committed_leaves_the_spool(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    crema_id_t id;
    crema_spool_writer_t *writer = must_start_writer(b, &b->run_id, CREMA_STREAM_SCHEDULER, &id);
    must_append(writer, 2000);
    crema_spool_writer_close(&writer);
    agent_delivery_scan(b->delivery);
    assert_int_equal(agent_delivery_remaining(b->delivery), 2002);
    must_come_to(b, spool_is_empty);
    assert_int_equal(row_of(b, &id)->hi, 2002);
    assert_int_equal(b->frames, 2002);
    assert_true(b->data >= 2002 * 540 / CREMA_WIRE_BATCH_MAX);
    assert_int_equal(agent_delivery_remaining(b->delivery), 0);
    bench_destroy(b);
}

static bool
took_all(const void *bench)
{
    const bench_t *b = bench;
    return b->n_rows > 0 && b->rows[0].hi == 102;
}

static void
test_what_is_only_taken_stays(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    b->commits = false;
    crema_id_t id;
    crema_spool_writer_t *writer = must_start_writer(b, &b->run_id, CREMA_STREAM_SCHEDULER, &id);
    must_append(writer, 100);
    crema_spool_writer_close(&writer);
    agent_delivery_scan(b->delivery);
    must_come_to(b, took_all);
    assert_true(agent_delivery_is_busy(b->delivery));
    assert_int_equal(agent_delivery_remaining(b->delivery), 102);
    b->commits = true;
    must_come_to(b, spool_is_empty);
    assert_false(agent_delivery_is_busy(b->delivery));
    bench_destroy(b);
}

static void
test_a_loss_goes_out_once_however_many_numbers_it_covers(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    crema_id_t id;
    crema_spool_writer_t *writer = must_start_writer(b, &b->run_id, CREMA_STREAM_SCHEDULER, &id);
    must_append(writer, 5000);
    crema_spool_writer_close(&writer);
    must(crema_spool_scan(b->spool));
    assert_int_equal(crema_spool_evict(b->spool, 1), 5000);
    agent_delivery_scan(b->delivery);
    must_come_to(b, spool_is_empty);
    assert_int_equal(row_of(b, &id)->hi, 5002);
    assert_int_equal(b->losses, 1);
    assert_int_equal(b->frames, 3); /* StreamInfo, LOSS, END */
    bench_destroy(b);
}

static bool
answered_barrier(const void *bench)
{
    const bench_t *b = bench;
    return b->barrier_seen == 5;
}

static void
test_a_barrier_ends_the_samples_and_is_answered_with_all_there_is(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    crema_id_t id;
    crema_spool_writer_t *writer = must_start_writer(b, &b->run_id, CREMA_STREAM_WORKER, &id);
    agent_delivery_scan(b->delivery);
    assert_int_equal(agent_sampler_workers(b->sampler), 1);
    must_come_to(b, has_heartbeat);
    must_append(writer, 7); /* no scan of ours finds it: the barrier's does */
    crema_msg_t barrier = {.type = CREMA_MSG_BARRIER,
                           .barrier = {.barrier_id = 5, .run_id = body_id(b->run_id)}};
    answer(b, &barrier);
    must_come_to(b, answered_barrier);
    assert_int_equal(b->n_told, 2);
    for (size_t i = 0; i < 2; i++) {
        bool worker = crema_id_equal(&b->told[i].stream_id, &id);
        assert_int_equal(b->told[i].hi,
                         worker ? 8 : 5); /* StreamInfo, name, last sample, own cost, END */
        assert_int_equal(b->told[i].flags, worker ? 0 : CREMA_STREAM_FLAG_CLOSED);
    }
    assert_int_equal(agent_sampler_workers(b->sampler), 0);
    crema_spool_writer_close(&writer);
    bench_destroy(b);
}

static void
test_an_agent_of_one_run_is_silent_of_others(void **state)
{
    (void)state;
    bench_t *b = bench_new(true);
    crema_id_t ours, theirs, other_run = crema_random_id();
    crema_spool_writer_t *own = must_start_writer(b, &b->run_id, CREMA_STREAM_SCHEDULER, &ours);
    crema_spool_writer_t *other = must_start_writer(b, &other_run, CREMA_STREAM_SCHEDULER, &theirs);
    agent_delivery_scan(b->delivery);
    must_come_to(b, has_heartbeat);
    assert_int_equal(b->n_told, 1);
    assert_true(crema_id_equal(&b->told[0].stream_id, &ours));
    crema_spool_writer_close(&own);
    crema_spool_writer_close(&other);
    bench_destroy(b);
}

static void
test_a_dismissal_counts_for_agents_of_that_run_only(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        bench_t *b = bench_new(own);
        agent_delivery_scan(b->delivery);
        must_come_to(b, has_heartbeat);
        crema_msg_t other = {
            .type = CREMA_MSG_FENCE,
            .fence = {.reason = CREMA_FENCE_DISMISSED, .run_id = body_id(crema_random_id())}};
        crema_msg_t ours = {
            .type = CREMA_MSG_FENCE,
            .fence = {.reason = CREMA_FENCE_DISMISSED, .run_id = body_id(b->run_id)}};
        answer(b, &other);
        b->heartbeats = 0;
        must_come_to(b, has_heartbeat);
        answer(b, &ours);
        b->heartbeats = 0;
        must_come_to(b, own ? is_over : has_heartbeat);
        assert_int_equal(crema_session_end(agent_delivery_session(b->delivery)),
                         own ? CREMA_SESSION_END_DISMISSED : CREMA_SESSION_END_NONE);
        assert_int_equal(b->ends, own ? 1 : 0); /* reported, so that the agent need not look */
        bench_destroy(b);
    }
}

static bool
is_past(const void *bench)
{
    const bench_t *b = bench;
    return crema_clock_mono_ns() > b->wait_until_ns;
}

/* The one that came first; what was under way meanwhile is answered by another. */
static void
test_a_refusal_says_why(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    agent_delivery_scan(b->delivery);
    must_come_to(b, has_heartbeat);
    crema_msg_t fence = {.type = CREMA_MSG_FENCE, .fence = {.reason = CREMA_FENCE_CLONE}};
    answer(b, &fence);
    fence.fence.reason = CREMA_FENCE_UNKNOWN;
    answer(b, &fence);
    must_come_to(b, is_over);
    b->wait_until_ns = crema_clock_mono_ns() + 100000000;
    must_come_to(b, is_past);
    assert_int_equal(crema_session_end(agent_delivery_session(b->delivery)),
                     CREMA_SESSION_END_REFUSED);
    assert_int_equal(agent_delivery_refusal(b->delivery), CREMA_FENCE_CLONE);
    bench_destroy(b);
}

static void
test_a_peer_of_another_version_is_a_refusal(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    agent_delivery_scan(b->delivery);
    must_come_to(b, has_heartbeat);
    uint8_t *bytes;
    size_t size;
    crema_msg_t ack = {.type = CREMA_MSG_ACK, .session = SESSION};
    must(crema_wire_encode(&ack, &bytes, &size));
    bytes[4] = CREMA_WIRE_VERSION + 1;
    zmq_send(zsock_resolve(b->router), zframe_data(b->peer), zframe_size(b->peer), ZMQ_SNDMORE);
    zmq_send(zsock_resolve(b->router), bytes, size, 0);
    free(bytes);
    must_come_to(b, is_over);
    assert_int_equal(agent_delivery_refusal(b->delivery), CREMA_FENCE_VERSION);
    bench_destroy(b);
}

static void
test_nonsense_changes_nothing(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    crema_id_t id;
    crema_spool_writer_t *writer = must_start_writer(b, &b->run_id, CREMA_STREAM_SCHEDULER, &id);
    agent_delivery_scan(b->delivery);
    must_come_to(b, has_heartbeat);
    for (size_t size = 0; size < 100; size++) {
        uint8_t noise[100];
        memset(noise, (int)size, sizeof noise);
        zmq_send(zsock_resolve(b->router), zframe_data(b->peer), zframe_size(b->peer), ZMQ_SNDMORE);
        zmq_send(zsock_resolve(b->router), noise, size, 0);
    }
    crema_spool_writer_close(&writer);
    agent_delivery_scan(b->delivery);
    must_come_to(b, spool_is_empty);
    assert_int_equal(row_of(b, &id)->hi, 2);
    bench_destroy(b);
}

static void
test_drained_it_takes_its_leave(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    crema_id_t id;
    crema_spool_writer_t *writer = must_start_writer(b, &b->run_id, CREMA_STREAM_SCHEDULER, &id);
    must_append(writer, 10);
    agent_delivery_scan(b->delivery);
    must_come_to(b, has_heartbeat);
    must_append(writer, 10);
    crema_spool_writer_close(&writer);
    agent_delivery_drain(b->delivery, crema_clock_mono_ns() + PATIENCE_NS);
    must_come_to(b, is_over);
    assert_int_equal(crema_session_end(agent_delivery_session(b->delivery)),
                     CREMA_SESSION_END_DRAINED);
    assert_int_equal(b->byes, 1);
    assert_int_equal(row_of(b, &id)->hi, 22);
    assert_int_equal(agent_delivery_remaining(b->delivery), 0);
    bench_destroy(b);
}

static void
test_a_second_session_delivers_what_came_after_the_first(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    crema_id_t id;
    crema_spool_writer_t *writer = must_start_writer(b, &b->run_id, CREMA_STREAM_SCHEDULER, &id);
    must_append(writer, 10);
    agent_delivery_scan(b->delivery);
    agent_delivery_drain(b->delivery, crema_clock_mono_ns() + PATIENCE_NS);
    must_come_to(b, is_over);
    must_append(writer, 10);
    crema_spool_writer_close(&writer);
    must(agent_delivery_begin_anew(b->delivery, 2));
    agent_delivery_scan(b->delivery);
    agent_delivery_drain(b->delivery, crema_clock_mono_ns() + PATIENCE_NS);
    must_come_to(b, is_over);
    assert_int_equal(b->byes, 2);
    assert_int_equal(row_of(b, &id)->hi, 22);
    assert_int_equal(agent_delivery_remaining(b->delivery), 0);
    bench_destroy(b);
}

static void
test_at_the_deadline_it_says_how_much_stays(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    b->commits = false;
    crema_id_t id;
    crema_spool_writer_t *writer = must_start_writer(b, &b->run_id, CREMA_STREAM_SCHEDULER, &id);
    must_append(writer, 10);
    crema_spool_writer_close(&writer);
    agent_delivery_scan(b->delivery);
    must_come_to(b, has_heartbeat);
    agent_delivery_drain(b->delivery, crema_clock_mono_ns() + 300000000);
    must_come_to(b, is_over);
    assert_int_equal(crema_session_end(agent_delivery_session(b->delivery)),
                     CREMA_SESSION_END_DEADLINE);
    assert_int_equal(agent_delivery_remaining(b->delivery), 12);
    bench_destroy(b);
}

static int
quiet(void **state)
{
    (void)state;
    crema_log_start("test", CREMA_LOG_ERROR, CREMA_LOG_TEXT);
    return 0;
}

/* Names are not seen by the directory's time, as with a file server whose clock is behind. */
static void
test_a_barrier_is_answered_with_a_stream_that_the_directorys_time_does_not_show(void **state)
{
    (void)state;
    bench_t *b = bench_new(false);
    const struct timespec then[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    crema_id_t first, second;
    crema_spool_writer_t *writers[2];
    writers[0] = must_start_writer(b, &b->run_id, CREMA_STREAM_WORKER, &first);
    agent_delivery_scan(b->delivery);
    must_come_to(b, has_heartbeat);
    assert_int_equal(utimensat(AT_FDCWD, b->dir, then, 0), 0);
    agent_delivery_scan(b->delivery);
    writers[1] = must_start_writer(b, &b->run_id, CREMA_STREAM_WORKER, &second);
    assert_int_equal(utimensat(AT_FDCWD, b->dir, then, 0), 0);
    crema_msg_t barrier = {.type = CREMA_MSG_BARRIER,
                           .barrier = {.barrier_id = 5, .run_id = body_id(b->run_id)}};
    answer(b, &barrier);
    must_come_to(b, answered_barrier);
    bool is_told = false;
    for (size_t i = 0; i < b->n_told; i++)
        is_told |= crema_id_equal(&b->told[i].stream_id, &second);
    assert_true(is_told);
    for (size_t i = 0; i < 2; i++)
        crema_spool_writer_close(&writers[i]);
    bench_destroy(b);
}

static void
test_an_error_of_the_system_is_called_what_the_system_calls_it(void **state)
{
    (void)state;
    errno = ESTALE;
    assert_string_equal(agent_words_error(CREMA_EIO), strerror(ESTALE));
    assert_string_equal(agent_words_error(CREMA_ELIMIT), crema_err_text(CREMA_ELIMIT));
    errno = 0;
    assert_string_equal(agent_words_error(CREMA_EIO), crema_err_text(CREMA_EIO));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_committed_leaves_the_spool),
        cmocka_unit_test(test_what_is_only_taken_stays),
        cmocka_unit_test(test_a_loss_goes_out_once_however_many_numbers_it_covers),
        cmocka_unit_test(test_a_barrier_ends_the_samples_and_is_answered_with_all_there_is),
        cmocka_unit_test(test_an_agent_of_one_run_is_silent_of_others),
        cmocka_unit_test(test_a_dismissal_counts_for_agents_of_that_run_only),
        cmocka_unit_test(test_a_refusal_says_why),
        cmocka_unit_test(
            test_a_barrier_is_answered_with_a_stream_that_the_directorys_time_does_not_show),
        cmocka_unit_test(test_an_error_of_the_system_is_called_what_the_system_calls_it),
        cmocka_unit_test(test_a_peer_of_another_version_is_a_refusal),
        cmocka_unit_test(test_nonsense_changes_nothing),
        cmocka_unit_test(test_drained_it_takes_its_leave),
        cmocka_unit_test(test_a_second_session_delivers_what_came_after_the_first),
        cmocka_unit_test(test_at_the_deadline_it_says_how_much_stays),
    };
    return cmocka_run_group_tests(tests, quiet, NULL);
}
