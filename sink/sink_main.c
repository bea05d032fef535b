/* crema-sink - writes the journals of runs and makes run files of them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "crema_columns_doc.h"
#include "crema_json.h"
#include "crema_log.h"
#include "crema_option.h"
#include "crema_random.h"
#include "crema_scrape.h"
#include "crema_server.h"
#include "sink.h"
#include "sink_export.h"
#include "sink_journal.h"
#include "sink_report.h"
#include "sink_seal.h"
#include "sink_survey.h"
#include "sink_viewer.h"
#include "sink_views.h"

#define PROGRAM "crema-sink"

enum { EXIT_RUNTIME = 1, EXIT_USAGE = 2 };

/* ---- serve */

static int
s_say(const char *why, int status)
{
    fprintf(stderr, PROGRAM ": %s\n", why);
    return status;
}

static int
s_exit_status(crema_err_t err)
{
    return err == CREMA_ECONFIG || err == CREMA_EINVAL ? EXIT_USAGE : EXIT_RUNTIME;
}

/* What can be known to be wrong without touching anything. */
static bool
s_refuses(const sink_config_t *config, char *why, size_t size)
{
    if (!config->store_dir || !config->store_dir[0])
        snprintf(why, size, "give --store DIR, where the journals are kept");
    else if (!config->output_dir || !config->output_dir[0])
        snprintf(why, size, "give --output DIR, where the run files are written");
    else
        return crema_scrape_refuses(config->metrics, why, size) ||
               crema_server_refuses("bind", config->endpoint, config->keys_dir, config->insecure,
                                    why, size);
    return true;
}

static bool
s_reload(void)
{
    static const char *const c_names[] = {"commit-interval",
                                          "commit-bytes",
                                          "journal-limit",
                                          "run-limit",
                                          "retain",
                                          "retain-bytes",
                                          NULL};
    return crema_option_reload(c_names);
}

static int
s_serve(int argc, char **argv)
{
    sink_config_t config = {.reload = s_reload};
    const int64_t second = INT64_C(1000000000);
    const crema_option_t options[] = {
        {"bind", CREMA_OPTION_TEXT, "tcp://127.0.0.1:5701", 0, 0, "ENDPOINT",
         "where aggregators connect; port * takes any free one", &config.endpoint},
        {"store", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR", "journals of the runs", &config.store_dir},
        {"output", CREMA_OPTION_TEXT, ".", 0, 0, "DIR", "run files", &config.output_dir},
        {"keys", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR",
         "key directory; without it, connections of this host only", &config.keys_dir},
        {"connections-per-address", CREMA_OPTION_INT, "1024", 1, 1 << 20, "N",
         "connections from one address; further ones are closed. This host may have 16 times as "
         "many",
         &config.connections_per_address},
        {"insecure", CREMA_OPTION_FLAG, NULL, 0, 0, NULL,
         "without keys, listen to all users of this host", &config.insecure},
        {"health-file", CREMA_OPTION_TEXT, NULL, 0, 0, "FILE",
         "touched every second while the journal can be written, removed otherwise",
         &config.health_file},
        {"metrics", CREMA_OPTION_TEXT, NULL, 0, 0, "ADDRESS",
         "serve Prometheus metrics at [HOST:]PORT; without HOST on loopback only", &config.metrics},
        {"commit-interval", CREMA_OPTION_DURATION, "20ms", second / 1000, 10 * second, "TIME",
         "longest time that a record waits for its fdatasync", &config.commit_interval_ns},
        {"commit-bytes", CREMA_OPTION_BYTES, "1Mi", 4096, SINK_GROUP_BYTES_MAX / 2, "SIZE",
         "commit earlier when this many bytes are waiting", &config.commit_bytes},
        {"flush-interval", CREMA_OPTION_DURATION, "1s", second / 20, 3600 * second, "TIME",
         "how often live files are updated", &config.flush_interval_ns},
        {"journal-limit", CREMA_OPTION_BYTES, "64Gi", 1 << 20, 0x7fffffffffff, "SIZE",
         "limit of all journals together; above 95 % of it PUTs are refused",
         &config.journal_limit_bytes},
        {"run-limit", CREMA_OPTION_BYTES, "0", 0, 0x7fffffffffff, "SIZE",
         "limit of one run's journal; further records of the run are counted as lost; 0: no limit",
         &config.run_limit_bytes},
        {"retain", CREMA_OPTION_DURATION, "24h", 0, 0, "TIME",
         "how long the journal of a sealed run is kept, in time that the sink runs",
         &config.retain_ns},
        {"retain-bytes", CREMA_OPTION_BYTES, "0", 0, 0x7fffffffffff, "SIZE",
         "limit of the journals of sealed runs together; the oldest are freed first; 0: no limit",
         &config.retain_bytes},
        {"orphan-after", CREMA_OPTION_DURATION, "2h", second, INT64_C(31536000) * second, "TIME",
         "seal a run that no aggregator ends, this long after the last message about it; must be "
         "longer than --abandon-after of the aggregators",
         &config.abandon_after_ns},
        {"seal-memory", CREMA_OPTION_BYTES, "0", 0, 0x7fffffffffff, "SIZE",
         "memory for a process that seals; 0: half of this machine's", &config.seal_memory_bytes},
        {"live", CREMA_OPTION_FLAG, "true", 0, 0, NULL, "write no live files", &config.live},
        {"output-lock", CREMA_OPTION_FLAG, "true", 0, 0, NULL,
         "start even if a sink with a copy of this store writes to the same --output",
         &config.output_lock},
        {0},
    };
    static const crema_usage_t usage = {
        PROGRAM,
        "[serve] --store DIR [options]\n"
        "       crema-sink rebuild JOURNAL [--output FILE] [--json]\n"
        "       crema-sink check FILE...\n"
        "       crema-sink store STORE [export RUN DIR]\n"
        "       crema-sink columns [--markdown]",
        "Takes the records of runs from aggregators, keeps them in journals and writes one HDF5 "
        "file per run.",
        "rebuild, check, store and columns have their own --help.\n"
        "At SIGHUP it looks for keys that were added or revoked, and reads the limits of journals "
        "and commits,\n"
        "--retain, --retain-bytes and --log-level from the configuration file.",
    };
    int rest;
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : EXIT_USAGE;
    if (rest < argc) {
        fprintf(stderr, PROGRAM ": unexpected argument \"%s\"; see " PROGRAM " --help\n",
                argv[rest]);
        return EXIT_USAGE;
    }
    char why[1024];
    if (s_refuses(&config, why, sizeof why))
        return s_say(why, EXIT_USAGE);
    if (result == CREMA_OPTION_CHECK) {
        crema_option_print_values();
        puts("configuration is sound");
        return 0;
    }
    sink_t *sink;
    crema_err_t err = sink_new(&config, why, sizeof why, &sink);
    if (err != CREMA_OK)
        return s_say(why, s_exit_status(err));
    crema_server_print_ready(PROGRAM, sink_endpoint(sink), NULL, sink_metrics_url(sink));
    err = sink_serve(sink);
    sink_destroy(&sink);
    return err == CREMA_OK ? 0 : EXIT_RUNTIME;
}

/* ---- rebuild */

/* `rebuild JOURNAL --output FILE` and `rebuild --output FILE JOURNAL` mean the same: leading arguments that are not options go to the end. */
static void
s_positional_last(int argc, char **argv)
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

/* Two rebuilds of one journal take turns, for they would write the same temporary file. */
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
        printf("%s is kept (%s, revision %lld): it holds more than this journal; --output FILE "
               "writes the journal's file elsewhere\n",
               result->path, result->verdict, (long long)result->revision);
    else if (err == CREMA_OK)
        printf("%s: %s, revision %lld, %llu rows\n", result->path, result->verdict,
               (long long)result->revision, (unsigned long long)result->rows);
    if (err != CREMA_OK)
        return s_say(sentence, EXIT_RUNTIME);
    return fflush(stdout) == 0 ? 0 : EXIT_RUNTIME;
}

static int
s_rebuild(int argc, char **argv)
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
        PROGRAM " rebuild",
        "JOURNAL [--output FILE] [--json]",
        "Writes the run file again from a run's journal directory, <store>/<run_id>.",
        NULL,
    };
    int rest;
    s_positional_last(argc, argv);
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : EXIT_USAGE;
    if (rest + 1 != argc)
        return s_say("rebuild needs one journal directory, <store>/<run_id>", EXIT_USAGE);
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

/* ---- view */

/* For the serving sink only, which starts it and speaks to it through standard input. */
static int
s_view(int argc, char **argv)
{
    sink_viewer_config_t config = {.views_max = SINK_VIEWS_MAX};
    const int64_t second = INT64_C(1000000000);
    const crema_option_t options[] = {
        {"store", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR", "journals of the runs", &config.store_dir},
        {"output", CREMA_OPTION_TEXT, ".", 0, 0, "DIR", "live files", &config.output_dir},
        {"flush-interval", CREMA_OPTION_DURATION, "1s", second / 20, 3600 * second, "TIME",
         "how often live files are updated", &config.flush_interval_ns},
        {0},
    };
    static const crema_usage_t usage = {
        PROGRAM " view",
        "--store DIR [--output DIR]",
        "Writes the live files; crema-sink starts it and reports on its standard input what is "
        "new.",
        NULL,
    };
    int rest;
    sink_viewer_t *viewer;
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : EXIT_USAGE;
    if (rest != argc || !config.store_dir)
        return s_say("view needs --store DIR and no argument", EXIT_USAGE);
    if (result == CREMA_OPTION_CHECK)
        return 0;
    (void)signal(SIGINT, SIG_IGN); /* it ends with its sink, which has more to say until then */
    (void)signal(SIGTERM, SIG_IGN);
    crema_err_t err = sink_viewer_new(&config, &viewer);
    if (err != CREMA_OK)
        return s_say(crema_err_text(err), EXIT_RUNTIME);
    sink_viewer_serve(viewer, STDIN_FILENO);
    sink_viewer_destroy(&viewer);
    return 0;
}

/* ---- check */

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

static bool
s_is_live(const char *path)
{
    const size_t n = strlen(path), suffix = strlen(".live.h5");
    return n > suffix && strcmp(path + n - suffix, ".live.h5") == 0 && access(path, F_OK) == 0;
}

static int
s_check(int argc, char **argv)
{
    static const crema_usage_t usage = {
        PROGRAM " check",
        "FILE...",
        "Verifies run files: contract, counts, checksum, verdict. Prints one line per finding.",
        "Exit status: 0 if all are sound, 1 if not.",
    };
    const crema_option_t options[] = {{0}};
    int rest, status = 0;
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : EXIT_USAGE;
    if (rest == argc)
        return s_say("check needs at least one run file", EXIT_USAGE);
    for (int i = rest; i < argc; i++) {
        int findings = 0;
        if (s_is_live(argv[i])) {
            fprintf(stderr,
                    PROGRAM ": %s: the live file of a run: only its sealed file can be checked\n",
                    argv[i]);
            status = EXIT_RUNTIME;
            continue;
        }
        crema_err_t err = sink_check_apart(argv[i], stdout, &findings);
        if (err == CREMA_OK && findings == 0) {
            printf("%s: sound\n", argv[i]);
            continue;
        }
        status = EXIT_RUNTIME;
        if (err == CREMA_OK)
            printf("%s: %d finding%s\n", argv[i], findings, findings == 1 ? "" : "s");
        else
            fprintf(stderr, PROGRAM ": %s: %s\n", argv[i], s_not_checked(argv[i], err));
    }
    return status;
}

/* ---- store */

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

static crema_err_t
s_print_json(const sink_surveyed_t *run)
{
    static char line[SINK_REPORT_BYTES];
    char uuid[37];
    crema_json_t json = crema_json_begin(line, sizeof line);
    crema_json_open(&json, NULL, '{');
    crema_json_text(&json, "run_id", crema_id_uuid(&run->run_id, uuid));
    crema_json_text(&json, "phase", run->phase);
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
        printf("%-36s  %-9s  %14s  %7s  %-20s  %-8s  file\n", "run", "phase", "bytes", "streams",
               "start", "verdict");
    printf("%-36s  %-9s  %14llu  %7llu  %-20s  %-8s  %s\n", crema_id_uuid(&run->run_id, uuid),
           run->phase, (unsigned long long)run->bytes, (unsigned long long)run->streams,
           s_time_text(run->t_start_ns, start), run->verdict[0] ? run->verdict : "-",
           run->why[0]    ? run->why
           : run->path[0] ? run->path
                          : "-");
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
        printf("%s: no run\n", dir);
    if (err != CREMA_OK)
        return s_say(why, EXIT_RUNTIME);
    return fflush(stdout) == 0 ? 0 : EXIT_RUNTIME;
}

static int
s_export_run(const char *dir, const char *run, const char *to, bool json)
{
    crema_id_t run_id;
    char path[PATH_MAX], why[3 * PATH_MAX], line[2 * PATH_MAX];
    if (!crema_id_parse(run, &run_id)) {
        snprintf(why, sizeof why, "\"%s\" is not the id of a run; crema-sink store %s lists them",
                 run, dir);
        return s_say(why, EXIT_USAGE);
    }
    if (sink_export(dir, &run_id, to, path, why, sizeof why) != CREMA_OK)
        return s_say(why, EXIT_RUNTIME);
    if (json) {
        crema_json_t told = crema_json_begin(line, sizeof line);
        crema_json_open(&told, NULL, '{');
        crema_json_text(&told, "path", path);
        crema_json_close(&told, '}');
        puts(line);
    } else {
        printf("%s\n", path);
    }
    return fflush(stdout) == 0 ? 0 : EXIT_RUNTIME;
}

static int
s_store(int argc, char **argv)
{
    bool json = false;
    const crema_option_t options[] = {
        {"json", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "print JSON", &json},
        {0},
    };
    static const crema_usage_t usage = {
        PROGRAM " store",
        "STORE [--json]\n"
        "       crema-sink store STORE export RUN DIR [--json]",
        "Lists the runs of a store: phase, bytes of the journal, streams, start, verdict and run "
        "file. It takes no lock and\n"
        "changes nothing, so a sink may be serving the store. With export it copies the journal of "
        "RUN into the store DIR.",
        "Exit status: 0 done, 1 not a store, or RUN cannot be copied, 2 bad command line.",
    };
    int rest;
    s_positional_last(argc, argv);
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : EXIT_USAGE;
    char *const *words = argv + rest;
    const int n = argc - rest;
    const bool exports = n == 4 && strcmp(words[1], "export") == 0;
    if (n != 1 && !exports)
        return s_say("store wants STORE, or STORE export RUN DIR; see " PROGRAM " store --help",
                     EXIT_USAGE);
    if (result == CREMA_OPTION_CHECK)
        return 0;
    return exports ? s_export_run(words[0], words[2], words[3], json)
                   : s_list_store(words[0], json);
}

/* ---- columns */

static int
s_columns(int argc, char **argv)
{
    bool markdown = false;
    const crema_option_t options[] = {
        {"markdown", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "as the reference page", &markdown},
        {0},
    };
    static const crema_usage_t usage = {
        PROGRAM " columns",
        "[--markdown]",
        "Prints every column of every table of the run file: table, name, type, unit, meaning.",
        NULL,
    };
    int rest;
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : EXIT_USAGE;
    if (rest != argc)
        return s_say("columns takes no argument", EXIT_USAGE);
    if (markdown)
        crema_columns_print_markdown(stdout);
    else
        crema_columns_print_text(stdout);
    return fflush(stdout) == 0 ? 0 : EXIT_RUNTIME;
}

int
main(int argc, char **argv)
{
    crema_random_maps();
    static const struct {
        const char *word;
        int (*run)(int argc, char **argv);
    } c_commands[] = {
        {"serve", s_serve}, {"rebuild", s_rebuild}, {"view", s_view},
        {"check", s_check}, {"store", s_store},     {"columns", s_columns},
    };
    /* Filters are loaded into the process that opens the file: only those that are built in. */
    setenv("HDF5_PLUGIN_PRELOAD", "::", 0);
    for (size_t i = 0; argc > 1 && i < sizeof c_commands / sizeof *c_commands; i++)
        if (strcmp(argv[1], c_commands[i].word) == 0)
            return c_commands[i].run(argc - 1, argv + 1);
    return s_serve(argc, argv);
}
