/* sink_seal of a file that changes on its way to the disk: it is found before the file gets its
 * name, and the next attempt is as good as the first. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <hdf5.h>

#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_seal.h"

typedef enum { SOUND, FLIP, CUT } harm_t;

static struct {
    harm_t harm;
    off_t at;
    char path[512]; /* of the file that was harmed last */
} s_disk;

/* In place of the C library's: the file is closed by then, and not yet verified. */
int
fsync(int fd)
{
    struct stat stat;
    char link[64];
    if (s_disk.harm != SOUND && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(link, s_disk.path, sizeof s_disk.path - 1);
        assert_true(n > 0);
        s_disk.path[n] = '\0';
        const int other = open(s_disk.path, O_RDWR | O_CLOEXEC);
        uint8_t byte;
        assert_int_equal(pread(other, &byte, 1, s_disk.at), 1);
        byte ^= 0x10;
        if (s_disk.harm == CUT)
            assert_int_equal(ftruncate(other, s_disk.at), 0);
        else
            assert_int_equal(pwrite(other, &byte, 1, s_disk.at), 1);
        close(other);
    }
    return (int)syscall(SYS_fsync, fd);
}

static const char *s_unmapped = ""; /* a directory on a file system that maps no files */

void *
mmap(void *at, size_t size, int access, int flags, int fd, off_t offset)
{
    char link[64], path[600] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (flags & MAP_SHARED && fd >= 0 && s_unmapped[0] &&
        readlink(link, path, sizeof path - 1) > 0 &&
        strncmp(path, s_unmapped, strlen(s_unmapped)) == 0) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the call behind this one returns a number */
    return (void *)syscall(SYS_mmap, at, size, access, flags, fd, offset);
}

static crema_err_t
s_seal(const char *journal, const char *output, harm_t harm, off_t at, char *why, size_t size)
{
    static sink_seal_result_t result;
    s_disk.harm = harm;
    s_disk.at = at;
    s_disk.path[0] = '\0';
    crema_err_t err = sink_seal_journal(journal, output, &result, why, size);
    s_disk.harm = SOUND;
    return err;
}

static void
must_not_seal(const char *journal, const char *output, harm_t harm, off_t at)
{
    char why[1024];
    if (s_seal(journal, output, harm, at, why, sizeof why) == CREMA_OK)
        fail_msg("harm %d at %lld was not found", (int)harm, (long long)at);
    const char *const wanted[] = {"run 01112233-", output, "its records are safe", "rebuild"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(why, wanted[i]))
            fail_msg("no \"%s\" in: %s", wanted[i], why);
    assert_true(strlen(s_disk.path) > 0);
    assert_int_equal(access(s_disk.path, F_OK), -1);
    assert_int_equal(access(output, F_OK), -1);
}

/* Where the middle of a table's last chunk is stored. */
static off_t
s_middle(hid_t file, const char *table)
{
    hid_t dataset = H5Dopen2(file, table, H5P_DEFAULT), space = H5Dget_space(dataset);
    hsize_t n = 0, offset, bytes = 0;
    haddr_t at = HADDR_UNDEF;
    unsigned skipped;
    assert_true(H5Dget_num_chunks(dataset, space, &n) >= 0 && n > 0);
    assert_true(H5Dget_chunk_info(dataset, space, n - 1, &offset, &skipped, &at, &bytes) >= 0);
    assert_true(at != HADDR_UNDEF && bytes > 1);
    H5Sclose(space);
    H5Dclose(dataset);
    return (off_t)(at + bytes / 2);
}

static void
must_find_what_changed_before_the_file_is_verified(void **state)
{
    (void)state;
    static const char *const tables[] = {"chunks", "task_events", "activities", "worker_samples"};
    const size_t n = sizeof tables / sizeof *tables;
    char journal[512], output[600], again[600], why[1024];
    off_t at[sizeof tables / sizeof *tables];
    snprintf(journal, sizeof journal, "%s", scratch_dir("damage"));
    fixture_busy(journal, 1, 4, 400);
    snprintf(output, sizeof output, "%s/sound.h5", journal);
    snprintf(again, sizeof again, "%s/run.h5", journal);
    must(s_seal(journal, output, SOUND, 0, why, sizeof why));
    hid_t file = H5Fopen(output, H5F_ACC_RDONLY, H5P_DEFAULT);
    for (size_t i = 0; i < n; i++)
        at[i] = s_middle(file, tables[i]);
    H5Fclose(file);
    for (size_t i = 0; i < n; i++)
        must_not_seal(journal, again, FLIP, at[i]);
    must_not_seal(journal, again, CUT, at[0]);
    must(s_seal(journal, again, SOUND, 0, why, sizeof why));
    assert_int_equal(access(again, F_OK), 0);
    unlink(again);
    unlink(output);
}

/* As of some FUSE and 9p file systems: what is too large for memory then lies beside the
 * journal. */
static void
must_seal_where_files_cannot_be_mapped(void **state)
{
    (void)state;
    char journal[512], output[600], why[1024];
    snprintf(journal, sizeof journal, "%s", scratch_dir("mapped"));
    fixture_long(journal, 4, 4, 20000);
    s_unmapped = scratch_dir("unmapped");
    assert_int_equal(mkdir(s_unmapped, 0700), 0);
    snprintf(output, sizeof output, "%s/run.h5", s_unmapped);
    must(s_seal(journal, output, SOUND, 0, why, sizeof why));
    assert_int_equal(access(output, F_OK), 0);
    s_unmapped = "";
    unlink(output);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_find_what_changed_before_the_file_is_verified),
        cmocka_unit_test(must_seal_where_files_cannot_be_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
