/* crema_clock - the only place that reads a clock. */
#ifndef CREMA_CLOCK_H
#define CREMA_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, ns. */
int64_t crema_clock_mono_ns(void);

/* CLOCK_REALTIME, ns since 1970-01-01 UTC. */
int64_t crema_clock_real_ns(void);

/* How far CLOCK_BOOTTIME, on which the kernel notes when a process began, is ahead of CLOCK_MONOTONIC: by the time this host slept. */
int64_t crema_clock_suspended_ns(void);

/* CPU time of this process, ns. */
int64_t crema_clock_cpu_ns(void);

#endif
