/* Keys: who may connect, and that a key directory which others can read is not used. */
#include "must.h"

#include <czmq.h>
#include <sys/stat.h>

#include "crema_keyring.h"
#include "crema_keys.h"
#include "crema_keys_make.h"
#include "crema_principal.h"
#include "crema_zap.h"
#include "record_frames.h"

static char s_dir[SCRATCH_BYTES];         /* a directory of its own for each test */
static char s_key_dir[SCRATCH_BYTES + 8]; /* below it */

static int
s_set_up(void **state)
{
    (void)state;
    scratch_template("keys", s_dir);
    assert_non_null(mkdtemp(s_dir));
    snprintf(s_key_dir, sizeof s_key_dir, "%s/keys", s_dir);
    return 0;
}

static int
s_tear_down(void **state)
{
    (void)state;
    zdir_t *dir = zdir_new(s_dir, NULL);
    if (!dir)
        return -1;
    zdir_remove(dir, true);
    zdir_destroy(&dir);
    return access(s_dir, F_OK) < 0 ? 0 : -1;
}

static const char *
s_file(const char *name)
{
    static char path[SCRATCH_BYTES + 72];
    snprintf(path, sizeof path, "%s/%s", s_key_dir, name);
    return path;
}

static mode_t
s_mode(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void
test_made_keys_are_private_and_kept(void **state)
{
    (void)state;
    static const char *const c_roles[] = {"server", "aggregator", "agent", "client", "monitor"};
    char name[64];
    must(crema_keys_make(s_key_dir));
    assert_int_equal(s_mode(s_key_dir), 0700);
    for (size_t i = 0; i < sizeof c_roles / sizeof *c_roles; i++) {
        assert_int_equal(s_mode(s_file(c_roles[i])), 0700);
        snprintf(name, sizeof name, "%s/%s.key_secret", c_roles[i], c_roles[i]);
        assert_int_equal(s_mode(s_file(name)), 0600);
        snprintf(name, sizeof name, "%s/server.key", c_roles[i]);
        assert_int_equal(access(s_file(name), R_OK), 0);
    }
    assert_int_not_equal(access(s_file("client/server.key_secret"), F_OK), 0);
    zconfig_t *before = zconfig_load(s_file("client/client.key"));
    assert_int_equal(crema_keys_make(s_key_dir), CREMA_EBUSY);
    zconfig_t *after = zconfig_load(s_file("client/client.key"));
    assert_string_equal(zconfig_get(before, "curve/public-key", "1"),
                        zconfig_get(after, "curve/public-key", "2"));
    zconfig_destroy(&before);
    zconfig_destroy(&after);
}

static void
test_an_agent_makes_its_pair_once(void **state)
{
    (void)state;
    const char *why;
    char first[41], server[41];
    must(crema_keys_make(s_key_dir));
    crema_keys_t *keys = NULL;
    must(crema_keys_load(s_file("agent"), CREMA_AS_AGENT, &keys, &why));
    snprintf(server, sizeof server, "%s", crema_keys_public(keys)); /* any public key */
    crema_keys_destroy(&keys);
    assert_int_equal(crema_keys_make_own(s_file("own"), "short"), CREMA_EINVAL);
    assert_int_not_equal(access(s_file("own"), F_OK), 0);
    for (int i = 0; i < 2; i++) {
        must(crema_keys_make_own(s_file("own"), server));
        must(crema_keys_load(s_file("own"), CREMA_AS_AGENT, &keys, &why));
        if (i == 0)
            snprintf(first, sizeof first, "%s", crema_keys_public(keys));
        assert_string_equal(crema_keys_public(keys), first);
        crema_keys_destroy(&keys);
    }
    assert_int_equal(s_mode(s_file("own")), 0700);
    assert_int_equal(s_mode(s_file("own/agent.key_secret")), 0600);
    assert_int_equal(crema_keys_make_own(s_file("nowhere/own"), server), CREMA_ENOENT);
}

/* A directory that was there is looked at first, and keeps its mode whatever comes of it. */
static void
test_the_mode_of_an_existing_directory_stays(void **state)
{
    (void)state;
    assert_int_equal(mkdir(s_key_dir, 0755), 0);
    must(crema_keys_make(s_key_dir));
    assert_int_equal(s_mode(s_key_dir), 0755);
    assert_int_equal(s_mode(s_file("server")), 0700);
    assert_int_equal(crema_keys_make(s_key_dir), CREMA_EBUSY);
    assert_int_equal(s_mode(s_key_dir), 0755);
}

/* What version 0.1 made has one secret for everybody who connects. */
static void
test_flat_keys_of_before_are_kept_and_not_used(void **state)
{
    (void)state;
    crema_keys_t *keys = NULL;
    const char *why = "";
    assert_int_equal(mkdir(s_key_dir, 0700), 0);
    zcert_t *cert = zcert_new();
    assert_int_equal(zcert_save(cert, s_file("client.key")), 0);
    zcert_destroy(&cert);
    assert_int_equal(chmod(s_file("client.key_secret"), 0600), 0);
    assert_int_equal(crema_keys_make(s_key_dir), CREMA_EBUSY);
    assert_int_equal(crema_keys_load(s_key_dir, CREMA_AS_AGENT, &keys, &why), CREMA_ECONFIG);
    assert_non_null(strstr(why, "agents have their own"));
}

static void
test_a_name_is_added_and_revoked(void **state)
{
    (void)state;
    assert_int_equal(crema_keys_add(s_key_dir, CREMA_AS_CLIENT, "alice", -1), CREMA_ENOENT);
    must(crema_keys_make(s_key_dir));
    must(crema_keys_add(s_key_dir, CREMA_AS_CLIENT, "alice", -1));
    assert_int_equal(s_mode(s_file("client-alice")), 0700);
    assert_int_equal(s_mode(s_file("client-alice/client.key_secret")), 0600);
    assert_int_equal(access(s_file("server/client.alice.key"), R_OK), 0);
    assert_int_equal(crema_keys_add(s_key_dir, CREMA_AS_CLIENT, "alice", -1), CREMA_EBUSY);
    must(crema_keys_add(s_key_dir, CREMA_AS_AGENT, "alice", -1));
    must(crema_keys_revoke(s_key_dir, CREMA_AS_CLIENT, "alice"));
    assert_int_equal(crema_keys_revoke(s_key_dir, CREMA_AS_CLIENT, "alice"), CREMA_ENOENT);
    assert_int_equal(access(s_file("server/agent.alice.key"), R_OK), 0);
    static const char *const c_names[] = {"", "../x", "a/b", ".hidden", "a b", "a\n"};
    for (size_t i = 0; i < sizeof c_names / sizeof *c_names; i++)
        assert_int_equal(crema_keys_add(s_key_dir, CREMA_AS_CLIENT, c_names[i], -1), CREMA_EINVAL);
    assert_int_equal(crema_keys_add(s_key_dir, CREMA_AS_SERVER, "x", -1), CREMA_EINVAL);
    assert_int_equal(crema_keys_add(s_key_dir, CREMA_AS_CLIENT, "x", UINT32_MAX), CREMA_EINVAL);
    assert_int_equal(crema_keys_add(s_key_dir, CREMA_AS_AGENT, "x", 1000), CREMA_EINVAL);
}

static void
test_a_missing_parent_is_said(void **state)
{
    (void)state;
    snprintf(s_key_dir, sizeof s_key_dir, "%s/no/keys", s_dir);
    assert_int_equal(crema_keys_make(s_key_dir), CREMA_ENOENT);
}

static void
test_no_directory_means_no_keys(void **state)
{
    (void)state;
    crema_keys_t *keys = (crema_keys_t *)&s_dir;
    crema_zap_t *zap = (crema_zap_t *)&s_dir;
    const char *why = NULL;
    must(crema_keys_load(NULL, CREMA_AS_SERVER, &keys, &why));
    assert_null(keys);
    must(crema_zap_new(keys, NULL, &zap));
    assert_null(zap);
    assert_null(crema_zap_socket(zap));
    zsock_t *sock = zsock_new(ZMQ_PUSH);
    crema_keys_serve(keys, sock, CREMA_DOMAIN_SERVICE);
    crema_keys_connect(keys, sock);
    assert_int_equal(zsock_mechanism(sock), ZMQ_NULL);
    zsock_destroy(&sock);
    crema_keys_destroy(&keys);
    crema_zap_destroy(&zap);
}

typedef enum {
    OPEN_DIRECTORY,
    OPEN_SECRET,
    NO_SECRET,
    NO_PEER,
    BROKEN_SECRET,
    BROKEN_PEER,
    NO_DIRECTORY
} damage_t;

static void
s_damage(damage_t damage, bool server)
{
    const char *role = server ? "server" : "client";
    const char *secret = server ? "server/server.key_secret" : "client/client.key_secret";
    const char *peer = "client/server.key";
    char broken[] = "not a certificate\n";
    switch (damage) {
    case OPEN_DIRECTORY:
        assert_int_equal(chmod(s_file(role), 0750), 0);
        break;
    case OPEN_SECRET:
        assert_int_equal(chmod(s_file(secret), 0604), 0);
        break;
    case NO_SECRET:
        assert_int_equal(unlink(s_file(secret)), 0);
        break;
    case NO_PEER:
        assert_int_equal(unlink(s_file(peer)), 0);
        break;
    case BROKEN_SECRET:
    case BROKEN_PEER: {
        FILE *file = fopen(s_file(damage == BROKEN_SECRET ? secret : peer), "w");
        assert_non_null(file);
        fputs(broken, file);
        fclose(file);
        break;
    }
    case NO_DIRECTORY:
        assert_int_equal(rename(s_key_dir, s_dir), -1); /* not empty: it stays */
        strcat(s_key_dir, "x");
        break;
    }
}

static void
test_a_bad_directory_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        damage_t damage;
        const char *want; /* part of the reason */
    } steps[] = {
        {OPEN_DIRECTORY, "directory is open"},
        {OPEN_SECRET, "secret key is open"},
        {NO_SECRET, "is missing"},
        {NO_PEER, "not a readable"},
        {BROKEN_SECRET, "not a readable"},
        {BROKEN_PEER, "not a readable"},
        {NO_DIRECTORY, "does not exist"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        for (int server = 0; server <= 1; server++) {
            if (server && (steps[i].damage == NO_PEER || steps[i].damage == BROKEN_PEER))
                continue; /* a server needs no one key */
            snprintf(s_key_dir, sizeof s_key_dir, "%s/keys%zu%d", s_dir, i, server);
            must(crema_keys_make(s_key_dir));
            s_damage(steps[i].damage, server);
            crema_keys_t *keys = NULL;
            const char *why = "";
            assert_int_equal(
                crema_keys_load(s_key_dir, server ? CREMA_AS_SERVER : CREMA_AS_CLIENT, &keys, &why),
                CREMA_ECONFIG);
            if (!strstr(why, steps[i].want))
                fail_msg("step %zu: %s", i, why);
            assert_null(keys);
        }
    }
}

/* ---- over real sockets */

typedef struct {
    crema_keys_t *server_keys, *client_keys;
    crema_keyring_t *ring;
    crema_zap_t *zap;
    zsock_t *server;
} door_t;

static door_t
s_open_door(void)
{
    door_t door = {0};
    const char *why = "";
    must(crema_keys_make(s_key_dir));
    must(crema_keys_load(s_key_dir, CREMA_AS_SERVER, &door.server_keys, &why));
    must(crema_keys_load(s_key_dir, CREMA_AS_CLIENT, &door.client_keys, &why));
    must(crema_keyring_new(crema_keys_dir(door.server_keys), &door.ring));
    must(crema_zap_new(door.server_keys, door.ring, &door.zap));
    assert_int_equal(crema_zap_refused(door.zap), 0); /* the self-test does not count */
    door.server = zsock_new(ZMQ_ROUTER);
    crema_keys_serve(door.server_keys, door.server, CREMA_DOMAIN_SERVICE);
    assert_true(zsock_bind(door.server, "tcp://127.0.0.1:*") > 0);
    return door;
}

static void
s_close_door(door_t *door)
{
    zsock_destroy(&door->server);
    crema_zap_destroy(&door->zap);
    crema_keyring_destroy(&door->ring);
    crema_keys_destroy(&door->server_keys);
    crema_keys_destroy(&door->client_keys);
}

/* Runs the handler until a message came or `refused` requests were refused; the message, or
 * NULL. */
static zmsg_t *
s_run_until(door_t *door, unsigned long refused)
{
    int64_t deadline = zclock_mono() + 10000;
    while (zclock_mono() < deadline) {
        zmq_pollitem_t items[] = {
            {zsock_resolve(crema_zap_socket(door->zap)), 0, ZMQ_POLLIN, 0},
            {zsock_resolve(door->server), 0, ZMQ_POLLIN, 0},
        };
        zmq_poll(items, 2, 100);
        if (items[0].revents)
            crema_zap_handle(door->zap);
        if (items[1].revents)
            return zmsg_recv(door->server);
        if (refused && crema_zap_refused(door->zap) >= refused)
            return NULL;
    }
    fail_msg("nothing came");
    return NULL;
}

static zsock_t *
s_client(void)
{
    zsock_t *sock = zsock_new(ZMQ_DEALER);
    zsock_set_linger(sock, 0);
    zsock_set_reconnect_ivl(sock, -1);
    zsock_set_sndtimeo(sock, 0); /* a connection that was refused already takes no message */
    return sock;
}

static void
test_the_known_key_gets_in_and_is_named(void **state)
{
    (void)state;
    door_t door = s_open_door();
    zsock_t *client = s_client();
    crema_keys_connect(door.client_keys, client);
    assert_int_equal(zsock_connect(client, "%s", zsock_endpoint(door.server)), 0);
    zstr_send(client, "hello");
    zmsg_t *msg = s_run_until(&door, 0);
    assert_int_equal(zmsg_size(msg), 2);
    zframe_t *body = zmsg_last(msg);
    assert_true(zframe_streq(body, "hello"));
    zconfig_t *public_key = zconfig_load(s_file("client/client.key"));
    uint8_t key[32];
    crema_principal_t peer;
    assert_non_null(zmq_z85_decode(key, zconfig_get(public_key, "curve/public-key", "")));
    must(crema_principal_parse(zframe_meta(body, "User-Id"), &peer));
    crema_id_t want = crema_principal_key(key);
    assert_true(crema_id_equal(&peer.key, &want));
    assert_int_equal(peer.as, CREMA_AS_CLIENT);
    assert_string_equal(peer.name, CREMA_KEYS_DEFAULT);
    zconfig_destroy(&public_key);
    zmsg_destroy(&msg);
    zsock_destroy(&client);
    s_close_door(&door);
}

/* The tap shows every run: a client's key does not open it, and a monitor's opens nothing else. */
static void
test_the_tap_is_for_monitors_alone(void **state)
{
    (void)state;
    door_t door = s_open_door();
    const char *why = "";
    crema_keys_t *monitor_keys = NULL;
    must(crema_keys_load(s_key_dir, CREMA_AS_MONITOR, &monitor_keys, &why));
    zsock_t *tap = zsock_new(ZMQ_ROUTER), *sockets[3];
    crema_keys_serve(door.server_keys, tap, CREMA_DOMAIN_TAP);
    assert_true(zsock_bind(tap, "tcp://127.0.0.1:*") > 0);
    for (size_t i = 0; i < 3; i++)
        sockets[i] = s_client();
    crema_keys_connect(door.client_keys, sockets[0]);
    crema_keys_connect(monitor_keys, sockets[1]);
    crema_keys_connect(monitor_keys, sockets[2]);
    assert_int_equal(zsock_connect(sockets[0], "%s", zsock_endpoint(tap)), 0);
    assert_null(s_run_until(&door, 1));
    assert_int_equal(zsock_connect(sockets[1], "%s", zsock_endpoint(door.server)), 0);
    assert_null(s_run_until(&door, 2));
    zsock_destroy(&door.server);
    door.server = tap;
    assert_int_equal(zsock_connect(sockets[2], "%s", zsock_endpoint(tap)), 0);
    zstr_send(sockets[2], "hello");
    zmsg_t *msg = s_run_until(&door, 0);
    assert_true(zframe_streq(zmsg_last(msg), "hello"));
    zmsg_destroy(&msg);
    for (size_t i = 0; i < 3; i++)
        zsock_destroy(&sockets[i]);
    crema_keys_destroy(&monitor_keys);
    s_close_door(&door);
}

static void
test_a_stranger_is_refused(void **state)
{
    (void)state;
    door_t door = s_open_door();
    zsock_t *client = s_client();
    zcert_t *cert = zcert_new();
    zconfig_t *server_key = zconfig_load(s_file("server/server.key"));
    zcert_apply(cert, client);
    zsock_set_curve_serverkey(client, zconfig_get(server_key, "curve/public-key", ""));
    assert_int_equal(zsock_connect(client, "%s", zsock_endpoint(door.server)), 0);
    zstr_send(client, "hello");
    assert_null(s_run_until(&door, 1));
    assert_int_equal(crema_zap_refused(door.zap), 1);
    zconfig_destroy(&server_key);
    zcert_destroy(&cert);
    zsock_destroy(&client);
    s_close_door(&door);
}

/* Without keys the handshake itself fails; a known client that comes after shows that the door
 * works. */
static void
test_nobody_enters_without_a_key(void **state)
{
    (void)state;
    door_t door = s_open_door();
    zsock_t *plain = s_client(), *client = s_client();
    assert_int_equal(zsock_connect(plain, "%s", zsock_endpoint(door.server)), 0);
    zstr_send(plain, "plain");
    crema_keys_connect(door.client_keys, client);
    assert_int_equal(zsock_connect(client, "%s", zsock_endpoint(door.server)), 0);
    zstr_send(client, "hello");
    zmsg_t *msg = s_run_until(&door, 0);
    assert_true(zframe_streq(zmsg_last(msg), "hello"));
    zmsg_destroy(&msg);
    zsock_destroy(&plain);
    zsock_destroy(&client);
    s_close_door(&door);
}

/* The handler is gone: then nobody enters, not even who may. */
static void
test_without_a_handler_the_door_is_closed(void **state)
{
    (void)state;
    door_t door = s_open_door();
    zsock_t *client = s_client();
    crema_zap_destroy(&door.zap);
    zsock_set_rcvtimeo(door.server, 300);
    crema_keys_connect(door.client_keys, client);
    assert_int_equal(zsock_connect(client, "%s", zsock_endpoint(door.server)), 0);
    zstr_send(client, "hello");
    assert_null(zmsg_recv(door.server));
    zsock_destroy(&client);
    s_close_door(&door);
}

static void
test_one_handler_a_process(void **state)
{
    (void)state;
    door_t door = s_open_door();
    crema_zap_t *second = NULL;
    assert_int_equal(crema_zap_new(door.server_keys, door.ring, &second), CREMA_EBUSY);
    assert_int_equal(crema_zap_new(door.client_keys, door.ring, &second), CREMA_EINVAL);
    assert_null(second);
    s_close_door(&door);
}

/* What libzmq would never send. */
static void
test_odd_requests_are_refused_and_answered(void **state)
{
    (void)state;
    static const char *const requests[][8] = {
        {"1.0", "1", "crema", "127.0.0.1", "", "CURVE", "short"},
        {"1.0", "2", "crema", "127.0.0.1", "", "NULL"},
        {"1.0", "3", "other", "127.0.0.1", "", "CURVE", "01234567890123456789012345678901"},
        {"2.0", "4", "crema", "127.0.0.1", "", "CURVE", "01234567890123456789012345678901"},
        {"1.0", "5", "crema", "127.0.0.1", "", "PLAIN", "01234567890123456789012345678901"},
        {"1.0", "6", "crema", "127.0.0.1", "", "CURVE", "01234567890123456789012345678901", "more"},
        {"1.0", "7", "crema", "127.0.0.1", "", "CURVE", "01234567890123456789012345678901"},
        {"1.0"},
    };
    door_t door = s_open_door();
    zsock_t *req = zsock_new_req(">inproc://zeromq.zap.01");
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        zmsg_t *msg = zmsg_new();
        for (size_t k = 0; k < 8 && requests[i][k]; k++)
            zmsg_addstr(msg, requests[i][k]);
        zmsg_send(&msg, req);
        assert_null(s_run_until(&door, i + 1));
        assert_int_equal(crema_zap_refused(door.zap), i + 1);
        msg = zmsg_recv(req);
        assert_int_equal(zmsg_size(msg), 6);
        assert_true(zframe_streq(zmsg_first(msg), "1.0"));
        assert_true(zframe_streq(zmsg_next(msg), requests[i][1] ? requests[i][1] : ""));
        assert_true(zframe_streq(zmsg_next(msg), "400"));
        zmsg_destroy(&msg);
    }
    zsock_destroy(&req);
    s_close_door(&door);
}

static void
test_what_is_local(void **state)
{
    (void)state;
    static const struct {
        const char *endpoint;
        bool want;
    } steps[] = {
        {"ipc:///run/crema/sink", true},
        {"inproc://x", true},
        {"tcp://127.0.0.1:5700", true},
        {"tcp://127.1.2.3:*", true},
        {"tcp://localhost:5700", true},
        {"tcp://[::1]:5700", true},
        {"tcp://0.0.0.0:5700", false},
        {"tcp://*:5700", false},
        {"tcp://[::]:5700", false},
        {"tcp://128.0.0.1:5700", false},
        {"tcp://10.0.0.1:5700", false},
        {"tcp://127.0.0.1.example.org:5700", false},
        {"tcp://localhost.example.org:5700", false},
        {"tcp://lo:5700", false},
        {"tcp://127.0.0.1", false},
        {"tcp://", false},
        {"udp://127.0.0.1:5700", false},
        {"127.0.0.1:5700", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (crema_keys_is_local(steps[i].endpoint) != steps[i].want)
            fail_msg("%s", steps[i].endpoint);
}

int
main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, s_set_up, s_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_made_keys_are_private_and_kept),
        TEST(test_an_agent_makes_its_pair_once),
        TEST(test_the_mode_of_an_existing_directory_stays),
        TEST(test_flat_keys_of_before_are_kept_and_not_used),
        TEST(test_a_name_is_added_and_revoked),
        TEST(test_a_missing_parent_is_said),
        TEST(test_no_directory_means_no_keys),
        TEST(test_a_bad_directory_is_refused_with_the_reason),
        TEST(test_the_known_key_gets_in_and_is_named),
        TEST(test_the_tap_is_for_monitors_alone),
        TEST(test_a_stranger_is_refused),
        TEST(test_nobody_enters_without_a_key),
        TEST(test_without_a_handler_the_door_is_closed),
        TEST(test_one_handler_a_process),
        TEST(test_odd_requests_are_refused_and_answered),
        TEST(test_what_is_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
