#include "sink_axis.h"

sink_axis_t
sink_axis(int64_t t0_ns, int64_t t1_ns)
{
    static const int64_t round_numbers[] = {1, 2, 5};
    int64_t length = t1_ns > t0_ns ? t1_ns - t0_ns : 1;
    for (int64_t decade = 100000000;; decade *= 10) {
        for (size_t i = 0; i < sizeof round_numbers / sizeof *round_numbers; i++) {
            int64_t step = decade * round_numbers[i];
            int64_t n = (length - 1) / step + 1;
            if (n <= SINK_AXIS_STEPS_MAX)
                return (sink_axis_t){t0_ns, step, (size_t)n};
        }
        if (decade > INT64_MAX / 100)
            return (sink_axis_t){t0_ns, length, 1};
    }
}

void
sink_axis_spread(const sink_axis_t *axis, int64_t t0_ns, int64_t t1_ns, double amount,
                 double *steps)
{
    int64_t end_ns = axis->t0_ns + axis->step_ns * (int64_t)axis->n;
    double length = (double)(t1_ns - t0_ns);
    if (t1_ns <= t0_ns) {
        if (t0_ns >= axis->t0_ns && t0_ns < end_ns)
            steps[(t0_ns - axis->t0_ns) / axis->step_ns] += amount;
        return;
    }
    int64_t from = t0_ns > axis->t0_ns ? t0_ns : axis->t0_ns;
    int64_t to = t1_ns < end_ns ? t1_ns : end_ns;
    while (from < to) {
        int64_t i = (from - axis->t0_ns) / axis->step_ns;
        int64_t next = axis->t0_ns + (i + 1) * axis->step_ns;
        if (next > to)
            next = to;
        steps[i] += amount * (double)(next - from) / length;
        from = next;
    }
}
