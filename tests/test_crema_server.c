/* A program's listening side: what it refuses, and with which sentence. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <czmq.h>

#include "crema_server.h"

static char s_why[1024];

static void
must_say(const char *part)
{
    if (!strstr(s_why, part))
        fail_msg("\"%s\" does not say \"%s\"", s_why, part);
}

static void
test_what_can_be_known_beforehand_is_refused_with_its_option(void **state)
{
    (void)state;
    assert_true(crema_server_refuses("tap", "127.0.0.1", NULL, s_why, sizeof s_why));
    must_say("--tap: 127.0.0.1 is no endpoint");
    assert_true(crema_server_refuses("bind", "tcp://*:5700", NULL, s_why, sizeof s_why));
    must_say("--keys DIR");
    assert_false(crema_server_refuses("bind", "tcp://*:5700", "keys", s_why, sizeof s_why));
    assert_false(crema_server_refuses("bind", "tcp://127.0.0.1:5700", NULL, s_why, sizeof s_why));
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
    must_say("no endpoint");
    assert_null(server);
}

static void
test_with_keys_their_handler_is_there_for_a_loop(void **state)
{
    (void)state;
    char dir[] = "/tmp/crema-server-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    must(crema_keys_make(dir));
    crema_server_t *server = NULL;
    must(crema_server_new(CREMA_ROLE_AGENTS, "tcp://127.0.0.1:*", dir, s_why, sizeof s_why,
                          &server));
    assert_non_null(crema_server_keys(server));
    zloop_t *loop = crema_loop_new();
    must(crema_server_attach(server, loop));
    zloop_destroy(&loop);
    crema_server_destroy(&server);
    static const char *const c_files[] = {"server.key", "server.key_secret", "client.key",
                                          "client.key_secret"};
    for (size_t i = 0; i < sizeof c_files / sizeof *c_files; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, c_files[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

int
main(void)
{
    const struct CMUnitTest c_tests[] = {
        cmocka_unit_test(test_what_can_be_known_beforehand_is_refused_with_its_option),
        cmocka_unit_test(test_a_second_server_on_one_port_is_told_what_to_do),
        cmocka_unit_test(test_what_is_no_endpoint_and_what_is_no_key_are_the_users_to_mend),
        cmocka_unit_test(test_with_keys_their_handler_is_there_for_a_loop),
    };
    int signals;
    must(crema_signals_new(&signals));
    int failures = cmocka_run_group_tests(c_tests, NULL, NULL);
    zsys_shutdown();
    return failures;
}
