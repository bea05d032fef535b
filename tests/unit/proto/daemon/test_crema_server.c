/* A program's listening side: what it refuses, and with which sentence. */
#include "must.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <czmq.h>

#include "crema_keyring.h"
#include "crema_keys_make.h"
#include "crema_server.h"
#include "record_frames.h"

static char s_why[1024];

static void
must_say(const char *part)
{
    if (!strstr(s_why, part))
        fail_msg("\"%s\" does not say \"%s\"", s_why, part);
}

static void
must_remove(const char *path)
{
    zdir_t *dir = zdir_new(path, NULL);
    assert_non_null(dir);
    zdir_remove(dir, true);
    zdir_destroy(&dir);
}

/* The fingerprint of a client's key. */
static crema_id_t
must_read_key(const char *dir, const char *name)
{
    char path[128];
    uint8_t public_key[32];
    crema_keys_t *keys = NULL;
    const char *why = "";
    snprintf(path, sizeof path, "%s/%s", dir, name);
    must(crema_keys_load(path, CREMA_AS_CLIENT, &keys, &why));
    assert_non_null(zmq_z85_decode(public_key, crema_keys_public(keys)));
    crema_keys_destroy(&keys);
    return crema_principal_key(public_key);
}

static void
test_what_can_be_known_beforehand_is_refused_with_its_option(void **state)
{
    (void)state;
    assert_true(crema_server_refuses("tap", "127.0.0.1", NULL, true, s_why, sizeof s_why));
    must_say("--tap: 127.0.0.1 is not an endpoint");
    assert_true(crema_server_refuses("bind", "tcp://*:5700", NULL, true, s_why, sizeof s_why));
    must_say("--keys DIR");
    assert_false(crema_server_refuses("bind", "tcp://*:5700", "keys", false, s_why, sizeof s_why));
    assert_true(
        crema_server_refuses("bind", "tcp://127.0.0.1:5700", NULL, false, s_why, sizeof s_why));
    must_say("every user of this host");
    must_say("--keys DIR");
    assert_false(
        crema_server_refuses("bind", "tcp://127.0.0.1:5700", NULL, true, s_why, sizeof s_why));
    assert_false(
        crema_server_refuses("bind", "ipc:///run/x/sink", NULL, false, s_why, sizeof s_why));
    assert_true(crema_server_refuses_to_send("sink", "tcp://10.0.0.7:5701", NULL, false, s_why,
                                             sizeof s_why));
    must_say("in the clear");
    assert_false(crema_server_refuses_to_send("sink", "tcp://10.0.0.7:5701", NULL, true, s_why,
                                              sizeof s_why));
    assert_false(crema_server_refuses_to_send("sink", "tcp://10.0.0.7:5701", "keys", false, s_why,
                                              sizeof s_why));
    assert_false(crema_server_refuses_to_send("sink", "tcp://127.0.0.1:5701", NULL, false, s_why,
                                              sizeof s_why));
}

static void
test_a_second_server_on_one_port_is_told_what_to_do(void **state)
{
    (void)state;
    crema_server_t *first = NULL, *second = NULL;
    must(crema_server_new(CREMA_ROLE_AGENTS, "tcp://127.0.0.1:*", NULL, s_why, sizeof s_why,
                          &first));
    assert_null(crema_server_keys(first));
    assert_non_null(crema_server_socket(first));
    const char *endpoint = crema_server_endpoint(first);
    assert_int_equal(
        crema_server_new(CREMA_ROLE_STORE, endpoint, NULL, s_why, sizeof s_why, &second),
        CREMA_EBUSY);
    must_say(endpoint);
    must_say("another port with --bind");
    assert_null(second);
    crema_server_destroy(&first);
    assert_null(first);
    crema_server_destroy(&first);
}

static void
test_what_is_no_endpoint_and_what_is_no_key_are_the_users_to_mend(void **state)
{
    (void)state;
    crema_server_t *server = NULL;
    assert_int_equal(
        crema_server_new(CREMA_ROLE_AGENTS, "letter://x", "/nowhere", s_why, sizeof s_why, &server),
        CREMA_ECONFIG);
    must_say("/nowhere");
    assert_int_equal(crema_server_new(CREMA_ROLE_AGENTS, "tcp://127.0.0.1:x", NULL, s_why,
                                      sizeof s_why, &server),
                     CREMA_ECONFIG);
    must_say("not an endpoint");
    assert_null(server);
}

static void
test_with_keys_their_handler_is_there_for_a_loop(void **state)
{
    (void)state;
    char dir[SCRATCH_BYTES];
    scratch_template("server", dir);
    assert_non_null(mkdtemp(dir));
    must(crema_keys_make(dir));
    crema_server_t *server = NULL;
    must(crema_server_new(CREMA_ROLE_AGENTS, "tcp://127.0.0.1:*", dir, s_why, sizeof s_why,
                          &server));
    assert_non_null(crema_server_keys(server));
    zloop_t *loop = crema_loop_new();
    must(crema_server_attach(server, loop, 1, NULL));
    crema_server_destroy(&server);
    zloop_destroy(&loop);
    must_remove(dir);
}

static bool
s_knows_no_run(const void *context, const crema_id_t *run_id)
{
    (void)context;
    (void)run_id;
    return false;
}

/* A revoked key is noticed without being told; what a run lent goes with its owner's. */
static void
test_a_revoked_key_is_admitted_no_more(void **state)
{
    (void)state;
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 32];
    scratch_template("server", dir);
    assert_non_null(mkdtemp(dir));
    must(crema_keys_make(dir));
    must(crema_keys_add(dir, CREMA_AS_CLIENT, "alice", -1));
    crema_server_t *server = NULL;
    must(crema_server_new(CREMA_ROLE_AGENTS, "tcp://127.0.0.1:*", dir, s_why, sizeof s_why,
                          &server));
    snprintf(path, sizeof path, "%s/client-alice", dir);
    crema_keys_t *keys = NULL;
    const char *why = "";
    uint8_t public_key[32], agents_key[32] = {7};
    must(crema_keys_load(path, CREMA_AS_CLIENT, &keys, &why));
    assert_non_null(zmq_z85_decode(public_key, crema_keys_public(keys)));
    crema_principal_t alice = {.as = CREMA_AS_CLIENT, .name = "alice"};
    alice.key = crema_principal_key(public_key);
    crema_id_t run_id = {{1}};
    crema_principal_t agent = crema_principal_of_run(&run_id, agents_key);
    assert_true(crema_keyring_admits(crema_server_ring(server), &alice));
    assert_false(crema_keyring_admits(crema_server_ring(server), &agent));
    must(crema_keyring_lend(crema_server_ring(server), &run_id, &alice.key, agents_key));
    must(crema_keyring_lend(crema_server_ring(server), &run_id, &alice.key, agents_key));
    const crema_id_t lent = crema_principal_key(agents_key);
    const crema_id_t owner = crema_keyring_owner(crema_server_ring(server), &lent);
    assert_true(crema_id_equal(&owner, &alice.key));
    assert_true(crema_keyring_admits(crema_server_ring(server), &agent));
    crema_id_t other_run = {{2}};
    assert_int_equal(
        crema_keyring_lend(crema_server_ring(server), &other_run, &alice.key, agents_key),
        CREMA_EBUSY);
    assert_int_equal(
        crema_keyring_lend(crema_server_ring(server), &other_run, &alice.key, public_key),
        CREMA_EBUSY);
    alice.as = CREMA_AS_AGENT; /* the key is hers in one role only */
    assert_false(crema_keyring_admits(crema_server_ring(server), &alice));
    alice.as = CREMA_AS_CLIENT;
    for (unsigned i = 0; i < 600; i++) { /* more than are reported one by one, before hers is */
        const uint8_t another_key[32] = {8, (uint8_t)i, (uint8_t)(i >> 8)};
        must(crema_keyring_lend(crema_server_ring(server), &run_id, &alice.key, another_key));
        if (i == 300)
            for (int look = 0; look < 2; look++)
                crema_keyring_take_back(crema_server_ring(server), s_knows_no_run, NULL);
    }
    must(crema_keys_revoke(dir, CREMA_AS_CLIENT, "alice"));
    assert_true(crema_server_refresh(server, false));
    assert_false(crema_keyring_admits(crema_server_ring(server), &alice));
    assert_false(crema_keyring_admits(crema_server_ring(server), &agent));
    assert_false(crema_server_refresh(server, true));
    crema_principal_t gone;
    unsigned named = 0;
    while (crema_keyring_revoked(crema_server_ring(server), &gone))
        named += crema_id_equal(&gone.key, &alice.key) && strcmp(gone.name, "alice") == 0;
    assert_int_equal(named, 1);

    /* Used at once, a new key is admitted, and the server hears of it as of any other. */
    must(crema_keys_add(dir, CREMA_AS_CLIENT, "bob", -1));
    snprintf(path, sizeof path, "%s/client-bob", dir);
    crema_keys_destroy(&keys);
    must(crema_keys_load(path, CREMA_AS_CLIENT, &keys, &why));
    assert_non_null(zmq_z85_decode(public_key, crema_keys_public(keys)));
    assert_non_null(crema_keyring_find(crema_server_ring(server), public_key));
    assert_true(crema_server_refresh(server, false));
    assert_false(crema_server_refresh(server, true));
    crema_keys_destroy(&keys);
    crema_server_destroy(&server);
    must_remove(dir);
}

/* A file that says something else than a uid admits nobody: to take it for no binding would open
 * the runs to everybody. */
static void
test_a_key_is_bound_to_a_user(void **state)
{
    (void)state;
    static const struct {
        const char *uid;
        uint32_t user;
        size_t unreadable;
    } c_cases[] = {{"1000", 1001, 0}, {"0", 1, 0},  {"4294967294", UINT32_MAX, 0},
                   {"-1", 0, 1},      {"", 0, 1},   {"4294967295", 0, 1},
                   {"1x", 0, 1},      {" 1", 0, 1}, {"99999999999999999999", 0, 1}};
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 32];
    scratch_template("server", dir);
    assert_non_null(mkdtemp(dir));
    must(crema_keys_make(dir));
    must(crema_keys_add(dir, CREMA_AS_CLIENT, "alice", 1000));
    crema_keyring_t *ring = NULL;
    snprintf(path, sizeof path, "%s/server", dir);
    must(crema_keyring_new(path, &ring));
    crema_id_t alice = must_read_key(dir, "client-alice"), other = must_read_key(dir, "client");
    snprintf(path, sizeof path, "%s/server/client.alice.key", dir);
    for (size_t i = 0; i < sizeof c_cases / sizeof *c_cases; i++) {
        if (i > 0) {
            zconfig_t *file = zconfig_load(path);
            zconfig_put(file, "metadata/uid", c_cases[i].uid);
            assert_int_equal(zconfig_save(file, path), 0);
            zconfig_destroy(&file);
            assert_true(crema_keyring_refresh(ring, true) || c_cases[i].unreadable);
        }
        assert_int_equal(crema_keyring_user(ring, &alice), c_cases[i].user);
        assert_int_equal(crema_keyring_user(ring, &other), 0);
        assert_int_equal(crema_keyring_unreadable(ring), c_cases[i].unreadable);
    }
    crema_keyring_destroy(&ring);
    must_remove(dir);
}

/* The clock was set back: the directory's time stamp lies an hour ahead. What changes in a file
 * shows whether it was read. */
static void
test_an_unknown_key_does_not_have_a_directory_of_the_future_read_each_time(void **state)
{
    (void)state;
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 32], file[SCRATCH_BYTES + 64];
    const uint8_t unknown[32] = {1};
    scratch_template("server", dir);
    assert_non_null(mkdtemp(dir));
    must(crema_keys_make(dir));
    must(crema_keys_add(dir, CREMA_AS_CLIENT, "alice", 1000));
    crema_keyring_t *ring = NULL;
    snprintf(path, sizeof path, "%s/server", dir);
    snprintf(file, sizeof file, "%s/client.alice.key", path);
    const struct timespec ahead[] = {{.tv_sec = time(NULL) + 3600}, {.tv_sec = time(NULL) + 3600}};
    assert_int_equal(utimensat(AT_FDCWD, path, ahead, 0), 0);
    must(crema_keyring_new(path, &ring));
    crema_id_t alice = must_read_key(dir, "client-alice");
    assert_null(crema_keyring_find(ring, unknown));
    FILE *broken = fopen(file, "w");
    assert_non_null(broken);
    fclose(broken);
    for (int i = 0; i < 100; i++)
        assert_null(crema_keyring_find(ring, unknown));
    assert_true(crema_keyring_knows(ring, &alice));
    (void)crema_keyring_refresh(ring, true);
    assert_false(crema_keyring_knows(ring, &alice));
    crema_keyring_destroy(&ring);
    must_remove(dir);
}

static bool
s_is_even(const void *context, const crema_id_t *run_id)
{
    (void)context;
    return run_id->bytes[0] % 2 == 0;
}

/* No key of a run that goes on is displaced, whoever's it is; keys end with their runs. */
static void
test_an_owner_has_so_many_keys_and_none_is_displaced(void **state)
{
    (void)state;
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 32];
    scratch_template("server", dir);
    assert_non_null(mkdtemp(dir));
    must(crema_keys_make(dir));
    must(crema_keys_add(dir, CREMA_AS_CLIENT, "bob", -1));
    crema_keyring_t *ring = NULL;
    snprintf(path, sizeof path, "%s/server", dir);
    must(crema_keyring_new(path, &ring));
    crema_id_t alice = must_read_key(dir, "client"), bob = must_read_key(dir, "client-bob");
    uint8_t key[32] = {0}, of_bob[32] = {254, 255, 255}, of_a_run[32] = {0};
    crema_id_t run_id = {{0}}, of_bobs = {{2, 255}};
    const size_t files = crema_keyring_count(ring);
    for (unsigned i = 0; i <= CREMA_KEYRING_LENT_EACH; i++) {
        run_id.bytes[0] = key[0] = (uint8_t)i;
        run_id.bytes[1] = key[1] = (uint8_t)(i >> 8);
        if (i < CREMA_KEYRING_LENT_EACH)
            must(crema_keyring_lend(ring, &run_id, &alice, key));
    }
    assert_int_equal(crema_keyring_lend(ring, &run_id, &alice, key), CREMA_ELIMIT);
    must(crema_keyring_lend(ring, &of_bobs, &bob, of_bob));
    assert_non_null(crema_keyring_find(ring, of_a_run));
    /* Those that were lent since stay until the next time. */
    crema_keyring_take_back(ring, s_is_even, NULL);
    assert_int_equal(crema_keyring_count(ring), files + CREMA_KEYRING_LENT_EACH + 1);
    crema_keyring_take_back(ring, s_is_even, NULL);
    assert_int_equal(crema_keyring_count(ring), files + CREMA_KEYRING_LENT_EACH / 2 + 1);
    assert_non_null(crema_keyring_find(ring, of_a_run));
    assert_non_null(crema_keyring_find(ring, of_bob));
    of_a_run[0] = 1;
    assert_null(crema_keyring_find(ring, of_a_run));
    crema_principal_t gone;
    assert_true(crema_keyring_revoked(ring, &gone));
    must(crema_keyring_lend(ring, &run_id, &alice, key));
    crema_keyring_destroy(&ring);
    must_remove(dir);
}

/* Looks at all descriptors, each of which begins with the first one. */
static unsigned s_looks;

int
getsockname(int fd, struct sockaddr *restrict address, socklen_t *restrict size)
{
    s_looks += fd == 0;
    return (int)syscall(SYS_getsockname, fd, address, size);
}

static int
s_on_over(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer, (void)context;
    return -1;
}

static void
s_run_for(zloop_t *loop, size_t ms)
{
    assert_true(zloop_timer(loop, ms, 1, s_on_over, NULL) >= 0);
    (void)zloop_start(loop);
}

/* Refusals that are not in the log yet are no reason to look at every connection again and again:
 * a thousand agents whose aggregator has gone dial for hours. */
static void
test_connections_are_looked_at_when_some_have_come_and_no_more(void **state)
{
    (void)state;
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 32];
    scratch_template("server", dir);
    assert_non_null(mkdtemp(dir));
    must(crema_keys_make(dir));
    crema_server_t *server = NULL;
    must(crema_server_new(CREMA_ROLE_AGENTS, "tcp://127.0.0.1:*", dir, s_why, sizeof s_why,
                          &server));
    zloop_t *loop = crema_loop_new();
    must(crema_server_attach(server, loop, 64, NULL));
    snprintf(path, sizeof path, "%s/server/server.key", dir);
    zcert_t *own = zcert_new(), *of_server = zcert_load(path);
    assert_non_null(of_server);
    for (unsigned long dials = 0; dials < 2; dials++) { /* the second is in the log 10 s later */
        s_looks = 0;
        zsock_t *stranger = zsock_new(ZMQ_DEALER);
        zcert_apply(own, stranger);
        zsock_set_curve_serverkey(stranger, zcert_public_txt(of_server));
        assert_int_equal(zsock_connect(stranger, "%s", crema_server_endpoint(server)), 0);
        for (int i = 0; i < 100 && crema_server_refused(server) <= dials; i++)
            s_run_for(loop, 100);
        assert_true(crema_server_refused(server) > dials);
        zsock_destroy(&stranger);
        s_run_for(loop, 600);
        assert_true(s_looks > 0);
    }
    s_looks = 0;
    s_run_for(loop, 1000);
    assert_int_equal(s_looks, 0);
    zcert_destroy(&own);
    zcert_destroy(&of_server);
    crema_server_destroy(&server);
    zloop_destroy(&loop);
    must_remove(dir);
}

int
main(void)
{
    const struct CMUnitTest c_tests[] = {
        cmocka_unit_test(test_connections_are_looked_at_when_some_have_come_and_no_more),
        cmocka_unit_test(test_what_can_be_known_beforehand_is_refused_with_its_option),
        cmocka_unit_test(test_a_second_server_on_one_port_is_told_what_to_do),
        cmocka_unit_test(test_what_is_no_endpoint_and_what_is_no_key_are_the_users_to_mend),
        cmocka_unit_test(test_with_keys_their_handler_is_there_for_a_loop),
        cmocka_unit_test(test_a_revoked_key_is_admitted_no_more),
        cmocka_unit_test(test_an_owner_has_so_many_keys_and_none_is_displaced),
        cmocka_unit_test(test_a_key_is_bound_to_a_user),
        cmocka_unit_test(
            test_an_unknown_key_does_not_have_a_directory_of_the_future_read_each_time),
    };
    int signals;
    must(crema_signals_new(&signals));
    int failures = cmocka_run_group_tests(c_tests, NULL, NULL);
    zsys_shutdown();
    return failures;
}
