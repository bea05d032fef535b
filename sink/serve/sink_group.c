#include <czmq.h>

#include "crema_clock.h"
#include "crema_log.h"
#include "sink_fs.h"
#include "sink_private.h"

void
sink_group_on_group(void *context, const sink_store_group_t *group)
{
    sink_t *self = context;
    sink_answers_durable(self->answers, &group->run->run_id, group->run->durable_appends);
    if (group->bytes == 0) /* renewed: nothing is new */
        return;
    self->counts.commits++;
    self->counts.committed_bytes += group->bytes;
    crema_histogram_add(&self->counts.sync, group->took_ns);
    crema_histogram_add(&self->counts.latency, group->waited_ns);
    if (!self->views || group->run->state.seal_asked)
        return;
    crema_err_t ignored = sink_views_feed(self->views, &group->run->run_id, group->end);
    (void)ignored; /* a run continues without a live file */
}

void
sink_group_acknowledge(sink_t *self)
{
    crema_stream_row_t rows[1024];
    size_t n;
    while ((n = sink_commit_take(sink_store_watermarks(self->store), rows, 1024)) > 0) {
        crema_stream_table_clear(self->table);
        for (size_t i = 0; i < n; i++)
            if (!sink_store_is_held(self->store, &rows[i].run_id))
                crema_stream_table_add(self->table, &rows[i]);
        const crema_msg_t msg = {.type = CREMA_MSG_COMMITTED, .committed.table = self->table};
        if (crema_stream_table_rows(self->table) > 0)
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
sink_group_on_event(void *context, const sink_store_event_t *event)
{
    sink_t *self = context;
    const char *name = c_events[event->type].name;
    if (event->type == SINK_STORE_ASIDE) {
        sink_answers_drop(self->answers, &event->run_id); /* what was appended is dropped */
        if (self->views)
            sink_views_yield(self->views, &event->run_id);
    }
    if (event->type == SINK_STORE_BACK)
        crema_log_info(name, CREMA_ID("run", &event->run_id), CREMA_TEXT("journal", event->text));
    else
        crema_log_error(name, CREMA_ID("run", &event->run_id), CREMA_TEXT("why", event->text),
                        CREMA_TEXT("remedy", c_events[event->type].remedy));
}

const char *
sink_group_why(crema_err_t err)
{
    return err == CREMA_ENOMEM ? sink_fs_why(err) : crema_err_text(err);
}

/* False: the loop must end. */
static bool
s_note(sink_t *self, crema_err_t err, uint64_t commits)
{
    if (err == CREMA_EIO) {
        self->broken = true;
        return false;
    }
    if (err != CREMA_OK) {
        const bool is_full = err == CREMA_ENOSPC;
        if (self->space != SINK_SPACE_FULL) { /* who waits for an answer is told why */
            const crema_msg_t msg = sink_trouble_full(self, NULL);
            sink_peers_broadcast(self->peers, &msg);
        }
        self->space = SINK_SPACE_FULL;
        crema_log_warn(is_full ? "journal_full" : "journal_waits",
                       CREMA_TEXT("store", self->config.store_dir),
                       CREMA_TEXT("why", sink_group_why(err)),
                       CREMA_INT("waiting_bytes", sink_store_pending_bytes(self->store)),
                       CREMA_TEXT("remedy", is_full ? "free some of its disk: it is retried "
                                                      "automatically"
                                                    : "give crema-sink more open files or memory: "
                                                      "it is retried automatically"));
    } else if (self->counts.commits != commits) {
        self->space = sink_store_space(self->store, &self->free_b);
    }
    sink_group_acknowledge(self);
    return true;
}

void
sink_group_commit(sink_t *self)
{
    const uint64_t commits = self->counts.commits;
    (void)s_note(self, sink_store_commit(self->store), commits);
}

static int
s_on_commit_due(zloop_t *loop, int timer, void *context)
{
    (void)loop;
    sink_t *self = context;
    if (timer != self->commit_timer) /* ended in the turn in which it was due */
        return 0;
    self->commit_due_ns = INT64_MAX;
    return sink_group_go_on(self) ? 0 : -1;
}

bool
sink_group_go_on(sink_t *self)
{
    const sink_store_pace_t pace = {self->config.commit_interval_ns,
                                    (size_t)self->config.commit_bytes};
    const uint64_t commits = self->counts.commits;
    int64_t due_ns = INT64_MAX;
    crema_err_t err, one;
    do {
        err = sink_store_end(self->store);
        one = err == CREMA_EIO ? err : sink_store_begin(self->store, &pace, &due_ns);
        if (one != CREMA_OK)
            err = one;
    } while (err == CREMA_OK && sink_store_has_ended(self->store));
    if (!s_note(self, err, commits))
        return false;
    self->on_durable(self);
    if (due_ns >= self->commit_due_ns)
        return true;
    int64_t wait_ns = due_ns - crema_clock_mono_ns();
    size_t wait_ms = wait_ns > 0 ? (size_t)((wait_ns + 999999) / 1000000) : 0;
    if (self->commit_due_ns != INT64_MAX)
        zloop_timer_end(self->loop, self->commit_timer);
    self->commit_timer = zloop_timer(self->loop, wait_ms, 1, s_on_commit_due, self);
    /* without a timer it is due with the next message, or tick */
    self->commit_due_ns = self->commit_timer < 0 ? INT64_MAX : due_ns;
    return true;
}

static int
s_on_synced(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    (void)loop, (void)item;
    return sink_group_go_on(context) ? 0 : -1;
}

int
sink_group_attach(sink_t *self)
{
    zmq_pollitem_t synced = {.fd = sink_store_fd(self->store), .events = ZMQ_POLLIN};
    self->commit_due_ns = INT64_MAX;
    return zloop_poller(self->loop, &synced, s_on_synced, self);
}
