/* sink_seal of runs of different lengths: the memory of its own that it needs does not grow with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_seal.h"

/* Seals in a process that may have so much private memory, which is what --seal-memory sets: mapped files do not count. True if
 * that was enough. */
static bool
s_seals(const char *journal, const char *output, rlim_t bytes)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
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
    const rlim_t enough = (rlim_t)40 << 20;
    const unsigned chunks[2] = {20000, 80000};
    const char *dir = NULL;
    char output[300];
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the sanitizer has memory of its own */
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_need_the_same_memory_for_four_times_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
