/* The log: what a line looks like, what is held back, and that no value can break a line. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crema_log.h"

static char s_text[64 << 10];
static int s_stderr = -1;
static FILE *s_file;

/* Standard error goes to a file from here... */
static void
s_begin(void)
{
    fflush(stderr);
    s_file = tmpfile();
    assert_non_null(s_file);
    s_stderr = dup(STDERR_FILENO);
    dup2(fileno(s_file), STDERR_FILENO);
}

/* ...to here, and what was written is s_text. */
static void
s_finish(void)
{
    dup2(s_stderr, STDERR_FILENO);
    close(s_stderr);
    rewind(s_file);
    size_t used = fread(s_text, 1, sizeof s_text - 1, s_file);
    s_text[used] = '\0';
    fclose(s_file);
}

static size_t
s_count(const char *needle)
{
    size_t n = 0;
    for (const char *at = s_text; (at = strstr(at, needle)) != NULL; at++)
        n++;
    return n;
}

static void
test_a_text_line(void **state)
{
    (void)state;
    crema_id_t id = {{0xab, 0xcd}};
    crema_log_start("crema-test", CREMA_LOG_INFO, CREMA_LOG_TEXT);
    s_begin();
    crema_log_info("line_text", CREMA_TEXT("plain", "/a/b.h5"), CREMA_TEXT("spaced", "a b=\"c\""),
                   CREMA_TEXT("empty", ""), CREMA_TEXT("none", (const char *)NULL),
                   CREMA_INT("n", -3), CREMA_REAL("x", 0.25), CREMA_ID("id", &id));
    crema_log_start("crema-test", CREMA_LOG_WARN, CREMA_LOG_TEXT);
    crema_log_info("below_the_level");
    s_finish();
    assert_int_equal(s_text[23], 'Z');
    assert_string_equal(s_text + 24, " level=info program=crema-test event=line_text plain=/a/b.h5 "
                                     "spaced=\"a b=\\\"c\\\"\" empty=\"\" none=- n=-3 x=0.25 "
                                     "id=abcd0000000000000000000000000000\n");
}

static void
test_a_json_line(void **state)
{
    (void)state;
    crema_log_start("crema-test", CREMA_LOG_INFO, CREMA_LOG_JSON);
    s_begin();
    crema_log_info("line_json", CREMA_TEXT("text", "a\n\x01\xc2\x9b\xe2\x80\xae\xff\\é"),
                   CREMA_INT("n", 7), CREMA_REAL("nan", 0.0 / 0.0),
                   CREMA_TEXT("none", (const char *)NULL));
    s_finish();
    assert_memory_equal(s_text, "{\"time\":\"20", 11);
    assert_string_equal(
        strchr(s_text, 'Z'),
        "Z\",\"level\":\"info\",\"program\":\"crema-test\",\"event\":\"line_json\","
        "\"text\":\"a\\u000a\\u0001\\u009b\\u202e?\\\\é\",\"n\":7,\"nan\":null,\"none\":null}\n");
}

static void
test_a_line_has_an_end_however_long_its_values(void **state)
{
    (void)state;
    static char text[20000];
    memset(text, '"', sizeof text - 1);
    crema_log_start("crema-test", CREMA_LOG_INFO, CREMA_LOG_JSON);
    s_begin();
    crema_log_info("line_long", CREMA_TEXT("a", text), CREMA_TEXT("b", text), CREMA_TEXT("c", text),
                   CREMA_TEXT("d", text), CREMA_INT("e", 1));
    s_finish();
    size_t length = strlen(s_text);
    assert_true(length <= 4096);
    assert_string_equal(s_text + length - 6, "...\"}\n");
    assert_int_equal(s_count("\n"), 1);
    assert_int_equal(s_count("\"a\":"), 1);
    assert_int_equal(s_count("\"d\":"), 0);
}

static void
test_repeats_are_held_back(void **state)
{
    (void)state;
    crema_log_start("crema-test", CREMA_LOG_INFO, CREMA_LOG_TEXT);
    s_begin();
    for (int i = 0; i < CREMA_LOG_BURST + 5; i++)
        crema_log_warn("again_and_again", CREMA_INT("i", i));
    crema_log_warn("another");
    s_finish();
    assert_int_equal(s_count("event=again_and_again"), CREMA_LOG_BURST);
    assert_int_equal(s_count("event=another"), 1);
}

static void
test_words_of_the_options(void **state)
{
    (void)state;
    crema_log_level_t level = CREMA_LOG_INFO;
    crema_log_format_t format = CREMA_LOG_TEXT;
    assert_true(crema_log_parse_level("error", &level));
    assert_int_equal(level, CREMA_LOG_ERROR);
    assert_false(crema_log_parse_level("ERROR", &level));
    assert_true(crema_log_parse_format("json", &format));
    assert_int_equal(format, CREMA_LOG_JSON);
    assert_false(crema_log_parse_format("", &format));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_line),
        cmocka_unit_test(test_a_json_line),
        cmocka_unit_test(test_a_line_has_an_end_however_long_its_values),
        cmocka_unit_test(test_repeats_are_held_back),
        cmocka_unit_test(test_words_of_the_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
