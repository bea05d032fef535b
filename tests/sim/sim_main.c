/* The command: sim --seeds N --first S [--verbose]. Runs one history per seed; the last line
 * counts; exit 1 on a violation. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
s_usage(void)
{
    fprintf(stderr,
            "usage: sim [--seeds N] [--first SEED] [--keep-going] [--verbose]\n"
            "Runs N histories of agents, aggregator and sink under faults, each from one seed.\n");
    return 2;
}

static double
s_offset_error_ms(const sim_totals_t *totals, double share)
{
    uint64_t seen = 0;
    size_t step = 0;
    while (step < SIM_ERRORS - 1 && (double)seen <= share * (double)totals->calm_offsets)
        seen += totals->offset_errors[step++];
    return (double)step / 100;
}

static void
s_print(const sim_totals_t *totals)
{
    printf("%" PRIu64 " events, %" PRIu64 " verdicts (%" PRIu64 " PARTIAL), %" PRIu64
           " streams of agents nobody could know, slowest end %.1f s after healing\n",
           totals->events, totals->verdicts, totals->partials, totals->exempt,
           (double)totals->slowest_ns / 1e9);
    printf("%" PRIu64 " messages lost, %" PRIu64 " doubled, %" PRIu64 " late or out of order\n",
           totals->dropped, totals->doubled, totals->late);
    printf("clock offsets: %" PRIu64 " compared with the true one, bound held in %.3f %%, "
           "error p99 %.2f ms where nothing went wrong\n",
           totals->offsets,
           totals->offsets ? 100.0 * (double)totals->offsets_held / (double)totals->offsets : 100.0,
           s_offset_error_ms(totals, 0.99));
    printf("%" PRIu64 " runs whose client was killed, %" PRIu64
           " that it came back to and ended, %" PRIu64 " steps of the wall clock\n",
           totals->abandoned, totals->returned, totals->wall_steps);
    printf("%" PRIu64 " histories, %" PRIu64 " records, %" PRIu64 " violations; %" PRIu64
           " kills, %" PRIu64 " power cuts, %" PRIu64 " damaged journals, of which %" PRIu64
           " were found before the end\n",
           totals->histories, totals->records, totals->violations, totals->kills, totals->cuts,
           totals->damages, totals->holes);
}

int
main(int argc, char **argv)
{
    unsigned long long seeds = 1000, first = 1;
    bool verbose = false, keep_going = false;
    static sim_totals_t totals;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            seeds = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--keep-going") == 0)
            keep_going = true;
        else
            return s_usage();
    }
    for (unsigned long long seed = first; seed < first + seeds; seed++) {
        sim_history(seed, verbose, &totals);
        if (totals.violations && !keep_going)
            break;
    }
    s_print(&totals);
    bool bounded = (double)totals.offsets_held >= 0.999 * (double)totals.offsets;
    if (!bounded)
        printf("the bound of clock offsets holds too rarely\n");
    return totals.violations || !bounded ? 1 : 0;
}
