/* Peers: one number per routing id, never the same one again. */
#include "must.h"

#include <string.h>

#include "agg_peers.h"

static agg_peers_t *s_peers;

static int
s_setup(void **state)
{
    (void)state;
    return agg_peers_new(4, NULL, &s_peers) == CREMA_OK ? 0 : -1;
}

static int
s_teardown(void **state)
{
    (void)state;
    agg_peers_destroy(&s_peers);
    return 0;
}

static agg_peer_t
must_hear(const char *id, int64_t now_ns)
{
    agg_peer_t peer = 0;
    const crema_principal_t *from = NULL;
    must(agg_peers_heard(s_peers, id, strlen(id), NULL, now_ns, &peer, &from));
    assert_int_equal(from->as, CREMA_AS_ANY);
    assert_int_not_equal(peer, 0);
    return peer;
}

static void
test_peers_keep_their_numbers(void **state)
{
    (void)state;
    agg_routing_id_t id;
    agg_peer_t a = must_hear("aaaaa", 1), b = must_hear("bbbbb", 1);
    assert_int_not_equal(a, b);
    assert_int_equal(must_hear("aaaaa", 2), a);
    assert_true(agg_peers_find(s_peers, b, &id));
    assert_int_equal(id.size, 5);
    assert_memory_equal(id.bytes, "bbbbb", 5);
    assert_false(agg_peers_find(s_peers, 99, &id));
}

/* An id that is the beginning of another one is another one. */
static void
test_peers_with_ids_of_different_length_differ(void **state)
{
    (void)state;
    agg_peer_t peer, other;
    const crema_principal_t *from;
    must(agg_peers_heard(s_peers, "\0\0", 2, NULL, 1, &peer, &from));
    must(agg_peers_heard(s_peers, "\0\0\0", 3, NULL, 1, &other, &from));
    assert_int_not_equal(peer, other);
}

static void
test_peers_forgotten_come_back_as_others(void **state)
{
    (void)state;
    agg_routing_id_t id;
    agg_peer_t a = must_hear("aaaaa", 10), b = must_hear("bbbbb", 20);
    assert_int_equal(agg_peers_sweep(s_peers, 20), 1);
    assert_false(agg_peers_find(s_peers, a, &id));
    assert_true(agg_peers_find(s_peers, b, &id));
    agg_peer_t again = must_hear("aaaaa", 30);
    assert_true(again > b);
    agg_peers_forget(s_peers, b);
    agg_peers_forget(s_peers, b);
    assert_false(agg_peers_find(s_peers, b, &id));
    assert_true(agg_peers_find(s_peers, again, &id));
}

static void
test_peers_are_bounded(void **state)
{
    (void)state;
    agg_peer_t peer = 77;
    const crema_principal_t *from;
    must_hear("a", 1), must_hear("b", 2), must_hear("c", 3), must_hear("d", 4);
    assert_int_equal(agg_peers_heard(s_peers, "e", 1, NULL, 5, &peer, &from), CREMA_ELIMIT);
    assert_int_equal(agg_peers_heard(s_peers, "sixteen bytes id", 16, NULL, 5, &peer, &from),
                     CREMA_EPROTO);
    assert_int_equal(agg_peers_heard(s_peers, "", 0, NULL, 5, &peer, &from), CREMA_EPROTO);
    assert_int_equal(peer, 77);
    assert_int_equal(agg_peers_sweep(s_peers, 2), 1);
    must_hear("e", 5);
}

/* Connections that come and go take no room from those that are in use. */
static void
test_a_new_peer_takes_the_place_of_a_silent_one(void **state)
{
    (void)state;
    const int64_t later = 10 * INT64_C(1000000000);
    agg_routing_id_t id;
    agg_peer_t a = must_hear("a", 1), b = must_hear("b", 2);
    must_hear("c", 3), must_hear("d", 4);
    must_hear("a", later);
    agg_peer_t e = must_hear("e", later + 2);
    assert_true(agg_peers_find(s_peers, a, &id));
    assert_true(agg_peers_find(s_peers, e, &id));
    assert_false(agg_peers_find(s_peers, b, &id));
}

/* Whose connection it is goes with the routing id; the same id on another key's connection is
 * somebody else. */
static void
test_peers_are_known_by_their_key(void **state)
{
    (void)state;
    static const char alice[] = "client alice 0123456789abcdef0123456789abcdef";
    static const char bob[] = "agent bob 1123456789abcdef0123456789abcdef";
    agg_peer_t peer, again, other;
    agg_routing_id_t id;
    const crema_principal_t *from = NULL;
    must(agg_peers_heard(s_peers, "a", 1, alice, 1, &peer, &from));
    assert_int_equal(from->as, CREMA_AS_CLIENT);
    assert_string_equal(from->name, "alice");
    must(agg_peers_heard(s_peers, "a", 1, alice, 2, &again, &from));
    assert_int_equal(again, peer);
    must(agg_peers_heard(s_peers, "a", 1, bob, 3, &other, &from));
    assert_int_not_equal(other, peer);
    assert_string_equal(from->name, "bob");
    assert_false(agg_peers_find(s_peers, peer, &id));
    assert_int_equal(agg_peers_heard(s_peers, "b", 1, "x y z", 3, &other, &from), CREMA_EPROTO);
}

static agg_peer_t
must_hear_from(const char *id, const char *user_id, int64_t now_ns)
{
    agg_peer_t peer = 0;
    const crema_principal_t *from = NULL;
    must(agg_peers_heard(s_peers, id, strlen(id), user_id, now_ns, &peer, &from));
    return peer;
}

/* One key has three places of four; at its share its own silent peer gives way, and no other. */
static void
test_one_key_leaves_room_for_others(void **state)
{
    (void)state;
    static const char alice[] = "client alice 0123456789abcdef0123456789abcdef";
    static const char bob[] = "agent bob 1123456789abcdef0123456789abcdef";
    const int64_t later = 10 * INT64_C(1000000000);
    agg_peer_t peer = 77;
    agg_routing_id_t id;
    const crema_principal_t *from = NULL;
    agg_peer_t of_bob = must_hear_from("b", bob, 0);
    agg_peer_t first = must_hear_from("1", alice, 1);
    must_hear_from("2", alice, 2), must_hear_from("3", alice, 3);
    agg_peers_forget(s_peers, of_bob);
    assert_int_equal(agg_peers_heard(s_peers, "4", 1, alice, 4, &peer, &from), CREMA_ELIMIT);
    assert_int_equal(peer, 77);
    of_bob = must_hear_from("b", bob, 0);
    must_hear_from("2", alice, later), must_hear_from("3", alice, later);
    must_hear_from("4", alice, later + 1);
    assert_false(agg_peers_find(s_peers, first, &id));
    assert_true(agg_peers_find(s_peers, of_bob, &id)); /* though silent for longer */
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_peers_keep_their_numbers),
        T(test_peers_with_ids_of_different_length_differ),
        T(test_peers_forgotten_come_back_as_others),
        T(test_peers_are_bounded),
        T(test_a_new_peer_takes_the_place_of_a_silent_one),
        T(test_peers_are_known_by_their_key),
        T(test_one_key_leaves_room_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
