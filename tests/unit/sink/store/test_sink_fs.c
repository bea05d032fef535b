/* File operations that durability rests on. */
#include "must.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "children.h"
#include "record_frames.h"
#include "sink_fs.h"
#include "sink_scratch.h"
#include "sink_segments.h"
#include "sink_store_private.h"

static char *s_dir;
static char s_path[PATH_MAX];

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    sink_fs_path(s_dir, "file", s_path);
    return 0;
}

static int
s_teardown(void **state)
{
    (void)children_end(state);
    scratch_remove(&s_dir);
    return 0;
}

static void
must_hold(const char *text)
{
    uint8_t *bytes;
    size_t size;
    must(sink_fs_read(s_path, 100, &bytes, &size));
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static void
test_replace_leaves_the_new_bytes_and_nothing_else(void **state)
{
    (void)state;
    struct stat st;
    char fresh[PATH_MAX];
    must(sink_fs_replace(s_dir, "file", (const uint8_t *)"first", 5));
    must_hold("first");
    must(sink_fs_replace(s_dir, "file", (const uint8_t *)"", 0));
    must_hold("");
    must(sink_fs_replace(s_dir, "file", (const uint8_t *)"second", 6));
    must_hold("second");
    sink_fs_path(s_dir, "file.tmp", fresh);
    assert_int_equal(stat(fresh, &st), -1);
    assert_int_equal(stat(s_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(sink_fs_replace("/no/such/directory", "file", NULL, 0), CREMA_ENOENT);
}

static void
test_replace_without_room_keeps_the_old_bytes(void **state)
{
    (void)state;
    char ballast[PATH_MAX];
    static uint8_t big[64 << 10];
    if (!scratch_mount(s_dir, "256k"))
        not_tested_here(MISSING_MOUNTS);
    must(sink_fs_replace(s_dir, "file", (const uint8_t *)"old", 3));
    sink_fs_path(s_dir, "ballast", ballast);
    scratch_fill(ballast);
    assert_int_equal(sink_fs_replace(s_dir, "file", big, sizeof big), CREMA_ENOSPC);
    must_hold("old");
    scratch_unmount(s_dir);
}

static void
test_read_is_bounded_and_follows_nothing(void **state)
{
    (void)state;
    uint8_t *bytes = NULL;
    size_t size;
    char link[PATH_MAX];
    assert_int_equal(sink_fs_read(s_path, 10, &bytes, &size), CREMA_ENOENT);
    must(sink_fs_replace(s_dir, "file", (const uint8_t *)"0123456789", 10));
    assert_int_equal(sink_fs_read(s_path, 9, &bytes, &size), CREMA_ELIMIT);
    sink_fs_path(s_dir, "link", link);
    assert_int_equal(symlink(s_path, link), 0);
    assert_int_equal(sink_fs_read(link, 10, &bytes, &size), CREMA_EIO);
    assert_int_equal(sink_fs_read(s_dir, 10, &bytes, &size), CREMA_EIO);
    assert_null(bytes);
}

static void
test_make_dir_takes_what_is_there_if_it_is_one(void **state)
{
    (void)state;
    char below[PATH_MAX];
    must(sink_fs_make_dir(s_path));
    must(sink_fs_make_dir(s_path));
    sink_fs_path(s_path, "a", below);
    must(sink_fs_replace(s_path, "a", NULL, 0));
    assert_int_equal(sink_fs_make_dir(below), CREMA_EIO);
    assert_int_equal(sink_fs_make_dir("/no/such/directory"), CREMA_ENOENT);
    assert_int_equal(sink_fs_sync_dir("/no/such/directory"), CREMA_ENOENT);
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(s_dir), 0);
    must(sink_fs_make_dir("relative"));
    must(sink_fs_make_dir("relative/below///"));
    assert_int_equal(chdir(before), 0);
    free(before);
}

/* From now on the kernel kills this process at any system call but read, write and exit. A filter,
 * since SECCOMP_MODE_STRICT is refused where there is one already, as in any container. */
static void
must_allow_no_call(void)
{
    struct sock_filter allowed[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof allowed / sizeof *allowed, allowed};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

static void
must_refuse_by_itself(bool (*refuses)(const char *dir), const char *dir)
{
    pid_t child = must_fork();
    if (child == 0) {
        must_allow_no_call();
        errno = 0;
        bool refused = refuses(dir) && errno == ENAMETOOLONG;
        syscall(SYS_exit, refused ? 0 : 1);
    }
    must_exit(child);
}

static bool
s_replace_refuses(const char *dir)
{
    return sink_fs_replace(dir, "y", (const uint8_t *)"x", 1) == CREMA_EIO;
}

static bool
s_find_refuses(const char *dir)
{
    sink_segments_t found;
    return sink_segments_find(dir, &found) == CREMA_EIO;
}

static bool
s_scratch_refuses(const char *dir)
{
    int fd = -1;
    return sink_scratch_open(dir, &fd) == CREMA_EIO && fd == -1;
}

/* File systems differ in what they say of it, so none is asked. */
static void
test_path_that_is_too_long_is_refused_without_a_system_call(void **state)
{
    (void)state;
    static bool (*const c_refuse[])(const char *) = {s_replace_refuses, s_find_refuses,
                                                     s_scratch_refuses};
    char longest[PATH_MAX], out[PATH_MAX];
    snprintf(longest, sizeof longest, "%s", s_dir);
    while (strlen(longest) < PATH_MAX - 2) /* its first bytes would be a good path */
        strcat(longest, "/");
    assert_string_equal(sink_fs_path("a", "b", out), "a/b");
    assert_true(sink_fs_fits(longest, 0));
    assert_false(sink_fs_fits(longest, 1));
    for (size_t i = 0; i < sizeof c_refuse / sizeof *c_refuse; i++)
        must_refuse_by_itself(c_refuse[i], longest);
    /* The longest directory that fits is one. */
    longest[PATH_MAX - 1 - 1 - strlen("y.tmp") - 1] = '\0';
    must(sink_fs_replace(longest, "y", (const uint8_t *)"x", 1));
    assert_int_equal(access(sink_fs_path(s_dir, "y", out), F_OK), 0);
}

static void
test_write_tells_a_full_disk_from_other_trouble(void **state)
{
    (void)state;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(sink_fs_write(full, (const uint8_t *)"x", 1), CREMA_ENOSPC);
    close(full);
    assert_int_equal(sink_fs_write(full, (const uint8_t *)"x", 1), CREMA_EIO);
    assert_int_equal(sink_fs_error(EDQUOT), CREMA_ENOSPC);
}

static void
test_create_fresh_refuses_a_directory_that_is_too_long(void **state)
{
    (void)state;
    char path[PATH_MAX + 8];
    int fd = -1;
    memset(path, 'a', PATH_MAX);
    path[0] = '/';
    strcpy(path + PATH_MAX, "/file");
    assert_int_equal(sink_fs_create_fresh(path, &fd), CREMA_EINVAL);
    assert_int_equal(fd, -1);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_replace_leaves_the_new_bytes_and_nothing_else),
        T(test_replace_without_room_keeps_the_old_bytes),
        T(test_read_is_bounded_and_follows_nothing),
        T(test_make_dir_takes_what_is_there_if_it_is_one),
        T(test_path_that_is_too_long_is_refused_without_a_system_call),
        T(test_write_tells_a_full_disk_from_other_trouble),
        T(test_create_fresh_refuses_a_directory_that_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
