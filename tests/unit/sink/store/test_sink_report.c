/* The line between `crema-sink rebuild --json` and the serving sink. */
#include "crema_note.h"
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record_frames.h"
#include "sink_report.h"

static char s_line[SINK_REPORT_BYTES];
static sink_seal_result_t s_result;

static int
s_setup(void **state)
{
    (void)state;
    s_result = (sink_seal_result_t){.revision = 3, .file_bytes = 4567, .rows = 89};
    strcpy(s_result.verdict, "PARTIAL");
    strcpy(s_result.path, "/data/with \"quotes\"/x.h5");
    for (int i = 0; i < 32; i++)
        s_result.sha256[i] = (uint8_t)(i * 9);
    strcpy(s_result.reasons_json,
           "[{\"code\":\"agent_lost\",\"subject\":\"node7\",\"count\":12,\"text\":\"it went\"},"
           "{\"code\":\"input_dropped\",\"subject\":\"x.root\",\"count\":40,\"text\":\"so\"}]");
    return 0;
}

static void
test_report_of_a_result_is_read_again(void **state)
{
    (void)state;
    sink_report_t *report;
    crema_id_t run_id = frames_id(7);
    sink_report_result(&s_result, s_line);
    assert_null(strchr(s_line, '\n'));
    must(sink_report_parse(s_line, &report));
    assert_null(sink_report_why(report));
    Crema__Sealed sealed = sink_report_sealed(report, &run_id);
    assert_string_equal(sealed.path, s_result.path);
    assert_string_equal(sealed.verdict, "PARTIAL");
    assert_string_equal(sealed.error, "");
    assert_int_equal(sealed.revision, 3);
    assert_int_equal(sealed.n_reasons, 2);
    assert_false(crema_note(sealed.reasons[0]->code));
    assert_true(crema_note(sealed.reasons[1]->code));
    assert_string_equal(sealed.reasons[1]->subject, "x.root");
    assert_string_equal(sealed.reasons[0]->code, "agent_lost");
    assert_string_equal(sealed.reasons[0]->subject, "node7");
    assert_string_equal(sealed.reasons[0]->text, "it went");
    assert_int_equal(sealed.reasons[0]->count, 12);
    sink_journal_sealed_t journal = sink_report_journal(report);
    assert_int_equal(journal.revision, 3);
    assert_int_equal(journal.file_bytes, 4567);
    assert_memory_equal(journal.sha256, s_result.sha256, 32);
    sink_report_destroy(&report);
}

static void
test_report_of_an_error_is_read_again(void **state)
{
    (void)state;
    sink_report_t *report;
    sink_report_error("the disk is \"full\"", s_line);
    must(sink_report_parse(s_line, &report));
    assert_string_equal(sink_report_why(report), "the disk is \"full\"");
    sink_report_destroy(&report);
    assert_null(report);
}

static void
test_report_keeps_a_bounded_number_of_reasons(void **state)
{
    (void)state;
    sink_report_t *report;
    crema_id_t run_id = frames_id(7);
    size_t used = 0;
    for (int i = 0; i < 100; i++)
        used += (size_t)snprintf(s_result.reasons_json + used, sizeof s_result.reasons_json - used,
                                 "%s{\"code\":\"c%d\"}", i ? "," : "[", i);
    snprintf(s_result.reasons_json + used, sizeof s_result.reasons_json - used, "]");
    sink_report_result(&s_result, s_line);
    must(sink_report_parse(s_line, &report));
    Crema__Sealed sealed = sink_report_sealed(report, &run_id);
    assert_int_equal(sealed.n_reasons, SINK_REPORT_REASONS_MAX);
    assert_string_equal(sealed.reasons[62]->code, "c62");
    assert_string_equal(sealed.reasons[63]->code, "more");
    assert_int_equal(sealed.reasons[63]->count, 37);
    sink_report_destroy(&report);
}

/* Cut anywhere, it is no report: a killed process must not look like a sealed run. */
static void
test_report_cut_short_is_refused(void **state)
{
    (void)state;
    sink_report_result(&s_result, s_line);
    size_t size = (size_t)(strstr(s_line, "[{\"code\"") - s_line);
    for (size_t cut = 0; cut < size; cut++) {
        sink_report_t *report = NULL;
        char *cut_line = strndup(s_line, cut);
        assert_int_equal(sink_report_parse(cut_line, &report), CREMA_EPROTO);
        assert_null(report);
        free(cut_line);
    }
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup(test, s_setup)
    const struct CMUnitTest tests[] = {
        T(test_report_of_a_result_is_read_again),
        T(test_report_of_an_error_is_read_again),
        T(test_report_keeps_a_bounded_number_of_reasons),
        T(test_report_cut_short_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
