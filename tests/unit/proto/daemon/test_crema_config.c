/* Files in zconfig format: what is read, and what is not. */
#include "must.h"

#include <czmq.h>

#include "crema_config.h"
#include "record_frames.h"

/* Reads a file with that text. */
static zconfig_t *
s_read(const char *text, size_t size)
{
    char path[SCRATCH_BYTES];
    scratch_template("config", path);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
    zconfig_t *config = crema_config_read(path);
    unlink(path);
    return config;
}

static void
test_a_value_is_found(void **state)
{
    (void)state;
    static const char text[] = "# a comment\nspool = \"/a b\"\ncurve\n    public-key = \"x\"\n";
    zconfig_t *config = s_read(text, sizeof text - 1);
    assert_non_null(config);
    assert_string_equal(zconfig_get(config, "spool", ""), "/a b");
    assert_string_equal(zconfig_get(config, "curve/public-key", ""), "x");
    zconfig_destroy(&config);
}

/* Editors of Windows begin a file with three bytes that say UTF-8, and end lines with two. */
static void
test_files_of_windows_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "\xef\xbb\xbfspool = \"/a b\"\r\n# a comment\r\nlog-level = warn\r\n";
    zconfig_t *config = s_read(text, sizeof text - 1);
    assert_non_null(config);
    assert_string_equal(zconfig_get(config, "spool", ""), "/a b");
    assert_string_equal(zconfig_get(config, "log-level", ""), "warn");
    zconfig_destroy(&config);
}

static void
test_what_is_no_configuration_is_not_read(void **state)
{
    (void)state;
    static char large[CREMA_CONFIG_BYTES_MAX + 1];
    memset(large, '\n', sizeof large);
    assert_null(s_read("two words\n", 10));
    assert_null(s_read(large, sizeof large));
    assert_null(crema_config_read("/"));
    assert_null(crema_config_read("/dev/null"));
    assert_null(crema_config_read("/nowhere/at.all"));
    zconfig_t *config = s_read(large, sizeof large - 1);
    assert_non_null(config);
    assert_null(zconfig_child(config));
    zconfig_destroy(&config);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_is_found),
        cmocka_unit_test(test_files_of_windows_are_read),
        cmocka_unit_test(test_what_is_no_configuration_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
