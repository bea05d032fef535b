/* crema_time - arithmetic on time stamps from other processes, which saturates instead of
 * overflowing. Pure. */
#ifndef CREMA_TIME_H
#define CREMA_TIME_H

#include <stdint.h>

static inline int64_t
crema_time_add(int64_t a_ns, int64_t b_ns)
{
    int64_t sum;
    if (!__builtin_add_overflow(a_ns, b_ns, &sum))
        return sum;
    return b_ns > 0 ? INT64_MAX : INT64_MIN;
}

static inline int64_t
crema_time_sub(int64_t a_ns, int64_t b_ns)
{
    int64_t difference;
    if (!__builtin_sub_overflow(a_ns, b_ns, &difference))
        return difference;
    return b_ns < 0 ? INT64_MAX : INT64_MIN;
}

/* The time on another clock when this one shows t_ns, given that it showed there_ns at here_ns. */
static inline int64_t
crema_time_shift(int64_t t_ns, int64_t here_ns, int64_t there_ns)
{
    return crema_time_add(there_ns, crema_time_sub(t_ns, here_ns));
}

#endif
