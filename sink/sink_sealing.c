#include "sink_sealing.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "crema_map.h"
#include "sink_report.h"
#include "sink_sealer.h"

#define SECOND_NS INT64_C(1000000000)
#define QUIET_NS (2 * SECOND_NS)
#define RETRY_FIRST_NS (5 * SECOND_NS)
#define RETRY_MAX 8

/* What a failed attempt leaves; a success removes it. */
typedef struct {
    crema_id_t run_id;
    int64_t retry_at_ns, delay_ns;
    unsigned failures;
    char why[512];
} failure_t;

struct sink_sealing {
    sink_store_t *store;
    const char *output_dir;
    sink_sealer_t *sealer;
    crema_map_t *failures; /* failure_t * by run_id */
    sink_report_t *report; /* of the last reaped process; its message points into it */
    char why[512];         /* or here, if it reported nothing */
};

crema_err_t
sink_sealing_new(sink_store_t *store, const char *output_dir, size_t runs_max,
                 sink_sealing_t **ret_self)
{
    sink_sealing_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->store = store;
    self->output_dir = output_dir;
    crema_err_t err = crema_map_new(runs_max, &self->failures);
    if (err == CREMA_OK)
        err = sink_sealer_new(runs_max, &self->sealer);
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
        size_t cursor = 0;
        failure_t *failure;
        while (self->failures && (failure = crema_map_next(self->failures, &cursor)))
            free(failure);
        crema_map_destroy(&self->failures);
        sink_sealer_destroy(&self->sealer);
        sink_report_destroy(&self->report);
        free(self);
    }
    *self_p = NULL;
}

/* ---- starting */

static bool
s_is_due(const sink_sealing_t *self, const sink_run_t *run, int64_t real_ns)
{
    if (!run->seal_asked || run->freed || (run->revision > 0 && !run->late))
        return false;
    const failure_t *failure = crema_map_find(self->failures, &run->run_id);
    if (failure && (failure->failures > RETRY_MAX || real_ns < failure->retry_at_ns))
        return false;
    return !sink_sealer_is_busy(self->sealer, &run->run_id);
}

static void
s_start(sink_sealing_t *self, const sink_run_t *run)
{
    char journal[PATH_MAX], output[PATH_MAX], name[37];
    if (sink_store_run_dir(self->store, &run->run_id, journal) != CREMA_OK)
        return;
    int n = snprintf(output, sizeof output, "%s/%s.h5", self->output_dir,
                     crema_id_uuid(&run->run_id, name));
    if (n < 0 || n >= (int)sizeof output)
        return;
    /* What cannot start now is still due at the next tick. */
    crema_err_t err = sink_sealer_start(self->sealer, &run->run_id, run->news, journal, output);
    (void)err;
}

void
sink_sealing_ask(sink_sealing_t *self, const crema_id_t *run_id, bool again, int64_t real_ns)
{
    const sink_run_t *run = sink_store_find(self->store, run_id);
    failure_t *failure = again ? crema_map_find(self->failures, run_id) : NULL;
    if (failure && real_ns >= failure->retry_at_ns) {
        failure->failures = 0;
        failure->delay_ns = 0;
    }
    if (run && s_is_due(self, run, real_ns))
        s_start(self, run);
}

void
sink_sealing_tick(sink_sealing_t *self, int64_t real_ns)
{
    size_t cursor = 0;
    const sink_run_t *run;
    while ((run = sink_store_next(self->store, &cursor))) {
        int64_t quiet_ns = real_ns - run->t_news_ns;
        if (s_is_due(self, run, real_ns) && (quiet_ns >= QUIET_NS || quiet_ns < 0))
            s_start(self, run);
    }
}

/* ---- ending */

static void
s_forget_failure(sink_sealing_t *self, const crema_id_t *run_id)
{
    free(crema_map_take(self->failures, run_id));
}

static void
s_note_failure(sink_sealing_t *self, const crema_id_t *run_id, const char *why, int64_t real_ns)
{
    failure_t *failure = crema_map_find(self->failures, run_id);
    if (!failure) {
        failure = calloc(1, sizeof *failure);
        if (!failure)
            return;
        failure->run_id = *run_id;
        if (crema_map_add(self->failures, run_id, failure) != CREMA_OK) {
            free(failure);
            return;
        }
    }
    failure->failures++;
    failure->delay_ns = failure->delay_ns ? 2 * failure->delay_ns : RETRY_FIRST_NS;
    failure->retry_at_ns = real_ns + failure->delay_ns;
    snprintf(failure->why, sizeof failure->why, "%s", why);
}

/* Why a process that reported nothing has failed. */
static void
s_explain(const sink_sealer_end_t *end, char *why, size_t size)
{
    if (WIFSIGNALED(end->status))
        snprintf(why, size, "the sealing process was ended by signal %d", WTERMSIG(end->status));
    else
        snprintf(why, size, "the sealing process ended with status %d and no result",
                 WEXITSTATUS(end->status));
}

static crema_err_t
s_keep(sink_sealing_t *self, const sink_sealer_end_t *end, const crema_msg_t *msg, int64_t real_ns)
{
    uint8_t *bytes;
    size_t size;
    crema_err_t err = crema_wire_encode(msg, &bytes, &size);
    if (err != CREMA_OK)
        return err;
    err = sink_store_keep_answer(self->store, &end->run_id, bytes, size);
    free(bytes);
    const sink_run_t *run = sink_store_find(self->store, &end->run_id);
    if (err != CREMA_OK || !run || run->news != end->puts)
        return err;
    sink_journal_sealed_t sealed = sink_report_journal(self->report);
    return sink_store_sealed(self->store, &end->run_id, &sealed, real_ns);
}

/* NULL: it went well and the report holds the result. */
static const char *
s_why(sink_sealing_t *self, const sink_sealer_end_t *end)
{
    sink_report_destroy(&self->report);
    if (sink_report_parse(end->line, &self->report) == CREMA_OK) {
        if (sink_report_why(self->report))
            return sink_report_why(self->report);
        if (WIFEXITED(end->status) && WEXITSTATUS(end->status) == 0)
            return NULL;
    }
    s_explain(end, self->why, sizeof self->why);
    return self->why;
}

bool
sink_sealing_reap(sink_sealing_t *self, int64_t real_ns, crema_msg_t *ret_msg)
{
    sink_sealer_end_t end;
    if (!sink_sealer_reap(self->sealer, &end))
        return false;
    *ret_msg = (crema_msg_t){.type = CREMA_MSG_SEALED};
    const char *why = s_why(self, &end);
    if (why) {
        s_note_failure(self, &end.run_id, why, real_ns);
        ret_msg->sealed = (crema_sealed_t){.run_id = end.run_id, .error = why};
        return true;
    }
    s_forget_failure(self, &end.run_id);
    ret_msg->sealed = sink_report_sealed(self->report, &end.run_id);
    /* The file is there whatever becomes of the note about it: without one the run is sealed once more. */
    crema_err_t err = s_keep(self, &end, ret_msg, real_ns);
    (void)err;
    return true;
}

bool
sink_sealing_answer(sink_sealing_t *self, const crema_id_t *run_id, uint8_t **ret_bytes,
                    size_t *ret_size)
{
    const sink_run_t *run = sink_store_find(self->store, run_id);
    const failure_t *failure = crema_map_find(self->failures, run_id);
    crema_msg_t msg = {.type = CREMA_MSG_SEALED, .sealed = {.run_id = *run_id}};
    if (run && run->freed)
        msg.sealed.error = "the run was sealed and its journal is no longer kept";
    else if (failure)
        msg.sealed.error = failure->why;
    else
        return run && run->revision > 0 &&
               sink_store_answer(self->store, run_id, ret_bytes, ret_size) == CREMA_OK;
    return crema_wire_encode(&msg, ret_bytes, ret_size) == CREMA_OK;
}
