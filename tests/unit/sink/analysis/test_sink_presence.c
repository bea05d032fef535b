/* sink_presence: change points to intervals, as tables. */
#include "must.h"
#include "sink_presence.h"

#define J CREMA_MEMBER_JOIN
#define L CREMA_MEMBER_LEAVE
#define X CREMA_MEMBER_LOST
#define R CREMA_MEMBER_RETIRE
#define P CREMA_MEMBER_PAUSE
#define U CREMA_MEMBER_RESUME

typedef struct {
    const char *what;
    sink_member_t events[8];
    size_t n;
    sink_presence_t want[4];
    size_t n_want;
} case_t;

#define E(t, worker, threads, event)                                                               \
    {                                                                                              \
        t, 0, worker, threads, event, false                                                        \
    }
#define B(t, worker, threads, event)                                                               \
    {                                                                                              \
        t, 0, worker, threads, event, true                                                         \
    }

/* The window is [100, 1000]; worker 0 has 3 slots by its stream, worker 1 none that is known. */
static const case_t s_cases[] = {
    {"join and leave", {E(200, 0, 2, J), E(500, 0, 2, L)}, 2, {{200, 500, 0, 2}}, 1},
    {"lost is leaving", {E(200, 0, 2, J), E(500, 0, 0, X)}, 2, {{200, 500, 0, 2}}, 1},
    {"nobody saw it end", {E(200, 0, 2, J)}, 1, {{200, 1000, 0, 2}}, 1},
    {"nobody saw it come", {E(500, 0, 2, L)}, 1, {{100, 500, 0, 2}}, 1},
    {"outside the window", {E(20, 0, 2, J), E(2000, 0, 2, L)}, 2, {{100, 1000, 0, 2}}, 1},
    {"gone before it began", {E(20, 0, 2, J), E(50, 0, 2, L)}, 2, {{0}}, 0},
    {"seen at both ends only", {B(130, 0, 2, J), B(990, 0, 2, L)}, 2, {{100, 1000, 0, 2}}, 1},
    {"came back",
     {E(200, 0, 2, J), E(300, 0, 2, X), E(400, 0, 4, J), E(500, 0, 4, L)},
     4,
     {{200, 300, 0, 2}, {400, 500, 0, 4}},
     2},
    {"told twice",
     {E(200, 0, 2, J), E(201, 0, 2, J), E(500, 0, 2, L), E(501, 0, 2, X)},
     4,
     {{200, 500, 0, 2}},
     1},
    {"other slots",
     {E(200, 0, 2, J), E(300, 0, 4, J), E(500, 0, 0, L)},
     3,
     {{200, 300, 0, 2}, {300, 500, 0, 4}},
     2},
    {"paused is present",
     {E(200, 0, 2, J), E(300, 0, 2, P), E(400, 0, 2, U), E(500, 0, 2, L)},
     4,
     {{200, 500, 0, 2}},
     1},
    {"retired, then left",
     {E(200, 0, 2, J), E(300, 0, 2, R), E(400, 0, 2, L)},
     3,
     {{200, 400, 0, 2}},
     1},
    {"retired only", {E(200, 0, 2, J), E(300, 0, 2, R)}, 2, {{200, 300, 0, 2}}, 1},
    {"slots of its stream", {E(200, 0, 0, J)}, 1, {{200, 1000, 0, 3}}, 1},
    {"one slot at least", {E(200, 1, 0, J)}, 1, {{200, 1000, 1, 1}}, 1},
    {"out of order, two workers",
     {E(600, 1, 1, L), E(500, 0, 2, L), E(200, 0, 2, J), E(300, 1, 1, J)},
     4,
     {{200, 500, 0, 2}, {300, 600, 1, 1}},
     2},
};

static void
must_make_intervals(void **state)
{
    (void)state;
    const uint32_t slots[2] = {3, 0};
    for (size_t i = 0; i < sizeof s_cases / sizeof *s_cases; i++) {
        case_t c = s_cases[i];
        sink_presence_t out[8];
        size_t n = sink_presence_from(c.events, c.n, slots, 100, 1000, out);
        if (n != c.n_want)
            fail_msg("%s: %zu intervals", c.what, n);
        for (size_t k = 0; k < n; k++)
            if (out[k].t0_ns != c.want[k].t0_ns || out[k].t1_ns != c.want[k].t1_ns ||
                out[k].worker != c.want[k].worker || out[k].nthreads != c.want[k].nthreads)
                fail_msg("%s: [%lld, %lld) x %u", c.what, (long long)out[k].t0_ns,
                         (long long)out[k].t1_ns, out[k].nthreads);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_make_intervals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
