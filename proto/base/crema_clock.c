#include "crema_clock.h"

static int64_t
s_read_ns(clockid_t clock)
{
    struct timespec now = {0};
    clock_gettime(clock, &now); /* cannot fail for the clocks below */
    return crema_clock_ns(now);
}

int64_t
crema_clock_mono_ns(void)
{
    return s_read_ns(CLOCK_MONOTONIC);
}

int64_t
crema_clock_real_ns(void)
{
    return s_read_ns(CLOCK_REALTIME);
}

int64_t
crema_clock_suspended_ns(void)
{
    int64_t mono_ns = crema_clock_mono_ns();
    return s_read_ns(CLOCK_BOOTTIME) - mono_ns;
}

int64_t
crema_clock_cpu_ns(void)
{
    return s_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}
