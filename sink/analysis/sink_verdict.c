#include "sink_verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_json.h"
#include "crema_note.h"
#include "crema_reserved.h"
#include "sink_bound.h"
#include "sink_deaths.h"
#include "sink_input.h"
#include "sink_reasons.h"
#include "sink_verdict_writers.h"

#define FILE_BYTES 4096
#define SENTENCE_BYTES 2048
struct sink_verdict {
    sink_reasons_t *reasons, *notes;
    int64_t loss;
};

void
sink_verdict_destroy(sink_verdict_t **self_p)
{
    sink_verdict_t *self = *self_p;
    if (!self)
        return;
    sink_reasons_destroy(&self->reasons);
    sink_reasons_destroy(&self->notes);
    free(self);
    *self_p = NULL;
}

/* ---- collecting */

/* Takes the aggregator's reasons, without streams that have ended since. */
static crema_err_t
s_take_verdict(sink_verdict_t *self, const sink_decoder_t *run)
{
    Crema__Reason *const *reasons;
    size_t n = sink_meta_reasons(sink_decoder_meta(run), &reasons);
    bool listed = crema_writers_parts(sink_meta_list(sink_decoder_meta(run))) > 0;
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < n && err == CREMA_OK; i++) {
        const sink_stream_t *stream = sink_decoder_find(run, reasons[i]->subject);
        if (strcmp(reasons[i]->code, "stream_not_closed") == 0 && stream && stream->closed)
            continue;
        if (listed && sink_verdict_is_by_list(reasons[i]->code))
            continue;
        err = sink_reasons_add(self->reasons, reasons[i]->code, reasons[i]->subject,
                               reasons[i]->count, "%s", reasons[i]->text);
    }
    return err;
}

static bool
s_is_killed_scheduler(const sink_stream_t *stream)
{
    return stream->kind == CREMA_STREAM_SCHEDULER && stream->closed &&
           stream->end == CREMA_END_WRITER_GONE;
}

static bool
s_lost_its_scheduler(const sink_decoder_t *run)
{
    bool lost = false;
    for (size_t i = 0; i < sink_decoder_streams(run) && !lost; i++)
        lost = s_is_killed_scheduler(sink_decoder_stream(run, i));
    return lost;
}

static crema_err_t
s_take_stream(sink_verdict_t *self, const sink_decoder_t *run, const sink_stream_t *stream,
              const sink_deaths_t *deaths)
{
    const char *worker = sink_dict_text(sink_decoder_dict(run), CREMA_DICT_WORKER, stream->worker);
    uint64_t lost = stream->lost + stream->dropped + stream->torn;
    char uuid[37];
    crema_id_uuid(&stream->id, uuid);
    crema_err_t err = CREMA_OK;
    self->loss = sink_bound_sum(self->loss, lost);
    if (!stream->closed) {
        err = sink_reasons_add(self->reasons, "stream_not_closed", uuid, 0,
                               "the last record of %s is not known",
                               worker[0] ? worker : "this stream");
    }
    if (err == CREMA_OK && lost > 0) {
        err = sink_reasons_add(self->reasons, "records_lost", uuid, lost,
                               "%llu records of %s are lost; /gaps lists them with the cause",
                               (unsigned long long)lost, worker[0] ? worker : "this stream");
    }
    bool of_tasks = stream->kind == CREMA_STREAM_WORKER || stream->kind == CREMA_STREAM_SCHEDULER;
    if (err == CREMA_OK && stream->closed && stream->end == CREMA_END_WRITER_GONE && of_tasks) {
        char text[SENTENCE_BYTES];
        sink_deaths_tell(deaths, stream->worker, worker[0] ? worker : "the writer", text,
                         sizeof text);
        bool is_scheduler = s_is_killed_scheduler(stream);
        err = sink_reasons_add(self->reasons, "writer_killed",
                               worker[0]      ? worker
                               : is_scheduler ? "the scheduler"
                                              : uuid,
                               0, "%s",
                               is_scheduler ? "the scheduler was killed or restarted; what it saw "
                                              "after its last record is not known"
                                            : text);
    }
    return err;
}

static crema_err_t
s_take_workers(sink_verdict_t *self, const sink_decoder_t *run, const sink_facts_t *facts,
               bool is_damaged)
{
    crema_err_t err = CREMA_OK;
    for (uint32_t i = 0; i < facts->n_workers && err == CREMA_OK; i++) {
        const char *worker = sink_dict_text(sink_decoder_dict(run), CREMA_DICT_WORKER, i);
        if (!facts->workers[i].is_member || facts->workers[i].has_stream)
            continue;
        err = is_damaged
                  ? sink_reasons_add(self->reasons, "records_lost", worker, 0,
                                     "the journal is damaged, and what can be read of it has "
                                     "nothing that %s recorded",
                                     worker)
                  : sink_reasons_add(self->reasons, "worker_without_stream", worker, 0,
                                     "%s was in the cluster and recorded nothing", worker);
    }
    return err;
}

/* Reports limits that were met: what did not fit is missing in the file. */
static crema_err_t
s_take_limits(sink_verdict_t *self, const crema_limits_t *limits)
{
    crema_err_t err = CREMA_OK;
    for (int i = 0; i < CREMA_LIMIT_COUNT && err == CREMA_OK; i++) {
        const crema_limit_t *limit = crema_limit((crema_limit_id_t)i);
        if (limits->met[i] == 0)
            continue;
        err = sink_reasons_add(self->reasons, "limit_met", limit->name, limits->met[i],
                               "the limit of %llu %s was met: %s",
                               (unsigned long long)limits->limit[i], limit->unit, limit->lost);
    }
    uint64_t lost = limits->met[CREMA_LIMIT_STREAMS];
    self->loss = sink_bound_sum(self->loss, lost);
    return err;
}

/* Reports given attributes that only the sink may write: they are not in the file. */
static crema_err_t
s_take_refused(sink_verdict_t *self, const sink_decoder_t *run)
{
    const sink_texts_t *given = sink_meta_attributes(sink_decoder_meta(run));
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < sink_texts_count(given) && err == CREMA_OK; i++)
        if (crema_reserved(sink_texts_name(given, i)))
            err = sink_reasons_add(
                self->notes, CREMA_NOTE_ATTRIBUTE_REFUSED, sink_texts_name(given, i), 0,
                "only the sink writes this attribute; the value given for it was ignored");
    return err;
}

/* Reports files that coffea dropped before it made chunks of them, according to the collector. */
static crema_err_t
s_take_unopened(sink_verdict_t *self, const sink_decoder_t *run)
{
    const char *list =
        sink_texts_find(sink_meta_attributes(sink_decoder_meta(run)), "coffea.dropped_files");
    crema_err_t err = CREMA_OK;
    for (const char *at = list ? crema_json_first(list) : NULL; at && err == CREMA_OK;
         at = crema_json_after(at)) {
        char file[FILE_BYTES];
        if (crema_json_get_text(at, file, sizeof file) == CREMA_OK)
            err = sink_reasons_add(
                self->notes, CREMA_NOTE_INPUT_DROPPED, file, 0,
                "nothing of this file is in the result: coffea could not open it and "
                "continued without it");
    }
    return err;
}

/* Where records of writers are missing, chunks, and results that were used again, are among them:
 * nothing helps against that. */
static const char *
s_why_unseen(const sink_verdict_t *self, const sink_decoder_t *run)
{
    const Crema__Reason *reasons;
    if (s_lost_its_scheduler(run))
        return "the scheduler was restarted, and what ran after that was not recorded";
    if (sink_reasons_all(self->reasons, &reasons) > 0)
        return "records of this run are missing, as the other reasons say, and these may be among "
               "them";
    return "the logs of their processes say why not; a Runner in another process needs "
           "checkpointer=mc.checkpointer";
}

/* Reports chunks that coffea counted, in its report or its results, and that were not recorded;
 * results that were used again; and files whose chunks coffea dropped. */
static crema_err_t
s_take_input(sink_verdict_t *self, const sink_decoder_t *run, const sink_facts_t *facts)
{
    sink_input_t input;
    crema_err_t err = sink_input_take(&input, facts, run);
    if (err == CREMA_OK && input.reported > input.recorded) {
        err = sink_reasons_add(
            self->reasons, "chunks_unseen", "run", (uint64_t)(input.reported - input.recorded),
            "coffea reports %lld chunks, of which %lld were recorded: %s",
            (long long)input.reported, (long long)input.recorded, s_why_unseen(self, run));
    }
    if (err == CREMA_OK && input.reused > 0)
        err = sink_reasons_add(
            self->notes, CREMA_NOTE_RESULT_REUSED, "run", (uint64_t)input.reused,
            "%lld results of chunks were used again, since Dask still had them: the result counts "
            "their events once more, this file does not",
            (long long)input.reused);
    for (size_t i = 0; i < input.n_dropped && err == CREMA_OK; i++) {
        const sink_dropped_t *of = &input.dropped[i];
        const char *file = sink_dict_text(sink_decoder_dict(run), CREMA_DICT_FILE, of->file);
        err = sink_reasons_add(
            self->notes, CREMA_NOTE_INPUT_DROPPED, file[0] ? file : "unknown file",
            (uint64_t)of->events,
            "%lld events of this file are not in the result: %lld of its chunks failed, and "
            "coffea continued without them",
            (long long)of->events, (long long)of->chunks);
    }
    sink_input_clear(&input);
    return err;
}

/* Reports columns that a writer could not fill because its software versions lack the data. */
static crema_err_t
s_take_unavailable(sink_verdict_t *self, const sink_decoder_t *run)
{
    const size_t n = sizeof CREMA_UNAVAILABLE_METRIC - 1;
    const sink_dict_t *dict = sink_decoder_dict(run);
    size_t names = sink_dict_count(dict, crema_dict_table(CREMA_DICT_METRIC));
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < names && err == CREMA_OK; i++) {
        const char *name = sink_dict_text(dict, CREMA_DICT_METRIC, (uint32_t)i);
        if (strncmp(name, CREMA_UNAVAILABLE_METRIC, n) == 0)
            err = sink_reasons_add(
                self->notes, CREMA_NOTE_COLUMNS_UNAVAILABLE, name + n, 0,
                "a worker or the scheduler could not record it: Dask, coffea or uproot "
                "there do not provide what it needs; everything else was recorded");
    }
    return err;
}

/* Called last: it depends on whether anything else is missing. */
static crema_err_t
s_take_damage(sink_verdict_t *self, const sink_decoder_t *run, const sink_damage_t *damage)
{
    const Crema__Reason *reasons;
    if (damage->bytes == 0 && damage->frames == 0)
        return CREMA_OK;
    bool healed = damage->is_before_seal && sink_verdict_reasons(self, &reasons) == 0 &&
                  sink_meta_start_ns(sink_decoder_meta(run)) != 0 &&
                  sink_verdict_names_all_writers(run) && sink_decoder_has_agents(run);
    const bool has_file = damage->unread && damage->unread[0];
    return sink_reasons_add(
        healed ? self->notes : self->reasons, healed ? CREMA_NOTE_JOURNAL_DAMAGED : "records_lost",
        "journal", damage->frames,
        "%llu bytes of the journal cannot be read%s%s%s, %llu of its entries are "
        "missing%s",
        (unsigned long long)damage->bytes, has_file ? " (" : "", has_file ? damage->unread : "",
        has_file ? ")" : "", (unsigned long long)damage->frames,
        healed ? "; all records are in the file: they were delivered again" : "");
}

/* Reports what is worth knowing of workers that went: those that were killed when their records
 * were complete, and chunks on which several ended. */
static crema_err_t
s_take_deaths(sink_verdict_t *self, const sink_decoder_t *run, const sink_facts_t *facts,
              const sink_deaths_t *deaths)
{
    char text[SENTENCE_BYTES];
    const char *file;
    size_t workers;
    crema_err_t err = CREMA_OK;
    for (uint32_t w = 0; w < facts->n_workers && err == CREMA_OK; w++) {
        const char *name = sink_dict_text(sink_decoder_dict(run), CREMA_DICT_WORKER, w);
        if (sink_deaths_killed_after(deaths, w))
            err = sink_reasons_add(
                self->notes, CREMA_NOTE_KILLED_AFTER_RETIREMENT, name, 0,
                "%s had left and was then killed by signal %d; its records are complete", name,
                (int)facts->workers[w].signal);
    }
    for (size_t i = 0;
         err == CREMA_OK && sink_deaths_deadly(deaths, i, &file, &workers, text, sizeof text); i++)
        err = sink_reasons_add(self->notes, CREMA_NOTE_CHUNK_ENDED_WORKERS,
                               file[0] ? file : "unknown file", workers, "%s", text);
    return err;
}

crema_err_t
sink_verdict_new(const sink_decoder_t *run, const sink_facts_t *facts, const sink_damage_t *damage,
                 sink_verdict_t **ret_self)
{
    const bool is_damaged = damage->bytes > 0 || damage->frames > 0;
    sink_verdict_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = sink_reasons_new(&self->reasons);
    if (err == CREMA_OK)
        err = sink_reasons_new(&self->notes);
    if (err == CREMA_OK)
        err = s_take_verdict(self, run);
    sink_deaths_t *deaths = NULL;
    if (err == CREMA_OK)
        err = sink_deaths_new(facts, run, &deaths);
    for (size_t i = 0; i < sink_decoder_streams(run) && err == CREMA_OK; i++)
        err = s_take_stream(self, run, sink_decoder_stream(run, i), deaths);
    if (err == CREMA_OK)
        err = s_take_deaths(self, run, facts, deaths);
    sink_deaths_destroy(&deaths);
    if (err == CREMA_OK && sink_decoder_streams(run) == 0)
        err = sink_reasons_add(self->reasons, "agent_never_seen", "", 0,
                               "the file has no stream of this run");
    if (err == CREMA_OK)
        err = s_take_workers(self, run, facts, is_damaged);
    if (err == CREMA_OK)
        err = sink_verdict_take_writers(run, facts, is_damaged, self->reasons, &self->loss);
    if (err == CREMA_OK)
        err = s_take_limits(self, sink_decoder_limits(run));
    if (err == CREMA_OK && !sink_meta_ended(sink_decoder_meta(run)))
        err = sink_reasons_add(self->reasons, "run_not_ended", "run", 0,
                               "the end of the run was never announced");
    else if (err == CREMA_OK && !sink_meta_judged(sink_decoder_meta(run)))
        err = sink_reasons_add(
            self->reasons, "no_verdict", "run", 0,
            "the run was ended, but no aggregator confirmed that all records had arrived");
    if (err == CREMA_OK)
        err = s_take_refused(self, run);
    if (err == CREMA_OK)
        err = s_take_input(self, run, facts);
    if (err == CREMA_OK)
        err = s_take_unopened(self, run);
    if (err == CREMA_OK)
        err = s_take_unavailable(self, run);
    if (err == CREMA_OK)
        err = s_take_damage(self, run, damage);
    if (err != CREMA_OK)
        sink_verdict_destroy(&self);
    else
        *ret_self = self;
    return err;
}

crema_err_t
sink_verdict_take_budget(sink_verdict_t *self, const sink_budget_t *budget)
{
    if (!sink_budget_is_open(budget->residual_s, budget->cap_s))
        return CREMA_OK;
    return sink_reasons_add(
        self->notes, CREMA_NOTE_BUDGET_OPEN, "run", 0,
        "the parts of the time budget are %.1f %% %s than the run's %.1f thread-seconds: what the "
        "tasks metered and when they ran contradict each other, or records are missing",
        fabs(100 * budget->residual_s / budget->cap_s), budget->residual_s < 0 ? "more" : "less",
        budget->cap_s);
}

/* ---- results */

size_t
sink_verdict_reasons(const sink_verdict_t *self, const Crema__Reason **ret_reasons)
{
    return sink_reasons_all(self->reasons, ret_reasons);
}

size_t
sink_verdict_notes(const sink_verdict_t *self, const Crema__Reason **ret_notes)
{
    return sink_reasons_all(self->notes, ret_notes);
}

const char *
sink_verdict_word(const sink_verdict_t *self)
{
    const Crema__Reason *ignored;
    return sink_verdict_reasons(self, &ignored) == 0 ? "COMPLETE" : "PARTIAL";
}

crema_err_t
sink_verdict_json(const sink_verdict_t *self, sink_verdict_part_t part, size_t size,
                  char **ret_json)
{
    char *text = malloc(size), *one = malloc(size);
    if (!text || !one || size < 3) {
        free(text);
        free(one);
        return CREMA_ENOMEM;
    }
    crema_json_t json = crema_json_begin(text, size);
    crema_json_open(&json, NULL, '[');
    bool room = part == SINK_VERDICT_NOTES || sink_reasons_put(self->reasons, &json, one, size);
    if (room && part != SINK_VERDICT_REASONS)
        (void)sink_reasons_put(self->notes, &json, one, size);
    crema_json_close(&json, ']');
    free(one);
    *ret_json = text;
    return CREMA_OK;
}

int64_t
sink_verdict_loss(const sink_verdict_t *self)
{
    return self->loss;
}
