#include "crema_reserved.h"

#include "crema_text.h"

const char *const crema_reserved_names[] = {
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
    "sha256_attributes",
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
    NULL,
};

bool
crema_reserved(const char *name)
{
    return crema_text_is_in(name, crema_reserved_names);
}
