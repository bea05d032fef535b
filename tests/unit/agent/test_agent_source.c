#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_source.h"
#include "children.h"
#include "crema_clock.h"
#include "must.h"
#include "record_frames.h"

/* ---- a /proc of our own making */

static char *s_root;

static void
put(const char *path, const char *text)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s/%s", s_root, path);
    for (char *at = full + strlen(s_root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(full, 0700);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void
put_process(int pid, const char *name, char state, int user, int system, int children, int pages,
            int read_b, int write_b)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "%d/stat", pid);
    snprintf(text, sizeof text, "%d (%s) %c 1 1 1 0 -1 4194560 10 0 0 0 %d %d %d 0 20 0 3 0 99 1 2",
             pid, name, state, user, system, children);
    put(path, text);
    snprintf(path, sizeof path, "%d/statm", pid);
    snprintf(text, sizeof text, "9999 %d 5 1 0 3 0\n", pages);
    put(path, text);
    snprintf(path, sizeof path, "%d/io", pid);
    snprintf(text, sizeof text,
             "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: %d\nwrite_bytes: %d\n"
             "cancelled_write_bytes: 5\n",
             read_b, write_b);
    put(path, text);
}

static int
set_up(void **state)
{
    (void)state;
    s_root = scratch_make();
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    scratch_remove(&s_root); /* a test may have removed what was in it */
    return 0;
}

static agent_source_t *
must_open(int pid)
{
    agent_source_t *source;
    assert_int_equal(agent_source_new(s_root, pid, &source), CREMA_OK);
    return source;
}

static agent_sample_t
must_sample(agent_source_t *source)
{
    agent_sample_t sample;
    assert_int_equal(agent_source_sample(source, NULL, NULL, &sample), CREMA_OK);
    return sample;
}

/* As the first sample of it says. */
static int64_t
limit_b(int pid)
{
    agent_source_t *source = must_open(pid);
    int64_t found_b = must_sample(source).memory_limit_b;
    agent_source_destroy(&source);
    return found_b;
}

static int64_t
ticks_ns(int ticks)
{
    return ticks * (1000000000 / sysconf(_SC_CLK_TCK));
}

static void
test_a_number_that_is_none_is_not_the_writers(void **state)
{
    (void)state;
    put_process(17, "a", 'S', 1, 1, 1, 1, 1, 1);
    put("17/status", "Name:\ta\nUid:\t0\t0\t0\t0\nNSpid:\tes: 1\n");
    agent_source_t *source = must_open(17);
    const agent_writer_t writer = {"sp-1", 0, 1000000000000};
    assert_false(agent_source_is_writer(source, &writer));
    agent_source_destroy(&source);
}

/* Whatever the files say, sums stay in range. */
static void
test_numbers_that_no_process_has_stay_in_range(void **state)
{
    (void)state;
    put("17/stat", "17 (a) S 1 1 1 0 -1 4194560 10 0 0 0 18446744073709551615 9223372036854775807 "
                   "9223372036854775807 9223372036854775807 20 0 3 0 99 1 2");
    put("17/statm", "1 9223372036854775807 5 1 0 3 0\n");
    put("17/io", "x: 1\nread_bytes: 9223372036854775807\nwrite_bytes: -5\n");
    put("17/task/17/children", "17 17 ");
    agent_source_t *source = must_open(17);
    agent_sample_t sample = must_sample(source);
    assert_int_equal(sample.cpu_ns, INT64_MAX);
    assert_int_equal(sample.rss_b, INT64_MAX);
    assert_int_equal(sample.disk_read_b, INT64_MAX);
    assert_int_equal(sample.disk_write_b, -1);
    agent_source_destroy(&source);
}

static void
test_fields_are_read_behind_any_name(void **state)
{
    (void)state;
    static const char *const names[] = {"python", "a b", "evil) S 1 1 1", "((", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put_process(17, names[i], 'S', 100, 20, 7, 50, 1000, 2000);
        agent_source_t *source = must_open(17);
        agent_sample_t sample = must_sample(source);
        assert_int_equal(sample.cpu_ns, ticks_ns(127)); /* and of children it waited for */
        assert_int_equal(sample.rss_b, 50 * sysconf(_SC_PAGESIZE));
        assert_int_equal(sample.disk_read_b, 1000);
        assert_int_equal(sample.disk_write_b, 2000);
        assert_int_equal(sample.memory_limit_b, -1);
        agent_source_destroy(&source);
        assert_null(source);
    }
}

static void
test_what_the_kernel_does_not_tell_is_unknown(void **state)
{
    (void)state;
    put_process(17, "x", 'S', 100, 20, 0, 50, 1, 1);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/17/io", s_root);
    unlink(path);
    put("17/statm", "");
    agent_source_t *source = must_open(17);
    agent_sample_t sample = must_sample(source);
    assert_int_equal(sample.rss_b, -1);
    assert_int_equal(sample.disk_read_b, -1);
    assert_int_equal(sample.disk_write_b, -1);
    agent_source_destroy(&source);
}

static void
test_a_dead_process_is_gone(void **state)
{
    (void)state;
    agent_source_t *source;
    assert_int_equal(agent_source_new(s_root, 18, &source), CREMA_ENOENT);
    assert_int_equal(agent_source_new(s_root, 0, &source), CREMA_EINVAL);
    put_process(17, "x", 'Z', 100, 20, 0, 50, 1, 1);
    source = must_open(17);
    agent_sample_t sample;
    assert_int_equal(agent_source_sample(source, NULL, NULL, &sample), CREMA_ENOENT);
    assert_false(agent_source_is_alive(source));
    put("17/stat", "17 (x");
    assert_int_equal(agent_source_sample(source, NULL, NULL, &sample), CREMA_ENOENT);
    agent_source_destroy(&source);
}

static void
test_limits_of_both_cgroup_versions(void **state)
{
    (void)state;
    static const struct {
        const char *file, *text;
        int64_t want;
    } cases[] = {
        {"memory.max", "2147483648\n", 2147483648},
        {"memory.max", "max\n", -1},
        {"memory/memory.limit_in_bytes", "1073741824\n", 1073741824},
        {"memory/memory.limit_in_bytes", "9223372036854771712\n", -1},
        {"memory.max", "", -1},
        {"memory.max", "0\n", -1},
        {"memory.max", "nonsense", -1},
    };
    put_process(17, "x", 'S', 1, 1, 0, 1, 1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256], full[PATH_MAX];
        snprintf(path, sizeof path, "17/root/sys/fs/cgroup/%s", cases[i].file);
        put(path, cases[i].text);
        assert_int_equal(limit_b(17), cases[i].want);
        snprintf(full, sizeof full, "%s/%s", s_root, path);
        unlink(full);
    }
}

/* A limit costs more than all the rest, and hardly ever changes. */
static void
test_a_limit_that_changes_is_seen_within_sixteen_samples(void **state)
{
    (void)state;
    put_process(17, "x", 'S', 1, 1, 0, 1, 1, 1);
    put("17/root/sys/fs/cgroup/memory.max", "1000\n");
    agent_source_t *source = must_open(17);
    assert_int_equal(must_sample(source).memory_limit_b, 1000);
    put("17/root/sys/fs/cgroup/memory.max", "2000\n");
    for (int i = 1; i < 16; i++)
        assert_int_equal(must_sample(source).memory_limit_b, 1000);
    assert_int_equal(must_sample(source).memory_limit_b, 2000);
    agent_source_destroy(&source);
}

/* Without their names only what is open can be read. */
static void
test_what_each_sample_reads_stays_open(void **state)
{
    (void)state;
    static const char *const names[] = {"stat", "statm", "io"};
    put_process(17, "x", 'S', 1, 1, 0, 50, 1, 1);
    agent_source_t *source = must_open(17);
    (void)must_sample(source);
    put_process(17, "x", 'S', 100, 20, 0, 60, 1000, 2000);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/17/%s", s_root, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    agent_sample_t sample = must_sample(source);
    assert_int_equal(sample.cpu_ns, ticks_ns(120));
    assert_int_equal(sample.rss_b, 60 * sysconf(_SC_PAGESIZE));
    assert_int_equal(sample.disk_read_b, 1000);
    assert_int_equal(sample.disk_write_b, 2000);
    agent_source_destroy(&source);
}

/* Opening a FIFO waits for a writer who never comes: the test would not end. */
static void
test_nothing_but_plain_files_is_opened(void **state)
{
    (void)state;
    char path[PATH_MAX], target[PATH_MAX];
    put_process(17, "x", 'S', 1, 1, 0, 1, 1, 1);
    put("17/root/sys/fs/cgroup/other", "5\n");
    snprintf(path, sizeof path, "%s/17/root/sys/fs/cgroup/memory.max", s_root);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(limit_b(17), -1);
    assert_int_equal(unlink(path), 0);
    snprintf(target, sizeof target, "%s/17/root/sys/fs/cgroup/other", s_root);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(limit_b(17), -1);
}

/* Nothing below the root of another user's process is opened at all, if this one is privileged. */
static void
test_the_limit_of_another_users_process_is_read_by_our_own_mounts(void **state)
{
    (void)state;
    char path[PATH_MAX];
    if (geteuid() != 0)
        not_tested_here(MISSING_OTHER_USERS);
    put_process(17, "x", 'S', 1, 1, 0, 1, 1, 1);
    put("17/root/sys/fs/cgroup/memory.max", "5\n");
    put("self/root/sys/fs/cgroup/user/job/memory.max", "4096\n");
    snprintf(path, sizeof path, "%s/17", s_root);
    assert_int_equal(chown(path, 12345, 0), 0);
    assert_int_equal(limit_b(17), -1); /* nothing says where it is */
    static const struct {
        const char *cgroup;
        int64_t want;
    } cases[] = {
        {"0::/user/job\n", 4096},  {"12:cpu:/x\n0::/user/job\n", 4096},
        {"0::/../user/job\n", -1}, {"12:memory:/user/job\n", -1},
        {"0::/elsewhere\n", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("17/cgroup", cases[i].cgroup);
        assert_int_equal(limit_b(17), cases[i].want);
    }
}

static void
test_a_tree_counts_its_descendants_alive_or_waited_for(void **state)
{
    (void)state;
    put_process(17, "parent", 'S', 100, 0, 10, 10, 1000, 0);
    put("17/task/17/children", "18 ");
    put("17/task/21/children", "19 20\n");
    put_process(18, "child", 'S', 30, 0, 0, 3, 100, 0);
    put("18/task/18/children", "22 ");
    put_process(19, "zombie", 'Z', 500, 0, 0, 0, 0, 0);
    put_process(22, "grandchild", 'R', 5, 0, 0, 1, 10, 0); /* 20 is gone already */
    agent_source_t *source = must_open(17);
    agent_sample_t sample = must_sample(source);
    assert_int_equal(sample.cpu_ns, ticks_ns(100 + 10 + 30 + 5));
    assert_int_equal(sample.rss_b, 14 * sysconf(_SC_PAGESIZE));
    assert_int_equal(sample.disk_read_b, 1110);

    /* The child is waited for: its time moves into the parent's, nothing is lost or counted
     * twice. */
    put_process(17, "parent", 'S', 100, 0, 10 + 35, 10, 1110, 0);
    put("17/task/17/children", "");
    put("17/task/21/children", "");
    sample = must_sample(source);
    assert_int_equal(sample.cpu_ns, ticks_ns(145));
    assert_int_equal(sample.disk_read_b, 1110);

    /* A child that leaves without being waited for takes its time along; the total does not go
     * back. */
    put_process(17, "parent", 'S', 100, 0, 10, 10, 1000, 0);
    sample = must_sample(source);
    assert_int_equal(sample.cpu_ns, ticks_ns(145));
    assert_int_equal(sample.disk_read_b, 1110);
    agent_source_destroy(&source);
}

static void
put_pss(int pid, int kib)
{
    char path[64], text[128];
    snprintf(path, sizeof path, "%d/smaps_rollup", pid);
    snprintf(text, sizeof text,
             "00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss: 99 kB\nPss: %d kB\n", kib);
    put(path, text);
}

static void
test_shared_pages_of_a_tree_count_once(void **state)
{
    (void)state;
    int64_t page_b = sysconf(_SC_PAGESIZE);
    put_process(17, "parent", 'S', 1, 0, 0, 100, 0, 0);
    put_pss(17, 240);
    agent_source_t *source = must_open(17);
    agent_sample_t sample = must_sample(source);
    assert_int_equal(sample.processes, 1);
    assert_int_equal(sample.memory, CREMA_MEMORY_RSS);
    assert_int_equal(sample.rss_b, 100 * page_b);

    put("17/task/17/children", "18 ");
    put_process(18, "child", 'S', 1, 0, 0, 90, 0, 0);
    put_pss(18, 200);
    for (int i = 0; i < 4; i++) /* the first child is noticed within four samples */
        sample = must_sample(source);
    assert_int_equal(sample.processes, 2);
    assert_int_equal(sample.memory, CREMA_MEMORY_PSS);
    assert_int_equal(sample.rss_b, (240 + 200) * 1024);

    /* The kernel is not asked again at once; what the process itself has grown by is known. */
    put_process(17, "parent", 'S', 1, 0, 0, 105, 0, 0);
    put_pss(18, 9999);
    assert_int_equal(must_sample(source).rss_b, (240 + 200) * 1024 + 5 * page_b);
    agent_source_destroy(&source);

    /* Not shown, as to another user: the sum of resident memory. */
    put("18/smaps_rollup", "");
    source = must_open(17);
    sample = must_sample(source);
    assert_int_equal(sample.memory, CREMA_MEMORY_RSS);
    assert_int_equal(sample.rss_b, 195 * page_b);
    agent_source_destroy(&source);
}

static void
test_programs_of_crema_are_not_the_workers(void **state)
{
    (void)state;
    put_process(17, "notebook", 'S', 100, 0, 0, 10, 0, 0);
    put("17/task/17/children", "18 19 ");
    put_process(18, "crema-sink", 'S', 30, 0, 0, 3, 0, 0);
    put_process(19, "child", 'S', 5, 0, 0, 1, 0, 0);
    agent_source_t *source = must_open(17);
    agent_sample_t sample = must_sample(source);
    assert_int_equal(sample.cpu_ns, ticks_ns(105));
    assert_int_equal(sample.processes, 2);
    agent_source_destroy(&source);
}

static bool
s_is_18(void *context, int32_t pid)
{
    (void)context;
    return pid == 18;
}

static void
test_a_descendant_that_records_for_itself_is_left_out(void **state)
{
    (void)state;
    put_process(17, "parent", 'S', 100, 0, 0, 10, 0, 0);
    put("17/task/17/children", "18 19 ");
    put_process(18, "worker", 'S', 1000, 0, 0, 3, 0, 0);
    put("18/task/18/children", "20 ");
    put_process(19, "helper", 'S', 7, 0, 0, 3, 0, 0);
    put_process(20, "the worker's", 'S', 2000, 0, 0, 3, 0, 0);
    agent_source_t *source = must_open(17);
    agent_sample_t sample;
    assert_int_equal(agent_source_sample(source, s_is_18, NULL, &sample), CREMA_OK);
    assert_int_equal(sample.cpu_ns, ticks_ns(107));
    assert_false(sample.cut);
    agent_source_destroy(&source);
}

static void
test_a_ring_of_children_ends(void **state)
{
    (void)state;
    put_process(17, "x", 'S', 1, 0, 0, 1, 0, 0);
    put("17/task/17/children", "18 ");
    put_process(18, "y", 'S', 1, 0, 0, 1, 0, 0);
    put("18/task/18/children", "18 18 ");
    agent_source_t *source = must_open(17);
    agent_sample_t sample = must_sample(source);
    assert_true(sample.cpu_ns <= ticks_ns(AGENT_TREE_MAX + 1));
    assert_true(sample.cut);
    agent_source_destroy(&source);
}

static void
test_who_the_writer_is(void **state)
{
    (void)state;
    char path[PATH_MAX];
    put_process(17, "x", 'S', 1, 0, 0, 1, 0, 0);
    agent_source_t *source = must_open(17);
    snprintf(path, sizeof path, "%s/17/fd", s_root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/17/fd/5", s_root);
    assert_int_equal(symlink("/elsewhere/spool/sp-abc-0000000000000001", path), 0);
    /* put_process() says that it began 99 ticks after the boot; one more may have gone by. */
    const int64_t then = ticks_ns(99), early = ticks_ns(97);
    static const struct {
        const char *status, *prefix;
        uint32_t owner;
        bool early, want;
    } cases[] = {
        {"Name:\tx\nUid:\t1\t7\t1\t1\nNSpid:\t17\n", "sp-abc", 7, false, true},
        {"Name:\tx\nUid:\t1\t7\t1\t1\nNSpid:\t17\n", "sp-abd", 7, false, false},
        {"Name:\tx\nUid:\t1\t7\t1\t1\nNSpid:\t17\n", "sp-abc", 1, false, false},
        {"Name:\tx\nUid:\t1\t7\t1\t1\nNSpid:\t17\n", "sp-abc", 7, true, false},
        {"Name:\tx\nNSpid:\t17\n", "sp-abc", 7, false, false}, /* nobody's */
        /* knows itself as 1 */
        {"Name:\tx\nUid:\t1\t7\t1\t1\nNSpid:\t17\t1\n", "sp-abc", 7, false, false},
        {"Name:\tx\nUid:\t1\t7\t1\t1\nNSpid:\t9\t17\n", "sp-abc", 7, false, true},
        {"Name:\tx\nUid:\t1\t7\t1\t1\n", "sp-abc", 7, false, true}, /* an old kernel */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const agent_writer_t writer = {cases[i].prefix, cases[i].owner,
                                       cases[i].early ? early : then};
        put("17/status", cases[i].status);
        if (agent_source_is_writer(source, &writer) != cases[i].want)
            fail_msg("case %zu", i);
    }
    const agent_writer_t writer = {"sp-abc", 7, then};
    snprintf(path, sizeof path, "%s/17/fd/5", s_root);
    unlink(path);
    assert_false(agent_source_is_writer(source, &writer));
    snprintf(path, sizeof path, "%s/17/fd", s_root);
    rmdir(path); /* not ours to look into: owner, start and number must do */
    assert_true(agent_source_is_writer(source, &writer));
    agent_source_destroy(&source);
}

/* ---- the real one */

static void
test_this_process_is_measured(void **state)
{
    (void)state;
    agent_source_t *source;
    assert_int_equal(agent_source_new("/proc", getpid(), &source), CREMA_OK);
    agent_sample_t before = must_sample(source), after;
    do
        after = must_sample(source);
    while (after.cpu_ns < before.cpu_ns + 50000000);
    assert_true(after.rss_b > 1 << 20);
    assert_true(agent_source_is_alive(source));
    char path[SCRATCH_BYTES];
    scratch_template("source", path);
    int fd = mkstemp(path);
    const agent_writer_t writer = {strrchr(path, '/') + 1, geteuid(),
                                   crema_clock_mono_ns() + crema_clock_suspended_ns()};
    assert_true(agent_source_is_writer(source, &writer));
    close(fd);
    assert_false(agent_source_is_writer(source, &writer));
    unlink(path);
    agent_source_destroy(&source);
}

static void
test_a_number_that_is_used_again_is_another_process(void **state)
{
    (void)state;
    pid_t pid = must_fork();
    if (pid == 0)
        for (;;)
            pause();
    agent_source_t *source;
    assert_int_equal(agent_source_new("/proc", pid, &source), CREMA_OK);
    assert_true(agent_source_is_alive(source));
    must_kill(pid);
    agent_sample_t sample;
    assert_int_equal(agent_source_sample(source, NULL, NULL, &sample), CREMA_ENOENT);
    assert_false(agent_source_is_alive(source));
    agent_source_destroy(&source);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fields_are_read_behind_any_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_number_that_is_none_is_not_the_writers, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_numbers_that_no_process_has_stay_in_range, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_the_kernel_does_not_tell_is_unknown, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_dead_process_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits_of_both_cgroup_versions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_limit_that_changes_is_seen_within_sixteen_samples,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_each_sample_reads_stays_open, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_but_plain_files_is_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_the_limit_of_another_users_process_is_read_by_our_own_mounts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_tree_counts_its_descendants_alive_or_waited_for,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shared_pages_of_a_tree_count_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_programs_of_crema_are_not_the_workers, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_descendant_that_records_for_itself_is_left_out,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_ring_of_children_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_the_writer_is, set_up, tear_down),
        cmocka_unit_test(test_this_process_is_measured),
        cmocka_unit_test_teardown(test_a_number_that_is_used_again_is_another_process,
                                  children_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
