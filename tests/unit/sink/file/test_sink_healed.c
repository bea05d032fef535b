/* Damage to a journal that the spools made good: COMPLETE, with a note; one record less, or less
 * than a whole list of writers, and the run is PARTIAL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "journal_fixture.h"
#include "message_parts.h"
#include "must.h"
#include "record_frames.h"
#include "rows_fixture.h"
#include "sink_seal.h"
#include "sink_segment.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9))

enum { OPEN = 1, AGENT = 2, WORKER = 4, LIST = 8, SEAL = 16, LEFT = 32, CLOCK = 64, ALL = 31 };

static char s_file[600];

/* ---- verbs */

/* What comes to a sink between a start and the end of it. Agent and worker tell all that they
 * have, from number 1. */
static void
s_live(const char *dir, unsigned what)
{
    static const char *const keys[] = {"note", NULL}, *const values[] = {"one", NULL};
    Crema__Writer worker = {.stream_id = body_id(fixture_stream_id(2)),
                            .last = 3,
                            .state = CREMA_WRITER_ENDED,
                            .name = "tcp://A",
                            .uuid = "uuid-tcp://A",
                            .text = ""};
    fixture_t *f = fixture_new(dir, 1);
    if (what & OPEN)
        fixture_open(f, T(0), keys, values, NULL);
    if (what & AGENT) {
        fixture_stream_t *agent = fixture_stream(f, 5, 1, CREMA_STREAM_AGENT, "", 0, T(0));
        fixture_end(agent, CREMA_END_FINISHED, T(9), 0, 0);
    }
    if (what & WORKER) {
        fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
        fixture_name(w, CREMA_DICT_DATASET, "data");
        fixture_end(w, CREMA_END_FINISHED, T(9), 0, 0);
        assert_int_equal(fixture_last(w), 3);
    }
    if (what & LEFT)
        worker = (Crema__Writer){
            .state = CREMA_WRITER_LEFT, .name = "tcp://A", .uuid = "uuid-tcp://A", .text = ""};
    if (what & LIST)
        fixture_writers(f, 0, 1, &worker, 1);
    if (what & CLOCK)
        fixture_clock(f, 1, T(5), 0, 1000);
    if (what & SEAL)
        fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
}

/* Spoils frame number `seq` of the first segment and tells what it was; 0: there is none. */
static uint16_t
s_spoil(const char *dir, uint64_t seq)
{
    static uint8_t bytes[1 << 20];
    char path[700];
    size_t offset = 0, skipped;
    crema_frame_t frame;
    uint16_t type = 0;
    snprintf(path, sizeof path, "%s/000001.journal", dir);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    while (type == 0 && sink_segment_next(bytes, size, &offset, &frame, &skipped) == CREMA_OK)
        if (!sink_segment_is_head(frame.type) && frame.type != SINK_JOURNAL_HEADER &&
            frame.seq == seq)
            type = frame.type;
    if (type) {
        fseek(file, (long)(offset - 1), SEEK_SET);
        fputc(bytes[offset - 1] ^ 0x5a, file);
    }
    fclose(file);
    return type;
}

static void
must_be(const char *dir, uint64_t seq, bool complete)
{
    char why[1024];
    sink_seal_result_t *result = calloc(1, sizeof *result);
    if (sink_seal_journal(dir, s_file, result, why, sizeof why) != CREMA_OK)
        fail_msg("%s", why);
    if (strcmp(result->verdict, complete ? "COMPLETE" : "PARTIAL") != 0)
        fail_msg("without entry %llu: %s %s", (unsigned long long)seq, result->verdict,
                 result->reasons_json);
    if (complete)
        assert_non_null(strstr(result->reasons_json, "\"journal_damaged\""));
    free(result);
    unlink(s_file);
}

/* Each entry of the first life once: how many were read, and the run is COMPLETE if and only if
 * the entry is of these types. */
static void
must_heal(unsigned first, unsigned second, uint16_t one, uint16_t other)
{
    uint64_t seq = 1;
    for (;; seq++) {
        const char *dir = scratch_dir("healed");
        s_live(dir, first);
        s_live(dir, CLOCK); /* what is damaged was synced, and not last */
        uint16_t type = s_spoil(dir, seq);
        if (type == 0)
            break;
        s_live(dir, second);
        must_be(dir, seq, type == one || type == other);
    }
    assert_true(seq > 3);
}

/* ---- tests */

static void
must_be_complete_when_all_came_anew(void **state)
{
    (void)state;
    must_heal(ALL & ~SEAL, ALL, SINK_JOURNAL_PUT, SINK_JOURNAL_RUN);
}

/* Messages are not repeated by anybody here: without the only RUN_OPEN, or the only list, nothing
 * is proven. */
static void
must_be_partial_without_what_proves_it(void **state)
{
    (void)state;
    must_heal(ALL & ~SEAL, AGENT | WORKER | SEAL, SINK_JOURNAL_PUT, 0);
    must_heal(OPEN | AGENT | WORKER, AGENT | WORKER | SEAL, 0, 0);               /* no list */
    must_heal(OPEN | AGENT | WORKER, AGENT | WORKER | LIST | LEFT | SEAL, 0, 0); /* no stream */
}

static void
must_be_partial_when_a_record_is_missing(void **state)
{
    (void)state;
    must_heal(ALL & ~SEAL, SEAL, 0, 0);
}

/* Whatever comes after the verdict, it does not speak of it. */
static void
must_be_partial_when_the_damage_is_behind_the_verdict(void **state)
{
    (void)state;
    const char *dir = scratch_dir("healed");
    s_live(dir, ALL);
    s_live(dir, CLOCK);
    assert_int_equal(s_spoil(dir, 8), SINK_JOURNAL_RUN); /* the verdict itself */
    must_be(dir, 8, false);
}

/* Agents are on no list: one of which nothing is left is known by what it shipped. */
static void
must_be_partial_without_the_stream_of_an_agent(void **state)
{
    (void)state;
    for (unsigned lost = 1; lost <= 3; lost++) {
        const char *dir = scratch_dir("healed");
        s_live(dir, ALL & ~SEAL);
        s_live(dir, CLOCK);
        for (unsigned i = 0; i < 2; i++)
            if (lost & 1u << i)
                assert_int_equal(s_spoil(dir, 2 + i), SINK_JOURNAL_PUT);
        s_live(dir, WORKER | SEAL);
        must_be(dir, lost, false);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_be_complete_when_all_came_anew),
        cmocka_unit_test(must_be_partial_without_what_proves_it),
        cmocka_unit_test(must_be_partial_when_a_record_is_missing),
        cmocka_unit_test(must_be_partial_when_the_damage_is_behind_the_verdict),
        cmocka_unit_test(must_be_partial_without_the_stream_of_an_agent),
    };
    snprintf(s_file, sizeof s_file, "%s.h5", scratch_dir("healed-file"));
    scratch_prefer_memory(32); /* many small journals, of which none need survive a power cut */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
