#include "sink_sealing.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "crema_failpoint.h"
#include "crema_list.h"
#include "crema_map.h"
#include "sink_fs.h"
#include "sink_report.h"
#include "sink_sealer.h"

#define SECOND_NS INT64_C(1000000000)
#define QUIET_NS (2 * SECOND_NS)
#define BUSY_NS (60 * SECOND_NS) /* how long sealing waits for late records that keep coming */
#define PAUSE_FIRST_NS (2 * SECOND_NS)
#define PAUSE_MAX_NS (600 * SECOND_NS)
#define REST_NS (3600 * SECOND_NS)
#define RETRY_FIRST_NS (5 * SECOND_NS)
#define RETRY_MAX 8
/* A process has this long, and a second per MiB of the journal; twice as long after each failure.
 * Sealing 10^6 chunks takes 10 s. */
#define LIMIT_NS (120 * SECOND_NS)
#define WHY_BYTES 2048

/* What is remembered of a run that is being sealed or was sealed recently. */
typedef struct {
    crema_id_t run_id;
    crema_link_t queued;           /* waiting for a process */
    int64_t retry_at_ns, delay_ns; /* after a failure */
    unsigned failures;             /* since the last file */
    char why[WHY_BYTES];           /* of the last one */
    int64_t file_at_ns,
        pause_ns;  /* when the last file was made, and how long none is made after it; 0: none */
    uint64_t news; /* what the journal held at the last look */
    bool waits;    /* waiting for late records to end */
    int64_t news_at_ns, late_at_ns; /* when the last of them was noticed, and the first */
} pace_t;

struct sink_sealing {
    sink_store_t *store;
    const char *output_dir;
    int64_t memory_bytes;
    sink_sealer_t *sealer;
    crema_map_t *paces;    /* pace_t * by run_id */
    crema_link_t queue;    /* of them those that wait for a process */
    sink_report_t *report; /* of the process reaped last; its message points into it */
    crema_id_t reaped;     /* its run */
    char why[WHY_BYTES];   /* reason if it failed, or if an answer cannot be read */
};

crema_err_t
sink_sealing_new(sink_store_t *store, const char *output_dir, size_t runs_max, int64_t memory_bytes,
                 sink_sealing_t **ret_self)
{
    sink_sealing_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->store = store;
    self->output_dir = output_dir;
    self->memory_bytes = memory_bytes;
    crema_list_init(&self->queue);
    crema_err_t err = crema_map_new(runs_max, &self->paces);
    if (err == CREMA_OK)
        err = sink_sealer_new(memory_bytes, &self->sealer);
    if (err != CREMA_OK) {
        sink_sealing_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_sealing_destroy(sink_sealing_t **self_p)
{
    sink_sealing_t *self = *self_p;
    if (self) {
        crema_map_destroy_all(&self->paces, free);
        sink_sealer_destroy(&self->sealer);
        sink_report_destroy(&self->report);
        free(self);
    }
    *self_p = NULL;
}

/* NULL without memory. */
static pace_t *
s_pace(sink_sealing_t *self, const crema_id_t *run_id)
{
    crema_err_t err;
    pace_t *pace = crema_map_find(self->paces, run_id);
    if (!pace && (pace = crema_map_make(self->paces, run_id, sizeof *pace, &err)) != NULL)
        pace->run_id = *run_id;
    return pace;
}

/* ---- starting */

static bool
s_is_due(const sink_sealing_t *self, const sink_run_t *run, int64_t mono_ns)
{
    if (!run->state.seal_asked || run->freed || run->aside ||
        (run->state.revision > 0 && !run->state.late) ||
        !sink_store_may_seal(self->store, &run->run_id))
        return false;
    const pace_t *pace = crema_map_find(self->paces, &run->run_id);
    if (pace && crema_list_is_linked(&pace->queued))
        return false;
    if (pace && pace->failures > 0 && (pace->failures > RETRY_MAX || mono_ns < pace->retry_at_ns))
        return false;
    return !sink_sealer_is_busy(self->sealer, &run->run_id);
}

/* True if late records have ended or were waited for long enough, and the last file is old
 * enough. */
static bool
s_is_ripe(pace_t *pace, const sink_run_t *run, int64_t mono_ns)
{
    if (!pace->waits) {
        pace->waits = true;
        pace->late_at_ns = pace->news_at_ns = mono_ns;
    } else if (run->news != pace->news) {
        pace->news_at_ns = mono_ns;
    }
    pace->news = run->news;
    return mono_ns >= pace->file_at_ns + pace->pause_ns &&
           (mono_ns - pace->news_at_ns >= QUIET_NS || mono_ns - pace->late_at_ns >= BUSY_NS);
}

/* Journal and file of a run, as in the command line of `rebuild`. */
static void
s_paths(const sink_sealing_t *self, const crema_id_t *run_id, char journal[PATH_MAX],
        char output[PATH_MAX])
{
    char uuid[37], name[64];
    snprintf(name, sizeof name, "%s.h5", crema_id_uuid(run_id, uuid));
    sink_fs_path(self->output_dir, name, output);
    sink_store_run_dir(self->store, run_id, journal);
}

static int64_t
s_limit_ns(const pace_t *pace, const sink_run_t *run)
{
    int64_t limit_ns =
        crema_failpoint_wait("sink.seal_limit", LIMIT_NS) + (int64_t)(run->bytes >> 20) * SECOND_NS;
    return limit_ns << (pace->failures < 6 ? pace->failures : 6);
}

/* Seals the runs of the queue as far as processes can be started for them. */
static void
s_go_on(sink_sealing_t *self, int64_t mono_ns)
{
    char journal[PATH_MAX], output[PATH_MAX];
    for (pace_t *pace; (pace = CREMA_LIST_FIRST(&self->queue, pace_t, queued)) != NULL;) {
        const sink_run_t *run = sink_store_find(self->store, &pace->run_id);
        s_paths(self, &pace->run_id, journal, output);
        if (run && run->state.seal_asked && !run->freed && !run->aside &&
            sink_store_may_seal(self->store, &run->run_id)) {
            if (sink_sealer_start(self->sealer, &run->run_id, run->durable_news, journal, output) !=
                CREMA_OK)
                return;
            sink_sealer_limit(self->sealer, &run->run_id, s_limit_ns(pace, run), mono_ns);
        }
        crema_list_remove(&pace->queued);
    }
}

static void
s_start(sink_sealing_t *self, const sink_run_t *run, int64_t mono_ns)
{
    pace_t *pace = s_pace(self, &run->run_id);
    if (!pace)
        return; /* it is still due at the next tick */
    crema_list_append(&self->queue, &pace->queued);
    s_go_on(self, mono_ns);
}

void
sink_sealing_ask(sink_sealing_t *self, const crema_id_t *run_id, bool again, int64_t mono_ns)
{
    const sink_run_t *run = sink_store_find(self->store, run_id);
    pace_t *pace = again ? crema_map_find(self->paces, run_id) : NULL;
    if (pace && mono_ns >= pace->retry_at_ns) {
        pace->failures = 0;
        pace->delay_ns = 0;
    }
    if (run && s_is_due(self, run, mono_ns))
        s_start(self, run, mono_ns);
}

/* Forgets runs that are resting. */
static void
s_forget(sink_sealing_t *self, int64_t mono_ns)
{
    size_t cursor = 0;
    pace_t *pace;
    while ((pace = crema_map_next(self->paces, &cursor))) {
        const sink_run_t *run = sink_store_find(self->store, &pace->run_id);
        if (run && !run->freed && (run->state.late || run->state.revision == 0))
            continue;
        if (run && !run->freed && mono_ns - pace->file_at_ns < REST_NS)
            continue;
        crema_list_remove(&pace->queued);
        free(crema_map_take(self->paces, &pace->run_id));
        return; /* one at a time: removing an entry ends the iteration */
    }
}

void
sink_sealing_tick(sink_sealing_t *self, int64_t mono_ns)
{
    size_t cursor = 0;
    const sink_run_t *run;
    while ((run = sink_store_next(self->store, &cursor))) {
        if (!s_is_due(self, run, mono_ns))
            continue;
        pace_t *pace = crema_map_find(self->paces, &run->run_id);
        if (!pace && run->state.revision > 0)
            pace = s_pace(self, &run->run_id);
        if (!pace || pace->failures > 0 || s_is_ripe(pace, run, mono_ns))
            s_start(self, run, mono_ns);
    }
    s_go_on(self, mono_ns);
    sink_sealer_end_late(self->sealer, mono_ns);
    s_forget(self, mono_ns);
}

bool
sink_sealing_takes_clock(const sink_sealing_t *self, const sink_run_t *run)
{
    return !run->state.seal_asked ||
           (run->state.late && !sink_sealer_is_busy(self->sealer, &run->run_id));
}

/* ---- results */

static void
s_note_file(sink_sealing_t *self, const crema_id_t *run_id, uint64_t news, int64_t mono_ns)
{
    pace_t *pace = s_pace(self, run_id);
    if (!pace)
        return;
    pace->failures = 0;
    pace->delay_ns = pace->retry_at_ns = 0;
    pace->why[0] = '\0';
    pace->file_at_ns = mono_ns;
    pace->pause_ns = pace->pause_ns ? 2 * pace->pause_ns : PAUSE_FIRST_NS;
    if (pace->pause_ns > PAUSE_MAX_NS)
        pace->pause_ns = PAUSE_MAX_NS;
    const sink_run_t *run = sink_store_find(self->store, run_id);
    pace->news = run ? run->news : news;
    pace->waits = pace->news != news; /* something came while the file was being made */
    pace->late_at_ns = pace->news_at_ns = mono_ns;
}

static void
s_note_failure(sink_sealing_t *self, const crema_id_t *run_id, const char *why, int64_t mono_ns)
{
    pace_t *pace = s_pace(self, run_id);
    if (!pace)
        return;
    pace->failures++;
    pace->delay_ns = pace->delay_ns ? 2 * pace->delay_ns : RETRY_FIRST_NS;
    pace->retry_at_ns = mono_ns + pace->delay_ns;
    snprintf(pace->why, sizeof pace->why, "%s", why);
}

/* Describes what went wrong and how to make the file by hand. */
static void
s_explain(sink_sealing_t *self, const sink_sealer_end_t *end)
{
    char journal[PATH_MAX], output[PATH_MAX], memory[80] = "";
    const char *why = self->report ? sink_report_why(self->report) : NULL;
    if (end->late_ns > 0) {
        snprintf(self->why, sizeof self->why,
                 "the sealing process did not end within %lld s and was killed: does the file "
                 "system of the output directory answer (%.1024s)? It is tried again with twice "
                 "the time",
                 (long long)(end->late_ns / SECOND_NS), self->output_dir);
        return;
    }
    bool starved = WIFSIGNALED(end->status) || (why && strstr(why, crema_err_text(CREMA_ENOMEM)));
    if (starved && self->memory_bytes > 0)
        snprintf(memory, sizeof memory, " (it may have %lld MiB of memory: --seal-memory)",
                 (long long)(self->memory_bytes >> 20));
    if (why) { /* the reason already says what to do */
        snprintf(self->why, sizeof self->why, "%s%s", why, memory);
        return;
    }
    s_paths(self, &end->run_id, journal, output);
    int n = snprintf(self->why, sizeof self->why,
                     "the sealing process was ended by %s %d and gave no result%s; it is tried "
                     "again, or by hand: crema-sink rebuild %s --output %s",
                     WIFSIGNALED(end->status) ? "signal" : "status",
                     WIFSIGNALED(end->status) ? WTERMSIG(end->status) : WEXITSTATUS(end->status),
                     memory, journal, output);
    if (n < 0 || (size_t)n >= sizeof self->why) /* half a command line is of no use */
        snprintf(self->why, sizeof self->why, "the sealing process gave no result%s", memory);
}

static crema_err_t
s_keep(sink_sealing_t *self, const sink_sealer_end_t *end, const crema_msg_t *msg, int64_t real_ns)
{
    uint8_t *bytes;
    size_t size;
    const sink_run_t *run = sink_store_find(self->store, &end->run_id);
    if (!run || run->news != end->puts)
        return CREMA_OK;
    crema_err_t err = crema_wire_encode(msg, &bytes, &size);
    if (err != CREMA_OK)
        return err;
    err = sink_store_keep_answer(self->store, &end->run_id, bytes, size);
    free(bytes);
    if (err != CREMA_OK)
        return err;
    sink_journal_sealed_t sealed = sink_report_journal(self->report);
    return sink_store_sealed(self->store, &end->run_id, &sealed, real_ns);
}

/* NULL: success, and the report holds the result. */
static const char *
s_why(sink_sealing_t *self, const sink_sealer_end_t *end)
{
    sink_report_destroy(&self->report);
    if (sink_report_parse(end->line, &self->report) == CREMA_OK) {
        if (!sink_report_why(self->report) && WIFEXITED(end->status) &&
            WEXITSTATUS(end->status) == 0)
            return NULL;
    }
    s_explain(self, end);
    return self->why;
}

bool
sink_sealing_reap(sink_sealing_t *self, int64_t mono_ns, int64_t real_ns, crema_msg_t *ret_msg)
{
    sink_sealer_end_t end;
    const bool ended = sink_sealer_reap(self->sealer, &end);
    s_go_on(self, mono_ns);
    if (!ended)
        return false;
    self->reaped = end.run_id;
    *ret_msg = (crema_msg_t){.type = CREMA_MSG_SEALED};
    const char *why = s_why(self, &end);
    if (why) {
        s_note_failure(self, &end.run_id, why, mono_ns);
        ret_msg->sealed =
            (Crema__Sealed){.run_id = crema_id_field(&self->reaped), .error = (char *)why};
        return true;
    }
    s_note_file(self, &end.run_id, end.puts, mono_ns);
    ret_msg->sealed = sink_report_sealed(self->report, &self->reaped);
    /* The file exists even if it cannot be noted in the journal: then the run is sealed once
     * more. */
    crema_err_t err = s_keep(self, &end, ret_msg, real_ns);
    (void)err;
    return true;
}

void
sink_sealing_count(const sink_sealing_t *self, size_t *ret_running, size_t *ret_waiting)
{
    *ret_running = sink_sealer_count(self->sealer);
    *ret_waiting = 0;
    for (const crema_link_t *at = self->queue.next; at != &self->queue; at = at->next)
        ++*ret_waiting;
}

/* The answer that the journal keeps, or why it cannot be read. */
static bool
s_kept_answer(sink_sealing_t *self, const crema_id_t *run_id, crema_arena_t *arena,
              crema_msg_t *ret_msg)
{
    char journal[PATH_MAX], output[PATH_MAX];
    uint8_t *bytes;
    size_t size;
    crema_err_t err = sink_store_answer(self->store, run_id, &bytes, &size);
    const char *why = sink_fs_why(err);
    if (err == CREMA_OK) {
        err = crema_wire_decode_kept(bytes, size, arena, ret_msg);
        if (err == CREMA_OK && ret_msg->type != CREMA_MSG_SEALED)
            err = CREMA_EPROTO;
        why = crema_err_text(err);
        free(bytes);
    }
    if (err == CREMA_OK)
        return true;
    if (err == CREMA_ENOMEM || sink_store_is_pending(self->store, run_id))
        return false; /* not now, or it is being written */
    s_paths(self, run_id, journal, output);
    snprintf(self->why, sizeof self->why,
             "the run is sealed, but its answer cannot be read (%.800s/" SINK_STORE_ANSWER
             ": %.128s); its file was made as %.800s",
             journal, why, output);
    *ret_msg = (crema_msg_t){.type = CREMA_MSG_SEALED,
                             .sealed = {.run_id = crema_id_field(run_id), .error = self->why}};
    return true;
}

bool
sink_sealing_answer(sink_sealing_t *self, const crema_id_t *run_id, crema_arena_t *arena,
                    crema_msg_t *ret_msg)
{
    const sink_run_t *run = sink_store_find(self->store, run_id);
    const pace_t *pace = crema_map_find(self->paces, run_id);
    crema_msg_t msg = {.type = CREMA_MSG_SEALED, .sealed.run_id = crema_id_field(run_id)};
    if (run && run->state.life == CREMA_LIFE_ENDED && run->state.revision > 0 &&
        !run->state.seal_asked)
        return false; /* the existing file does not contain the run's end */
    if (run && run->freed)
        msg.sealed.error = "the run was sealed and its journal is no longer kept";
    else if (run && run->aside)
        msg.sealed.error = (char *)run->aside;
    else if (pace && pace->failures > 0)
        msg.sealed.error = (char *)pace->why;
    else
        return run && run->state.revision > 0 && s_kept_answer(self, run_id, arena, ret_msg);
    *ret_msg = msg;
    return true;
}
