#include "crema_print.h"
#include "sink_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "crema_log.h"
#include "crema_option.h"
#include "sink_report.h"
#include "sink_seal.h"

/* Where memory is short anyhow this process goes, not the one that takes records. */
static void
s_limit_memory(int64_t bytes)
{
    const struct rlimit limit = {.rlim_cur = (rlim_t)bytes, .rlim_max = (rlim_t)bytes};
    if (bytes == 0)
        return;
    if (setrlimit(RLIMIT_DATA, &limit) != 0)
        crema_log_warn("memory_not_limited", CREMA_TEXT("why", strerror(errno)));
    FILE *file = fopen("/proc/self/oom_score_adj", "w");
    if (file) {
        fputs("500", file);
        fclose(file);
    }
}

/* Two rebuilds of one journal take turns, one left by a sink that died among them: so the one that
 * puts its file in place last has also read last. */
static int
s_lock_journal(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0)
        if (errno != EINTR)
            break;
    return fd;
}

static int
s_report_rebuild(crema_err_t err, const sink_seal_result_t *result, const char *why, bool json)
{
    static char line[SINK_REPORT_BYTES];
    char sentence[2048];
    if (err != CREMA_OK)
        snprintf(sentence, sizeof sentence, "%s",
                 why[0] ? why : crema_err_text(err)); /* names run, file and remedy */
    if (json && err == CREMA_OK)
        sink_report_result(result, line);
    else if (json)
        sink_report_error(sentence, line);
    if (json)
        puts(line);
    else if (err == CREMA_OK && result->kept)
        crema_print(
            stdout,
            "%s is kept (%s, revision %lld): it holds more than this journal; --output FILE "
            "writes the journal's file elsewhere",
            result->path, result->verdict, (long long)result->revision);
    else if (err == CREMA_OK)
        crema_print(stdout, "%s: %s, revision %lld, %llu rows", result->path, result->verdict,
                    (long long)result->revision, (unsigned long long)result->rows);
    if (err != CREMA_OK)
        return sink_command_say(sentence, SINK_EXIT_FAILED);
    return 0;
}

int
sink_command_rebuild(int argc, char **argv)
{
    const char *output = NULL;
    bool json = false;
    int64_t memory_bytes = 0;
    const crema_option_t options[] = {
        {"output", CREMA_OPTION_TEXT, NULL, 0, 0, "FILE",
         "file to write; default <run_id>.h5 in this directory", &output},
        {"json", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "print the result as one line of JSON",
         &json},
        {"memory", CREMA_OPTION_BYTES, "0", 0, 0x7fffffffffff, "SIZE",
         "memory that it may use; 0: no limit", &memory_bytes},
        {0},
    };
    static const crema_usage_t usage = {
        SINK_PROGRAM " rebuild",
        "JOURNAL [--output FILE] [--json]",
        "Builds the run file again from a run's journal directory, <store>/<run_id>.",
        NULL,
    };
    int rest;
    sink_command_words_last(argc, argv);
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : SINK_EXIT_USAGE;
    if (rest + 1 != argc)
        return sink_command_say("rebuild needs one journal directory, <store>/<run_id>",
                                SINK_EXIT_USAGE);
    if (result == CREMA_OPTION_CHECK)
        return 0;
    static sink_seal_result_t seal;
    char why[2048] = "";
    s_limit_memory(memory_bytes);
    int lock = s_lock_journal(argv[rest]);
    crema_err_t err = sink_seal_journal(argv[rest], output, &seal, why, sizeof why);
    int status = s_report_rebuild(err, &seal, why, json);
    if (lock >= 0)
        close(lock);
    return status;
}
