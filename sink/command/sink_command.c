#include "sink_command.h"
#include "crema_print.h"

#include <stdio.h>
#include <string.h>

int
sink_command_say(const char *why, int status)
{
    crema_print(stderr, SINK_PROGRAM ": %s", why);
    return status;
}

void
sink_command_words_last(int argc, char **argv)
{
    int leading = 0;
    while (1 + leading < argc && argv[1 + leading][0] != '-')
        leading++;
    for (int i = 0; i < leading && leading < argc - 1; i++) {
        char *first = argv[1];
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = first;
    }
}
