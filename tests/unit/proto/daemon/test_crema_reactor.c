/* Sockets and signals as the programs need them. */
#include "children.h"
#include "must.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <czmq.h>

#include "crema_reactor.h"
#include "crema_wire.h"
#include "record_frames.h"

static int s_signals;

static int
s_option(zsock_t *sock, int option)
{
    int value = -77;
    size_t size = sizeof value;
    assert_int_equal(zmq_getsockopt(zsock_resolve(sock), option, &value, &size), 0);
    return value;
}

static void
test_every_role_has_what_delivery_rests_on(void **state)
{
    (void)state;
    static const int c_types[CREMA_ROLE_COUNT] = {ZMQ_DEALER, ZMQ_ROUTER, ZMQ_DEALER, ZMQ_ROUTER,
                                                  ZMQ_XPUB};
    for (int role = 0; role < CREMA_ROLE_COUNT; role++) {
        zsock_t *sock = zsock_new(c_types[role]);
        crema_socket_prepare(sock, (crema_socket_role_t)role);
        assert_int_equal(s_option(sock, ZMQ_LINGER), 0);
        /* The kernel finds a broken connection, without waking a program for it. A server of
         * thousands of agents leaves it to them to find it soon. */
        const bool soon = role != CREMA_ROLE_AGENTS;
        assert_int_equal(s_option(sock, ZMQ_HEARTBEAT_IVL), 0);
        assert_int_equal(s_option(sock, ZMQ_TCP_KEEPALIVE), 1);
        assert_int_equal(s_option(sock, ZMQ_TCP_KEEPALIVE_IDLE), soon ? 1 : 30);
        assert_int_equal(s_option(sock, ZMQ_TCP_MAXRT), soon ? 3000 : 0);
        const bool dials = c_types[role] == ZMQ_DEALER;
        assert_int_equal(s_option(sock, ZMQ_HANDSHAKE_IVL), dials ? 30000 : 3000);
        int64_t most = 0;
        size_t size = sizeof most;
        assert_int_equal(zmq_getsockopt(zsock_resolve(sock), ZMQ_MAXMSGSIZE, &most, &size), 0);
        assert_int_equal(most, 256 << 10);
        if (c_types[role] == ZMQ_DEALER)
            assert_int_equal(s_option(sock, ZMQ_IMMEDIATE), 1);
        if (role == CREMA_ROLE_AGENT)
            assert_in_range(s_option(sock, ZMQ_RECONNECT_IVL), 500, 1500);
        assert_int_equal(s_option(sock, ZMQ_SNDHWM) == 1000, role == CREMA_ROLE_TAP);
        zsock_destroy(&sock);
    }
}

/* A child that sends so many messages of the largest size, as fast as they are taken. */
static pid_t
must_flood(const char *endpoint, int messages)
{
    pid_t pid = must_fork();
    if (pid != 0)
        return pid;
    static char body[CREMA_WIRE_MESSAGE_MAX];
    void *context = zmq_ctx_new(), *sock = zmq_socket(context, ZMQ_DEALER);
    (void)!zmq_connect(sock, endpoint);
    for (int i = 0; i < messages; i++)
        (void)!zmq_send(sock, body, sizeof body, 0);
    pause();
    _exit(0);
}

static size_t
resident_bytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &pages, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* It is busy with something else: libzmq's thread reads on for it, up to the mark. */
static void
test_a_peer_that_floods_fills_eight_mebibytes_of_the_aggregator(void **state)
{
    (void)state;
    char endpoint[256];
    zsock_t *sock = zsock_new(ZMQ_ROUTER);
    crema_socket_prepare(sock, CREMA_ROLE_AGENTS);
    must(crema_socket_bind(sock, "tcp://127.0.0.1:*", endpoint, sizeof endpoint));
    size_t before = resident_bytes(), most = 0;
    const pid_t peers[] = {must_flood(endpoint, 400), must_flood(endpoint, 400)};
    for (int i = 0, full = 0; i < 300 && full < 15; i++) { /* it goes on to try for a while */
        usleep(100000);
        most = resident_bytes();
        full += most >= before + (8 << 20);
    }
    const size_t each = (32 + 4) * (size_t)CREMA_WIRE_MESSAGE_MAX; /* and what is being read */
    assert_in_range(most, before + (8 << 20), before + 2 * each + (4 << 20));
    zframe_t *id = zframe_recv(sock); /* nothing was dropped: it goes on */
    assert_non_null(id);
    zframe_destroy(&id);
    for (size_t i = 0; i < 2; i++)
        must_kill(peers[i]);
    zsock_destroy(&sock);
}

static void
test_bind_gives_the_port_and_refuses_a_taken_one(void **state)
{
    (void)state;
    char endpoint[256] = "", other[256] = "unchanged";
    zsock_t *sock = zsock_new(ZMQ_ROUTER), *second = zsock_new(ZMQ_ROUTER);
    must(crema_socket_bind(sock, "tcp://127.0.0.1:*", endpoint, sizeof endpoint));
    assert_int_equal(strncmp(endpoint, "tcp://127.0.0.1:", 16), 0);
    assert_true(atoi(endpoint + 16) > 0);
    assert_int_equal(crema_socket_bind(second, endpoint, other, sizeof other), CREMA_EBUSY);
    assert_int_equal(crema_socket_bind(second, "tcp://here", other, sizeof other), CREMA_EINVAL);
    assert_int_equal(crema_socket_bind(second, "letter://x", other, sizeof other), CREMA_EINVAL);
    assert_int_equal(crema_socket_connect(second, "letter://x"), CREMA_EINVAL);
    must(crema_socket_connect(second, endpoint));
    assert_string_equal(other, "unchanged");
    zsock_destroy(&sock);
    zsock_destroy(&second);
}

/* libzmq by itself would take the path away from a living server. */
static void
test_bind_does_not_steal_an_ipc_path(void **state)
{
    (void)state;
    char *dir = scratch_make(), path[512], endpoint[600], full[600];
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(endpoint, sizeof endpoint, "ipc://%s", path);
    zsock_t *sock = zsock_new(ZMQ_ROUTER), *second = zsock_new(ZMQ_ROUTER);
    must(crema_socket_bind(sock, endpoint, full, sizeof full));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
    assert_int_equal(crema_socket_bind(second, endpoint, full, sizeof full), CREMA_EBUSY);
    zsock_destroy(&sock);
    zsock_destroy(&second);
    scratch_remove(&dir);
}

static void
test_signals_are_read_one_by_one(void **state)
{
    (void)state;
    assert_int_equal(crema_signals_read(s_signals), 0);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGHUP);
    int seen = 0;
    for (int number; (number = crema_signals_read(s_signals)) != 0;)
        seen |= number == SIGTERM ? 1 : number == SIGHUP ? 2 : 4;
    assert_int_equal(seen, 3);
}

/* A batch system's `ulimit -f` would kill every program that writes without a word of why. */
static void
test_a_file_at_its_limit_is_an_error_and_no_death(void **state)
{
    (void)state;
    int status;
    pid_t pid = must_fork();
    if (pid == 0) {
        const struct rlimit one = {.rlim_cur = 1, .rlim_max = 1};
        FILE *file = tmpfile();
        if (!file || setrlimit(RLIMIT_FSIZE, &one) != 0)
            _exit(1);
        if (pwrite(fileno(file), "x", 1, 1) >= 0 || errno != EFBIG)
            _exit(2);
        crema_signals_restore();
        (void)!pwrite(fileno(file), "x", 1, 1); /* as a program that it starts expects */
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

/* A program that was started must be stoppable although the one that started it blocks its
 * signals. */
static void
test_started_programs_block_nothing(void **state)
{
    (void)state;
    extern char **environ;
    posix_spawnattr_t attr;
    pid_t pid;
    int status;
    char *argv[] = {"sh", "-c", "kill -TERM $$; sleep 5", NULL};
    must(crema_signals_spawn_attr(&attr));
    assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, &attr, argv, environ), 0);
    posix_spawnattr_destroy(&attr);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    pid = must_fork();
    if (pid == 0) {
        crema_signals_restore();
        raise(SIGTERM);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static int
s_on_timer(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    return --*(int *)context == 0 ? -1 : 0;
}

static void
test_loop_ends_when_a_handler_says_so(void **state)
{
    (void)state;
    int left = 3;
    zloop_t *loop = crema_loop_new();
    assert_non_null(loop);
    assert_true(zloop_timer(loop, 1, 0, s_on_timer, &left) >= 0);
    assert_int_equal(zloop_start(loop), -1);
    assert_int_equal(left, 0);
    zloop_destroy(&loop);
}

int
main(void)
{
    if (crema_signals_new(&s_signals) != CREMA_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_role_has_what_delivery_rests_on),
        cmocka_unit_test(test_bind_gives_the_port_and_refuses_a_taken_one),
        cmocka_unit_test(test_bind_does_not_steal_an_ipc_path),
        cmocka_unit_test(test_signals_are_read_one_by_one),
        cmocka_unit_test_teardown(test_a_file_at_its_limit_is_an_error_and_no_death, children_end),
        cmocka_unit_test_teardown(test_started_programs_block_nothing, children_end),
        cmocka_unit_test(test_loop_ends_when_a_handler_says_so),
        cmocka_unit_test_teardown(test_a_peer_that_floods_fills_eight_mebibytes_of_the_aggregator,
                                  children_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
