/* Which runs get their file when: this very program plays `crema-sink rebuild`, and fails or
 * succeeds as a file in the scratch directory says. */
#include "must.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crema_reactor.h"
#include "record_frames.h"
#include "sink_fs.h"
#include "sink_sealing.h"
#include "store_opened.h"

#define SECOND_NS INT64_C(1000000000)
#define T0_NS (1000 * SECOND_NS)
#define RUN 9

static int s_signals;
static char *s_dir;
static sink_store_t *s_store;
static sink_sealing_t *s_sealing;
static frames_t s_frames;
static crema_id_t s_run;
static const crema_msg_t c_seal = {.type = CREMA_MSG_RUN_SEAL,
                                   .run_id = {CREMA_ID_BYTES, s_run.bytes}};

/* ---- verbs */

static void
open_all(void)
{
    char why[512];
    sink_store_config_t config = {.dir = s_dir, .streams_max = 10, .runs_max = 10};
    must(sink_store_open(&config, why, sizeof why, &s_store));
    must_examine(s_store);
    must(sink_sealing_new(s_store, s_dir, 10, 0, &s_sealing));
}

static void
close_all(void)
{
    sink_sealing_destroy(&s_sealing);
    sink_store_close(&s_store);
}

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make_in_memory(32);
    s_run = frames_id(RUN);
    open_all();
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    close_all();
    scratch_remove(&s_dir);
    return 0;
}

/* From now on sealing fails, or goes well. */
static void
let_sealing(const char *what)
{
    must(sink_fs_replace(s_dir, "play", (const uint8_t *)what, strlen(what)));
}

static void
must_put(uint64_t first, int64_t now_ns)
{
    sink_store_put_t answer;
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, first, first);
    Crema__Put put = frames_put(&s_frames, 1, RUN, first);
    must(sink_store_put(s_store, &put, now_ns, &answer));
    assert_int_equal(answer.decision, SINK_PUT_APPEND);
    must(sink_store_commit(s_store));
}

static void
must_ask(int64_t now_ns)
{
    bool is_new;
    must(sink_store_run_msg(s_store, &c_seal, NULL, now_ns, &is_new));
    must(sink_store_commit(s_store));
    sink_sealing_ask(s_sealing, &s_run, !is_new, now_ns);
}

/* What comes out within `wait_ms`; false: nothing did. It is not durable yet. */
static bool
s_reap_only(int wait_ms, int64_t now_ns, crema_msg_t *ret_msg)
{
    struct pollfd wait = {.fd = s_signals, .events = POLLIN};
    while (!sink_sealing_reap(s_sealing, now_ns, now_ns, ret_msg)) {
        if (poll(&wait, 1, wait_ms) <= 0)
            return false;
        (void)crema_signals_read(s_signals);
    }
    return true;
}

static bool
s_reap(int wait_ms, int64_t now_ns, crema_msg_t *ret_msg)
{
    const bool is_one = s_reap_only(wait_ms, now_ns, ret_msg);
    if (is_one)
        must(sink_store_commit(s_store));
    return is_one;
}

/* A process that seals is there, or has ended and is not yet reaped. */
static bool
s_is_at_work(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void
must_seal(int64_t revision, int64_t now_ns)
{
    crema_msg_t msg;
    assert_true(s_reap(10000, now_ns, &msg));
    assert_string_equal(msg.sealed.error, "");
    assert_int_equal(msg.sealed.revision, revision);
    assert_string_equal(msg.sealed.verdict, "COMPLETE");
}

static void
must_fail(const char *why, int64_t now_ns)
{
    crema_msg_t msg;
    assert_true(s_reap(10000, now_ns, &msg));
    assert_non_null(strstr(msg.sealed.error, why));
}

static void
must_rest(int64_t now_ns)
{
    crema_msg_t msg;
    sink_sealing_tick(s_sealing, now_ns);
    assert_false(s_reap(300, now_ns, &msg));
}

static bool
s_has_answer(const char *error)
{
    crema_arena_t *arena;
    crema_msg_t msg;
    must(crema_arena_new(1 << 20, &arena));
    bool has = sink_sealing_answer(s_sealing, &s_run, arena, &msg);
    if (has) {
        assert_int_equal(msg.type, CREMA_MSG_SEALED);
        has = error[0] ? strstr(msg.sealed.error, error) != NULL : msg.sealed.error[0] == '\0';
    }
    crema_arena_destroy(&arena);
    return has;
}

/* ---- tests */

static void
test_sealing_begins_with_the_question_and_ends_with_an_answer(void **state)
{
    (void)state;
    let_sealing("1");
    must_put(1, T0_NS);
    must_rest(T0_NS + 10 * SECOND_NS); /* nobody asked */
    must_ask(T0_NS);
    assert_false(s_has_answer(""));
    must_seal(1, T0_NS);
    assert_true(s_has_answer(""));
    assert_int_equal(sink_store_find(s_store, &s_run)->state.revision, 1);
    must_rest(T0_NS + 100 * SECOND_NS);
    must_ask(T0_NS); /* again: the answer is there, nothing is made anew */
    must_rest(T0_NS + 100 * SECOND_NS);
}

static void
test_an_answer_that_cannot_be_read_says_so(void **state)
{
    (void)state;
    static const char c_why[] = "is sealed, but its answer cannot be read";
    char dir[PATH_MAX], path[PATH_MAX];
    crema_msg_t msg;
    let_sealing("1");
    must_put(1, T0_NS);
    must_ask(T0_NS);
    assert_true(s_reap_only(10000, T0_NS, &msg));
    assert_false(s_has_answer("")); /* it is being written, so nothing is wrong */
    assert_false(s_has_answer(c_why));
    must(sink_store_commit(s_store));
    assert_true(s_has_answer(""));
    sink_store_run_dir(s_store, &s_run, dir);
    must(sink_fs_replace(dir, SINK_STORE_ANSWER, (const uint8_t *)"no message", 10));
    assert_true(s_has_answer(c_why));
    assert_int_equal(unlink(sink_fs_path(dir, SINK_STORE_ANSWER, path)), 0);
    assert_true(s_has_answer(c_why));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(s_has_answer("sealed: Is a directory); its file was made as "));
}

static void
test_sealing_is_repeated_two_quiet_seconds_after_late_records(void **state)
{
    (void)state;
    let_sealing("1");
    must_put(1, T0_NS);
    must_ask(T0_NS);
    must_seal(1, T0_NS);
    must_put(2, T0_NS + 10 * SECOND_NS);
    must_rest(T0_NS + 11 * SECOND_NS);
    must_put(3, T0_NS + 12 * SECOND_NS);
    must_rest(T0_NS + 13 * SECOND_NS);
    must_rest(T0_NS + 14 * SECOND_NS); /* the second one was noticed a second ago */
    let_sealing("2");
    sink_sealing_tick(s_sealing, T0_NS + 15 * SECOND_NS);
    must_seal(2, T0_NS + 15 * SECOND_NS);
    must_rest(T0_NS + 100 * SECOND_NS);
}

static bool
s_is_sealing(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* When files were made of a run that gets a record each second: seconds after the first one. */
static size_t
s_files(int64_t *at_s, size_t n_max, int64_t seconds)
{
    size_t n = 0;
    for (int64_t s = 1; s <= seconds && n < n_max; s++) {
        int64_t now_ns = T0_NS + s * SECOND_NS;
        crema_msg_t msg;
        must_put((uint64_t)s + 1, now_ns);
        sink_sealing_tick(s_sealing, now_ns);
        if (!s_is_sealing())
            continue;
        assert_true(s_reap(10000, now_ns, &msg));
        at_s[n++] = s;
    }
    return n;
}

static void
test_sealing_of_records_that_never_cease_is_repeated_ever_later(void **state)
{
    (void)state;
    let_sealing("1");
    must_put(1, T0_NS);
    must_ask(T0_NS);
    must_seal(1, T0_NS);
    int64_t at_s[16];
    size_t n = s_files(at_s, 16, 3000);
    assert_in_range(n, 7, 11); /* each minute at first */
    assert_in_range(at_s[0], 60, 62);
    assert_in_range(at_s[1] - at_s[0], 60, 62);
    assert_in_range(at_s[n - 1] - at_s[n - 2], 512, 662);
}

/* What came while the file was made is not in it: the run is not done. */
static void
test_sealing_that_was_overtaken_is_repeated(void **state)
{
    (void)state;
    let_sealing("1");
    must_put(1, T0_NS);
    must_ask(T0_NS);
    must_put(2, T0_NS);
    must_seal(1, T0_NS);
    assert_int_equal(sink_store_find(s_store, &s_run)->state.revision, 0);
    let_sealing("2");
    sink_sealing_tick(s_sealing, T0_NS + 2 * SECOND_NS);
    must_seal(2, T0_NS + 2 * SECOND_NS);
    assert_int_equal(sink_store_find(s_store, &s_run)->state.revision, 2);
}

static void
test_sealing_that_fails_is_tried_again_ever_later(void **state)
{
    (void)state;
    let_sealing("the disk is full");
    must_put(1, T0_NS);
    must_ask(T0_NS);
    must_fail("the disk is full", T0_NS);
    assert_true(s_has_answer("the disk is full"));
    must_rest(T0_NS + 4 * SECOND_NS);
    sink_sealing_tick(s_sealing, T0_NS + 5 * SECOND_NS);
    must_fail("the disk is full", T0_NS + 5 * SECOND_NS);
    must_rest(T0_NS + 14 * SECOND_NS);
    let_sealing("1");
    sink_sealing_tick(s_sealing, T0_NS + 15 * SECOND_NS);
    must_seal(1, T0_NS + 15 * SECOND_NS);
    assert_true(s_has_answer(""));
}

static void
test_sealing_gives_up_until_it_is_asked_again(void **state)
{
    (void)state;
    let_sealing("-");
    must_put(1, T0_NS);
    must_ask(T0_NS);
    int64_t now_ns = T0_NS;
    unsigned failures = 0;
    crema_msg_t msg;
    while (s_is_at_work() && s_reap(60000, now_ns, &msg)) {
        assert_non_null(strstr(msg.sealed.error, "status 3"));
        assert_non_null(strstr(msg.sealed.error, "by hand: crema-sink rebuild /"));
        failures++;
        now_ns += 7200 * SECOND_NS;
        sink_sealing_tick(s_sealing, now_ns);
    }
    assert_in_range(failures, 8, 10);
    let_sealing("1");
    must_ask(now_ns);
    must_seal(1, now_ns);
}

static void
test_sealing_is_due_after_a_restart(void **state)
{
    (void)state;
    let_sealing("1");
    must_put(1, T0_NS);
    bool is_new;
    must(sink_store_run_msg(s_store, &c_seal, NULL, T0_NS, &is_new));
    must(sink_store_commit(s_store));
    close_all(); /* killed before the process was started */
    open_all();
    sink_sealing_tick(s_sealing, T0_NS);
    must_seal(1, T0_NS);
    close_all();
    open_all();
    must_rest(T0_NS);
    assert_true(s_has_answer(""));
}

/* What `act` logs. */
static char *
s_logged(void (*act)(void))
{
    static char text[4096];
    FILE *file = tmpfile();
    fflush(stderr);
    const int before = dup(STDERR_FILENO);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    act();
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void
s_tick_without_descriptors(void)
{
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    sink_sealing_tick(s_sealing, T0_NS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void
test_sealing_waits_for_a_process_that_cannot_be_started_and_says_so(void **state)
{
    (void)state;
    bool is_new;
    size_t running, waiting;
    let_sealing("1");
    must_put(1, T0_NS);
    must(sink_store_run_msg(s_store, &c_seal, NULL, T0_NS, &is_new));
    must(sink_store_commit(s_store));
    const char *log = s_logged(s_tick_without_descriptors);
    if (!strstr(log, "process_not_started") || !strstr(log, "Too many open files"))
        fail_msg("logged: %s", log);
    sink_sealing_count(s_sealing, &running, &waiting);
    assert_int_equal(running, 0);
    assert_int_equal(waiting, 1);
    assert_false(s_has_answer(""));
    sink_sealing_tick(s_sealing, T0_NS + SECOND_NS);
    must_seal(1, T0_NS + SECOND_NS);
    assert_true(s_has_answer(""));
}

/* ---- the other side */

/* rebuild JOURNAL --output FILE --json: a number is the revision to report, "-" fails silently,
 * all else is the error. */
static int
s_play(char **argv)
{
    char path[512], what[100] = "";
    snprintf(path, sizeof path, "%s/../play", argv[2]);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(what, sizeof what, file))
        return 9;
    fclose(file);
    if (what[0] == '-')
        return 3;
    if (what[0] < '0' || what[0] > '9') {
        printf("{\"error\":\"%s\"}\n", what);
        return 1;
    }
    printf("{\"path\":\"%s\",\"verdict\":\"COMPLETE\",\"revision\":%c,\"file_bytes\":1,"
           "\"sha256\":\"%064d\",\"reasons\":[]}\n",
           argv[4], what[0], 0);
    return 0;
}

static bool
s_takes_clock(void)
{
    return sink_sealing_takes_clock(s_sealing, sink_store_find(s_store, &s_run));
}

/* A clock sample that is in no file would make a rebuild differ. */
static void
test_sealing_takes_no_clock_that_comes_into_no_file(void **state)
{
    (void)state;
    let_sealing("1");
    must_put(1, T0_NS);
    assert_true(s_takes_clock());
    must_ask(T0_NS);
    assert_false(s_takes_clock()); /* the file is being made */
    must_seal(1, T0_NS);
    assert_false(s_takes_clock());
    must_put(2, T0_NS + 10 * SECOND_NS);
    assert_true(s_takes_clock()); /* another one will be made */
    must_rest(T0_NS + 11 * SECOND_NS);
    let_sealing("2");
    sink_sealing_tick(s_sealing, T0_NS + 13 * SECOND_NS);
    assert_false(s_takes_clock());
    must_seal(2, T0_NS + 13 * SECOND_NS);
    assert_false(s_takes_clock());
}

int
main(int argc, char **argv)
{
    if (argc == 8 && strcmp(argv[1], "rebuild") == 0)
        return s_play(argv);
    if (crema_signals_new(&s_signals) != CREMA_OK)
        return 1;
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_sealing_begins_with_the_question_and_ends_with_an_answer),
        T(test_an_answer_that_cannot_be_read_says_so),
        T(test_sealing_is_repeated_two_quiet_seconds_after_late_records),
        T(test_sealing_of_records_that_never_cease_is_repeated_ever_later),
        T(test_sealing_that_was_overtaken_is_repeated),
        T(test_sealing_takes_no_clock_that_comes_into_no_file),
        T(test_sealing_that_fails_is_tried_again_ever_later),
        T(test_sealing_gives_up_until_it_is_asked_again),
        T(test_sealing_is_due_after_a_restart),
        T(test_sealing_waits_for_a_process_that_cannot_be_started_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
