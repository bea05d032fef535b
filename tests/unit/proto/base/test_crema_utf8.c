/* UTF-8: what is well-formed, where a text may be cut. */
#include "must.h"

#include <string.h>

#include "crema_utf8.h"

static void
test_well_formed(void **state)
{
    (void)state;
    static const struct {
        const char *what, *text;
        bool want;
    } steps[] = {
        {"nothing", "", true},
        {"ASCII", "abc\x01\x7f", true},
        {"two bytes", "\xc2\x80 \xdf\xbf", true},
        {"three bytes", "\xe0\xa0\x80 \xef\xbf\xbf", true},
        {"four bytes", "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf", true},
        {"before the surrogates", "\xed\x9f\xbf", true},
        {"after the surrogates", "\xee\x80\x80", true},
        {"a lone continuation", "\x80", false},
        {"Latin-1", "caf\xe9", false},
        {"over-long /", "\xc0\xaf", false},
        {"over-long in three", "\xe0\x9f\xbf", false},
        {"over-long in four", "\xf0\x8f\xbf\xbf", false},
        {"a surrogate", "\xed\xa0\x80", false},
        {"above the last", "\xf4\x90\x80\x80", false},
        {"no such lead", "\xf5\x80\x80\x80", false},
        {"no such byte", "\xff", false},
        {"cut in two", "\xc3", false},
        {"cut in three", "\xe2\x82", false},
        {"cut in four", "\xf0\x9f\x98", false},
        {"a third byte that is none", "\xe2\x82(", false},
        {"a fourth byte that is none", "\xf0\x9f\x98(", false},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (crema_utf8_valid(steps[i].text, strlen(steps[i].text)) != steps[i].want)
            fail_msg("%s", steps[i].what);
}

static void
test_a_step_looks_no_further_than_it_may(void **state)
{
    (void)state;
    static const char euro[] = "\xe2\x82\xac";
    assert_int_equal(crema_utf8_step(euro, 0), 0);
    assert_int_equal(crema_utf8_step(euro, 1), 0);
    assert_int_equal(crema_utf8_step(euro, 2), 0);
    assert_int_equal(crema_utf8_step(euro, 3), 3);
    assert_int_equal(crema_utf8_step("a", 1), 1);
}

static void
test_fitting(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        const char *want; /* what the field holds, without padding */
        bool changed;
    } steps[] = {
        {"abc", 8, "abc", false},           {"abcdefgh", 8, "abcdefgh", false},
        {"abcdefghi", 8, "abcdefgh", true}, {"", 8, "", false},
        {"abcdefgé", 8, "abcdefg", true}, /* é does not fit */
        {"abcdefé", 8, "abcdefé", false},   {"€€€", 8, "€€", true},
        {"caf\xe9!", 8, "caf?!", true},     {"\xff\xff", 1, "?", true},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        char field[10] = "~~~~~~~~~";
        char want[10] = {0};
        memcpy(want, steps[i].want, strlen(steps[i].want));
        assert_int_equal(crema_utf8_fit(steps[i].text, field, steps[i].size), steps[i].changed);
        assert_memory_equal(field, want, steps[i].size);
        assert_int_equal(field[steps[i].size], '~');
    }
}

/* Two names that differ only behind what fits, or only in a byte that is not UTF-8, stay
 * different. */
static void
test_names_that_differ_stay_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {16, 40, 64, 128, 512};
    char long_name[2][600], field[2][513];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t size = sizes[i];
        for (int k = 0; k < 2; k++) {
            memset(long_name[k], 'x', size + 5);
            strcpy(long_name[k] + size + 5, k ? "_JES_Up" : "_JES_Down");
            memset(field[k], '!', sizeof field[k]);
            assert_true(crema_utf8_fit_name(long_name[k], field[k], size));
            assert_int_equal(field[k][size], '!');
            assert_true(crema_utf8_valid(field[k], size));
            assert_int_equal(field[k][size - 9], '~');
            assert_memory_equal(field[k], long_name[k], size - 9);
        }
        assert_memory_not_equal(field[0], field[1], size);
        assert_true(crema_utf8_fit_name(long_name[0], field[1], size));
        assert_memory_equal(field[0], field[1], size); /* the same everywhere */
    }
    long_name[0][16] = '\0';
    assert_false(crema_utf8_fit_name(long_name[0], field[0], 16)); /* it just fits */
    assert_memory_equal(field[0], long_name[0], 16);
    assert_true(crema_utf8_fit_name("caf\xe9", field[0], 16));
    assert_true(crema_utf8_fit_name("caf\xe8", field[1], 16));
    assert_memory_equal(field[0], "caf?~", 5);
    assert_memory_not_equal(field[0], field[1], 16);
    for (int k = 0; k < 2; k++)
        assert_true(crema_utf8_fit_name(k ? "éééééééééé1" : "éééééééééé2", field[k], 16));
    assert_true(crema_utf8_valid(field[0], 15) && field[0][15] == '\0'); /* cut before an é */
    assert_memory_not_equal(field[0], field[1], 16);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_well_formed),
        cmocka_unit_test(test_a_step_looks_no_further_than_it_may),
        cmocka_unit_test(test_fitting),
        cmocka_unit_test(test_names_that_differ_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
