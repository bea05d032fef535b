#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_spool_dir.h"
#include "children.h"
#include "record_frames.h"

static char *s_dir;
static char s_base[PATH_MAX];

static int
set_up(void **state)
{
    (void)state;
    s_dir = scratch_make();
    return realpath(s_dir, s_base) ? 0 : -1;
}

static int
tear_down(void **state)
{
    (void)children_end(state);
    scratch_remove(&s_dir); /* a test may have removed what was in it */
    return 0;
}

static const char *
below(const char *name)
{
    static char path[PATH_MAX + 128];
    snprintf(path, sizeof path, "%s/%s", s_base, name);
    return path;
}

static mode_t
mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void
touch(const char *name)
{
    int fd = open(below(name), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void
test_the_directory_is_made_for_this_user(void **state)
{
    (void)state;
    char path[PATH_MAX], wanted[PATH_MAX];
    strcpy(wanted, below("a/b//c/../spool"));
    assert_int_equal(mkdir(below("a"), 0700), 0);
    assert_int_equal(mkdir(below("a/b"), 0700), 0);
    assert_int_equal(agent_spool_dir_make(wanted, false, path), CREMA_OK);
    assert_string_equal(path, below("a/b/spool"));
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(agent_spool_dir_make(wanted, false, path), CREMA_OK);
}

static void
test_shared_directory_is_for_all_users_whatever_the_umask(void **state)
{
    (void)state;
    char path[PATH_MAX], wanted[PATH_MAX];
    strcpy(wanted, below("for/all"));
    mode_t before = umask(077);
    assert_int_equal(agent_spool_dir_make(wanted, true, path), CREMA_OK);
    assert_int_equal(mode_of(path), 01777);
    assert_int_equal(mode_of(below("for")), 0755);
    assert_int_equal(chmod(path, 0700), 0); /* one that is there keeps its mode */
    assert_int_equal(agent_spool_dir_make(wanted, true, path), CREMA_OK);
    assert_int_equal(mode_of(path), 0700);
    (void)umask(before);
}

static void
test_what_is_no_directory_is_refused(void **state)
{
    (void)state;
    char path[PATH_MAX] = "untouched";
    touch("file");
    assert_int_equal(agent_spool_dir_make(below("file/spool"), false, path), CREMA_EIO);
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(agent_spool_dir_make("", false, path), CREMA_EIO);
    char longer[PATH_MAX + 10];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(agent_spool_dir_make(longer, false, path), CREMA_EIO);
    assert_int_equal(errno, ENAMETOOLONG);
}

static void
test_the_default_place_must_be_ours_alone(void **state)
{
    (void)state;
    char path[PATH_MAX], own[64];
    setenv("TMPDIR", s_base, 1);
    snprintf(own, sizeof own, "crema-%lu", (unsigned long)geteuid());
    assert_int_equal(agent_spool_dir_make(NULL, false, path), CREMA_OK);
    strcat(own, "/spool");
    assert_string_equal(path, below(own));
    *strrchr(own, '/') = '\0';
    assert_int_equal(chmod(below(own), 0777), 0);
    assert_int_equal(agent_spool_dir_make(NULL, false, path), CREMA_ECONFIG);
    unsetenv("TMPDIR");
}

/* As another worker of the host does that looks whether the route over Dask is free: once. */
static void *
look_whether_the_way_is_free(void *path)
{
    int fd;
    do
        fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    while (fd < 0 && errno == EEXIST);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void
test_a_lock_that_is_made_anew_meanwhile_is_removed_too(void **state)
{
    (void)state;
    char dir[PATH_MAX], lock[PATH_MAX], name[96];
    for (int round = 0; round < 20; round++) {
        snprintf(name, sizeof name, "round-%d", round);
        strcpy(dir, below(name));
        assert_int_equal(mkdir(dir, 0700), 0);
        for (int i = 0; i < 100; i++) {
            snprintf(name, sizeof name, "round-%d/.new-sp-%032d-%016d", round, i, 1);
            touch(name);
        }
        snprintf(name, sizeof name, "round-%d/way.lock", round);
        strcpy(lock, below(name));
        touch(name);
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, look_whether_the_way_is_free, lock), 0);
        assert_true(agent_spool_dir_remove(dir));
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_int_equal(access(dir, F_OK), -1);
    }
}

static void
test_only_what_is_ours_is_removed(void **state)
{
    (void)state;
    static const char *const ours[] = {"agent.lock",
                                       "starter.lock",
                                       "agent_id",
                                       "agent.log",
                                       "writers-00112233445566778899aabbccddeeff",
                                       "ended-00112233445566778899aabbccddeeff",
                                       ".new-sp-00112233445566778899aabbccddeeff-0000000000000003",
                                       ".agent_id-00112233445566778899aabbccddeeff",
                                       "keys/agent.key",
                                       "keys/server.key_secret",
                                       "keys/.agent.key.17",
                                       "keys/.new-0011223344556677"};
    assert_int_equal(mkdir(below("keys"), 0700), 0);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        touch(ours[i]);
    static const char *const of_the_user[] = {
        "thesis.tex",           "tmp-mine.root",    "writers-notes.txt",   "ended-2026",
        ".new-sp-draft",        ".agent_id-backup", "keys/server.key.old", "keys/agent.key~",
        "keys/.client.key.swp", "keys/.new-key"};
    for (size_t i = 0; i < sizeof of_the_user / sizeof *of_the_user; i++)
        touch(of_the_user[i]);
    assert_true(agent_spool_dir_remove(s_base));
    for (size_t i = 0; i < sizeof of_the_user / sizeof *of_the_user; i++) {
        assert_int_equal(access(below(of_the_user[i]), F_OK), 0);
        unlink(below(of_the_user[i]));
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        assert_int_equal(access(below(ours[i]), F_OK), -1);
    assert_true(agent_spool_dir_remove(s_base));
    assert_int_equal(access(s_base, F_OK), -1);
    assert_true(agent_spool_dir_remove(s_base)); /* nothing there is fine */
}

/* Whatever is in a segment, only its delivery removes it; who comes next needs the identity too. */
static void
test_segments_are_never_removed_nor_what_delivers_them(void **state)
{
    (void)state;
    static const char *const stays[] = {"sp-1", "agent_id", "agent.log", "keys/agent.key_secret"};
    assert_int_equal(mkdir(below("keys"), 0700), 0);
    for (size_t i = 0; i < sizeof stays / sizeof *stays; i++)
        touch(stays[i]);
    assert_false(agent_spool_dir_remove(s_base));
    for (size_t i = 0; i < sizeof stays / sizeof *stays; i++)
        assert_int_equal(access(below(stays[i]), F_OK), 0);
    unlink(below("sp-1"));
    assert_true(agent_spool_dir_remove(s_base));
    assert_int_equal(access(s_base, F_OK), -1);
}

static void
test_markers_of_old_runs_are_swept(void **state)
{
    (void)state;
    touch("ended-00112233445566778899aabbccddeeff");
    touch("sp-1");
    agent_spool_dir_sweep(s_base, time(NULL) + 23 * 3600);
    assert_int_equal(access(below("ended-00112233445566778899aabbccddeeff"), F_OK), 0);
    agent_spool_dir_sweep(s_base, time(NULL) + 25 * 3600);
    assert_int_equal(access(below("ended-00112233445566778899aabbccddeeff"), F_OK), -1);
    assert_int_equal(access(below("sp-1"), F_OK), 0);
    unlink(below("sp-1"));
    assert_true(agent_spool_dir_remove(s_base));
}

static void
test_keys_that_were_brought_go_once_they_are_loaded(void **state)
{
    (void)state;
    char other[PATH_MAX];
    assert_int_equal(mkdir(below("keys"), 0700), 0);
    assert_int_equal(mkdir(below("operators"), 0700), 0);
    touch("keys/client.key_secret");
    touch("operators/client.key_secret");
    strcpy(other, below("operators"));
    agent_spool_dir_take_keys(s_base, NULL);
    agent_spool_dir_take_keys(s_base, other);
    assert_int_equal(access(below("operators/client.key_secret"), F_OK), 0);
    assert_int_equal(access(below("keys/client.key_secret"), F_OK), 0);
    strcpy(other, below("keys"));
    agent_spool_dir_take_keys(s_base, other);
    assert_int_equal(access(below("keys"), F_OK), -1);
    unlink(below("operators/client.key_secret"));
    rmdir(below("operators"));
    assert_true(agent_spool_dir_remove(s_base));
}

/* Exit status of whoever starts a daemon that does `work` with the handle. */
static int
status_of_start(void (*work)(int ready))
{
    pid_t pid = must_fork();
    if (pid == 0) {
        int ready = -1;
        if (agent_daemon_start(s_base, &ready) != CREMA_OK)
            _exit(0); /* the one that waits must not take this for success */
        work(ready);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void
s_say_seven(int ready)
{
    fprintf(stderr, "session %d\n", getsid(0) != getpid() && getpgrp() != getpid());
    agent_daemon_ready(ready, 7);
}

static void
s_die(int ready)
{
    (void)ready;
    _exit(0);
}

static void
test_whoever_starts_a_daemon_learns_how_that_went(void **state)
{
    (void)state;
    assert_int_equal(status_of_start(s_say_seven), 7);
    char text[64] = "";
    FILE *log = fopen(below("agent.log"), "r");
    assert_non_null(log);
    assert_non_null(fgets(text, sizeof text, log));
    fclose(log);
    assert_string_equal(text, "session 1\n"); /* detached, and no leader of anything */
    assert_int_equal(status_of_start(s_die), 1);
    unlink(below("agent.log"));
    assert_int_equal(mkdir(below("agent.log"), 0700), 0);
    assert_int_equal(status_of_start(s_say_seven), 1);
    agent_daemon_ready(-1, 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shared_directory_is_for_all_users_whatever_the_umask,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_directory_is_made_for_this_user, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_directory_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_default_place_must_be_ours_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_only_what_is_ours_is_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lock_that_is_made_anew_meanwhile_is_removed_too,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_markers_of_old_runs_are_swept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_segments_are_never_removed_nor_what_delivers_them,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_that_were_brought_go_once_they_are_loaded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_whoever_starts_a_daemon_learns_how_that_went, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
