/* Lines for people: one line stays one line, and nothing in it steers a terminal. */
#include <stdlib.h>
#include <string.h>

#include "crema_print.h"
#include "must.h"

static void
must_print(const char *text, const char *want)
{
    char *printed = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&printed, &size);
    assert_non_null(file);
    crema_print(file, "%s: %d", text, 7);
    assert_int_equal(fclose(file), 0);
    if (strcmp(printed, want) != 0)
        fail_msg("%s instead of %s", printed, want);
    free(printed);
}

static void
test_a_line_shows_what_a_terminal_would_obey(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } steps[] = {
        {"", ": 7\n"},
        {"QCD ü€𝄞 %s \\ \"", "QCD ü€𝄞 %s \\ \": 7\n"},
        {"a\nfaked: sound", "a\\u000afaked: sound: 7\n"},
        {"\x1b[2J\r\t\x7f", "\\u001b[2J\\u000d\\u0009\\u007f: 7\n"},
        {"\xc2\x9b"
         "2J\xc2\x85\xc2\xa0",
         "\\u009b2J\\u0085\xc2\xa0: 7\n"}, /* CSI and NEL in one character */
        {"\xe2\x80\xae"
         "5h\xe2\x80\xa8\xe2\x81\xa6\xd8\x9c",
         "\\u202e5h\\u2028\\u2066\\u061c: 7\n"},
        {"\xff\x1b\xc3", "\\xff\\u001b\\xc3: 7\n"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        must_print(steps[i].text, steps[i].want);
}

static void
test_a_long_line_is_whole(void **state)
{
    (void)state;
    static char text[100001], want[sizeof text + 8];
    memset(text, 'x', sizeof text - 1);
    snprintf(want, sizeof want, "%s: 7\n", text);
    must_print(text, want);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_shows_what_a_terminal_would_obey),
        cmocka_unit_test(test_a_long_line_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
