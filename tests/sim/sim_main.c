/* The command: sim --seeds N --first S [--verbose]. Runs one history a seed; the last line counts; exit 1 on a violation. */
#include "sim.h"

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

int
main(int argc, char **argv)
{
    unsigned long long seeds = 1000, first = 1;
    bool verbose = false, keep_going = false;
    sim_totals_t totals = {0};
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
    printf("%llu events, %llu kills, %llu verdicts (%llu PARTIAL), %llu streams of agents nobody "
           "could know, "
           "slowest end %.1f s after healing\n",
           (unsigned long long)totals.events, (unsigned long long)totals.kills,
           (unsigned long long)totals.verdicts, (unsigned long long)totals.partials,
           (unsigned long long)totals.exempt, (double)totals.slowest_ns / 1e9);
    printf("%llu histories, %llu records, %llu violations\n", (unsigned long long)totals.histories,
           (unsigned long long)totals.records, (unsigned long long)totals.violations);
    return totals.violations ? 1 : 0;
}
