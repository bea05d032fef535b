/* What the programs show to Prometheus: the table keeps its conventions, the page is the table,
 * the text is well-formed whatever is in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crema_exposition.h"
#include "crema_scrape_address.h"
#include "crema_series_doc.h"
#include "must.h"

static bool
s_ends(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* https://prometheus.io/docs/practices/naming */
static void
test_every_series_is_named_by_convention(void **state)
{
    (void)state;
    for (int i = 0; i < CREMA_SERIES_N; i++) {
        const crema_series_row_t *row = crema_series_row((crema_series_t)i);
        if (row->name[strspn(row->name, "abcdefghijklmnopqrstuvwxyz_")] != '\0')
            fail_msg("%s has letters that no name has", row->name);
        if ((row->type == CREMA_SERIES_COUNTER) != s_ends(row->name, "_total"))
            fail_msg("%s: a counter ends with _total, and nothing else does", row->name);
        if (row->type == CREMA_SERIES_HISTOGRAM && !s_ends(row->name, "_seconds"))
            fail_msg("%s: a time ends with _seconds", row->name);
        if (strpbrk(row->help, "\\\n|") || !s_ends(row->help, "."))
            fail_msg("%s: its meaning is one sentence on one line", row->name);
        for (int j = 0; j < i; j++)
            if (strcmp(crema_series_row((crema_series_t)j)->name, row->name) == 0)
                fail_msg("%s is there twice", row->name);
    }
}

static void
test_the_page_is_what_the_table_says(void **state)
{
    (void)state;
    char path[512], *want = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&want, &size);
    assert_non_null(memory);
    crema_series_print_markdown(memory);
    assert_int_equal(fclose(memory), 0);
    snprintf(path, sizeof path, "%s/../docs/operation/series.md", CREMA_TESTS_DIR);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be opened", path);
    char *page = calloc(size + 2, 1);
    if (fread(page, 1, size + 1, file) != size || memcmp(page, want, size) != 0)
        fail_msg("%s is not what the table says: write it with `crema-gen --series`", path);
    fclose(file);
    free(page);
    free(want);
}

static void
test_a_label_holds_any_bytes(void **state)
{
    (void)state;
    char text[1024], longest[2 * CREMA_EXPOSITION_LABEL_MAX];
    crema_exposition_t out = crema_exposition_begin(text, sizeof text);
    crema_expose_one(&out, CREMA_SERIES_BUILD, "a\"b\\c\nd\xff", NULL, 1);
    assert_non_null(
        strstr(text, "crema_build_info{program=\"a\\\"b\\\\c\\nd?\",version=\"\"} 1\n"));
    memset(longest, '"', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    crema_expose_one(&out, CREMA_SERIES_BUILD, longest, "", 2);
    assert_false(out.cut);
    assert_int_equal(strlen(text), out.used);
    assert_int_equal(text[out.used - 1], '\n');
}

/* However little room there is: lines are whole or not there. */
static void
test_what_does_not_fit_is_left_out_whole(void **state)
{
    (void)state;
    char whole[4096], text[4096];
    crema_histogram_t histogram = {0};
    crema_histogram_add(&histogram, 3000000);
    for (size_t size = 1; size < 1200; size++) {
        crema_exposition_t out = crema_exposition_begin(whole, sizeof whole);
        crema_expose_histogram(&out, CREMA_SERIES_SINK_SYNC, &histogram);
        assert_false(out.cut);
        out = crema_exposition_begin(text, size);
        crema_expose_histogram(&out, CREMA_SERIES_SINK_SYNC, &histogram);
        assert_true(out.used < size);
        assert_int_equal(strlen(text), out.used);
        assert_true(out.used == 0 || text[out.used - 1] == '\n');
        assert_int_equal(out.cut, strcmp(whole, text) != 0);
    }
}

static void
test_buckets_are_cumulative(void **state)
{
    (void)state;
    char text[4096];
    crema_histogram_t histogram = {0};
    crema_histogram_add(&histogram, 1000000); /* the bound belongs to its bucket */
    crema_histogram_add(&histogram, 1000001);
    crema_histogram_add(&histogram, INT64_C(60000000000));
    crema_exposition_t out = crema_exposition_begin(text, sizeof text);
    crema_expose_histogram(&out, CREMA_SERIES_SINK_SYNC, &histogram);
    static const char *const c_lines[] = {
        "# TYPE crema_sink_sync_seconds histogram\n",
        "crema_sink_sync_seconds_bucket{le=\"0.001\"} 1\n",
        "crema_sink_sync_seconds_bucket{le=\"0.0025\"} 2\n",
        "crema_sink_sync_seconds_bucket{le=\"10\"} 2\n",
        "crema_sink_sync_seconds_bucket{le=\"+Inf\"} 3\n",
        "crema_sink_sync_seconds_sum 60.002000001\n",
        "crema_sink_sync_seconds_count 3\n",
    };
    for (size_t i = 0; i < sizeof c_lines / sizeof *c_lines; i++)
        if (!strstr(text, c_lines[i]))
            fail_msg("%s is missing in\n%s", c_lines[i], text);
}

static void
test_names_beyond_the_room_of_a_tally_are_the_others(void **state)
{
    (void)state;
    static crema_tally_t tally;
    char name[2 * CREMA_TALLY_NAME_BYTES];
    for (int i = 0; i < 2 * CREMA_TALLY_MAX; i++) {
        snprintf(name, sizeof name, "reason_%d", i);
        crema_tally_add(&tally, name, 1);
        crema_tally_add(&tally, name, 1);
    }
    assert_int_equal(tally.n, CREMA_TALLY_MAX + 1);
    assert_int_equal(tally.counts[0], 2);
    assert_string_equal(tally.names[CREMA_TALLY_MAX], "other");
    assert_int_equal(tally.counts[CREMA_TALLY_MAX], 2 * CREMA_TALLY_MAX);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    crema_tally_add(&tally, name, 1);
    assert_int_equal(tally.counts[CREMA_TALLY_MAX], 2 * CREMA_TALLY_MAX + 1);
}

static void
test_an_address_without_a_host_is_loopback(void **state)
{
    (void)state;
    static const struct {
        const char *address, *url;
    } c_steps[] = {
        {"0", "http://127.0.0.1:"},           {":0", "http://127.0.0.1:"},
        {"localhost:0", "http://127.0.0.1:"}, {"127.0.0.2:0", "http://127.0.0.2:"},
        {"0.0.0.0:0", "http://0.0.0.0:"},
    };
    for (size_t i = 0; i < sizeof c_steps / sizeof *c_steps; i++) {
        int fd = -1;
        char url[CREMA_SCRAPE_URL_BYTES];
        assert_true(crema_scrape_address_is_sound(c_steps[i].address));
        assert_int_equal(crema_scrape_listen(c_steps[i].address, &fd, url), CREMA_OK);
        assert_memory_equal(url, c_steps[i].url, strlen(c_steps[i].url));
        assert_true(s_ends(url, "/metrics"));
        assert_int_equal(close(fd), 0);
    }
    assert_true(crema_scrape_address_is_sound("[::1]:9101"));
    static const char *const c_wrong[] = {"",           "x",        "host:1", "1.2.3:4", "65536",
                                          "127.0.0.1:", "::1:9101", "[::1]",  "[]:1",    "-1"};
    for (size_t i = 0; i < sizeof c_wrong / sizeof *c_wrong; i++)
        if (crema_scrape_address_is_sound(c_wrong[i]))
            fail_msg("\"%s\" is taken for an address", c_wrong[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_series_is_named_by_convention),
        cmocka_unit_test(test_the_page_is_what_the_table_says),
        cmocka_unit_test(test_a_label_holds_any_bytes),
        cmocka_unit_test(test_what_does_not_fit_is_left_out_whole),
        cmocka_unit_test(test_buckets_are_cumulative),
        cmocka_unit_test(test_names_beyond_the_room_of_a_tally_are_the_others),
        cmocka_unit_test(test_an_address_without_a_host_is_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
