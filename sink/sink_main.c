/* crema-sink - writes the journals of runs and makes run files of them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_columns_doc.h"
#include "crema_option.h"
#include "crema_print.h"
#include "crema_random.h"
#include "crema_reactor.h"
#include "crema_scrape.h"
#include "crema_server.h"
#include "sink.h"
#include "sink_command.h"
#include "sink_journal.h"

/* ---- serve */

static int
s_exit_status(crema_err_t err)
{
    return err == CREMA_ECONFIG || err == CREMA_EINVAL ? SINK_EXIT_USAGE : SINK_EXIT_FAILED;
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

static int
s_serve(int argc, char **argv)
{
    sink_config_t config = {0};
    const int64_t second = INT64_C(1000000000);
    const crema_option_t options[] = {
        {"bind", CREMA_OPTION_TEXT, "tcp://127.0.0.1:5701", 0, 0, "ENDPOINT",
         "where aggregators connect; port * is any free port", &config.endpoint},
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
         "how long the journal of a sealed run is kept, counted while the sink runs",
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
        SINK_PROGRAM,
        "[serve] --store DIR [options]\n"
        "       crema-sink rebuild JOURNAL [--output FILE] [--json]\n"
        "       crema-sink check FILE...\n"
        "       crema-sink store STORE\n"
        "       crema-sink columns [--markdown]",
        "Takes the records of runs from aggregators, keeps them in journals and writes one HDF5 "
        "file per run.",
        "rebuild, check, store and columns have their own --help.\n"
        "At SIGHUP it looks at once for keys that were added or revoked.",
    };
    int rest;
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? crema_option_flushed(SINK_PROGRAM, 0)
                                           : SINK_EXIT_USAGE;
    if (rest < argc) {
        crema_print(stderr,
                    SINK_PROGRAM ": unexpected argument \"%s\"; see " SINK_PROGRAM " --help",
                    argv[rest]);
        return SINK_EXIT_USAGE;
    }
    char why[1024];
    if (s_refuses(&config, why, sizeof why))
        return sink_command_say(why, SINK_EXIT_USAGE);
    if (result == CREMA_OPTION_CHECK) {
        crema_option_print_values();
        puts("configuration is sound");
        return crema_option_flushed(SINK_PROGRAM, 0);
    }
    sink_t *sink;
    crema_err_t err = sink_new(&config, why, sizeof why, &sink);
    if (err != CREMA_OK)
        return sink_command_say(why, s_exit_status(err));
    crema_server_print_ready(SINK_PROGRAM, sink_endpoint(sink), NULL, sink_metrics_url(sink));
    err = sink_serve(sink);
    sink_destroy(&sink);
    return err == CREMA_OK ? 0 : SINK_EXIT_FAILED;
}

/* ---- columns */

static int
s_columns(int argc, char **argv)
{
    bool markdown = false;
    const crema_option_t options[] = {
        {"markdown", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "as Markdown", &markdown},
        {0},
    };
    static const crema_usage_t usage = {
        SINK_PROGRAM " columns",
        "[--markdown]",
        "Prints every column of every table of the run file: table, name, type, unit, meaning.",
        NULL,
    };
    int rest;
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : SINK_EXIT_USAGE;
    if (rest != argc)
        return sink_command_say("columns takes no argument", SINK_EXIT_USAGE);
    if (markdown)
        crema_columns_print_markdown(stdout);
    else
        crema_columns_print_text(stdout);
    return 0;
}

int
main(int argc, char **argv)
{
    crema_umask_begin();
    crema_random_maps();
    static const struct {
        const char *word;
        int (*run)(int argc, char **argv);
    } c_commands[] = {
        {"rebuild", sink_command_rebuild},
        {"view", sink_command_view},
        {"check", sink_command_check},
        {"store", sink_command_store},
        {"columns", s_columns},
    };
    /* Filters are loaded into the process that opens the file: only those that are built in. */
    setenv("HDF5_PLUGIN_PRELOAD", "::", 0);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of a file's size fails with EFBIG */
    for (size_t i = 0; argc > 1 && i < sizeof c_commands / sizeof *c_commands; i++)
        if (strcmp(argv[1], c_commands[i].word) == 0)
            return crema_option_flushed(SINK_PROGRAM, c_commands[i].run(argc - 1, argv + 1));
    const bool named = argc > 1 && strcmp(argv[1], "serve") == 0;
    return s_serve(argc - named, argv + named);
}
