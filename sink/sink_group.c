#include <errno.h>
#include <limits.h>
#include <string.h>

#include <czmq.h>

#include "crema_clock.h"
#include "crema_log.h"
#include "sink_private.h"

static void
s_on_group(void *context, const sink_run_t *run, const sink_journal_t *journal)
{
    sink_t *self = context;
    char dir[PATH_MAX];
    if (!self->views || run->seal_asked ||
        sink_store_run_dir(self->store, &run->run_id, dir) != CREMA_OK)
        return;
    crema_err_t err = sink_views_feed(self->views, &run->run_id, journal, dir);
    if (err != CREMA_OK)
        crema_log_warn("live_view_given_up", CREMA_ID("run", &run->run_id),
                       CREMA_TEXT("why", crema_err_text(err)));
}

/* Tells every aggregator what is durable by now. */
static void
s_acknowledge(sink_t *self)
{
    crema_stream_row_t rows[1024];
    size_t n;
    while ((n = sink_commit_take(sink_store_watermarks(self->store), rows, 1024)) > 0) {
        crema_msg_t msg = {.type = CREMA_MSG_COMMITTED, .table = {n, rows}};
        sink_peers_broadcast(self->peers, &msg);
    }
}

bool
sink_group_commit(sink_t *self)
{
    size_t bytes = sink_store_pending_bytes(self->store);
    crema_err_t err = sink_store_commit(self->store, s_on_group, self);
    self->t_commit_ns = crema_clock_mono_ns();
    if (err == CREMA_EIO) {
        self->broken = true;
        crema_log_error("journal_broken", CREMA_TEXT("store", self->config.store_dir),
                        CREMA_TEXT("why", strerror(errno)));
        return false;
    }
    if (err != CREMA_OK) {
        self->space = SINK_SPACE_FULL;
        crema_log_warn("journal_full", CREMA_TEXT("store", self->config.store_dir),
                       CREMA_TEXT("why", crema_err_text(err)), CREMA_INT("waiting_bytes", bytes));
        return true;
    }
    if (bytes) {
        self->counts.commits++;
        self->counts.committed_bytes += bytes;
    }
    s_acknowledge(self);
    return true;
}

static int
s_on_commit_due(zloop_t *loop, int timer, void *context)
{
    (void)loop, (void)timer;
    sink_t *self = context;
    self->commit_armed = false;
    return sink_group_commit(self) ? 0 : -1;
}

bool
sink_group_commit_soon(sink_t *self)
{
    size_t pending = sink_store_pending_bytes(self->store);
    if (pending == 0) {
        s_acknowledge(self);
        return true;
    }
    int64_t wait_ns = self->t_commit_ns + self->config.commit_interval_ns - crema_clock_mono_ns();
    if (wait_ns <= 0 || pending >= (size_t)self->config.commit_bytes)
        return sink_group_commit(self);
    if (!self->commit_armed) {
        size_t wait_ms = (size_t)((wait_ns + 999999) / 1000000);
        self->commit_armed = zloop_timer(self->loop, wait_ms, 1, s_on_commit_due, self) >= 0;
    }
    return self->commit_armed || sink_group_commit(self);
}
