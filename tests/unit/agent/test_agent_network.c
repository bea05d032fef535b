#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_network.h"
#include "record_frames.h"

#define HEAD                                                                                       \
    "Inter-|   Receive                    |  Transmit\n"                                           \
    " face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n"               \
    "    lo: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\n"

static char *s_root;

static int
set_up(void **state)
{
    (void)state;
    s_root = scratch_make();
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    scratch_remove(&s_root);
    return 0;
}

static void
make_directory(const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", s_root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void
put_devices(const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/net/dev", s_root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void
must_read(agent_network_t *network, int64_t want_read_b, int64_t want_write_b)
{
    int64_t read_b, write_b;
    agent_network_read(network, &read_b, &write_b);
    assert_int_equal(read_b, want_read_b);
    assert_int_equal(write_b, want_write_b);
}

static agent_network_t *
must_open(void)
{
    agent_network_t *network;
    assert_int_equal(agent_network_new(s_root, s_root, &network), CREMA_OK);
    return network;
}

static void
make_hardware(const char *device)
{
    char name[128];
    snprintf(name, sizeof name, "class/net/%s", device);
    make_directory(name);
    snprintf(name, sizeof name, "class/net/%s/device", device);
    make_directory(name);
}

static void
test_it_is_that_of_the_hardware_or_of_all(void **state)
{
    (void)state;
    make_directory("net");
    make_directory("class");
    make_directory("class/net");
    agent_network_t *network = must_open();
    must_read(network, -1, -1);
    put_devices(HEAD "  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n"
                     "  eth1:30 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0\n"
                     "veth12: 7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n");
    must_read(network, 1037, 2048); /* a container: no device has hardware behind it */
    agent_network_destroy(&network);
    make_hardware("eth0");
    make_hardware("eth1");
    network = must_open();
    must_read(network, 1030, 2040);
    agent_network_destroy(&network);
    assert_null(network);
}

/* A bridge in a container: what comes in through eth0 passes br0 and veth9 once more. */
static void
test_without_hardware_it_is_that_of_the_default_route(void **state)
{
    (void)state;
    char path[PATH_MAX];
    make_directory("net");
    make_directory("class");
    make_directory("class/net");
    put_devices(HEAD "  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n"
                     "   br0: 990 1 0 0 0 0 0 0 1990 1 0 0 0 0 0 0\n"
                     " veth9: 980 1 0 0 0 0 0 0 1980 1 0 0 0 0 0 0\n");
    snprintf(path, sizeof path, "%s/net/route", s_root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
          "eth0 00000000 010011AC 0003 0 0 0 00000000 0 0 0\n"
          "br0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0\n",
          file);
    fclose(file);
    agent_network_t *network = must_open();
    must_read(network, 1000, 2000);
    agent_network_destroy(&network);
}

static void
test_devices_come_and_go_between_two_readings(void **state)
{
    (void)state;
    make_directory("net");
    make_directory("class");
    make_directory("class/net");
    make_hardware("eth1");
    put_devices(HEAD "  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n"
                     "  eth1: 30 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0\n");
    agent_network_t *network = must_open();
    must_read(network, 30, 40);
    put_devices(HEAD "  eth1: 31 1 0 0 0 0 0 0 41 1 0 0 0 0 0 0\n");
    must_read(network, 31, 41);
    make_hardware("eth2");
    put_devices(HEAD " veth9: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n"
                     "  eth1: 32 1 0 0 0 0 0 0 42 1 0 0 0 0 0 0\n"
                     "  eth2: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n");
    must_read(network, 132, 142);
    put_devices(HEAD);
    must_read(network, -1, -1);
    agent_network_destroy(&network);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_is_that_of_the_hardware_or_of_all, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_without_hardware_it_is_that_of_the_default_route,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_devices_come_and_go_between_two_readings, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
