/* sink_seal of runs of different lengths: the memory of its own that it needs does not grow with
 * them, and its temporary files stay in proportion to the rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "children.h"
#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_h5.h"
#include "sink_seal.h"

/* Seals in a process that may have so much private memory, which is what --seal-memory sets:
 * mapped files do not count. True if that was enough. */
static bool
s_seals(const char *journal, const char *output, rlim_t bytes)
{
    int status;
    pid_t pid = must_fork();
    if (pid == 0) {
        const struct rlimit limit = {bytes, bytes};
        sink_seal_result_t *result = malloc(sizeof *result);
        char why[512];
        if (setrlimit(RLIMIT_DATA, &limit) != 0 || !result)
            _exit(2);
        crema_err_t err = sink_seal_journal(journal, output, result, why, sizeof why);
        _exit(err == CREMA_OK ? 0 : err == CREMA_ENOMEM || err == CREMA_EH5 ? 1 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status) == 0;
}

static void
must_need_the_same_memory_for_four_times_the_rows(void **state)
{
    (void)state;
    const rlim_t enough = (rlim_t)52 << 20; /* less than 1 MiB for each array of a column */
    const unsigned chunks[2] = {20000, 80000};
    const char *dir = NULL;
    char output[300];
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    not_tested_here(MISSING_PRIVATE_MEMORY);
#endif
    for (unsigned i = 0; i < 2; i++) {
        dir = scratch_dir("memory");
        snprintf(output, sizeof output, "%s/run.h5", dir);
        fixture_long(dir, 4, 4, chunks[i]);
        if (!s_seals(dir, output, enough))
            fail_msg("%u chunks need more than %llu MiB", chunks[i],
                     (unsigned long long)(enough >> 20));
    }
    assert_false(s_seals(dir, output, (rlim_t)4 << 20)); /* the limit counts */
}

/* Bytes of the unlinked files that a process has mapped. */
static uint64_t
s_temporary(pid_t pid)
{
    char path[64], line[512];
    uint64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *end;
        const uint64_t low = strtoull(line, &end, 16), high = strtoull(end + 1, NULL, 16);
        if (strstr(line, ".crema-rows-"))
            sum += high - low;
    }
    if (maps)
        fclose(maps);
    return sum;
}

/* Uncompressed bytes of all tables of a run file. */
static uint64_t
s_tables(const char *path)
{
    char why[SINK_H5_WHY_BYTES];
    uint64_t sum = 0, rows;
    sink_h5_t *file;
    must(sink_h5_open(path, &file, why));
    for (int i = 0; i < CREMA_TABLE_COUNT; i++) {
        const crema_table_t *table = crema_table((crema_table_id_t)i);
        must(sink_h5_table(file, table, &rows, why));
        sum += rows * crema_table_row_bytes(table);
    }
    must(sink_h5_close(&file, NULL));
    return sum;
}

static void
must_need_temporary_files_of_at_most_1_15_times_the_tables(void **state)
{
    (void)state;
    const char *dir = scratch_dir("disk");
    char output[300], why[512];
    uint64_t most = 0;
    int status;
    snprintf(output, sizeof output, "%s/run.h5", dir);
    fixture_long(dir, 4, 4, 80000);
    pid_t pid = must_fork();
    if (pid == 0) {
        sink_seal_result_t *result = malloc(sizeof *result);
        _exit(result && sink_seal_journal(dir, output, result, why, sizeof why) == CREMA_OK ? 0
                                                                                            : 1);
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        const uint64_t now = s_temporary(pid);
        most = now > most ? now : most;
        usleep(2000);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const uint64_t tables = s_tables(output);
    assert_true(most > tables); /* it was looked at */
    if (20 * most > 23 * tables)
        fail_msg("%llu bytes of temporary files, %llu of tables", (unsigned long long)most,
                 (unsigned long long)tables);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(must_need_the_same_memory_for_four_times_the_rows, children_end),
        cmocka_unit_test_teardown(must_need_temporary_files_of_at_most_1_15_times_the_tables,
                                  children_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
