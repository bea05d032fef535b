/* crema_offset - how far two clocks are apart, from the four stamps of questions and answers, with a bound that holds.
 * Pure: stamps in, estimate out.
 *
 *     here    t1 ---------------> t2    there        the question leaves here at t1 and arrives there at t2,
 *             t4 <--------------- t3                 the answer leaves there at t3 and arrives here at t4
 *
 * offset = there - here = ((t2 - t1) + (t3 - t4)) / 2; the way there and back took delta = (t4 - t1) - (t3 - t2), and whatever
 * part of it each way took, the offset is right within delta / 2. As clocks drift by at most 100 ppm, a sample is worth
 * delta / 2 + 100 ppm x its age; the best of the last 64 samples of the last 60 s is the estimate. */
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
    int64_t uncertainty_ns; /* the true offset differs by at most that */
    int64_t rtt_ns;         /* delta of the sample taken */
    double
        drift_ppb; /* change of the offset over the window, in 1e-9; NaN until samples lie 10 s apart */
    size_t samples; /* in the window */
} crema_offset_estimate_t;

CREMA_MUST_CHECK crema_err_t crema_offset_new(crema_offset_t **ret_self);

/* Accepts NULL; sets *self_p to NULL. */
void crema_offset_destroy(crema_offset_t **self_p);

/* Forgets everything: after a restart of the other side, whose clock may begin anew. */
void crema_offset_reset(crema_offset_t *self);

/* One exchange; monotonic clocks, t1 and t4 here, t2 and t3 there. Stamps that cannot be (an answer before its question, a negative
 * way, an exchange older than the last one taken) are refused with CREMA_EINVAL; the same exchange again is CREMA_EREPEAT. Exchanges with
 * own data on the way tell less: their larger delta says so. */
CREMA_MUST_CHECK crema_err_t crema_offset_take(crema_offset_t *self, int64_t t1_ns, int64_t t2_ns,
                                               int64_t t3_ns, int64_t t4_ns);

/* At `now_ns` of the clock here; false if the window is empty. */
bool crema_offset_estimate(const crema_offset_t *self, int64_t now_ns,
                           crema_offset_estimate_t *ret_estimate);

#endif
