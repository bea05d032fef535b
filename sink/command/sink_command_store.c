#include "crema_print.h"
#include "sink_command.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "crema_json.h"
#include "crema_option.h"
#include "sink_report.h"
#include "sink_survey.h"

/* What prints the runs of a store, one after the other. */
typedef struct {
    bool json;
    size_t n;
} listing_t;

static const char *
s_time_text(int64_t t_ns, char out[32])
{
    const time_t t_s = (time_t)(t_ns / INT64_C(1000000000));
    struct tm tm;
    if (t_ns == 0 || !gmtime_r(&t_s, &tm) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, 32, "-");
    return out;
}

static const char *
s_or_dash(const char *text)
{
    return text[0] ? text : "-";
}

static crema_err_t
s_print_json(const sink_surveyed_t *run)
{
    static char line[SINK_REPORT_BYTES];
    char uuid[37];
    crema_json_t json = crema_json_begin(line, sizeof line);
    crema_json_open(&json, NULL, '{');
    crema_json_text(&json, "run_id", crema_id_uuid(&run->run_id, uuid));
    crema_json_text(&json, "phase", run->phase);
    crema_json_text(&json, "user", run->user);
    crema_json_text(&json, "label", run->label);
    crema_json_int(&json, "bytes", (int64_t)run->bytes);
    crema_json_int(&json, "streams", (int64_t)run->streams);
    crema_json_int(&json, "t_start_ns", run->t_start_ns);
    crema_json_int(&json, "revision", run->revision);
    crema_json_text(&json, "verdict", run->verdict);
    crema_json_text(&json, "path", run->path);
    crema_json_text(&json, "why", run->why);
    crema_json_close(&json, '}');
    fputs(line, stdout);
    return json.full ? CREMA_ELIMIT : CREMA_OK;
}

static crema_err_t
s_print_run(void *context, const sink_surveyed_t *run)
{
    listing_t *listing = context;
    char uuid[37], start[32];
    if (listing->json) {
        fputs(listing->n++ > 0 ? ",\n" : "[", stdout);
        return s_print_json(run);
    }
    if (listing->n++ == 0)
        crema_print(stdout, "%-36s  %-9s  %-12s  %-20s  %14s  %7s  %-20s  %-8s  file", "run",
                    "phase", "user", "label", "bytes", "streams", "start", "verdict");
    crema_print(stdout, "%-36s  %-9s  %-12s  %-20s  %14llu  %7llu  %-20s  %-8s  %s",
                crema_id_uuid(&run->run_id, uuid), run->phase, s_or_dash(run->user),
                s_or_dash(run->label), (unsigned long long)run->bytes,
                (unsigned long long)run->streams, s_time_text(run->t_start_ns, start),
                s_or_dash(run->verdict), run->why[0] ? run->why : s_or_dash(run->path));
    return CREMA_OK;
}

static int
s_list_store(const char *dir, bool json)
{
    char why[PATH_MAX + 512];
    listing_t listing = {.json = json};
    crema_err_t err = sink_survey(dir, s_print_run, &listing, why, sizeof why);
    if (json && (err == CREMA_OK || listing.n > 0))
        puts(listing.n > 0 ? "]" : "[]");
    else if (err == CREMA_OK && listing.n == 0)
        crema_print(stdout, "%s: no run", dir);
    if (err != CREMA_OK)
        return sink_command_say(why, SINK_EXIT_FAILED);
    return 0;
}

int
sink_command_store(int argc, char **argv)
{
    bool json = false;
    const crema_option_t options[] = {
        {"json", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "print JSON", &json},
        {0},
    };
    static const crema_usage_t usage = {
        SINK_PROGRAM " store",
        "STORE [--json]",
        "Lists the runs of a store: phase, user, label, bytes of the journal, streams, start, "
        "verdict and run file. It takes no lock\n"
        "and changes nothing, so a sink may be serving the store.",
        "Exit status: 0 done, 1 not a store, 2 bad command line.",
    };
    int rest;
    sink_command_words_last(argc, argv);
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : SINK_EXIT_USAGE;
    if (argc - rest != 1)
        return sink_command_say("store wants STORE; see " SINK_PROGRAM " store --help",
                                SINK_EXIT_USAGE);
    return result == CREMA_OPTION_CHECK ? 0 : s_list_store(argv[rest], json);
}
