/* Aggregators of a sink: known by their routing id, forgotten when they go. */
#include "must.h"

#include <string.h>

#include <czmq.h>

#include "crema_reactor.h"
#include "crema_wire.h"
#include "message_parts.h"
#include "record_frames.h"
#include "sink_peers.h"

#define SESSION 4711

static zsock_t *s_router, *s_dealer;
static sink_peers_t *s_peers;
static char s_endpoint[256];
static crema_arena_t *s_arena;

static int
s_setup(void **state)
{
    (void)state;
    s_router = zsock_new(ZMQ_ROUTER);
    s_dealer = zsock_new(ZMQ_DEALER);
    crema_socket_prepare(s_router, CREMA_ROLE_STORE);
    crema_socket_prepare(s_dealer, CREMA_ROLE_SINK);
    zsock_set_rcvtimeo(s_router, 5000);
    zsock_set_rcvtimeo(s_dealer, 5000);
    if (crema_socket_bind(s_router, "tcp://127.0.0.1:*", s_endpoint, sizeof s_endpoint) !=
            CREMA_OK ||
        crema_socket_connect(s_dealer, s_endpoint) != CREMA_OK ||
        crema_arena_new(1 << 20, &s_arena) != CREMA_OK)
        return -1;
    return sink_peers_new(s_router, SESSION, &s_peers) == CREMA_OK ? 0 : -1;
}

static int
s_teardown(void **state)
{
    (void)state;
    sink_peers_destroy(&s_peers);
    zsock_destroy(&s_router);
    zsock_destroy(&s_dealer);
    crema_arena_destroy(&s_arena);
    return 0;
}

/* The dealer speaks; the place that the sink gives it. */
static size_t
must_hear(bool want_new)
{
    char id[256], body[8];
    bool is_new;
    assert_int_equal(zmq_send(zsock_resolve(s_dealer), "x", 1, 0), 1);
    int size = zmq_recv(zsock_resolve(s_router), id, sizeof id, 0);
    assert_true(size > 0);
    assert_int_equal(zmq_recv(zsock_resolve(s_router), body, sizeof body, 0), 1);
    size_t place = sink_peers_heard(s_peers, id, (size_t)size, 1, &is_new);
    assert_int_equal(is_new, want_new);
    return place;
}

static void
must_get(uint8_t stream)
{
    static uint8_t bytes[4096];
    crema_msg_t msg;
    int size = zmq_recv(zsock_resolve(s_dealer), bytes, sizeof bytes, 0);
    assert_true(size > 0);
    must(crema_wire_decode(bytes, (size_t)size, s_arena, &msg));
    assert_int_equal(msg.type, CREMA_MSG_NACK);
    assert_int_equal(msg.session, SESSION);
    const crema_id_t id = frames_id(stream);
    assert_true(crema_id_equal(crema_id_of(msg.nack.stream_id), &id));
}

static void
test_peers_get_messages_of_this_start(void **state)
{
    (void)state;
    size_t place = must_hear(true);
    assert_int_equal(must_hear(false), place);
    sink_peers_send(
        s_peers, place,
        &(crema_msg_t){.type = CREMA_MSG_NACK, .nack = {.stream_id = body_id(frames_id(7))}});
    must_get(7);
    sink_peers_broadcast(s_peers, &(crema_msg_t){.type = CREMA_MSG_NACK,
                                                 .nack = {.stream_id = body_id(frames_id(8))}});
    must_get(8);
    assert_int_equal(sink_peers_stats(s_peers).sent, 2);
}

static void
test_peers_that_left_are_forgotten(void **state)
{
    (void)state;
    bool is_new;
    crema_msg_t msg = {.type = CREMA_MSG_NACK, .nack = {.stream_id = body_id(frames_id(9))}};
    must_hear(true);
    size_t ghost = sink_peers_heard(s_peers, "ghost", 5, 1, &is_new);
    assert_int_equal(sink_peers_count(s_peers), 2);
    sink_peers_broadcast(s_peers, &msg);
    must_get(9);
    assert_int_equal(sink_peers_stats(s_peers).gone, 1);
    assert_int_equal(sink_peers_count(s_peers), 1);
    sink_peers_send(s_peers, ghost, &msg); /* nothing happens */
    assert_int_equal(sink_peers_heard(s_peers, "ghost", 5, 1, &is_new), ghost);
    assert_true(is_new);
}

static void
test_peers_are_bounded(void **state)
{
    (void)state;
    bool is_new;
    for (int64_t i = 0; i < SINK_PEERS_MAX + 10; i++) {
        sink_peers_heard(s_peers, &i, sizeof i, 100 + i, &is_new);
        assert_true(is_new);
    }
    assert_int_equal(sink_peers_count(s_peers), SINK_PEERS_MAX);
    int64_t last = SINK_PEERS_MAX + 9, first = 0;
    sink_peers_heard(s_peers, &last, sizeof last, 999, &is_new);
    assert_false(is_new);
    sink_peers_heard(s_peers, &first, sizeof first, 999, &is_new);
    assert_true(is_new); /* the one silent for longest had gone first */
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_peers_get_messages_of_this_start),
        T(test_peers_that_left_are_forgotten),
        T(test_peers_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
