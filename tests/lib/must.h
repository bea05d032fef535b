/* must - cmocka with what it needs included first, and calls that must succeed. */
#ifndef MUST_H
#define MUST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/resource.h>

#include "crema_error.h"

/* Fails the test with the error's text and the call. */
#define must(call)                                                                                 \
    do {                                                                                           \
        crema_err_t must_err = (call);                                                             \
        if (must_err != CREMA_OK)                                                                  \
            fail_msg("%s: %s", crema_err_text(must_err), #call);                                   \
    } while (0)

/* What a test lacks here, in the words of lib/missing.py. */
#define MISSING_MOUNTS "mounted file systems (no CAP_SYS_ADMIN)"
#define MISSING_OTHER_USERS "files of other users (not root)"
#define MISSING_OTHERS_PROCESSES "processes of other users (no CAP_SYS_PTRACE)"
#define MISSING_DESCRIPTORS "thousands of open files (ulimit -n)"
#define MISSING_PRIVATE_MEMORY "limits of memory (a sanitizer has its own)"
#define MISSING_TRACING "counted instructions (processes cannot be traced)"
#define MISSING_OPTIMISED "budgets of instructions (they are for gcc, optimised, on x86-64)"

/* Skips the test, and says so in the line that the end of a run counts. */
#define not_tested_here(missing)                                                                   \
    do {                                                                                           \
        print_message("not tested here: %s\n", missing);                                           \
        skip();                                                                                    \
    } while (0)

/* Skips a test that opens so many files at once where no process may. */
static inline void
needs_descriptors(rlim_t n)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < n) {
        limit.rlim_cur = limit.rlim_max;
        if (limit.rlim_max < n || setrlimit(RLIMIT_NOFILE, &limit) != 0)
            not_tested_here(MISSING_DESCRIPTORS);
    }
}

#endif
