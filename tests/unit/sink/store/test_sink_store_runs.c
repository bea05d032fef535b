/* Runs in a store: what is known of them after a restart and after they were freed, answers, room,
 * lists of writers. */
#include "message_parts.h"
#include "store_verbs.h"

static void
must_say(sink_store_t *store, crema_msg_type_t type, uint8_t run, const char *reason, bool want_new)
{
    Crema__Reason row = crema_reason(reason, "", "", 0);
    crema_msg_t msg = {.type = type, .run_id = body_id(frames_id(run))};
    if (type == CREMA_MSG_RUN_SEAL) {
        msg.run_seal.n_reasons = reason ? 1 : 0;
        msg.run_seal.reasons = body_reasons(1, &row);
        msg.run_seal.t_verdict_ns = 1;
    }
    bool is_new;
    must(sink_store_run_msg(store, &msg, NULL, 5000, &is_new));
    assert_int_equal(is_new, want_new);
    if (type == CREMA_MSG_RUN_SEAL)
        msg.run_seal.t_verdict_ns = 999;
    must(sink_store_run_msg(store, &msg, NULL, 5000, &is_new));
    assert_false(is_new);
}

static void
must_seal(sink_store_t *store, uint8_t run, int64_t revision, int64_t t_real_ns)
{
    crema_id_t id = frames_id(run);
    must(sink_store_sealed(store, &id, &(sink_journal_sealed_t){.revision = revision}, t_real_ns));
}

static const sink_run_t *
must_find(sink_store_t *store, uint8_t run)
{
    crema_id_t id = frames_id(run);
    const sink_run_t *found = sink_store_find(store, &id);
    assert_non_null(found);
    return found;
}

static void
test_store_knows_after_a_restart_what_each_run_waits_for(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    must_say(store, CREMA_MSG_RUN_OPEN, RUN, NULL, true);
    must_put(store, 1, 1, 5, false);
    assert_false(must_find(store, RUN)->state.seal_asked);
    must_say(store, CREMA_MSG_RUN_SEAL, RUN, "agent_lost", true);
    must_commit(store);
    sink_store_close(&store);

    store = must_open(NULL); /* the verdict is known, the file is not made */
    assert_true(must_find(store, RUN)->state.seal_asked);
    assert_int_equal(must_find(store, RUN)->state.revision, 0);
    must_say(store, CREMA_MSG_RUN_SEAL, RUN, "agent_lost", false);
    must_seal(store, RUN, 1, 6000);
    must_commit(store);
    sink_store_close(&store);

    store = must_open(NULL); /* all is done */
    assert_int_equal(must_find(store, RUN)->state.revision, 1);
    assert_int_equal(must_find(store, RUN)->state.t_sealed_ns, 6000);
    assert_false(must_find(store, RUN)->state.late);
    assert_int_equal(must_put(store, 1, 6, 6, false).decision, SINK_PUT_APPEND);
    assert_true(must_find(store, RUN)->state.late);
    must_commit(store);
    sink_store_close(&store);

    store = must_open(NULL); /* something came late */
    assert_true(must_find(store, RUN)->state.late);
    must_seal(store, RUN, 2, 7000);
    assert_false(must_find(store, RUN)->state.late);
    must_say(store, CREMA_MSG_RUN_SEAL, RUN, NULL, true); /* another verdict */
    assert_true(must_find(store, RUN)->state.late);
    sink_store_close(&store);
}

/* The aggregator's RUN_SEAL says what that has cost, as this program's own note before it does. */
static void
test_store_knows_after_a_restart_a_verdict_that_names_a_cost(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    const crema_cost_t cost = {.cpu_s = 1, .bytes = 2, .records = 3};
    crema_cost_attributes_t words;
    crema_cost_describe(&cost, "aggregator", &words);
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_SEAL,
                             .run_seal = {.run_id = body_id(frames_id(RUN)),
                                          .n_keys = CREMA_COST_ATTRIBUTES,
                                          .keys = words.keys,
                                          .n_values = CREMA_COST_ATTRIBUTES,
                                          .values = words.values,
                                          .t_verdict_ns = 1}};
    bool is_new;
    must_say(store, CREMA_MSG_RUN_OPEN, RUN, NULL, true);
    must(sink_store_run_msg(store, &msg, &cost, 5000, &is_new));
    assert_true(is_new);
    must_commit(store);
    sink_store_close(&store);

    store = must_open(NULL);
    assert_int_equal(must_find(store, RUN)->state.life, CREMA_LIFE_ENDED);
    assert_true(must_find(store, RUN)->state.seal_asked);
    must_seal(store, RUN, 1, 6000);
    must_commit(store);
    sink_store_close(&store);

    store = must_open(NULL);
    assert_int_equal(must_find(store, RUN)->state.life, CREMA_LIFE_SEALED);
    must(sink_store_run_msg(store, &msg, &cost, 7000, &is_new));
    assert_false(is_new);
    sink_store_close(&store);
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    unsigned *late = context;
    *late = *late * 10 + (put->late ? 2 : 1);
    return CREMA_OK;
}

static void
test_store_marks_records_after_the_verdict(void **state)
{
    (void)state;
    char dir[PATH_MAX];
    unsigned late = 0;
    crema_id_t run_id = frames_id(RUN);
    sink_journal_report_t report;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 1, false);
    must_say(store, CREMA_MSG_RUN_SEAL, RUN, NULL, true);
    must_put(store, 1, 2, 2, false);
    must_commit(store);
    sink_store_run_dir(store, &run_id, dir);
    sink_journal_visitor_t visitor = {.context = &late, .put = s_on_put};
    must(sink_journal_read(dir, &visitor, &report));
    assert_int_equal(late, 12);
    sink_store_close(&store);
}

static void
test_store_lists_streams_of_unfinished_runs(void **state)
{
    (void)state;
    crema_stream_row_t *rows;
    size_t n;
    sink_store_t *store = must_open(NULL);
    sink_store_put_t answer;
    must_put(store, 1, 1, 1, true);
    must(s_put(store, 2, RUN + 1, 1, 4, false, &answer));
    must_say(store, CREMA_MSG_RUN_SEAL, RUN, NULL, true);
    must_seal(store, RUN, 1, 6000);
    must_commit(store);
    must(sink_store_open_streams(store, &rows, &n));
    assert_int_equal(n, 1);
    assert_int_equal(rows[0].stream_id.bytes[0], 2);
    assert_int_equal(rows[0].committed, 4);
    free(rows);
    sink_store_close(&store);
}

static void
test_store_keeps_tombstones_of_freed_runs(void **state)
{
    (void)state;
    char dir[PATH_MAX];
    crema_id_t run_id = frames_id(RUN);
    sink_store_put_t answer;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, true);
    must_put(store, 2, 1, 3, false);
    assert_int_equal(store_free(store, &run_id), CREMA_EINVAL); /* not sealed */
    must_say(store, CREMA_MSG_RUN_SEAL, RUN, NULL, true);
    must_seal(store, RUN, 4, 6000);
    must_commit(store);
    sink_store_run_dir(store, &run_id, dir);
    assert_int_equal(access(dir, F_OK), 0);
    must(store_free(store, &run_id));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(access(dir, F_OK), -1);
        assert_true(must_find(store, RUN)->freed);
        crema_stream_row_t row;
        const crema_stream_row_t asked = {.stream_id = frames_id(1), .run_id = run_id, .hi = 7};
        must(sink_store_stream(store, &asked, &row)); /* nobody waits for it any more */
        assert_int_equal(row.flags, CREMA_STREAM_FLAG_REFUSED);
        assert_int_equal(row.committed, 7);
        assert_int_equal(sink_commit_stats(sink_store_watermarks(store)).streams, 0);
        assert_int_equal(s_put(store, 1, RUN, 1, 5, true, &answer), CREMA_ENOENT);
        assert_int_equal(s_put(store, 9, RUN, 1, 5, true, &answer), CREMA_ENOENT);
        sink_store_close(&store);
        store = must_open(NULL);
    }
    sink_store_close(&store);
}

/* What a spool holds of a freed run is lost; that it is must be durable before the spool may let
 * go of it. */
static void
test_store_keeps_what_it_refused(void **state)
{
    (void)state;
    crema_id_t run_id = frames_id(RUN);
    crema_stream_row_t row;
    const crema_stream_row_t asked = {
        .stream_id = frames_id(1), .run_id = run_id, .hi = 12, .committed = 5};
    const crema_stream_row_t settled = {
        .stream_id = frames_id(2), .run_id = run_id, .hi = 9, .committed = 9};
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, true);
    must_say(store, CREMA_MSG_RUN_SEAL, RUN, NULL, true);
    must_seal(store, RUN, 4, 6000);
    must_commit(store);
    must(store_free(store, &run_id));
    for (int round = 0; round < 2; round++) {
        for (int again = 0; again < 2; again++) {
            must(sink_store_stream(store, &asked, &row));
            assert_int_equal(row.committed, 12);
            must(sink_store_stream(store, &settled, &row));
            assert_int_equal(sink_store_report(store).refused_records, 7);
            sink_store_event_t event;
            bool told = store_events_take(&event);
            assert_true(told == (round == 0 && again == 0)); /* once */
            if (told) {
                assert_int_equal(event.type, SINK_STORE_REFUSED);
                assert_non_null(strstr(event.text, "6 to 12 of stream 01010101-"));
            }
        }
        must(s_keep_refused(store));
        sink_store_close(&store);
        store = must_open(NULL);
        assert_int_equal(sink_store_report(store).refused_records, 7);
    }
    sink_store_close(&store);
}

/* While it cannot be written, nothing is settled. */
static void
test_store_that_cannot_keep_a_refusal_says_so(void **state)
{
    (void)state;
    char path[600];
    crema_id_t run_id = frames_id(RUN);
    crema_stream_row_t row;
    const crema_stream_row_t asked = {.stream_id = frames_id(1), .run_id = run_id, .hi = 12};
    must(sink_tombs_add(s_dir, &run_id, 1));
    snprintf(path, sizeof path, "%s/refused.tmp", s_dir);
    assert_int_equal(mkdir(path, 0700), 0); /* in the way */
    sink_store_t *store = must_open(NULL);
    must(s_keep_refused(store)); /* of nothing */
    must(sink_store_stream(store, &asked, &row));
    assert_true(s_keep_refused(store) != CREMA_OK);
    must(sink_store_stream(store, &asked, &row));
    assert_true(s_keep_refused(store) != CREMA_OK);
    assert_int_equal(rmdir(path), 0);
    must(s_keep_refused(store));
    sink_store_close(&store);
    store = must_open(NULL);
    assert_int_equal(sink_store_report(store).refused_records, 12);
    sink_store_close(&store);
}

/* Killed between the tombstones and the removal: the removal is made up for, nothing is read
 * twice. */
static void
test_store_finishes_a_removal_that_was_interrupted(void **state)
{
    (void)state;
    char dir[PATH_MAX];
    crema_id_t run_id = frames_id(RUN);
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, true);
    must_commit(store);
    sink_store_run_dir(store, &run_id, dir);
    sink_store_close(&store);
    must(sink_tombs_add(s_dir, &run_id, 1));
    store = must_open(NULL);
    assert_int_equal(access(dir, F_OK), -1);
    assert_true(must_find(store, RUN)->freed);
    assert_int_equal(s_row(store, 1).committed, 0);
    sink_store_close(&store);
}

static void
test_store_keeps_answers(void **state)
{
    (void)state;
    uint8_t *bytes;
    size_t size;
    crema_id_t run_id = frames_id(RUN);
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, true);
    assert_int_equal(sink_store_answer(store, &run_id, &bytes, &size), CREMA_ENOENT);
    must(sink_store_keep_answer(store, &run_id, (const uint8_t *)"first", 5));
    must(sink_store_keep_answer(store, &run_id, (const uint8_t *)"second", 6));
    assert_int_equal(sink_store_answer(store, &run_id, &bytes, &size), CREMA_ENOENT);
    must_commit(store);
    sink_store_close(&store);
    store = must_open(NULL);
    must(sink_store_answer(store, &run_id, &bytes, &size));
    assert_int_equal(size, 6);
    assert_memory_equal(bytes, "second", 6);
    free(bytes);
    sink_store_close(&store);
}

static void
test_store_knows_how_much_room_its_disk_has(void **state)
{
    (void)state;
    struct statvfs fs;
    uint64_t free_b;
    sink_store_t *store = must_open(NULL);
    assert_int_equal(statvfs(s_dir, &fs), 0);
    (void)sink_store_space(store, &free_b);
    uint64_t all_b = (uint64_t)fs.f_blocks * fs.f_frsize;
    assert_true(free_b > 0 && free_b <= all_b);
    sink_store_close(&store);
}

static void
test_store_says_when_its_limit_is_near(void **state)
{
    (void)state;
    sink_store_t *store;
    sink_store_config_t config = s_config();
    uint64_t free_b, seq = 1;
    config.limit_bytes = 1 << 20;
    must(s_open(&config, &store));
    assert_int_equal(sink_store_space(store, &free_b), SINK_SPACE_FREE);
    assert_int_equal(free_b, 1 << 20);
    sink_space_t last = SINK_SPACE_FREE;
    uint64_t left_at[3] = {0, 0, 0};
    for (; last != SINK_SPACE_FULL && seq < 100000; seq += 100) {
        must_put(store, 1, seq, seq + 99, false);
        must_commit(store);
        sink_space_t now = sink_store_space(store, &free_b);
        assert_true(now >= last);
        if (now != last)
            left_at[now] = free_b;
        last = now;
    }
    assert_int_equal(last, SINK_SPACE_FULL);
    assert_in_range(left_at[SINK_SPACE_SHORT], (1 << 20) / 20, (1 << 20) / 10);
    assert_in_range(left_at[SINK_SPACE_FULL], 1, (1 << 20) / 20);
    sink_store_close(&store);
}

/* With root: a file system without room. Nothing is acknowledged, nothing lost, and it goes on
 * once there is room. */
static void
test_store_waits_for_room(void **state)
{
    (void)state;
    char ballast[600];
    if (!scratch_mount(s_dir, "2m"))
        not_tested_here(MISSING_MOUNTS);
    sink_store_put_t answer;
    uint64_t free_b;
    sink_store_t *store = must_open(NULL);
    must_put(store, 1, 1, 5, false);
    must_commit(store);
    snprintf(ballast, sizeof ballast, "%s/ballast", s_dir);
    scratch_fill(ballast);
    must_put(store, 1, 6, 600, false);
    assert_int_equal(sink_store_commit(store), CREMA_ENOSPC);
    assert_int_equal(s_row(store, 1).committed, 5);
    assert_int_equal(sink_store_space(store, &free_b), SINK_SPACE_FULL);
    assert_int_equal(s_put(store, 1, RUN, 601, 602, false, &answer), CREMA_ENOSPC);
    assert_int_equal(unlink(ballast), 0);
    must_commit(store);
    assert_int_equal(s_row(store, 1).committed, 600);
    must_put(store, 1, 601, 602, false);
    must_commit(store);
    sink_store_close(&store);
    store = must_open(NULL);
    assert_int_equal(s_row(store, 1).committed, 602);
    sink_store_close(&store);
    scratch_unmount(s_dir);
}

static bool
s_is_new(sink_store_t *store, uint32_t part, uint32_t parts, uint64_t last)
{
    Crema__Writer writer = {.last = last, .name = "tcp://A"};
    const Crema__RunWriters msg = {.run_id = body_id(frames_id(RUN)),
                                   .part = part,
                                   .parts = parts,
                                   .n_writers = 1,
                                   .writers = body_writers(1, &writer)};
    bool is_new;
    must(sink_store_writers(store, &msg, 5000, &is_new));
    return is_new;
}

/* Repeats append nothing, also of another start; what comes after the file was made asks for
 * another. */
static void
must_keep_each_part_of_the_list_of_writers_once(void **state)
{
    (void)state;
    sink_store_t *store = must_open(NULL);
    assert_true(s_is_new(store, 1, 2, 80));
    assert_true(s_is_new(store, 0, 2, 70));
    assert_false(s_is_new(store, 1, 2, 80));
    must(sink_store_commit(store));
    must_say(store, CREMA_MSG_RUN_SEAL, RUN, NULL, true);
    must_seal(store, RUN, 1, 6000);
    assert_false(must_find(store, RUN)->state.late);
    must(sink_store_commit(store));
    sink_store_close(&store);
    store = must_open(NULL);
    assert_false(s_is_new(store, 0, 2, 70));
    assert_false(must_find(store, RUN)->state.late);
    assert_true(s_is_new(store, 0, 2, 71));
    assert_true(must_find(store, RUN)->state.late);
    must(sink_store_commit(store));
    sink_store_close(&store);
    store = must_open(NULL);
    assert_true(must_find(store, RUN)->state.late);
    sink_store_close(&store);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_store_knows_after_a_restart_what_each_run_waits_for),
        T(test_store_knows_after_a_restart_a_verdict_that_names_a_cost),
        T(test_store_marks_records_after_the_verdict),
        T(test_store_lists_streams_of_unfinished_runs),
        T(test_store_keeps_tombstones_of_freed_runs),
        T(test_store_keeps_what_it_refused),
        T(test_store_that_cannot_keep_a_refusal_says_so),
        T(test_store_finishes_a_removal_that_was_interrupted),
        T(test_store_keeps_answers),
        T(test_store_knows_how_much_room_its_disk_has),
        T(test_store_says_when_its_limit_is_near),
        T(test_store_waits_for_room),
        T(must_keep_each_part_of_the_list_of_writers_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
