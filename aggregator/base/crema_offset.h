/* crema_offset - the difference of two clocks from the four time stamps of requests and replies,
 * with a guaranteed bound. Pure: stamps in, estimate out.
 *
 *     here    t1 ---------------> t2    there    a request leaves here at t1 and arrives at t2,
 *             t4 <--------------- t3             the reply leaves there at t3 and arrives at t4
 *
 * offset = there - here = ((t2 - t1) + (t3 - t4)) / 2; the round trip took
 * delta = (t4 - t1) - (t3 - t2), and however it was split, the offset is correct within delta / 2.
 * Clocks drift by at most 100 ppm, so the uncertainty of a sample is delta / 2 + 100 ppm x its
 * age; the best of the last 64 samples within the last 60 s is the estimate. */
#ifndef CREMA_OFFSET_H
#define CREMA_OFFSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

#define CREMA_OFFSET_SAMPLES 64
#define CREMA_OFFSET_WINDOW_NS (60 * INT64_C(1000000000))
#define CREMA_OFFSET_DRIFT_PPM 100

typedef struct crema_offset crema_offset_t;

typedef struct {
    int64_t offset_ns;      /* there - here */
    int64_t uncertainty_ns; /* bound of the error of offset_ns */
    int64_t rtt_ns;         /* delta of the sample used */
    /* change of the offset over the window, in 1e-9; NaN until samples span 10 s */
    double drift_ppb;
    size_t samples; /* in the window */
} crema_offset_estimate_t;

CREMA_MUST_CHECK crema_err_t crema_offset_new(crema_offset_t **ret_self);

/* Accepts NULL; sets *self_p to NULL. */
void crema_offset_destroy(crema_offset_t **self_p);

/* Forgets everything: after a restart of the other side, whose clock may start over. */
void crema_offset_reset(crema_offset_t *self);

/* Takes one exchange of monotonic stamps: t1 and t4 here, t2 and t3 there. Impossible stamps (a
 * reply before its request, a negative transit time, an exchange older than the last one) are
 * CREMA_EINVAL; the same exchange again is CREMA_EREPEAT. Exchanges delayed by data have a
 * larger delta and therefore less weight. */
CREMA_MUST_CHECK crema_err_t crema_offset_take(crema_offset_t *self, int64_t t1_ns, int64_t t2_ns,
                                               int64_t t3_ns, int64_t t4_ns);

/* The estimate at `now_ns` of the clock here; false if the window is empty. */
bool crema_offset_estimate(const crema_offset_t *self, int64_t now_ns,
                           crema_offset_estimate_t *ret_estimate);

#endif
