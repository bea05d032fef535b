/* Looking at a store: runs with a journal, then freed ones, and whose they are. */
#include "must.h"

#include <stdio.h>
#include <string.h>

#include "message_parts.h"
#include "record_frames.h"
#include "sink_store.h"
#include "sink_survey.h"
#include "sink_tombs.h"

enum { RUN = 7, FREED = 8, FREED_TOO = 9 };

static char *s_dir;
static char s_store[600], s_why[8192];
static frames_t s_frames;

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    snprintf(s_store, sizeof s_store, "%s/store", s_dir);
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
    char owner[256]; /* user and label of the run with a journal */
} seen_t;

static crema_err_t
s_on_run(void *context, const sink_surveyed_t *run)
{
    seen_t *seen = context;
    char text[64];
    unsigned number = 0;
    for (unsigned n = RUN; n <= FREED_TOO; n++) {
        crema_id_t id = frames_id((uint8_t)n);
        number = crema_id_equal(&id, &run->run_id) ? n : number;
    }
    snprintf(text, sizeof text, "%u %s, ", number, run->phase);
    strncat(seen->phases, text, sizeof seen->phases - strlen(seen->phases) - 1);
    seen->streams += run->streams;
    if (number == RUN)
        snprintf(seen->owner, sizeof seen->owner, "%s: %s", run->user, run->label);
    else
        assert_string_equal(run->user, "");
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
test_survey_knows_runs_that_were_freed(void **state)
{
    (void)state;
    sink_store_t *store = must_make_store();
    const crema_id_t ids[] = {frames_id(FREED_TOO), frames_id(FREED)};
    must(sink_tombs_add(s_store, ids, 2));
    must_see(s_store, "7 open, 8 freed, 9 freed, ");
    sink_store_close(&store);
    must_see(s_store, "7 open, 8 freed, 9 freed, ");
}

/* Whose a run is, from its RUN_OPEN: not from one that only says what crema has cost. */
static void
test_survey_says_whose_a_run_is(void **state)
{
    (void)state;
    seen_t seen = {0};
    bool is_new;
    char *keys[] = {"host_client", "run_label", "user"},
         *values[] = {"node7", "ttbar\n2026", "alice"};
    crema_msg_t open = {.type = CREMA_MSG_RUN_OPEN,
                        .run_open = {.run_id = body_id(frames_id(RUN)), .t_start_ns = 77}};
    sink_store_t *store = must_make_store();
    must(sink_survey(s_store, s_on_run, &seen, s_why, sizeof s_why));
    assert_string_equal(seen.owner, ": "); /* it was not opened yet */
    open.run_open.n_keys = open.run_open.n_values = 3;
    open.run_open.keys = keys;
    open.run_open.values = values;
    must(sink_store_run_msg(store, &open, NULL, 5000, &is_new));
    must(sink_store_commit(store));
    must(sink_survey(s_store, s_on_run, &seen, s_why, sizeof s_why));
    assert_string_equal(seen.owner, "alice: ttbar\n2026");
    sink_store_close(&store);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_survey_knows_runs_that_were_freed),
        T(test_survey_says_whose_a_run_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
