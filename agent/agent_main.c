/* crema-agent: ships what the workers beside it record. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "agent.h"
#include "agent_child.h"
#include "agent_others.h"
#include "agent_reach.h"
#include "agent_spool_dir.h"
#include "crema_keys.h"
#include "crema_keys_make.h"
#include "crema_log.h"
#include "crema_option.h"
#include "crema_print.h"
#include "crema_random.h"
#include "crema_reactor.h"

#define MS 1000000ll
#define S (1000 * MS)
#define EXIT_USAGE 2
#define EXIT_NOT_EXECUTABLE 126 /* as a shell says it */
#define EXIT_NOT_FOUND 127

/* What is not in the configuration as it is. */
typedef struct {
    const char *spool, *keys_dir, *server_key, *run;
    bool insecure;
    int64_t pid;
    bool daemon, print_key;
    char **command; /* NULL: none */
} options_t;

static const crema_usage_t c_usage = {
    .program = "crema-agent",
    .synopsis = "[options] [-- command...]",
    .description =
        "Delivers what processes on this host record in the spool directory to the aggregator, and "
        "samples them.\n"
        "With a command it runs that command: it passes signals on and exits with the command's "
        "status. With --pid it\n"
        "exits with that process. Otherwise it serves the spool until SIGTERM, or with --run until "
        "it is dismissed.\n"
        "At SIGTERM it delivers what it can while it has an aggregator, and exits at once if it "
        "has "
        "none; at SIGUSR1 it\n"
        "waits for one. It names what stays in the spool; the next agent that serves the spool "
        "delivers it.",
    .epilogue = "exit status: 0 done, 1 failed or records stay in the spool, 2 bad command line or "
                "configuration,\n"
                "3 refused by the aggregator; with a command, that of the command (128 + signal)",
};

static crema_option_result_t
s_parse(options_t *o, agent_config_t *config, int argc, char **argv)
{
    const crema_option_t table[] = {
        {"spool", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR",
         "spool directory (default ${TMPDIR:-/tmp}/crema-<uid>/spool)", &o->spool},
        {"aggregator", CREMA_OPTION_TEXT, "tcp://127.0.0.1:5700", 0, 0, "ENDPOINT",
         "where the records go; of several, separated by commas, the first that proves its "
         "identity",
         &config->endpoints},
        {"keys", CREMA_OPTION_TEXT, NULL, 0, 0, "DIR", "directory of the CURVE keys", &o->keys_dir},
        {"server-key", CREMA_OPTION_TEXT, NULL, 0, 0, "KEY",
         "public key of the aggregator, in place of --keys; the agent's own pair is in the spool",
         &o->server_key},
        {"print-key", CREMA_OPTION_FLAG, NULL, 0, 0, NULL,
         "with --server-key: print the public key of that pair; exit, unless --daemon is given",
         &o->print_key},
        {"insecure", CREMA_OPTION_FLAG, NULL, 0, 0, NULL,
         "without keys, send to other hosts unencrypted", &o->insecure},
        {"run", CREMA_OPTION_TEXT, NULL, 0, 0, "RUN_ID",
         "serve this run only; when it is sealed, remove the spool and exit", &o->run},
        {"pid", CREMA_OPTION_INT, NULL, 1, INT32_MAX, "PID", "exit with this process", &o->pid},
        {"heartbeat-interval", CREMA_OPTION_DURATION, "1s", 200 * MS, 60 * S, "TIME",
         "time between heartbeats", &config->heartbeat_ns},
        {"sample-interval", CREMA_OPTION_DURATION, "1s", 100 * MS, 3600 * S, "TIME",
         "time between samples of the workers", &config->sample_ns},
        {"poll-interval", CREMA_OPTION_DURATION, "200ms", 10 * MS, 60 * S, "TIME",
         "time between scans of the spool", &config->poll_ns},
        {"spool-limit", CREMA_OPTION_BYTES, "1Gi", 16 << 20, INT64_MAX, "BYTES",
         "above this size the oldest records are dropped and counted", &config->spool_limit_b},
        {"drain-timeout", CREMA_OPTION_DURATION, "30s", 0, 24 * 3600 * S, "TIME",
         "longest time for the delivery of what is left at the end", &config->drain_ns},
        {"orphan-timeout", CREMA_OPTION_DURATION, "1h", 0, 365 * 24 * 3600 * S, "TIME",
         "with --run: exit when no process writes and the aggregator has been silent for this "
         "time; "
         "with nothing to deliver, a minute is enough; 0: never",
         &config->orphan_ns},
        {"health-file", CREMA_OPTION_TEXT, NULL, 0, 0, "FILE",
         "touched every second while the agent has an aggregator, removed otherwise",
         &config->health_file},
        {"daemon", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "detach; log to <spool>/agent.log",
         &o->daemon},
        {0},
    };
    int rest;
    crema_option_result_t result = crema_option_parse(&c_usage, table, argc, argv, &rest);
    if ((result == CREMA_OPTION_RUN || result == CREMA_OPTION_CHECK) && rest < argc)
        o->command = argv + rest;
    return result;
}

static bool
s_fail(const char *why)
{
    crema_print(stderr, "crema-agent: %s", why);
    return false;
}

/* What the table cannot say. */
static bool
s_validate(const options_t *o, agent_config_t *config)
{
    if (o->command && o->pid)
        return s_fail("--pid and a command exclude each other");
    if (o->daemon && o->command)
        return s_fail(
            "--daemon and a command exclude each other: the command stays in the foreground");
    if (o->keys_dir && o->server_key)
        return s_fail("--keys and --server-key exclude each other");
    if (o->print_key && !o->server_key)
        return s_fail("--print-key needs --server-key");
    char why[512];
    if (agent_reach_refuses(config->endpoints, o->keys_dir ? o->keys_dir : o->server_key,
                            o->insecure, why, sizeof why))
        return s_fail(why);
    if (o->run && !crema_id_parse(o->run, &config->run_id))
        return s_fail("--run needs a run id: 32 hex digits, or 8-4-4-4-12");
    config->attached = (pid_t)o->pid;
    config->ignore_hangup = o->daemon;
    return true;
}

/* It was given a spool for whoever writes there, which is not one run or one process. */
static bool
s_serves_the_host(const options_t *o)
{
    return o->spool && !o->run && !o->command && !o->pid;
}

static bool
s_make_place(const options_t *o, char place[PATH_MAX])
{
    bool shared = s_serves_the_host(o) && agent_others_are_read();
    if (agent_spool_dir_make(o->spool, shared, place) == CREMA_OK)
        return true;
    crema_print(stderr, "crema-agent: spool directory %s cannot be used: %s",
                o->spool ? o->spool : "(default)", strerror(errno));
    return false;
}

static bool
s_load_keys(const char *dir, crema_keys_t **ret_keys)
{
    const char *why = NULL;
    crema_err_t err = crema_keys_load(dir, CREMA_AS_AGENT, ret_keys, &why);
    if (err == CREMA_OK)
        return true;
    crema_print(stderr, "crema-agent: keys in %s cannot be used: %s", dir,
                why ? why : crema_err_text(err));
    return false;
}

/* The pair that this spool's agents have, made by the first of them. */
static bool
s_own_keys(const options_t *o, const char *place, crema_keys_t **ret_keys)
{
    char dir[PATH_MAX];
    if (!o->server_key)
        return true;
    crema_err_t err = CREMA_ELIMIT;
    if (agent_spool_dir_keys(place, dir))
        err = crema_keys_make_own(dir, o->server_key);
    if (err == CREMA_OK)
        return s_load_keys(dir, ret_keys);
    crema_print(stderr, "crema-agent: keys in %s/keys cannot be made: %s", place,
                crema_err_text(err));
    return false;
}

/* A path that was given relative to the current directory, which a daemon leaves. False: too
 * long. */
static bool
s_anchor(const char *path, const char *before, char *out, size_t size)
{
    char here[PATH_MAX];
    const bool is_anchored = path[0] == '/' || path[0] == '@' || !getcwd(here, sizeof here);
    int n = is_anchored ? snprintf(out, size, "%s%s", before, path)
                        : snprintf(out, size, "%s%s/%s", before, here, path);
    return n > 0 && (size_t)n < size;
}

/* The file and the ipc:// endpoints of the options, as whole paths. */
static bool
s_anchor_all(agent_config_t *config)
{
    static char health_file[PATH_MAX], endpoints[2 * PATH_MAX];
    if (config->health_file) {
        if (!s_anchor(config->health_file, "", health_file, sizeof health_file))
            return s_fail("--health-file is too long");
        config->health_file = health_file;
    }
    char *out = endpoints;
    for (const char *at = config->endpoints; *at;) {
        char one[PATH_MAX];
        const size_t n = strcspn(at, ","), room = (size_t)(endpoints + sizeof endpoints - out);
        const bool is_path = strncmp(at, "ipc://", 6) == 0;
        if (n >= sizeof one)
            return s_fail("--aggregator is too long");
        memcpy(one, at, n);
        one[n] = '\0';
        if (is_path ? !s_anchor(one + 6, "ipc://", out, room)
                    : (size_t)snprintf(out, room, "%s", one) >= room)
            return s_fail("--aggregator is too long");
        at += n;
        out += strlen(out);
        if (*at == ',' && out + 1 < endpoints + sizeof endpoints) {
            at++;
            *out++ = ',';
            *out = '\0';
        }
    }
    config->endpoints = endpoints;
    return true;
}

/* Signals first, then the command, before the first thread: a thread would not be in the child,
 * its locks would. */
static int
s_prepare(const options_t *o, agent_config_t *config)
{
    struct rlimit files; /* before it is raised for this process */
    bool limited = getrlimit(RLIMIT_NOFILE, &files) == 0;
    crema_err_t err = CREMA_OK;
    if (o->daemon)
        err = agent_daemon_start(config->spool_dir, &config->ready);
    if (err == CREMA_OK)
        err = crema_signals_new(&config->signals);
    if (err == CREMA_OK && o->command)
        err = agent_child_catch_signals(config->signals);
    if (err != CREMA_OK) {
        crema_log_error("cannot_start", CREMA_TEXT("why", strerror(errno)));
        return AGENT_EXIT_FAILED;
    }
    if (!o->command)
        return 0;
    err = agent_child_start(o->command, config->spool_dir, limited ? &files : NULL, &config->child);
    if (err == CREMA_OK)
        return 0;
    crema_print(stderr, "crema-agent: %s cannot be run: %s", o->command[0], strerror(errno));
    return err == CREMA_ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

int
main(int argc, char **argv)
{
    crema_umask_begin();
    crema_random_maps();
    options_t o = {0};
    agent_config_t config = {.signals = -1, .ready = -1};
    char place[PATH_MAX];
    crema_keys_t *keys = NULL;
    crema_option_result_t result = s_parse(&o, &config, argc, argv);
    if (result == CREMA_OPTION_DONE)
        return crema_option_flushed("crema-agent", AGENT_EXIT_DONE);
    if (result == CREMA_OPTION_ERROR || !s_validate(&o, &config) || !s_load_keys(o.keys_dir, &keys))
        return EXIT_USAGE;
    if (result == CREMA_OPTION_CHECK) {
        crema_option_print_values();
        puts("crema-agent: the configuration is sound");
        char text[AGENT_OTHERS_TEXT_BYTES];
        if (s_serves_the_host(&o) && agent_others_miss(o.spool, text))
            crema_print(stdout, "crema-agent: %s", text);
        crema_keys_destroy(&keys);
        return crema_option_flushed("crema-agent", AGENT_EXIT_DONE);
    }
    if ((o.daemon && !s_anchor_all(&config)) || !s_make_place(&o, place) ||
        !s_own_keys(&o, place, &keys)) {
        crema_keys_destroy(&keys);
        return EXIT_USAGE;
    }
    if (o.print_key) {
        puts(crema_keys_public(keys));
        fflush(stdout); /* before a fork repeats what is buffered */
    }
    if (o.print_key && !o.daemon) {
        crema_keys_destroy(&keys);
        return AGENT_EXIT_DONE;
    }
    if (!crema_id_is_zero(&config.run_id))
        agent_spool_dir_take_keys(place, o.keys_dir);
    config.spool_dir = place;
    config.keys = keys;
    int status = s_prepare(&o, &config);
    if (status == 0)
        status = agent_run(&config);
    agent_child_destroy(&config.child);
    crema_keys_destroy(&keys);
    return status;
}
