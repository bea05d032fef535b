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

/* Skips a test that opens so many files at once where no process may. */
static inline void
needs_descriptors(rlim_t n)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < n) {
        limit.rlim_cur = limit.rlim_max;
        if (limit.rlim_max < n || setrlimit(RLIMIT_NOFILE, &limit) != 0)
            skip();
    }
}

#endif
