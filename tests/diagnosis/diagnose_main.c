/* diagnose - proves the rules of the diagnosis on simulated runs with planted causes.
 *
 *   diagnose [--first SEED] [--seeds N] [--only NAME] [--verbose]
 *
 * The seeds that the rules were tuned with are from 100001 on; those that prove them are 1 to 20,
 * the default. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/causes.h"

int
main(int argc, char **argv)
{
    unsigned long first = 1, seeds = 20;
    bool verbose = false;
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
            first = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            seeds = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else {
            fputs("usage: diagnose [--first SEED] [--seeds N] [--only NAME] [--verbose]\n", stderr);
            return 2;
        }
    }
    unsigned right = 0, runs = 0, accused = 0;
    for (size_t i = 0; i < n_causes; i++) {
        tally_t tally;
        if (only && strcmp(only, causes[i].name) != 0)
            continue;
        causes_try(&causes[i], first, seeds, stdout, verbose, &tally);
        fflush(stdout);
        if (i == 0) {
            accused = tally.runs - tally.first;
            continue;
        }
        right += tally.first;
        runs += tally.runs;
    }
    printf("%u of %u planted causes come first, %u healthy runs accused\n", right, runs, accused);
    return accused > 0 || right < 0.95 * runs;
}
