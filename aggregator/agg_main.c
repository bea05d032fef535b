/* crema-aggregator - follows the agents of a run, passes their records to the sink, and decides when the run is complete. */
#include <stdio.h>
#include <string.h>

#include "agg.h"
#include "crema_keys.h"
#include "crema_option.h"
#include "crema_server.h"

#define PROGRAM "crema-aggregator"

enum { EXIT_RUNTIME = 1, EXIT_USAGE = 2 };

static int
s_say(const char *why, int status)
{
    fprintf(stderr, PROGRAM ": %s\n", why);
    return status;
}

static int
s_make_keys(const char *dir)
{
    crema_err_t err = crema_keys_make(dir);
    if (err == CREMA_OK) {
        printf("keys made in %s\n", dir);
        return 0;
    }
    fprintf(stderr, PROGRAM ": %s: %s\n", dir,
            err == CREMA_EBUSY ? "holds keys already; they are kept" : crema_err_text(err));
    return EXIT_RUNTIME;
}

/* What can be known to be wrong without touching anything. */
static bool
s_refuses(const agg_options_t *options, char *why, size_t size)
{
    if (!strstr(options->sink_endpoint, "://")) {
        snprintf(why, size, "--sink: %s is no endpoint such as tcp://127.0.0.1:5701",
                 options->sink_endpoint);
        return true;
    }
    return crema_server_refuses("bind", options->endpoint, options->keys_dir, why, size) ||
           (options->tap_endpoint &&
            crema_server_refuses("tap", options->tap_endpoint, options->keys_dir, why, size));
}

int
main(int argc, char **argv)
{
    agg_options_t agg_options = {0};
    const char *make_keys = NULL;
    const crema_option_t options[] = {
        {"bind", CREMA_OPTION_TEXT, "tcp://127.0.0.1:5700", 0, 0, "ENDPOINT",
         "where agents and collectors connect; port * takes any free one", &agg_options.endpoint},
        {"sink", CREMA_OPTION_TEXT, "tcp://127.0.0.1:5701", 0, 0, "ENDPOINT",
         "where the sink listens", &agg_options.sink_endpoint},
        {"tap", CREMA_OPTION_TEXT, NULL, 0, 0, "ENDPOINT",
         "publish events and live sums there, for live views", &agg_options.tap_endpoint},
        {"keys", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR", "key directory; without one only local",
         &agg_options.keys_dir},
        {"credit", CREMA_OPTION_BYTES, "512Mi", 1 << 20, INT64_C(1) << 40, "SIZE",
         "bytes that all agents together may have on the way", &agg_options.credit_bytes},
        {"health-file", CREMA_OPTION_TEXT, NULL, 0, 0, "FILE",
         "touched every second while the sink answers, else removed", &agg_options.health_file},
        {"make-keys", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR", "make a key directory and exit",
         &make_keys},
        {0},
    };
    static const crema_usage_t usage = {
        PROGRAM,
        "[options]",
        "Follows the agents of a run, passes their records on to the sink, splits processor time "
        "from\n"
        "overhead while the run goes on, and decides when a run is complete.",
        NULL,
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
    if (make_keys)
        return s_make_keys(make_keys);
    char why[1024];
    if (s_refuses(&agg_options, why, sizeof why))
        return s_say(why, EXIT_USAGE);
    if (result == CREMA_OPTION_CHECK) {
        puts("configuration is sound");
        return 0;
    }
    agg_t *agg;
    crema_err_t err = agg_new(&agg_options, why, sizeof why, &agg);
    if (err != CREMA_OK)
        return s_say(why, err == CREMA_ECONFIG || err == CREMA_EINVAL ? EXIT_USAGE : EXIT_RUNTIME);
    crema_server_print_ready(PROGRAM, agg_endpoint(agg), agg_tap_endpoint(agg));
    agg_serve(agg);
    agg_destroy(&agg);
    return 0;
}
