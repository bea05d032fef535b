/* What a peer has not taken, with real connections of which one end reads or does not. */
#include "must.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crema_unsent.h"

#define MAX ((size_t)1 << 20)
#define PART 4096

static int s_here, s_there;

static void
must_connect(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    s_there = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(s_there, (struct sockaddr *)&at, size), 0);
    s_here = accept(listener, NULL, NULL);
    assert_true(s_here > 0);
    close(listener);
}

static void
must_hang_up(void)
{
    close(s_here);
    close(s_there);
}

/* Writes what it was allowed; what the kernel does not take waits, as in libzmq. */
static size_t
sent_until_refused(crema_unsent_t *unsent, size_t most)
{
    static const char c_part[PART];
    size_t allowed = 0;
    while (allowed < most && crema_unsent_takes(unsent, PART, MAX)) {
        (void)send(s_here, c_part, PART, MSG_DONTWAIT | MSG_NOSIGNAL);
        allowed += PART;
    }
    return allowed;
}

static void
must_read(size_t bytes)
{
    static char s_part[PART];
    for (size_t got = 0; got < bytes;) {
        ssize_t n = recv(s_there, s_part, sizeof s_part, 0);
        assert_true(n > 0);
        got += (size_t)n;
    }
}

static void
test_who_never_reads_is_sent_no_more(void **state)
{
    (void)state;
    crema_unsent_t unsent = {0};
    must_connect();
    int small = 65536;
    assert_int_equal(setsockopt(s_there, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    crema_unsent_heard(&unsent, s_here);
    size_t allowed = 0;
    for (int i = 0; i < 1000; i++) {
        crema_unsent_heard(&unsent, s_here); /* that it speaks is no reading */
        allowed += sent_until_refused(&unsent, 100 * MAX);
    }
    assert_in_range(
        allowed, MAX,
        8 * MAX); /* what lies in the reader's kernel, or is still on its way there, is not ours */
    must_hang_up();
}

static void
test_who_reads_is_sent_everything(void **state)
{
    (void)state;
    static const char c_part[PART];
    crema_unsent_t unsent = {0};
    must_connect();
    crema_unsent_heard(&unsent, s_here);
    for (size_t sent = 0; sent < 20 * MAX; sent += PART) {
        assert_true(crema_unsent_takes(&unsent, PART, MAX));
        assert_int_equal(send(s_here, c_part, PART, 0), PART);
        must_read(PART);
    }
    must_hang_up();
}

/* The bytes of frames and heartbeats are no credit for later. */
static void
test_what_was_not_counted_is_no_credit(void **state)
{
    (void)state;
    static const char c_part[PART];
    crema_unsent_t unsent = {0};
    must_connect();
    crema_unsent_heard(&unsent, s_here);
    for (size_t sent = 0; sent < 40 * MAX; sent += PART) {
        assert_int_equal(send(s_here, c_part, PART, 0), PART);
        must_read(PART);
    }
    int small = 65536;
    assert_int_equal(setsockopt(s_there, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    assert_in_range(sent_until_refused(&unsent, 100 * MAX), MAX, 20 * MAX);
    must_hang_up();
}

/* Another connection may have the descriptor of one that went. */
static void
test_a_new_connection_owes_nothing(void **state)
{
    (void)state;
    crema_unsent_t unsent = {0};
    must_connect();
    crema_unsent_heard(&unsent, s_here);
    (void)sent_until_refused(&unsent, 100 * MAX);
    assert_false(crema_unsent_takes(&unsent, PART, MAX));
    int old = s_here, old_there = s_there;
    must_connect();
    assert_int_equal(dup2(s_here, old), old);
    assert_true(crema_unsent_takes(&unsent, PART, MAX));
    close(old);
    close(old_there);
    must_hang_up();
}

static void
test_what_is_no_tcp_is_not_counted(void **state)
{
    (void)state;
    int pair[2];
    crema_unsent_t unsent = {0};
    assert_true(crema_unsent_takes(&unsent, 2 * MAX, MAX)); /* nothing is known yet */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    crema_unsent_heard(&unsent, pair[0]);
    assert_true(crema_unsent_takes(&unsent, 2 * MAX, MAX));
    crema_unsent_heard(&unsent, -1);
    assert_true(crema_unsent_takes(&unsent, 2 * MAX, MAX));
    close(pair[0]);
    close(pair[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_never_reads_is_sent_no_more),
        cmocka_unit_test(test_who_reads_is_sent_everything),
        cmocka_unit_test(test_what_was_not_counted_is_no_credit),
        cmocka_unit_test(test_a_new_connection_owes_nothing),
        cmocka_unit_test(test_what_is_no_tcp_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
