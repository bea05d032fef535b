/* Connections of one address beyond the limit, with a real listener. */
#include "must.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crema_crowd.h"

#define EACH 2
#define MOST (EACH * CREMA_CROWD_LOOPBACK_TIMES)

static int s_listener, s_clients[2 * MOST], s_accepted[2 * MOST];
static size_t s_n;
static crema_crowd_t *s_crowd;
static struct sockaddr_in s_at;

static int
s_setup(void **state)
{
    (void)state;
    char endpoint[64];
    socklen_t size = sizeof s_at;
    s_at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    s_listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s_listener, (struct sockaddr *)&s_at, size) != 0 || listen(s_listener, 64) != 0 ||
        getsockname(s_listener, (struct sockaddr *)&s_at, &size) != 0 ||
        crema_crowd_new(EACH, &s_crowd) != CREMA_OK)
        return -1;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", ntohs(s_at.sin_port));
    crema_crowd_watch(s_crowd, "ipc:///somewhere");
    crema_crowd_watch(s_crowd, endpoint);
    s_n = 0;
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < s_n; i++) {
        close(s_clients[i]);
        close(s_accepted[i]);
    }
    close(s_listener);
    crema_crowd_destroy(&s_crowd);
    return 0;
}

/* From an address of this host. */
static void
must_connect(in_addr_t from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(from)}};
        s_clients[s_n] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(s_clients[s_n], (struct sockaddr *)&own, sizeof own), 0);
        assert_int_equal(connect(s_clients[s_n], (struct sockaddr *)&s_at, sizeof s_at), 0);
        s_accepted[s_n] = accept(s_listener, NULL, NULL);
        assert_true(s_accepted[s_n] > 0);
        s_n++;
    }
}

static bool
s_lives(size_t i)
{
    char byte;
    ssize_t n = recv(s_clients[i], &byte, 1, MSG_DONTWAIT);
    return n < 0 && errno == EAGAIN;
}

static size_t
must_thin(const char *address)
{
    char of[CREMA_CROWD_ADDRESS_BYTES] = "";
    size_t shut = crema_crowd_thin(s_crowd, of);
    assert_string_equal(of, address);
    return shut;
}

static void
test_the_newest_beyond_the_limit_go(void **state)
{
    (void)state;
    must_connect(INADDR_LOOPBACK, MOST);
    assert_int_equal(must_thin(""), 0);
    must_connect(INADDR_LOOPBACK, 5);
    assert_int_equal(must_thin("127.0.0.1"), 5);
    for (size_t i = 0; i < MOST + 5; i++)
        assert_int_equal(s_lives(i), i < MOST);
}

/* Descriptors of those who left are given to those who come. */
static void
test_who_was_there_before_stays(void **state)
{
    (void)state;
    must_connect(INADDR_LOOPBACK, MOST);
    assert_int_equal(must_thin(""), 0);
    close(s_accepted[0]);
    close(s_clients[0]);
    must_connect(INADDR_LOOPBACK, 3); /* the first has the lowest descriptors */
    assert_true(s_accepted[MOST] < s_accepted[1] || s_clients[MOST] < s_accepted[1]);
    assert_int_equal(must_thin("127.0.0.1"), 2);
    for (size_t i = 1; i < MOST; i++)
        assert_true(s_lives(i));
    size_t living = 0;
    for (size_t i = MOST; i < MOST + 3; i++)
        living += s_lives(i);
    assert_int_equal(living, 1);
    s_clients[0] = s_accepted[0] = -1;
}

static void
test_one_address_takes_no_room_of_another(void **state)
{
    (void)state;
    must_connect(INADDR_LOOPBACK, MOST + 4);
    must_connect(INADDR_LOOPBACK + 1, 8);
    assert_int_equal(must_thin("127.0.0.1"), 4);
    for (size_t i = MOST + 4; i < MOST + 12; i++)
        assert_true(s_lives(i));
}

/* The client's ends are connections too, but not to this port. */
static void
test_other_ports_are_let_alone(void **state)
{
    (void)state;
    must_connect(INADDR_LOOPBACK, 4);
    crema_crowd_t *other = NULL;
    must(crema_crowd_new(1, &other));
    crema_crowd_watch(other, "tcp://127.0.0.1:1");
    char of[CREMA_CROWD_ADDRESS_BYTES];
    assert_int_equal(crema_crowd_thin(other, of), 0);
    crema_crowd_destroy(&other);
    assert_int_equal(crema_crowd_new(0, &other), CREMA_EINVAL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_newest_beyond_the_limit_go, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown(test_who_was_there_before_stays, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown(test_one_address_takes_no_room_of_another, s_setup,
                                        s_teardown),
        cmocka_unit_test_setup_teardown(test_other_ports_are_let_alone, s_setup, s_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
