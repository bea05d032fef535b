/* Reach: the address that proves itself is taken, whatever else answers; else the way over Dask. */
#include "must.h"

#include <arpa/inet.h>
#include <czmq.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent_reach.h"
#include "crema_keys_make.h"
#include "crema_reactor.h"
#include "crema_server.h"
#include "record_frames.h"

typedef struct {
    char dir[SCRATCH_BYTES], keys_dir[SCRATCH_BYTES + 8], endpoint[64];
    zloop_t *loop;
    crema_keys_t *own;
    /* outlives the search: what it found may still be connecting by its directory */
    agent_reach_t *reach;
    zsock_t *found;
    char where[256];
    bool over_dask;
    int64_t took_ms;
} bench_t;

static int
s_set_up(void **state)
{
    bench_t *b = calloc(1, sizeof *b);
    const char *why;
    scratch_template("reach", b->dir);
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->keys_dir, sizeof b->keys_dir, "%s/keys", b->dir);
    must(crema_keys_make(b->keys_dir));
    must(crema_keys_load(b->keys_dir, CREMA_AS_AGENT, &b->own, &why));
    b->loop = crema_loop_new();
    *state = b;
    return 0;
}

static int
s_tear_down(void **state)
{
    bench_t *b = *state;
    agent_reach_destroy(&b->reach);
    zsock_destroy(&b->found);
    zloop_destroy(&b->loop);
    crema_keys_destroy(&b->own);
    zdir_t *dir = zdir_new(b->dir, NULL);
    zdir_remove(dir, true);
    zdir_destroy(&dir);
    free(b);
    return 0;
}

static int
s_on_patience(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer, (void)arg;
    return 0;
}

/* Sets a timer, as whoever uses what was found does. */
static void
s_on_found(void *context, zsock_t *sock, const char *endpoint, bool over_dask)
{
    bench_t *b = context;
    assert_null(b->found);
    assert_true(zloop_timer(b->loop, 10000, 1, s_on_patience, b) >= 0);
    b->found = sock;
    snprintf(b->where, sizeof b->where, "%s", endpoint);
    b->over_dask = over_dask;
}

static int
s_on_look(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
    bench_t *b = arg;
    b->took_ms += 10;
    return b->found || b->took_ms >= 8000 ? -1 : 0;
}

/* Searches until something is found, eight seconds at most. */
static void
s_search(bench_t *b, const char *endpoints, bool with_way)
{
    const agent_reach_config_t config = {.endpoints = endpoints,
                                         .way_dir = with_way ? b->dir : NULL,
                                         .keys = b->own,
                                         .on_found = s_on_found,
                                         .context = b};
    must(agent_reach_new(b->loop, &config, &b->reach));
    must(agent_reach_begin(b->reach));
    int timer = zloop_timer(b->loop, 10, 0, s_on_look, b);
    zloop_start(b->loop);
    zloop_timer_end(b->loop, timer);
}

/* A server that has these keys and, with no ZAP handler in this process, admits everybody. */
static zsock_t *
s_server(const char *keys_dir, const char *endpoint, char ret_endpoint[64])
{
    char path[160];
    snprintf(path, sizeof path, "%s/server/server.key", keys_dir);
    zsock_t *sock = zsock_new(ZMQ_ROUTER);
    zcert_t *cert = zcert_load(path);
    assert_non_null(cert);
    zcert_apply(cert, sock);
    zsock_set_curve_server(sock, 1);
    zcert_destroy(&cert);
    must(crema_socket_bind(sock, endpoint, ret_endpoint, 64));
    return sock;
}

/* A port of 127.0.0.1 that takes connections and says nothing, or one that takes none. */
static int
s_port(char ret_endpoint[64], bool listens)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    if (listens)
        assert_int_equal(listen(fd, 8), 0);
    snprintf(ret_endpoint, 64, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

static void
test_the_one_that_proves_itself_is_taken_among_those_that_do_not(void **state)
{
    bench_t *b = *state;
    char closed[64], silent[64], false_one[64], true_one[64], list[300], others[SCRATCH_BYTES + 8];
    int closed_fd = s_port(closed, false), silent_fd = s_port(silent, true);
    snprintf(others, sizeof others, "%s/others", b->dir);
    must(crema_keys_make(others));
    zsock_t *stranger = s_server(others, "tcp://127.0.0.1:*", false_one);
    zsock_t *ours = s_server(b->keys_dir, "tcp://127.0.0.1:*", true_one);
    snprintf(list, sizeof list, "%s,%s,%s,%s", closed, silent, false_one, true_one);
    s_search(b, list, true);
    assert_non_null(b->found);
    assert_string_equal(b->where, true_one);
    assert_false(b->over_dask);
    zstr_send(b->found, "hello");
    zmsg_t *msg = zmsg_recv(ours);
    assert_int_equal(zmsg_size(msg), 2);
    zmsg_destroy(&msg);
    zsock_destroy(&stranger);
    zsock_destroy(&ours);
    close(closed_fd);
    close(silent_fd);
}

/* What a worker has opened for its agent. */
static zsock_t *
s_way(const bench_t *b, char way[SCRATCH_BYTES + 16])
{
    char path[SCRATCH_BYTES + 8], ignored[64];
    snprintf(way, SCRATCH_BYTES + 16, "ipc://%s/made", b->dir);
    zsock_t *worker = s_server(b->keys_dir, way, ignored);
    snprintf(path, sizeof path, "%s/way", b->dir);
    assert_int_equal(rename(way + 6, path), 0);
    return worker;
}

static void
test_the_way_over_dask_is_taken_after_a_second_and_not_before(void **state)
{
    bench_t *b = *state;
    char silent[64], way[SCRATCH_BYTES + 16];
    int fd = s_port(silent, true);
    zsock_t *worker = s_way(b, way);
    s_search(b, silent, true);
    assert_non_null(b->found);
    assert_true(b->over_dask);
    assert_true(b->took_ms >= 900);
    zstr_send(b->found, "hello");
    zmsg_t *msg = zmsg_recv(worker);
    assert_int_equal(zmsg_size(msg), 2);
    zmsg_destroy(&msg);
    zsock_destroy(&worker);
    (void)unlink(strcat(way, ".lock") + 6);
    close(fd);
}

static int
s_on_busy(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer, (void)arg;
    zclock_sleep(500);
    return 0;
}

/* The checks that a busy loop missed come one after the other, also those after the last. */
static void
test_a_loop_that_is_late_takes_the_way_once(void **state)
{
    bench_t *b = *state;
    char silent[64], way[SCRATCH_BYTES + 16];
    int fd = s_port(silent, true);
    zsock_t *worker = s_way(b, way);
    zloop_timer(b->loop, 950, 1, s_on_busy, b);
    s_search(b, silent, true);
    assert_non_null(b->found);
    assert_true(b->over_dask);
    zsock_destroy(&worker);
    (void)unlink(strcat(way, ".lock") + 6);
    close(fd);
}

static crema_server_t *s_of_run;

/* A server that does not know the key of this agent. */
static void
s_refusing(bench_t *b)
{
    char why[256], own_dir[SCRATCH_BYTES + 8];
    const char *text;
    must(crema_server_new(CREMA_ROLE_AGENTS, "tcp://127.0.0.1:*", b->keys_dir, why, sizeof why,
                          &s_of_run));
    must(crema_server_attach(s_of_run, b->loop, 64, NULL));
    snprintf(own_dir, sizeof own_dir, "%s/own", b->dir);
    must(crema_keys_make_own(own_dir, crema_keys_public(crema_server_keys(s_of_run))));
    crema_keys_destroy(&b->own);
    must(crema_keys_load(own_dir, CREMA_AS_AGENT, &b->own, &text));
}

static int
s_on_admit(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
    uint8_t key[32];
    zmq_z85_decode(key, crema_keys_public(((bench_t *)arg)->own));
    crema_id_t run_id = {{1}}, owner = {{2}};
    must(crema_keyring_lend(crema_server_ring(s_of_run), &run_id, &owner, key));
    return 0;
}

static void
test_an_agent_whose_key_is_not_known_yet_waits_for_that_and_takes_no_other_way(void **state)
{
    bench_t *b = *state;
    char way[SCRATCH_BYTES + 16];
    s_refusing(b);
    zsock_t *worker = s_way(b, way);
    zloop_timer(b->loop, 1500, 1, s_on_admit, b);
    s_search(b, crema_server_endpoint(s_of_run), true);
    assert_non_null(b->found);
    assert_false(b->over_dask);
    assert_true(b->took_ms >= 1400);
    zsock_destroy(&worker);
    (void)unlink(strcat(way, ".lock") + 6);
    zsock_destroy(&b->found);
    agent_reach_destroy(&b->reach);
    crema_server_destroy(&s_of_run);
    zloop_destroy(&b->loop);
}

static int
s_on_refused(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
    bench_t *b = arg;
    return agent_reach_is_refused(b->reach) ? -1 : 0;
}

static void
test_a_search_that_begins_anew_still_knows_that_the_key_was_refused(void **state)
{
    bench_t *b = *state;
    s_refusing(b);
    const agent_reach_config_t config = {.endpoints = crema_server_endpoint(s_of_run),
                                         .keys = b->own,
                                         .on_found = s_on_found,
                                         .context = b};
    must(agent_reach_new(b->loop, &config, &b->reach));
    must(agent_reach_begin(b->reach));
    zloop_timer(b->loop, 1, 0, s_on_refused, b);
    zloop_start(b->loop);
    assert_true(agent_reach_is_refused(b->reach));
    zclock_sleep(200); /* longer than the first pause, so that the address is dialled at once */
    must(agent_reach_begin(b->reach));
    assert_true(agent_reach_is_refused(b->reach));
    agent_reach_destroy(&b->reach);
    crema_server_destroy(&s_of_run);
    zloop_destroy(&b->loop);
}

static int s_late_port;
static zsock_t *s_late;

static int
s_on_late(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer;
    bench_t *b = arg;
    char endpoint[64], ignored[64];
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", s_late_port);
    s_late = s_server(b->keys_dir, endpoint, ignored);
    return 0;
}

static void
test_without_a_way_the_search_goes_on_until_the_server_is_there(void **state)
{
    bench_t *b = *state;
    char endpoint[64];
    int fd = s_port(endpoint, false);
    s_late_port = atoi(strrchr(endpoint, ':') + 1);
    close(fd);
    zloop_timer(b->loop, 1500, 1, s_on_late, b);
    s_search(b, endpoint, true);
    assert_non_null(b->found);
    assert_false(b->over_dask);
    zsock_destroy(&s_late);
}

static void
test_what_is_no_list_of_endpoints_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *endpoints, *keys, *says;
    } c_cases[] = {
        {"tcp://127.0.0.1:1", NULL, NULL},
        {"ipc:///tmp/x,tcp://127.0.0.1:1", NULL, NULL},
        {"tcp://10.0.0.1:1,tcp://10.0.0.2:1", "/keys", NULL},
        {"", NULL, "--aggregator must be"},
        {",tcp://127.0.0.1:1", NULL, "--aggregator must be"},
        {"udp://127.0.0.1:1", NULL, "--aggregator must be"},
        {"tcp://127.0.0.1:1,here", NULL, "--aggregator must be"},
        {"tcp://127.0.0.1:1,tcp://10.0.0.1:1", NULL, "in the clear"},
        {"tcp://a:1,tcp://a:1,tcp://a:1,tcp://a:1,tcp://a:1,tcp://a:1,tcp://a:1,tcp://a:1,tcp://a:"
         "1",
         "/keys", "up to 8"},
    };
    for (size_t i = 0; i < sizeof c_cases / sizeof *c_cases; i++) {
        char why[512] = "";
        bool refused =
            agent_reach_refuses(c_cases[i].endpoints, c_cases[i].keys, false, why, sizeof why);
        assert_int_equal(refused, c_cases[i].says != NULL);
        if (refused && !strstr(why, c_cases[i].says))
            fail_msg("%s: %s", c_cases[i].endpoints, why);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_the_one_that_proves_itself_is_taken_among_those_that_do_not, s_set_up,
            s_tear_down),
        cmocka_unit_test_setup_teardown(
            test_the_way_over_dask_is_taken_after_a_second_and_not_before, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown(test_a_loop_that_is_late_takes_the_way_once, s_set_up,
                                        s_tear_down),
        cmocka_unit_test_setup_teardown(
            test_an_agent_whose_key_is_not_known_yet_waits_for_that_and_takes_no_other_way,
            s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_search_that_begins_anew_still_knows_that_the_key_was_refused, s_set_up,
            s_tear_down),
        cmocka_unit_test_setup_teardown(
            test_without_a_way_the_search_goes_on_until_the_server_is_there, s_set_up, s_tear_down),
        cmocka_unit_test(test_what_is_no_list_of_endpoints_is_refused),
    };
    zsys_init();
    return cmocka_run_group_tests_name("agent_reach", tests, NULL, NULL);
}
