#include "agent_inventory.h"

#include <errno.h>
#include <string.h>

#include "crema_log.h"

static bool
s_is_ours(const agent_inventory_t *self, const crema_spool_stream_t *stream)
{
    if (stream->hi == 0 || crema_id_is_zero(&stream->run_id))
        return false;
    return crema_id_is_zero(&self->run_id) || crema_id_equal(&self->run_id, &stream->run_id);
}

static void
s_report_streams(agent_inventory_t *self, int64_t now_ns)
{
    for (size_t i = 0; i < crema_spool_count(self->spool); i++) {
        crema_spool_stream_t *stream = crema_spool_stream(self->spool, i);
        crema_err_t err = s_is_ours(self, stream)
                              ? crema_session_on_stream(self->session, stream, now_ns)
                              : CREMA_OK;
        if (err != CREMA_OK)
            crema_log_warn("stream_waits", CREMA_ID("stream", &stream->stream_id),
                           CREMA_TEXT("why", crema_err_text(err)));
    }
}

static const char *
s_cause(int why)
{
    return why == EAGAIN ? "it waits until others leave the spool: an agent serves 16,384 streams, "
                           "and 4,096 of each other user"
                         : strerror(why);
}

/* Reports what could not be read: by name as far as there is room, and a count of the rest. */
static void
s_report_faults(agent_inventory_t *self)
{
    crema_spool_fault_t faults[CREMA_WIRE_FAULTS_MAX - 1];
    Crema__Reason rows[CREMA_WIRE_FAULTS_MAX];
    const size_t room = CREMA_WIRE_FAULTS_MAX - 1;
    size_t all = crema_spool_faults(self->spool, faults, room);
    size_t n = all < room ? all : room;
    for (size_t i = 0; i < n; i++) {
        bool is_file = faults[i].file[0] != '\0';
        rows[i] = crema_reason(is_file ? CREMA_FAULT_FILE : CREMA_FAULT_SPOOL, faults[i].file,
                               s_cause(faults[i].why), 0);
    }
    if (all > n)
        rows[n] = crema_reason(CREMA_FAULT_MORE, "", "", all - n);
    crema_session_on_faults(self->session, n + (all > n), rows);
    if (n == 0 && self->warned_faults > 0)
        crema_log_info("readable_again", CREMA_INT("count", self->warned_faults));
    if (n > 0 && all != self->warned_faults)
        crema_log_warn("unreadable", CREMA_TEXT("file", faults[0].file),
                       CREMA_TEXT("why", rows[0].text), CREMA_INT("count", all));
    self->warned_faults = all;
}

/* Logs once what has gone wrong in the spool since the last call. */
static void
s_warn(agent_inventory_t *self)
{
    crema_spool_stats_t stats = crema_spool_stats(self->spool);
    if (stats.evicted > self->warned_evicted)
        crema_log_warn("spool_full", CREMA_INT("records_evicted", stats.evicted),
                       CREMA_INT("limit_b", self->spool_limit_b));
    if (stats.io_errors > self->warned_errors)
        crema_log_warn("spool_errors", CREMA_INT("count", stats.io_errors));
    if (stats.foreign_files > self->warned_foreign)
        crema_log_warn("foreign_files", CREMA_INT("count", stats.foreign_files));
    self->warned_evicted = stats.evicted;
    self->warned_errors = stats.io_errors;
    if (stats.foreign_files > self->warned_foreign)
        self->warned_foreign = stats.foreign_files;
}

void
agent_inventory_report(agent_inventory_t *self, int64_t now_ns)
{
    s_warn(self);
    s_report_streams(self, now_ns);
    s_report_faults(self);
}
