/* crema-aggregator - follows the agents of a run, passes their records to the sink, and decides
 * when the run is complete. */
#include <stdio.h>
#include <string.h>

#include "agg.h"
#include "agg_relay.h"
#include "crema_keys_make.h"
#include "crema_option.h"
#include "crema_print.h"
#include "crema_random.h"
#include "crema_reactor.h"
#include "crema_scrape.h"
#include "crema_server.h"

#define PROGRAM "crema-aggregator"

enum { EXIT_RUNTIME = 1, EXIT_USAGE = 2 };

static int
s_say(const char *why, int status)
{
    crema_print(stderr, PROGRAM ": %s", why);
    return status;
}

/* What is asked for of a key directory, in place of serving. */
typedef struct {
    const char *make, *make_for_run, *add, *revoke, *role;
    int64_t uid;
} key_order_t;

static int
s_print_key_result(crema_err_t err, const char *done, const char *dir, const char *busy,
                   const char *missing)
{
    if (err == CREMA_OK) {
        puts(done);
        return 0;
    }
    crema_print(stderr, PROGRAM ": %s: %s", dir,
                err == CREMA_EBUSY    ? busy
                : err == CREMA_ENOENT ? missing
                : err == CREMA_EINVAL
                    ? "a name has up to 64 letters, digits and _-.@, a role is "
                      "client, agent, aggregator or monitor, and only a client's key "
                      "is bound to a uid"
                    : crema_err_text(err));
    return err == CREMA_EINVAL ? EXIT_USAGE : EXIT_RUNTIME;
}

static int
s_order_keys(const key_order_t *order, const char *dir)
{
    char done[1024];
    crema_as_t as = CREMA_AS_ANY;
    if (order->make || order->make_for_run) {
        const char *made = order->make ? order->make : order->make_for_run;
        snprintf(done, sizeof done, "keys made in %s", made);
        return s_print_key_result(
            order->make ? crema_keys_make(made) : crema_keys_make_for_run(made), done, made,
            "holds keys already; they are kept", "its parent directory is missing");
    }
    if (!dir)
        return s_say("give --keys DIR, the directory that --make-keys made", EXIT_USAGE);
    (void)crema_as_parse(order->role, &as);
    const char *name = order->add ? order->add : order->revoke;
    if (order->add) {
        snprintf(done, sizeof done, "%s/%s-%s", dir, order->role, name);
        return s_print_key_result(
            crema_keys_add(dir, as, name, order->uid), done, dir,
            "has a key of that name; revoke it and move its directory away first",
            "holds no keys of a server");
    }
    snprintf(done, sizeof done, "%s %s is no longer admitted", order->role, name);
    return s_print_key_result(crema_keys_revoke(dir, as, name), done, dir, "is busy",
                              "admits no key of that name");
}

/* What can be known to be wrong without touching anything. */
static bool
s_refuses(const agg_options_t *options, char *why, size_t size)
{
    if (!strstr(options->sink_endpoint, "://")) {
        snprintf(why, size, "--sink: %s is not an endpoint such as tcp://127.0.0.1:5701",
                 options->sink_endpoint);
        return true;
    }
    if (crema_server_refuses_to_send("sink", options->sink_endpoint, options->keys_dir,
                                     options->insecure, why, size))
        return true;
    return crema_scrape_refuses(options->metrics, why, size) ||
           crema_server_refuses("bind", options->endpoint, options->keys_dir, options->insecure,
                                why, size) ||
           (options->tap_endpoint &&
            crema_server_refuses("tap", options->tap_endpoint, options->keys_dir, options->insecure,
                                 why, size));
}

int
main(int argc, char **argv)
{
    crema_umask_begin();
    crema_random_maps();
    agg_options_t agg_options = {0};
    key_order_t order = {0};
    const char *relay = NULL;
    const crema_option_t options[] = {
        {"bind", CREMA_OPTION_TEXT, "tcp://127.0.0.1:5700", 0, 0, "ENDPOINT",
         "where agents and collectors connect; port * is any free port", &agg_options.endpoint},
        {"sink", CREMA_OPTION_TEXT, "tcp://127.0.0.1:5701", 0, 0, "ENDPOINT",
         "where the sink listens", &agg_options.sink_endpoint},
        {"tap", CREMA_OPTION_TEXT, NULL, 0, 0, "ENDPOINT",
         "publish events and live sums there, for live views", &agg_options.tap_endpoint},
        {"keys", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR",
         "key directory; without it, connections of this host only", &agg_options.keys_dir},
        {"credit", CREMA_OPTION_BYTES, "512Mi", 1 << 20, INT64_C(1) << 40, "SIZE",
         "bytes that all agents together may have in flight", &agg_options.credit_bytes},
        {"abandon-after", CREMA_OPTION_DURATION, "1h", INT64_C(1000000000),
         INT64_C(31536000000000000), "TIME",
         "end and seal a run after this time without a record or a message of its client",
         &agg_options.abandon_after_ns},
        {"runs-per-client", CREMA_OPTION_INT, "64", 1, 4096, "N",
         "open runs per client, that is, per key; with this many it cannot open another",
         &agg_options.runs_per_client},
        {"bytes-per-client", CREMA_OPTION_BYTES, "64Gi", 1, 0x7fffffffffff, "SIZE",
         "bytes of records in a client's open runs; with this many it cannot open another",
         &agg_options.bytes_per_client},
        {"connections-per-address", CREMA_OPTION_INT, "1024", 1, 1 << 20, "N",
         "connections from one address; further ones are closed. This host may have 16 times as "
         "many",
         &agg_options.connections_per_address},
        {"health-file", CREMA_OPTION_TEXT, NULL, 0, 0, "FILE",
         "touched every second while the sink answers, removed otherwise",
         &agg_options.health_file},
        {"metrics", CREMA_OPTION_TEXT, NULL, 0, 0, "ADDRESS",
         "serve Prometheus metrics at [HOST:]PORT; without HOST on loopback only",
         &agg_options.metrics},
        {"insecure", CREMA_OPTION_FLAG, NULL, 0, 0, NULL,
         "without keys, send to other hosts unencrypted and listen to all users of this host",
         &agg_options.insecure},
        {"relay", CREMA_OPTION_TEXT, NULL, 0, 0, "ENDPOINT",
         "pass messages between the aggregator there and standard input and output, as a "
         "collector does, with a client's --keys",
         &relay},
        {"make-keys", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR",
         "create the key directories of all roles in this directory and exit", &order.make},
        {"make-run-keys", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR",
         "the same for the server, aggregator and client of one run, without waiting for the disk",
         &order.make_for_run},
        {"add-key", CREMA_OPTION_TEXT, NULL, 0, 0, "NAME",
         "create a key of this name in the directory --keys, admit it and exit", &order.add},
        {"revoke-key", CREMA_OPTION_TEXT, NULL, 0, 0, "NAME",
         "stop admitting the key of this name and exit", &order.revoke},
        {"key-role", CREMA_OPTION_TEXT, "client", 0, 0, "ROLE",
         "role of the key to add or revoke: client, agent, aggregator or monitor", &order.role},
        {"key-uid", CREMA_OPTION_INT, "-1", -1, CREMA_KEYS_UID_MAX, "UID",
         "with --add-key: an operator's agents bring to this client's runs only records of that "
         "user's files; -1: of any user's",
         &order.uid},
        {0},
    };
    static const crema_usage_t usage = {
        PROGRAM,
        "[options]",
        "Follows the agents of each run, passes their records on to the sink, splits processor "
        "time "
        "from\n"
        "overhead during the run, and decides when a run is complete.",
        "At SIGHUP it looks at once for keys that were added or revoked.",
    };
    int rest;
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? crema_option_flushed(PROGRAM, 0) : EXIT_USAGE;
    if (rest < argc) {
        crema_print(stderr, PROGRAM ": unexpected argument \"%s\"; see " PROGRAM " --help",
                    argv[rest]);
        return EXIT_USAGE;
    }
    if (order.make || order.make_for_run || order.add || order.revoke)
        return s_order_keys(&order, agg_options.keys_dir);
    if (relay)
        return agg_relay_run(relay, agg_options.keys_dir);
    char why[1024];
    if (s_refuses(&agg_options, why, sizeof why))
        return s_say(why, EXIT_USAGE);
    if (result == CREMA_OPTION_CHECK) {
        crema_option_print_values();
        puts("configuration is sound");
        return crema_option_flushed(PROGRAM, 0);
    }
    agg_t *agg;
    crema_err_t err = agg_new(&agg_options, why, sizeof why, &agg);
    if (err != CREMA_OK)
        return s_say(why, err == CREMA_ECONFIG || err == CREMA_EINVAL ? EXIT_USAGE : EXIT_RUNTIME);
    crema_server_print_ready(PROGRAM, agg_endpoint(agg), agg_tap_endpoint(agg),
                             agg_metrics_url(agg));
    agg_serve(agg);
    agg_destroy(&agg);
    return 0;
}
