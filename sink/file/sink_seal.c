#include "sink_seal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink_both.h"
#include "sink_fs.h"
#include "sink_scratch.h"
#include "sink_seal_impl.h"
#include "sink_summary.h"

/* ---- reading the journal into rows */

static crema_err_t
s_on_decoded(void *context, crema_table_id_t table, const uint8_t *rows, size_t n)
{
    return sink_tables_append(((sink_seal_t *)context)->tables, table, rows, n);
}

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    return sink_decoder_msg(((sink_seal_t *)context)->run, msg);
}

static crema_err_t
s_on_writers(void *context, const Crema__RunWriters *msg)
{
    return sink_decoder_writers(((sink_seal_t *)context)->run, msg);
}

static crema_err_t
s_on_sealed(void *context, const sink_journal_sealed_t *sealed)
{
    ((sink_seal_t *)context)->sealed = *sealed;
    return CREMA_OK;
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    return sink_decoder_put(((sink_seal_t *)context)->run, put);
}

static crema_err_t
s_on_mark(void *context, const sink_journal_mark_t *mark)
{
    return sink_decoder_mark(((sink_seal_t *)context)->run, mark);
}

static crema_err_t
s_on_clock(void *context, const Crema__ClockSample *sample)
{
    sink_seal_t *self = context;
    crema_err_t err = sink_offset_add(self->offset, sample);
    return err == CREMA_OK ? sink_decoder_clock(self->run, sample) : err;
}

/* After the messages, so that every record is decoded with the final rules. */
static crema_err_t
s_read(sink_seal_t *self, const char *journal_dir)
{
    const sink_journal_visitor_t records = {
        .context = self, .put = s_on_put, .clock = s_on_clock, .mark = s_on_mark};
    crema_err_t err = sink_journal_read(journal_dir, &records, &self->report);
    if (err == CREMA_OK)
        err = sink_decoder_finish(self->run);
    if (err == CREMA_ENOSPC) { /* rows are spilled to a file */
        snprintf(self->why, self->why_size, "could not keep rows in %s: %s",
                 sink_tables_dir(self->tables), strerror(ENOSPC));
        return err;
    }
    return err == CREMA_OK ? err : sink_seal_fail(self, err, "could not read the journal");
}

/* ---- completing the rows */

/* coffea's report comes as attributes; its numbers also become rows of /custom, next to the
 * user's own metrics. */
static crema_err_t
s_add_coffea_report(sink_seal_t *self)
{
    static const struct {
        char *name, *unit;
    } units[] = {{"coffea.bytesread", "bytes"},         {"coffea.entries", "count"},
                 {"coffea.processtime", "seconds"},     {"coffea.chunks", "count"},
                 {"coffea.n_columns", "count"},         {"coffea.partitions", "count"},
                 {"coffea.failed_partitions", "count"}, {"coffea.partition_read_s", "seconds"}};
    const crema_table_t *t = crema_table(CREMA_TABLE_CUSTOM);
    const sink_meta_t *meta = sink_decoder_meta(self->run);
    sink_dict_t *dict = sink_decoder_dict(self->run);
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < sizeof units / sizeof *units && err == CREMA_OK; i++) {
        const char *text = sink_texts_find(sink_meta_attributes(meta), units[i].name);
        char *end = NULL;
        double value = text ? strtod(text, &end) : 0;
        if (!text || end == text || *end != '\0')
            continue;
        uint32_t unit, metric;
        Crema__DictEntry entry = {.kind = CREMA_DICT_UNIT, .text = units[i].unit};
        err = sink_dict_entry(dict, &entry, SINK_DICT_NONE, &unit);
        entry = (Crema__DictEntry){.kind = CREMA_DICT_METRIC, .text = units[i].name};
        if (err == CREMA_OK)
            err = sink_dict_entry(dict, &entry, unit, &metric);
        if (err != CREMA_OK)
            break;
        crema_custom_row_t row;
        crema_row_clear(t, (uint8_t *)&row);
        row.t_ns = sink_meta_end_ns(meta);
        row.value = value;
        row.metric_id = metric;
        row.unit_id = unit;
        row.kind = CREMA_METRIC_TOTAL;
        err = sink_tables_add(self->tables, t->id, &row);
    }
    return err;
}

static crema_err_t
s_shape(sink_seal_t *self)
{
    sink_offset_settle(self->offset);
    crema_err_t err = sink_seal_correct_rows(self);
    if (err == CREMA_OK)
        err = s_add_coffea_report(self);
    if (err == CREMA_OK)
        err = sink_tables_add_dict(self->tables, sink_decoder_dict(self->run));
    if (err == CREMA_OK) {
        sink_seal_correct_dictionaries(self);
        err = sink_tables_sort(self->tables);
    }
    return err == CREMA_OK ? err : sink_seal_fail(self, err, "could not put the rows in order");
}

static crema_err_t
s_summarize(sink_seal_t *self)
{
    const sink_journal_report_t *journal = &self->report;
    char unread[SINK_UNREAD_TEXT_BYTES];
    const sink_damage_t damage = {
        .unread = sink_unread_text(&journal->unread, unread),
        .bytes = journal->damaged_bytes,
        .frames = journal->missing_frames,
        .is_before_seal = journal->before_seal == journal->damaged_bytes + journal->missing_frames};
    crema_err_t err = sink_facts_finish(self->facts, self->tables);
    if (err == CREMA_OK)
        err = sink_budget_new(self->facts, &self->budget);
    if (err == CREMA_OK)
        err = sink_model_new(self->facts, sink_ratio(self->budget->alloc_s, self->budget->wall_s),
                             &self->model);
    if (err == CREMA_OK)
        err = sink_verdict_new(self->run, self->facts, &damage, &self->verdict);
    if (err == CREMA_OK)
        err = sink_verdict_take_budget(self->verdict, self->budget);
    if (err == CREMA_OK) {
        const sink_summary_t summary = {
            .tables = self->tables,
            .run = self->run,
            .facts = self->facts,
            .budget = self->budget,
            .model = self->model,
            .partial = strcmp(sink_verdict_word(self->verdict), "COMPLETE") != 0,
        };
        err = sink_summary_fill(&summary);
    }
    return err == CREMA_OK ? err : sink_seal_fail(self, err, "could not make the summaries");
}

/* One half of what is done once the rows are complete, and how it ended. */
typedef struct {
    sink_seal_t *seal;
    sink_seal_stage_t stage;
    crema_err_t err;
} half_t;

static void
s_on_facts(void *context)
{
    half_t *half = context;
    sink_seal_t *self = half->seal;
    half->err = half->stage == SINK_SEAL_ACTIVITIES
                    ? sink_facts_begin(self->tables, self->run, &self->facts)
                    : sink_facts_take_chunks(self->facts, self->tables, self->run);
    if (half->err == CREMA_OK)
        sink_seal_sum(self, half->stage);
    else
        half->err = sink_seal_fail(self, half->err, "could not make the summaries");
}

static void
s_on_summaries(void *context)
{
    half_t *half = context;
    half->err = s_summarize(half->seal);
}

static void
s_on_rows(void *context)
{
    half_t *half = context;
    half->err = sink_seal_write_rows(half->seal, half->stage);
}

/* HDF5 stays on this thread: it has its settings by thread. The rows of each early stage are gone
 * before the next one needs its arrays. */
static crema_err_t
s_summarize_and_write(sink_seal_t *self)
{
    half_t summaries = {.seal = self};
    half_t rows = {.seal = self, .err = sink_seal_create(self)};
    while (rows.err == CREMA_OK && summaries.err == CREMA_OK && rows.stage < SINK_SEAL_ROWS) {
        sink_both(s_on_rows, &rows, s_on_facts, &summaries);
        sink_seal_drop(self, rows.stage);
        summaries.stage = ++rows.stage;
    }
    if (rows.err == CREMA_OK && summaries.err == CREMA_OK)
        sink_both(s_on_rows, &rows, s_on_summaries, &summaries);
    if (summaries.err != CREMA_OK)
        return summaries.err;
    if (rows.err != CREMA_OK)
        snprintf(self->why, self->why_size, "%s", self->file_why);
    return rows.err;
}

/* ---- sealing */

static crema_err_t
s_paths(sink_seal_t *self, const char *output_path)
{
    char uuid[37];
    crema_id_uuid(&self->report.run_id, uuid);
    int n = output_path ? snprintf(self->path, sizeof self->path, "%s", output_path)
                        : snprintf(self->path, sizeof self->path, "%s.h5", uuid);
    if (n < 0 || (size_t)n >= sizeof self->path ||
        sink_fs_hidden_name(self->path, self->temporary) != CREMA_OK)
        return sink_seal_fail(self, CREMA_EINVAL, "the path of the file is too long");
    const char *slash = strrchr(self->path, '/');
    if (!slash)
        strcpy(self->dir, ".");
    else if (slash == self->path)
        strcpy(self->dir, "/");
    else
        snprintf(self->dir, sizeof self->dir, "%.*s", (int)(slash - self->path), self->path);
    return CREMA_OK;
}

/* The file replaces what has its name, but no device, socket or directory, and no file that cannot
 * be opened: it may hold more than this journal. */
static crema_err_t
s_check_place(sink_seal_t *self)
{
    struct stat st;
    if (lstat(self->path, &st) != 0 || S_ISLNK(st.st_mode))
        return CREMA_OK;
    if (!S_ISREG(st.st_mode)) {
        snprintf(self->why, self->why_size, "%s exists and is not a file", self->path);
        return CREMA_EINVAL;
    }
    int fd = open(self->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) {
        snprintf(self->why, self->why_size, "%s exists and cannot be read, so it stays: %s",
                 self->path, strerror(errno));
        return CREMA_EIO;
    }
    if (fd >= 0)
        close(fd);
    return CREMA_OK;
}

/* Of arrays that are too large for memory: beside the run file, where there must be room anyway,
 * or else beside the journal. */
static const char *
s_scratch_dir(const sink_seal_t *self, const char *journal_dir)
{
    return sink_scratch_works(self->dir) || !sink_scratch_works(journal_dir) ? self->dir
                                                                             : journal_dir;
}

static crema_err_t
s_begin(sink_seal_t *self, const char *journal_dir, const char *output_path)
{
    const sink_journal_visitor_t messages = {
        .context = self, .run = s_on_run, .writers = s_on_writers, .sealed = s_on_sealed};
    crema_err_t err = sink_decoder_new(s_on_decoded, self, &self->run);
    if (err == CREMA_OK)
        err = sink_journal_read(journal_dir, &messages, &self->report);
    if (err == CREMA_EMAGIC || err == CREMA_ENOENT) {
        snprintf(self->why, self->why_size, "%s: not the journal directory of a run", journal_dir);
        return err;
    }
    if (err != CREMA_OK) {
        snprintf(self->why, self->why_size, "%s: %s", journal_dir, sink_fs_why(err));
        return err;
    }
    err = s_paths(self, output_path);
    if (err == CREMA_OK)
        err = s_check_place(self);
    if (err == CREMA_OK)
        err = sink_tables_new(s_scratch_dir(self, journal_dir), &self->tables);
    if (err == CREMA_OK)
        err = sink_offset_new(sink_decoder_limits(self->run), &self->offset);
    if (err == CREMA_OK)
        err = sink_attributes_new(&self->attributes);
    if (err == CREMA_OK)
        err = sink_payload_new(&self->payload);
    return err;
}

static void
s_end(sink_seal_t *self)
{
    crema_err_t ignored = sink_h5_close(&self->file, NULL);
    (void)ignored;
    sink_attributes_destroy(&self->attributes);
    sink_payload_destroy(&self->payload);
    sink_verdict_destroy(&self->verdict);
    sink_model_destroy(&self->model);
    sink_budget_destroy(&self->budget);
    sink_facts_destroy(&self->facts);
    sink_offset_destroy(&self->offset);
    sink_decoder_destroy(&self->run);
    sink_tables_destroy(&self->tables);
}

/* Advice for the user; every failure leaves the journal unchanged. */
static const char *
s_remedy(crema_err_t err)
{
    switch (err) {
    case CREMA_ENOSPC:
        return "free some space there, then run";
    case CREMA_ENOMEM:
        return "where there is more memory, run";
    case CREMA_ENOENT:
        return "make that directory or choose another one, then run";
    default:
        return "its records are safe; when the cause is fixed, run";
    }
}

/* "run <id>: <what happened>; <what to do>" */
static void
s_explain(const sink_seal_t *self, crema_err_t err, const char *journal_dir, char *why, size_t size)
{
    char uuid[37], what[SINK_H5_WHY_BYTES];
    if (size == 0 || crema_id_is_zero(&self->report.run_id))
        return; /* not a journal */
    snprintf(what, sizeof what, "%s", why[0] ? why : crema_err_text(err));
    snprintf(why, size, "run %s: %s; %s `crema-sink rebuild %s --output %s`",
             crema_id_uuid(&self->report.run_id, uuid), what, s_remedy(err), journal_dir,
             self->path[0] ? self->path : "FILE");
}

crema_err_t
sink_seal_journal(const char *journal_dir, const char *output_path, sink_seal_result_t *ret_result,
                  char *ret_why, size_t why_size)
{
    sink_seal_t self = {.why = ret_why, .why_size = why_size};
    sink_seal_result_t *result = calloc(1, sizeof *result);
    if (!result)
        return CREMA_ENOMEM;
    if (why_size > 0)
        ret_why[0] = '\0';
    crema_err_t err = s_begin(&self, journal_dir, output_path);
    if (err == CREMA_OK)
        err = s_read(&self, journal_dir);
    if (err == CREMA_OK)
        err = s_shape(&self);
    if (err == CREMA_OK)
        err = s_summarize_and_write(&self);
    if (err == CREMA_OK)
        err = sink_seal_describe(&self);
    if (err == CREMA_OK)
        err = sink_seal_make_file(&self, result);
    if (err == CREMA_OK)
        *ret_result = *result;
    if (self.temporary[0] && (err != CREMA_OK || result->kept))
        unlink(self.temporary);
    if (err != CREMA_OK)
        s_explain(&self, err, journal_dir, ret_why, why_size);
    s_end(&self);
    free(result);
    return err;
}
