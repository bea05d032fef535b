/* make_journal KIND DIR [COUNT] - writes the journal of a synthetic run, which `crema-sink rebuild` turns into a run file.
 * Kinds: toy, busy (COUNT chunks on 4 workers), plain (COUNT rows). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal_fixture.h"

int
main(int argc, char **argv)
{
    unsigned count = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 200;
    if (argc >= 3 && strcmp(argv[1], "toy") == 0)
        fixture_toy(argv[2], 1);
    else if (argc >= 3 && strcmp(argv[1], "busy") == 0)
        fixture_busy(argv[2], 2, 4, count);
    else if (argc >= 3 && strcmp(argv[1], "plain") == 0)
        fixture_plain(argv[2], 3, count);
    else {
        fputs("usage: make_journal toy|busy|plain DIR [COUNT]\n", stderr);
        return 2;
    }
    return 0;
}
