#include "crema_reserved.h"

#include <string.h>

static const char *const s_names[] = {
    "format",
    "format_version",
    "Conventions",
    "timebase",
    "clock_correction",
    "run_id",
    "state",
    "verdict",
    "verdict_reasons",
    "verdict_notes",
    "complete",
    "loss_total",
    "n_streams",
    "n_streams_open",
    "revision",
    "revision_reason",
    "sha256_payload",
    "prev_sha256_payload",
    "created_utc",
    "t_run_start_ns",
    "t_run_end_ns",
    "t_first_task_ns",
    "t_last_task_end_ns",
    "processor_prefixes",
    "overhead_rule",
    "host_sink",
    "sink_version",
    "libhdf5_version",
};

size_t
crema_reserved_count(void)
{
    return sizeof s_names / sizeof *s_names;
}

const char *
crema_reserved_name(size_t i)
{
    return s_names[i];
}

bool
crema_reserved(const char *name)
{
    for (size_t i = 0; i < crema_reserved_count(); i++)
        if (strcmp(s_names[i], name) == 0)
            return true;
    return false;
}
