#include "crema_print.h"
#include "sink_command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_option.h"
#include "sink_seal.h"

/* Why a file cannot be checked. */
static const char *
s_not_checked(const char *path, crema_err_t err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return strerror(errno);
    if (S_ISDIR(st.st_mode))
        return "a directory, not a run file";
    return err == CREMA_EMAGIC ? "not a run file" : crema_err_text(err);
}

/* True for what can be a run file: opening a pipe would wait for a writer. */
static bool
s_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool
s_is_live(const char *path)
{
    const size_t n = strlen(path), suffix = strlen(".live.h5");
    return n > suffix && strcmp(path + n - suffix, ".live.h5") == 0 && access(path, F_OK) == 0;
}

int
sink_command_check(int argc, char **argv)
{
    static const crema_usage_t usage = {
        SINK_PROGRAM " check",
        "FILE...",
        "Verifies run files: contract, counts, checksum, verdict. Prints one line per finding.",
        "Exit status: 0 if all are sound, 1 if not.",
    };
    const crema_option_t options[] = {{0}};
    int rest, status = 0;
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : SINK_EXIT_USAGE;
    if (rest == argc)
        return sink_command_say("check needs at least one run file", SINK_EXIT_USAGE);
    for (int i = rest; i < argc; i++) {
        int findings = 0;
        if (s_is_live(argv[i])) {
            crema_print(stderr,
                        SINK_PROGRAM
                        ": %s: the live file of a run: only its sealed file can be checked",
                        argv[i]);
            status = SINK_EXIT_FAILED;
            continue;
        }
        crema_err_t err = CREMA_EMAGIC;
        if (s_is_file(argv[i]))
            err = sink_check_apart(argv[i], stdout, &findings);
        if (err == CREMA_OK && findings == 0) {
            crema_print(stdout, "%s: sound", argv[i]);
            continue;
        }
        status = SINK_EXIT_FAILED;
        if (err == CREMA_OK)
            crema_print(stdout, "%s: %d finding%s", argv[i], findings, findings == 1 ? "" : "s");
        else
            crema_print(stderr, SINK_PROGRAM ": %s: %s", argv[i], s_not_checked(argv[i], err));
    }
    return status;
}
