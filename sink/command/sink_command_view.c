#include "sink_command.h"

#include <signal.h>
#include <unistd.h>

#include "crema_option.h"
#include "sink_viewer.h"
#include "sink_views.h"

/* For the serving sink only, which starts it and speaks to it through standard input. */
int
sink_command_view(int argc, char **argv)
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
        SINK_PROGRAM " view",
        "--store DIR [--output DIR]",
        "Writes the live files; crema-sink starts it and reports on its standard input what is "
        "new.",
        NULL,
    };
    int rest;
    sink_viewer_t *viewer;
    crema_option_result_t result = crema_option_parse(&usage, options, argc, argv, &rest);
    if (result == CREMA_OPTION_DONE || result == CREMA_OPTION_ERROR)
        return result == CREMA_OPTION_DONE ? 0 : SINK_EXIT_USAGE;
    if (rest != argc || !config.store_dir)
        return sink_command_say("view needs --store DIR and no argument", SINK_EXIT_USAGE);
    if (result == CREMA_OPTION_CHECK)
        return 0;
    (void)signal(SIGINT, SIG_IGN); /* it ends with its sink, which has more to say until then */
    (void)signal(SIGTERM, SIG_IGN);
    crema_err_t err = sink_viewer_new(&config, &viewer);
    if (err != CREMA_OK)
        return sink_command_say(crema_err_text(err), SINK_EXIT_FAILED);
    sink_viewer_serve(viewer, STDIN_FILENO);
    sink_viewer_destroy(&viewer);
    return 0;
}
