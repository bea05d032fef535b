#include "crema_offset.h"

#include <math.h>
#include <stdlib.h>

/* Samples closer together than this say nothing about drift. */
#define DRIFT_SPAN_NS (10 * INT64_C(1000000000))

/* Larger stamps, 146 years, are not from a clock; below it no sum overflows. */
#define STAMP_MAX_NS (INT64_MAX / 2)

typedef struct {
    int64_t at_ns;     /* t4, here */
    int64_t offset_ns; /* there - here */
    int64_t delta_ns;  /* round trip; >= 0 */
} sample_t;

struct crema_offset {
    sample_t samples[CREMA_OFFSET_SAMPLES]; /* ring buffer */
    size_t next;                            /* where the next one goes */
    size_t count;                           /* filled */
};

crema_err_t
crema_offset_new(crema_offset_t **ret_self)
{
    crema_offset_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    *ret_self = self;
    return CREMA_OK;
}

void
crema_offset_destroy(crema_offset_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

void
crema_offset_reset(crema_offset_t *self)
{
    *self = (crema_offset_t){0};
}

static bool
s_is_stamp(int64_t stamp_ns)
{
    return stamp_ns > -STAMP_MAX_NS / 2 && stamp_ns < STAMP_MAX_NS / 2;
}

/* The last sample taken; NULL before the first. */
static const sample_t *
s_last(const crema_offset_t *self)
{
    size_t last = (self->next + CREMA_OFFSET_SAMPLES - 1) % CREMA_OFFSET_SAMPLES;
    return self->count ? &self->samples[last] : NULL;
}

crema_err_t
crema_offset_take(crema_offset_t *self, int64_t t1_ns, int64_t t2_ns, int64_t t3_ns, int64_t t4_ns)
{
    if (!s_is_stamp(t1_ns) || !s_is_stamp(t2_ns) || !s_is_stamp(t3_ns) || !s_is_stamp(t4_ns))
        return CREMA_EINVAL;
    int64_t away_ns = t4_ns - t1_ns, there_ns = t3_ns - t2_ns;
    const sample_t *last = s_last(self);
    if (there_ns < 0 || away_ns < there_ns || (last && t4_ns < last->at_ns))
        return CREMA_EINVAL;
    sample_t sample = {
        .at_ns = t4_ns,
        .offset_ns = (t2_ns - t1_ns) / 2 + (t3_ns - t4_ns) / 2,
        .delta_ns = away_ns - there_ns,
    };
    if (last && t4_ns == last->at_ns)
        return CREMA_EREPEAT;
    self->samples[self->next] = sample;
    self->next = (self->next + 1) % CREMA_OFFSET_SAMPLES;
    if (self->count < CREMA_OFFSET_SAMPLES)
        self->count++;
    return CREMA_OK;
}

/* Half the round trip, plus the possible drift since, plus 1 ns for rounding. */
static int64_t
s_uncertainty_ns(const sample_t *sample, int64_t now_ns)
{
    int64_t age_ns = now_ns > sample->at_ns ? now_ns - sample->at_ns : 0;
    return (sample->delta_ns + 1) / 2 + age_ns / 1000000 * CREMA_OFFSET_DRIFT_PPM +
           age_ns % 1000000 * CREMA_OFFSET_DRIFT_PPM / 1000000 + 2;
}

static bool
s_is_in_window(const sample_t *sample, int64_t now_ns)
{
    return now_ns - sample->at_ns <= CREMA_OFFSET_WINDOW_NS;
}

/* Slope of the offset from the best older sample to the best newer one. */
static double
s_drift_ppb(const crema_offset_t *self, int64_t now_ns, int64_t oldest_ns, int64_t newest_ns)
{
    if (newest_ns - oldest_ns < DRIFT_SPAN_NS)
        return NAN;
    int64_t middle_ns = oldest_ns + (newest_ns - oldest_ns) / 2;
    const sample_t *early = NULL, *late = NULL;
    for (size_t i = 0; i < self->count; i++) {
        const sample_t *sample = &self->samples[i];
        const sample_t **best = sample->at_ns < middle_ns ? &early : &late;
        if (s_is_in_window(sample, now_ns) && (!*best || sample->delta_ns < (*best)->delta_ns))
            *best = sample;
    }
    if (!early || !late)
        return NAN;
    return (double)(late->offset_ns - early->offset_ns) / (double)(late->at_ns - early->at_ns) *
           1e9;
}

bool
crema_offset_estimate(const crema_offset_t *self, int64_t now_ns,
                      crema_offset_estimate_t *ret_estimate)
{
    const sample_t *best = NULL;
    int64_t oldest_ns = INT64_MAX, newest_ns = INT64_MIN;
    size_t n = 0;
    if (!s_is_stamp(now_ns))
        return false;
    for (size_t i = 0; i < self->count; i++) {
        const sample_t *sample = &self->samples[i];
        if (!s_is_in_window(sample, now_ns))
            continue;
        n++;
        oldest_ns = sample->at_ns < oldest_ns ? sample->at_ns : oldest_ns;
        newest_ns = sample->at_ns > newest_ns ? sample->at_ns : newest_ns;
        if (!best || s_uncertainty_ns(sample, now_ns) < s_uncertainty_ns(best, now_ns))
            best = sample;
    }
    if (!best)
        return false;
    *ret_estimate = (crema_offset_estimate_t){
        .offset_ns = best->offset_ns,
        .uncertainty_ns = s_uncertainty_ns(best, now_ns),
        .rtt_ns = best->delta_ns,
        .drift_ppb = s_drift_ppb(self, now_ns, oldest_ns, newest_ns),
        .samples = n,
    };
    return true;
}
