/* Options: which source wins, and what is said when a value is wrong. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crema_option.h"
#include "record_frames.h"

static const char *s_spool, *s_endpoint;
static int64_t s_interval_ns, s_limit_b, s_count;
static bool s_live, s_daemon;
static const char *s_keys;

static const crema_option_t s_options[] = {
    {"spool", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR", "directory to serve", &s_spool},
    {"endpoint", CREMA_OPTION_TEXT, "tcp://127.0.0.1:5700", 0, 0, "ENDPOINT", "where to deliver",
     &s_endpoint},
    {"heartbeat-interval", CREMA_OPTION_DURATION, "1s", 200000000, 60000000000, "TIME",
     "how often to say what is there", &s_interval_ns},
    {"spool-limit", CREMA_OPTION_BYTES, "1Gi", 0, 0, "BYTES", "evict above this", &s_limit_b},
    {"count", CREMA_OPTION_INT, "3", -10, 10, "N", "how many", &s_count},
    {"live", CREMA_OPTION_FLAG, "true", 0, 0, NULL, "write no live view", &s_live},
    {"daemon", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "detach", &s_daemon},
    {"keys", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR", "key directory", &s_keys},
    {0},
};

static const crema_usage_t s_usage = {"crema-test", "[options] -- command...",
                                      "Ships what lies in a spool.", "See the handbook."};

static char s_said[16384]; /* what the last parse wrote to stdout and stderr */
static int s_rest;

/* Parses the words after "crema-test", NULL at their end. */
static crema_option_result_t
s_parse(const char *const *words)
{
    static char *argv[16];
    int argc = 1;
    argv[0] = (char *)"crema-test";
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    s_rest = -1;
    crema_option_result_t result = crema_option_parse(&s_usage, s_options, argc, argv, &s_rest);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    rewind(file);
    s_said[fread(s_said, 1, sizeof s_said - 1, file)] = '\0';
    fclose(file);
    return result;
}

#define PARSE(...) s_parse((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static int
s_clear_environment(void **state)
{
    (void)state;
    static const char *const names[] = {"CREMA_SPOOL",
                                        "CREMA_ENDPOINT",
                                        "CREMA_COUNT",
                                        "CREMA_SPOOL_LIMIT",
                                        "CREMA_LIVE",
                                        "CREMA_CONFIG",
                                        "CREMA_LOG_LEVEL",
                                        "CREMA_CHECK",
                                        "CREMA_HELP",
                                        "CREMA_LOG_FORMAT",
                                        "CREMA_HEARTBEAT_INTERVAL",
                                        "CREMA_KEYS",
                                        "CREMA_TEST_KEYS",
                                        "CREMA_TEST_SPOOL",
                                        "CREMA_TEST_COUNT",
                                        "CREMA_TEST_CONFIG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    return 0;
}

/* A configuration file with that text; the caller removes it. */
static char *
s_file(const char *text)
{
    static char path[SCRATCH_BYTES];
    scratch_template("option", path);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return path;
}

static void
test_defaults(void **state)
{
    (void)state;
    s_count = 99;
    s_daemon = true;
    assert_int_equal(s_parse((const char *const[]){NULL}), CREMA_OPTION_RUN);
    assert_null(s_spool);
    assert_string_equal(s_endpoint, "tcp://127.0.0.1:5700");
    assert_int_equal(s_interval_ns, 1000000000);
    assert_int_equal(s_limit_b, 1 << 30);
    assert_int_equal(s_count, 3);
    assert_true(s_live);
    assert_false(s_daemon);
    assert_int_equal(s_rest, 1);
    assert_string_equal(s_said, "");
}

static void
test_the_command_line_in_all_its_forms(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--spool=/a=b", "--count", "-7", "--no-live", "--daemon",
                           "--heartbeat-interval=250ms", "--", "--spool", "x"),
                     CREMA_OPTION_RUN);
    assert_string_equal(s_spool, "/a=b");
    assert_int_equal(s_count, -7);
    assert_false(s_live);
    assert_true(s_daemon);
    assert_int_equal(s_interval_ns, 250000000);
    assert_int_equal(s_rest, 8);
    assert_int_equal(PARSE("--live=no", "--count=1", "--count=2", "run", "--count=3"),
                     CREMA_OPTION_RUN);
    assert_false(s_live);
    assert_int_equal(s_count, 2);
    assert_int_equal(s_rest, 4);
    assert_int_equal(PARSE("-"), CREMA_OPTION_RUN);
    assert_int_equal(s_rest, 1);
}

static void
test_the_stronger_source_wins(void **state)
{
    (void)state;
    char *path = s_file("count = 4\nspool = \"/from file\"\nendpoint = ipc:///file\nlive = no\n"
                        "log-level = error\n");
    setenv("CREMA_COUNT", "5", 1);
    setenv("CREMA_ENDPOINT", "ipc:///environment", 1);
    setenv("CREMA_SPOOL", "", 1); /* as good as not set */
    assert_int_equal(PARSE("--count", "6", "--config", path), CREMA_OPTION_RUN);
    assert_int_equal(s_count, 6);
    assert_string_equal(s_endpoint, "ipc:///environment");
    assert_string_equal(s_spool, "/from file");
    assert_false(s_live);
    setenv("CREMA_TEST_CONFIG", path, 1);
    assert_int_equal(PARSE("--live"), CREMA_OPTION_RUN);
    assert_int_equal(s_count, 5);
    assert_true(s_live);
    unlink(path);
}

static void
test_a_variable_of_the_program_wins_over_one_of_all(void **state)
{
    (void)state;
    setenv("CREMA_COUNT", "5", 1);
    assert_int_equal(PARSE("--live"), CREMA_OPTION_RUN);
    assert_int_equal(s_count, 5);
    setenv("CREMA_TEST_COUNT", "6", 1);
    assert_int_equal(PARSE("--live"), CREMA_OPTION_RUN);
    assert_int_equal(s_count, 6);
    setenv("CREMA_TEST_COUNT", "", 1); /* as good as not set */
    assert_int_equal(PARSE("--live"), CREMA_OPTION_RUN);
    assert_int_equal(s_count, 5);
    setenv("CREMA_TEST_COUNT", "many", 1);
    assert_int_equal(PARSE("--live"), CREMA_OPTION_ERROR);
    assert_non_null(strstr(s_said, "(environment CREMA_TEST_COUNT)\n"));
}

/* Times that a text stands in what the last parse said. */
static int
s_times_said(const char *text)
{
    int times = 0;
    for (const char *at = s_said; (at = strstr(at, text)); at++)
        times++;
    return times;
}

static void
test_a_name_that_means_two_things_is_outdated(void **state)
{
    (void)state;
    setenv("CREMA_KEYS", "/of/whom", 1);
    assert_int_equal(PARSE("--live"), CREMA_OPTION_RUN);
    assert_string_equal(s_keys, "/of/whom");
    assert_int_equal(s_times_said("\n"), 1);
    assert_non_null(strstr(s_said, "event=variable_outdated"));
    assert_non_null(strstr(s_said, "variable=CREMA_KEYS use=CREMA_TEST_KEYS"));
    assert_int_equal(PARSE("--keys=/mine"), CREMA_OPTION_RUN); /* not followed: not a word */
    assert_string_equal(s_said, "");
    setenv("CREMA_TEST_KEYS", "/mine/too", 1);
    assert_int_equal(PARSE("--live"), CREMA_OPTION_RUN);
    assert_string_equal(s_keys, "/mine/too");
    assert_string_equal(s_said, "");
}

static void
test_check_is_for_the_command_line(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--count=5", "--check"), CREMA_OPTION_CHECK);
    assert_int_equal(s_count, 5);
    setenv("CREMA_CHECK", "1", 1);
    setenv("CREMA_HELP", "1", 1);
    assert_int_equal(s_parse((const char *const[]){NULL}), CREMA_OPTION_RUN);
}

static void
test_version_and_help(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--version"), CREMA_OPTION_DONE);
    assert_memory_equal(s_said, "crema-test ", 11);
    assert_int_equal(strspn(s_said + 11, "0123456789."), strlen(s_said) - 12);
    assert_int_equal(PARSE("--count=3", "-h"), CREMA_OPTION_DONE);
    static const char *const parts[] = {
        "usage: crema-test [options] -- command...\n",
        "Ships what lies in a spool.",
        "  --spool DIR  ",
        "  --heartbeat-interval TIME  ",
        "[CREMA_TEST_HEARTBEAT_INTERVAL, default 1s]",
        "  --no-live  ",
        "  --daemon  ",
        "  --config FILE  ",
        "[CREMA_TEST_LOG_LEVEL, default info]",
        "See the handbook.",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(s_said, parts[i]))
            fail_msg("the help says nothing of \"%s\":\n%s", parts[i], s_said);
    assert_null(strstr(s_said, "_CHECK"));
}

static void
test_what_is_wrong_is_named_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *word, *variable, *value, *want;
    } steps[] = {
        {"--heartbeat-interval=abc", NULL, NULL,
         "crema-test: --heartbeat-interval: \"abc\" is not a duration; give for example 500ms, 1s, "
         "2m (command line)\n"},
        {NULL, "CREMA_HEARTBEAT_INTERVAL", "2h",
         "crema-test: --heartbeat-interval: \"2h\" is out of bounds; give 200ms to 1m (environment "
         "CREMA_HEARTBEAT_INTERVAL)\n"},
        {"--count=11", NULL, NULL,
         "crema-test: --count: \"11\" is out of bounds; give -10 to 10 (command line)\n"},
        {"--count=-11", NULL, NULL,
         "crema-test: --count: \"-11\" is out of bounds; give -10 to 10 (command line)\n"},
        {NULL, "CREMA_SPOOL_LIMIT", "many",
         "crema-test: --spool-limit: \"many\" is not a number of bytes; give for example 4096, "
         "64Ki, 512Mi, 1Gi (environment CREMA_SPOOL_LIMIT)\n"},
        {NULL, "CREMA_LIVE", "perhaps",
         "crema-test: --live: \"perhaps\" is neither true nor false; give true or false "
         "(environment CREMA_LIVE)\n"},
        {"--spool", NULL, NULL, "crema-test: --spool: needs a value, DIR (command line)\n"},
        {"--spoool=x", NULL, NULL,
         "crema-test: --spoool=x: no such option; see crema-test --help (command line)\n"},
        {"---spool=x", NULL, NULL,
         "crema-test: ---spool=x: no such option; see crema-test --help (command line)\n"},
        {"--no-spool", NULL, NULL,
         "crema-test: --no-spool: no such option; see crema-test --help (command line)\n"},
        {"--no-live=yes", NULL, NULL, "crema-test: --no-live=yes: takes no value (command line)\n"},
        {"-x", NULL, NULL,
         "crema-test: -x: no such option; see crema-test --help (command line)\n"},
        {"--config=/nowhere/at.all", NULL, NULL,
         "crema-test: --config: No such file or directory (file /nowhere/at.all)\n"},
        {"--config=/", NULL, NULL,
         "crema-test: --config: not a file of at most 64 KiB with lines `name = value` (file /)\n"},
        {"--log-level=loud", NULL, NULL,
         "crema-test: --log-level: \"loud\" is none of info, warn, error (see --help)\n"},
        {"--log-format=xml", NULL, NULL,
         "crema-test: --log-format: \"xml\" is neither text nor json (see --help)\n"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        s_clear_environment(NULL);
        if (steps[i].variable)
            setenv(steps[i].variable, steps[i].value, 1);
        assert_int_equal(s_parse((const char *const[]){steps[i].word, NULL}), CREMA_OPTION_ERROR);
        assert_string_equal(s_said, steps[i].want);
        assert_int_equal(s_rest, -1);
    }
}

static void
test_a_file_must_be_in_the_format(void **state)
{
    (void)state;
    static const char *const texts[] = {"not an assignment\n", "    indented = 1\n\n  = \n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *path = s_file(texts[i]);
        assert_int_equal(PARSE("--config", path), CREMA_OPTION_ERROR);
        assert_non_null(strstr(s_said, "crema-test: --config: not a file of at most 64 KiB with "
                                       "lines `name = value` (file "));
        unlink(path);
    }
    char *empty = s_file("");
    assert_int_equal(PARSE("--config", empty), CREMA_OPTION_RUN);
    unlink(empty);
    char *comments = s_file("# nothing\n\n# at all\n");
    assert_int_equal(PARSE("--config", comments), CREMA_OPTION_RUN);
    unlink(comments);
    assert_int_equal(PARSE("--config", "/tmp"), CREMA_OPTION_ERROR);
}

static void
test_a_file_may_hold_only_options(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } steps[] = {
        {"spoool = 1\n", "crema-test: spoool: no such option (file "},
        {"check = 1\n", "crema-test: check: no such option (file "},
        {"config = other\n", "crema-test: config: no such option (file "},
        {"count = 1\n    nested = 2\n", "crema-test: count: has sections; give a value (file "},
        {"count = x\n",
         "crema-test: --count: \"x\" is not a whole number; give for example 5 (file "},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        char *path = s_file(steps[i].text);
        assert_int_equal(PARSE("--config", path), CREMA_OPTION_ERROR);
        unlink(path);
        assert_memory_equal(s_said, steps[i].want, strlen(steps[i].want));
        assert_memory_equal(s_said + strlen(steps[i].want), path, strlen(path));
    }
}

int
main(void)
{
#define TEST(function) cmocka_unit_test_setup(function, s_clear_environment)
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),
        TEST(test_the_command_line_in_all_its_forms),
        TEST(test_the_stronger_source_wins),
        TEST(test_a_variable_of_the_program_wins_over_one_of_all),
        TEST(test_a_name_that_means_two_things_is_outdated),
        TEST(test_check_is_for_the_command_line),
        TEST(test_version_and_help),
        TEST(test_what_is_wrong_is_named_with_its_place),
        TEST(test_a_file_must_be_in_the_format),
        TEST(test_a_file_may_hold_only_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
