#include <czmq.h>

#include "crema_clock.h"
#include "crema_log.h"
#include "sink_private.h"

#define REST_NS ((int64_t)1000 * 1000)

static void
s_on_group(void *context, const sink_run_t *run, const sink_journal_t *journal)
{
    sink_t *self = context;
    if (!self->views || run->seal_asked)
        return;
    crema_err_t ignored =
        sink_views_feed(self->views, &run->run_id, sink_journal_position(journal));
    (void)ignored; /* a run continues without a live file */
}

/* Sends every aggregator what is durable by now. */
static void
s_acknowledge(sink_t *self)
{
    crema_stream_row_t rows[1024];
    size_t n;
    while ((n = sink_commit_take(sink_store_watermarks(self->store), rows, 1024)) > 0) {
        size_t n_rows = 0;
        for (size_t i = 0; i < n; i++)
            if (!sink_store_is_held(self->store, &rows[i].run_id))
                rows[n_rows++] = rows[i];
        if (n_rows == 0)
            continue;
        crema_msg_t msg = {.type = CREMA_MSG_COMMITTED, .table = {n_rows, rows}};
        sink_peers_broadcast(self->peers, &msg);
    }
}

/* Log event and remedy for each store event. */
static const struct {
    const char *name, *remedy;
} c_events[] = {
    [SINK_STORE_ASIDE] = {"run_set_aside", "fix the cause, it is retried every 5 s; or move the "
                                           "run's directory out of the store"},
    [SINK_STORE_BACK] = {"run_taken_back", ""},
    [SINK_STORE_DAMAGED] = {"journal_damaged", "check the disk; the run's verdict says what is "
                                               "lost"},
    [SINK_STORE_RUN_FULL] = {"run_full", "raise --run-limit before the next run"},
    [SINK_STORE_REFUSED] = {"stream_refused", "raise --retain if spools may come this late"},
    [SINK_STORE_STRAYS] = {"streams_of_another_run", "check whether a directory of the store or of "
                                                     "a spool was copied"},
    [SINK_STORE_BROKEN] = {"journal_broken", "check the disk, then start crema-sink again: what "
                                             "was not acknowledged is in the spools"},
};

void
sink_group_log_events(sink_t *self)
{
    sink_store_event_t event;
    while (sink_store_event(self->store, &event)) {
        const char *name = c_events[event.type].name;
        if (event.type == SINK_STORE_BACK)
            crema_log_info(name, CREMA_ID("run", &event.run_id), CREMA_TEXT("journal", event.text));
        else
            crema_log_error(name, CREMA_ID("run", &event.run_id), CREMA_TEXT("why", event.text),
                            CREMA_TEXT("remedy", c_events[event.type].remedy));
    }
}

/* The disk has as much time for others as a commit took, at least REST_NS, at most an interval. One
 * that found it full may have cost nothing and helps nobody. */
static int64_t
s_rest_ns(const sink_t *self, crema_err_t err, int64_t took_ns)
{
    const int64_t most_ns = self->config.commit_interval_ns;
    const int64_t rest_ns = took_ns > REST_NS ? took_ns : REST_NS;
    return err == CREMA_OK && rest_ns < most_ns ? rest_ns : most_ns;
}

bool
sink_group_commit(sink_t *self)
{
    size_t bytes = sink_store_pending_bytes(self->store);
    const int64_t began_ns = crema_clock_mono_ns();
    crema_err_t err = sink_store_commit(self->store, s_on_group, self);
    const int64_t now_ns = crema_clock_mono_ns();
    if (bytes || err != CREMA_OK)
        self->t_rested_ns = now_ns + s_rest_ns(self, err, now_ns - began_ns);
    if (err == CREMA_EIO) {
        self->broken = true;
        sink_group_log_events(self);
        return false;
    }
    if (err != CREMA_OK) {
        self->space = SINK_SPACE_FULL;
        crema_log_warn("journal_full", CREMA_TEXT("store", self->config.store_dir),
                       CREMA_TEXT("why", crema_err_text(err)), CREMA_INT("waiting_bytes", bytes),
                       CREMA_TEXT("remedy", "free some of its disk: it is retried automatically"));
        return true;
    }
    if (bytes) {
        self->counts.commits++;
        self->counts.committed_bytes += bytes;
        crema_histogram_add(&self->counts.sync, now_ns - began_ns);
        crema_histogram_add(&self->counts.latency,
                            now_ns - (self->t_pending_ns ? self->t_pending_ns : began_ns));
        self->t_pending_ns = 0;
        self->space = sink_store_space(self->store, &self->free_b);
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
    return sink_group_commit_soon(self) ? 0 : -1; /* a commit may have come meanwhile */
}

bool
sink_group_commit_soon(sink_t *self)
{
    size_t pending = sink_store_pending_bytes(self->store);
    if (pending == 0) {
        s_acknowledge(self);
        return true;
    }
    int64_t wait_ns = self->t_rested_ns - crema_clock_mono_ns();
    if (wait_ns <= 0 || pending >= (size_t)self->config.commit_bytes)
        return sink_group_commit(self);
    if (!self->commit_armed) {
        size_t wait_ms = (size_t)((wait_ns + 999999) / 1000000);
        self->commit_armed = zloop_timer(self->loop, wait_ms, 1, s_on_commit_due, self) >= 0;
    }
    return self->commit_armed || sink_group_commit(self);
}
