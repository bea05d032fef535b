/* crema_clock - the only place that reads a clock. */
#ifndef CREMA_CLOCK_H
#define CREMA_CLOCK_H

#include <stdint.h>
#include <time.h>

/* ns since the clock's start. */
static inline int64_t
crema_clock_ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CLOCK_MONOTONIC, ns. */
int64_t crema_clock_mono_ns(void);

/* CLOCK_REALTIME, ns since 1970-01-01 UTC. */
int64_t crema_clock_real_ns(void);

/* CLOCK_BOOTTIME minus CLOCK_MONOTONIC, i.e. the time this host was suspended. The kernel
 * records process starts in CLOCK_BOOTTIME. */
int64_t crema_clock_suspended_ns(void);

/* CPU time of this process, ns. */
int64_t crema_clock_cpu_ns(void);

#endif
