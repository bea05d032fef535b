/* Lines of JSON: what is written is read again, what does not fit is told, what is malformed is
 * refused. */
#include "must.h"

#include <math.h>
#include <string.h>

#include "crema_json.h"

static void
test_json_writes_objects_and_lists(void **state)
{
    (void)state;
    char buf[256];
    crema_json_t json = crema_json_begin(buf, sizeof buf);
    crema_json_open(&json, NULL, '{');
    crema_json_text(&json, "a", "x\"\\\n\x01\xc2\x9b\x80ü");
    crema_json_text(&json, "b", NULL);
    crema_json_int(&json, "c", INT64_MIN);
    crema_json_real(&json, "d", 0.5);
    crema_json_real(&json, "e", NAN);
    crema_json_open(&json, "f", '[');
    crema_json_int(&json, NULL, 1);
    crema_json_open(&json, NULL, '{');
    crema_json_close(&json, '}');
    crema_json_raw(&json, NULL, "[2]");
    crema_json_close(&json, ']');
    crema_json_open(&json, "g", '{');
    crema_json_close(&json, '}');
    crema_json_close(&json, '}');
    assert_false(json.full);
    assert_string_equal(buf, "{\"a\":\"x\\\"\\\\\\u000a\\u0001\\u009b\xef\xbf\xbdü\",\"b\":null,"
                             "\"c\":-9223372036854775808,\"d\":0.5,\"e\":null,"
                             "\"f\":[1,{},[2]],\"g\":{}}");
    assert_int_equal(json.used, strlen(buf));
}

static void
test_json_that_does_not_fit_is_told_at_every_size(void **state)
{
    (void)state;
    char buf[64];
    for (size_t size = 1; size < 40; size++) {
        memset(buf, 'x', sizeof buf);
        crema_json_t json = crema_json_begin(buf, size);
        crema_json_open(&json, NULL, '{');
        crema_json_text(&json, "key", "value");
        crema_json_close(&json, '}');
        assert_int_equal(json.full, size < sizeof "{\"key\":\"value\"}");
        assert_true(strlen(buf) < size);
        assert_int_equal(buf[size], 'x');
    }
}

static const char s_object[] = " {\"a\" : \"x\\n\\u00fc\\ud800\", \"b\":[1, {\"a\":2}, "
                               "\"]\"],\"c\":-7,\"d\":{\"c\":8},\"e\":1.5}";

static void
test_json_finds_keys_of_its_own_object(void **state)
{
    (void)state;
    char text[32];
    int64_t number;
    must(crema_json_get_text(crema_json_find(s_object, "a"), text, sizeof text));
    assert_string_equal(text, "x\nü\xef\xbf\xbd");
    must(crema_json_get_int(crema_json_find(s_object, "c"), &number));
    assert_int_equal(number, -7);
    must(crema_json_get_int(crema_json_find(crema_json_find(s_object, "d"), "c"), &number));
    assert_int_equal(number, 8);
    assert_null(crema_json_find(s_object, "f"));
    assert_null(crema_json_find(s_object, "aa"));
    assert_null(crema_json_find(NULL, "a"));
    assert_null(crema_json_find("[1]", "a"));
}

static void
test_json_walks_lists(void **state)
{
    (void)state;
    char text[8];
    int64_t number;
    const char *at = crema_json_first(crema_json_find(s_object, "b"));
    must(crema_json_get_int(at, &number));
    assert_int_equal(number, 1);
    at = crema_json_after(at);
    must(crema_json_get_int(crema_json_find(at, "a"), &number));
    assert_int_equal(number, 2);
    at = crema_json_after(at);
    must(crema_json_get_text(at, text, sizeof text));
    assert_string_equal(text, "]");
    assert_null(crema_json_after(at));
    assert_null(crema_json_first("[ ]"));
    assert_null(crema_json_first("{}"));
}

static void
test_json_values_of_another_kind_are_refused(void **state)
{
    (void)state;
    char text[4];
    int64_t number = 99;
    assert_int_equal(crema_json_get_int(crema_json_find(s_object, "e"), &number), CREMA_EPROTO);
    assert_int_equal(crema_json_get_int(crema_json_find(s_object, "a"), &number), CREMA_EPROTO);
    assert_int_equal(crema_json_get_int("99999999999999999999}", &number), CREMA_EPROTO);
    assert_int_equal(crema_json_get_int(NULL, &number), CREMA_EPROTO);
    assert_int_equal(crema_json_get_int("7", &number), CREMA_EPROTO); /* it may have been 75 */
    assert_int_equal(number, 99);
    assert_int_equal(crema_json_get_text("7", text, sizeof text), CREMA_EPROTO);
    assert_int_equal(crema_json_get_text("\"abcd\"", text, sizeof text), CREMA_ELIMIT);
    must(crema_json_get_text("\"abc\"", text, sizeof text));
    assert_int_equal(crema_json_get_text("\"\\u0000\"", text, sizeof text), CREMA_EPROTO);
    assert_int_equal(crema_json_get_text("\"\\q\"", text, sizeof text), CREMA_EPROTO);
    assert_int_equal(crema_json_get_text("\"ab", text, sizeof text), CREMA_EPROTO);
}

/* Cut anywhere, a line gives what is whole or nothing; it never reads on behind the end. */
static void
test_json_cut_anywhere_is_harmless(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < sizeof s_object; cut++) {
        char buf[sizeof s_object], text[32];
        int64_t number = 0;
        memcpy(buf, s_object, cut);
        buf[cut] = '\0';
        crema_err_t err = crema_json_get_int(crema_json_find(buf, "c"), &number);
        assert_true(err != CREMA_OK || number == -7);
        err = crema_json_get_text(crema_json_find(buf, "a"), text, sizeof text);
        assert_true(err != CREMA_OK || strcmp(text, "x\nü\xef\xbf\xbd") == 0);
        for (const char *at = crema_json_first(crema_json_find(buf, "b")); at;)
            at = crema_json_after(at);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_writes_objects_and_lists),
        cmocka_unit_test(test_json_that_does_not_fit_is_told_at_every_size),
        cmocka_unit_test(test_json_finds_keys_of_its_own_object),
        cmocka_unit_test(test_json_walks_lists),
        cmocka_unit_test(test_json_values_of_another_kind_are_refused),
        cmocka_unit_test(test_json_cut_anywhere_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
