/* Looking at a store and copying out of it: tombstones of every age count, nothing is written,
 * what a killed export left is no run. */
#include "must.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "record_frames.h"
#include "sink_export.h"
#include "sink_past.h"
#include "sink_segment.h"
#include "sink_store.h"
#include "sink_survey.h"
#include "sink_tombs.h"

enum { RUN = 7, FREED = 8, FREED_LONG_AGO = 9 };

static char *s_dir;
static char s_store[600], s_copy[600], s_why[8192];
static frames_t s_frames;

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    snprintf(s_store, sizeof s_store, "%s/store", s_dir);
    snprintf(s_copy, sizeof s_copy, "%s/copy", s_dir);
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    scratch_remove(&s_dir);
    return 0;
}

/* A store with one open run of one stream. */
static sink_store_t *
must_make_store(void)
{
    const sink_store_config_t config = {.dir = s_store, .streams_max = 10, .runs_max = 10};
    sink_store_t *store;
    sink_store_put_t answer;
    must(sink_store_open(&config, s_why, sizeof s_why, &store));
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, 1, 5);
    Crema__Put put = frames_put(&s_frames, 1, RUN, 1);
    must(sink_store_put(store, &put, 5000, &answer));
    must(sink_store_commit(store));
    return store;
}

typedef struct {
    char phases[256]; /* of all runs, by number */
    size_t streams;
} seen_t;

static crema_err_t
s_on_run(void *context, const sink_surveyed_t *run)
{
    seen_t *seen = context;
    char text[64];
    unsigned number = 0;
    for (unsigned n = RUN; n <= FREED_LONG_AGO; n++) {
        crema_id_t id = frames_id((uint8_t)n);
        number = crema_id_equal(&id, &run->run_id) ? n : number;
    }
    snprintf(text, sizeof text, "%u %s, ", number, run->phase);
    strncat(seen->phases, text, sizeof seen->phases - strlen(seen->phases) - 1);
    seen->streams += run->streams;
    return CREMA_OK;
}

static void
must_see(const char *dir, const char *phases)
{
    seen_t seen = {0};
    must(sink_survey(dir, s_on_run, &seen, s_why, sizeof s_why));
    assert_string_equal(seen.phases, phases);
    assert_int_equal(seen.streams, 1);
}

static void
test_survey_knows_runs_that_were_freed_and_when_it_was_long_ago(void **state)
{
    (void)state;
    sink_store_t *store = must_make_store();
    crema_id_t id = frames_id(FREED), old = frames_id(FREED_LONG_AGO);
    sink_past_t past;
    must(sink_tombs_add(s_store, &id, 1));
    must(sink_past_open(&past, s_store));
    must(sink_past_add(&past, s_store, &(sink_ids_t){.ids = &old, .n = 1}));
    sink_past_clear(&past);
    must_see(s_store, "7 open, 8 freed, 9 freed, ");
    sink_store_close(&store);
    must_see(s_store, "7 open, 8 freed, 9 freed, ");
}

/* A file of an earlier version names streams, and is made small by whoever serves the store. */
static void
test_survey_leaves_old_tombstones_as_they_are(void **state)
{
    (void)state;
    enum { STREAMS = 5000, HEAD = 40, TOMB = 24 };
    static uint8_t body[HEAD + STREAMS * TOMB], bytes[sizeof body + CREMA_FRAME_HEADER_BYTES];
    sink_store_t *store = must_make_store();
    sink_store_close(&store);
    crema_id_t id = frames_id(FREED);
    memcpy(body, id.bytes, CREMA_ID_BYTES);
    crema_put_u64(body + 24, STREAMS);
    crema_frame_t frame = {.type = SINK_TOMBSTONES_FRAME, .len = sizeof body, .body = body};
    crema_frame_encode(&frame, bytes);
    char path[700];
    struct stat st;
    snprintf(path, sizeof path, "%s/tombstones", s_store);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, sizeof bytes, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    must_see(s_store, "7 open, 8 freed, ");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, sizeof bytes);
}

static void
test_export_is_whole_or_not_there(void **state)
{
    (void)state;
    char path[PATH_MAX], part[PATH_MAX], left[PATH_MAX], uuid[37];
    sink_store_t *store = must_make_store();
    crema_id_t id = frames_id(RUN);
    must(sink_export(s_store, &id, s_copy, path, s_why, sizeof s_why));
    must_see(s_copy, "7 open, ");

    /* What a killed one left is no run, and the next one begins there. */
    assert_true(snprintf(part, sizeof part, "%s/.%s.part", s_copy, crema_id_uuid(&id, uuid)) > 0);
    assert_int_equal(rename(path, part), 0);
    assert_true(snprintf(left, sizeof left, "%.500s/000001.journal", part) > 0);
    assert_int_equal(truncate(left, 10), 0);
    seen_t seen = {0};
    must(sink_survey(s_copy, s_on_run, &seen, s_why, sizeof s_why));
    assert_string_equal(seen.phases, "");
    must(sink_export(s_store, &id, s_copy, path, s_why, sizeof s_why));
    must_see(s_copy, "7 open, ");
    assert_int_not_equal(access(part, F_OK), 0);
    sink_store_close(&store);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_survey_knows_runs_that_were_freed_and_when_it_was_long_ago),
        T(test_survey_leaves_old_tombstones_as_they_are),
        T(test_export_is_whole_or_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
