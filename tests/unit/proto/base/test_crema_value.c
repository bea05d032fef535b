/* Numbers with units: the tables are the specification. */
#include "must.h"

#include <string.h>

#include "crema_value.h"

#define BAD INT64_MIN

typedef struct {
    const char *text;
    int64_t want; /* BAD: refused */
} step_t;

static void
s_check(bool (*parse)(const char *, int64_t *), const step_t *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t value = BAD;
        bool taken = parse(steps[i].text, &value);
        if (value != steps[i].want || taken != (steps[i].want != BAD))
            fail_msg("\"%s\": %lld", steps[i].text, (long long)value);
    }
}

#define CHECK(parse, steps) s_check(parse, steps, sizeof steps / sizeof steps[0])

static void
test_whole_numbers(void **state)
{
    (void)state;
    static const step_t steps[] = {
        {"0", 0},
        {"7", 7},
        {"-5", -5},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", BAD},
        {"99999999999999999999", BAD},
        {"", BAD},
        {"-", BAD},
        {"+5", BAD},
        {" 5", BAD},
        {"5 ", BAD},
        {"0x10", BAD},
        {"5k", BAD},
    };
    CHECK(crema_value_parse_int, steps);
}

static void
test_bytes(void **state)
{
    (void)state;
    static const step_t steps[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"1k", 1000},
        {"1Ki", 1024},
        {"64KiB", 65536},
        {"3M", 3000000},
        {"512Mi", INT64_C(512) << 20},
        {"2G", 2000000000},
        {"1Gi", 1 << 30},
        {"1GiB", 1 << 30},
        {"8589934591Gi", INT64_C(8589934591) << 30},
        {"8589934592Gi", BAD},
        {"-1", BAD},
        {"", BAD},
        {"Gi", BAD},
        {"1g", BAD},
        {"1GB ", BAD},
        {"1 Gi", BAD},
        {"1.5Gi", BAD},
        {"1Ti", BAD},
        {"1BB", BAD},
    };
    CHECK(crema_value_parse_bytes, steps);
}

static void
test_durations(void **state)
{
    (void)state;
    static const step_t steps[] = {
        {"0", 0},
        {"1", 1000000000},
        {"1s", 1000000000},
        {"500ms", 500000000},
        {"0.5", 500000000},
        {"1.5s", 1500000000},
        {"0.000000001", 1},
        {"0.0000000019", 1},
        {"2m", INT64_C(120000000000)},
        {"1.5h", INT64_C(5400000000000)},
        {"0.25m", INT64_C(15000000000)},
        {"9223372036s", INT64_C(9223372036000000000)},
        {"9223372037s", BAD},
        {"", BAD},
        {"s", BAD},
        {"1.", BAD},
        {".5", BAD},
        {"1.5.5", BAD},
        {"-1s", BAD},
        {"1 s", BAD},
        {"1us", BAD},
        {"1sec", BAD},
        {"abc", BAD},
        {"1s5", BAD},
    };
    CHECK(crema_value_parse_duration, steps);
}

static void
test_flags(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool taken, want;
    } steps[] = {
        {"true", true, true}, {"yes", true, true},    {"on", true, true},   {"1", true, true},
        {"no", true, false},  {"false", true, false}, {"off", true, false}, {"0", true, false},
        {"", false, false},   {"True", false, false}, {"2", false, false},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        bool value = !steps[i].want;
        assert_int_equal(crema_value_parse_flag(steps[i].text, &value), steps[i].taken);
        if (steps[i].taken)
            assert_int_equal(value, steps[i].want);
    }
}

static void
test_what_is_formatted_says_the_same(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        const char *bytes, *duration; /* NULL: not looked at */
    } steps[] = {
        {0, "0", "0ms"},
        {1024, "1Ki", NULL},
        {1000, "1k", NULL},
        {1025, "1025", NULL},
        {INT64_C(512) << 20, "512Mi", NULL},
        {200000000, NULL, "200ms"},
        {1000000000, "1G", "1s"},
        {INT64_C(60000000000), NULL, "1m"},
        {INT64_C(7200000000000), NULL, "2h"},
        {INT64_MAX, "9223372036854775807", NULL},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        char text[CREMA_VALUE_TEXT];
        if (steps[i].bytes)
            assert_string_equal(crema_value_format_bytes(steps[i].value, text), steps[i].bytes);
        if (steps[i].duration)
            assert_string_equal(crema_value_format_duration(steps[i].value, text),
                                steps[i].duration);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_what_is_formatted_says_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
