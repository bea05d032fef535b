/* The root attributes of a final file: what was given, what was observed, the verdict. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_json.h"
#include "crema_split.h"
#include "crema_version.h"
#include "sink_diagnosis.h"
#include "sink_seal_impl.h"

/* Limit of verdict_reasons in the file; the rest is in /summary/completeness. */
#define REASONS_BYTES ((size_t)1 << 20)
#define PREFIXES_BYTES ((size_t)1 << 16)

static crema_err_t
s_describe_software(sink_seal_t *self)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    crema_err_t err = sink_attributes_text(self->attributes, "sink_version", CREMA_VERSION);
    if (err == CREMA_OK)
        err = sink_attributes_text(self->attributes, "libhdf5_version", sink_h5_version());
    if (err == CREMA_OK)
        err = sink_attributes_text(self->attributes, "host_sink", host);
    return err;
}

static crema_err_t
s_describe_split(sink_seal_t *self)
{
    crema_split_rules_t rules = sink_meta_rules(sink_decoder_meta(self->run));
    char *text = malloc(PREFIXES_BYTES);
    if (!text)
        return CREMA_ENOMEM;
    crema_json_t json = crema_json_begin(text, PREFIXES_BYTES);
    crema_json_open(&json, NULL, '[');
    for (size_t i = 0; i < rules.n_prefixes; i++)
        crema_json_text(&json, NULL, rules.processor_prefixes[i]);
    crema_json_close(&json, ']');
    crema_err_t err =
        sink_attributes_text(self->attributes, "processor_prefixes", json.full ? "[]" : text);
    free(text);
    if (err == CREMA_OK)
        err = sink_attributes_text(self->attributes, "overhead_rule", CREMA_SPLIT_RULES);
    return err == CREMA_OK
               ? sink_attributes_text(self->attributes, "diagnosis_rules", SINK_DIAGNOSIS_RULES)
               : err;
}

static crema_err_t
s_describe_verdict(sink_seal_t *self)
{
    sink_attributes_t *a = self->attributes;
    const char *word = sink_verdict_word(self->verdict);
    int64_t open = 0;
    for (size_t i = 0; i < sink_decoder_streams(self->run); i++)
        open += !sink_decoder_stream(self->run, i)->closed;
    char *json;
    crema_err_t err = sink_verdict_json(self->verdict, SINK_VERDICT_REASONS, REASONS_BYTES, &json);
    if (err != CREMA_OK)
        return err;
    err = sink_attributes_text(a, "verdict_reasons", json);
    free(json);
    if (err == CREMA_OK)
        err = sink_verdict_json(self->verdict, SINK_VERDICT_NOTES, REASONS_BYTES, &json);
    if (err != CREMA_OK)
        return err;
    err = sink_attributes_text(a, "verdict_notes", json);
    free(json);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "verdict", word);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "state", "sealed");
    sink_attributes_int(a, "complete", strcmp(word, "COMPLETE") == 0);
    sink_attributes_int(a, "loss_total", sink_verdict_loss(self->verdict));
    sink_attributes_int(a, "n_streams", (int64_t)sink_decoder_streams(self->run));
    sink_attributes_int(a, "n_streams_open", open);
    return err;
}

static void
s_describe_window(sink_seal_t *self)
{
    const sink_facts_t *facts = self->facts;
    int64_t first_ns = 0, last_ns = 0;
    for (size_t i = 0; i < facts->n_tasks + facts->n_chunks; i++) {
        sink_busy_t busy;
        if (!sink_facts_busy(facts, i, &busy) || busy.side == CREMA_SIDE_FOREIGN)
            continue;
        if (first_ns == 0 || busy.t0_ns < first_ns)
            first_ns = busy.t0_ns;
        if (busy.t1_ns > last_ns)
            last_ns = busy.t1_ns;
    }
    sink_attributes_int(self->attributes, "t_run_start_ns", facts->t0_ns);
    sink_attributes_int(self->attributes, "t_run_end_ns", facts->t1_ns);
    sink_attributes_int(self->attributes, "t_first_task_ns", first_ns);
    sink_attributes_int(self->attributes, "t_last_task_end_ns", last_ns);
}

/* Describes the observed files and datasets where the collector gave nothing. */
static crema_err_t
s_describe_inputs(sink_seal_t *self)
{
    static const struct {
        const char *name;
        crema_table_id_t table;
    } counts[] = {{"n_files", CREMA_TABLE_DICT_FILE}, {"n_datasets", CREMA_TABLE_DICT_DATASET}};
    const sink_texts_t *given = sink_meta_attributes(sink_decoder_meta(self->run));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!sink_texts_find(given, counts[i].name))
            sink_attributes_int(
                self->attributes, counts[i].name,
                (int64_t)sink_rows_count(sink_tables_rows(self->tables, counts[i].table)));
    return CREMA_OK;
}

crema_err_t
sink_seal_describe(sink_seal_t *self)
{
    char uuid[37], utc[64];
    time_t now = (time_t)(crema_clock_real_ns() / 1000000000);
    struct tm tm;
    strftime(utc, sizeof utc, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    crema_id_uuid(&self->report.run_id, uuid);
    sink_attributes_t *a = self->attributes;
    const sink_texts_t *given = sink_meta_attributes(sink_decoder_meta(self->run));
    crema_err_t err = sink_attributes_texts(a, given, true);
    if (err == CREMA_OK)
        err = sink_attributes_texts(a, sink_decoder_versions(self->run), false);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "run_id", uuid);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "created_utc", utc);
    if (err == CREMA_OK)
        err = sink_attributes_text(a, "clock_correction",
                                   sink_offset_applies(self->offset) ? "applied" : "none");
    if (err == CREMA_OK)
        err = s_describe_software(self);
    if (err == CREMA_OK)
        err = s_describe_split(self);
    if (err == CREMA_OK)
        err = s_describe_verdict(self);
    if (err == CREMA_OK)
        err = s_describe_inputs(self);
    s_describe_window(self);
    return err == CREMA_OK ? err : sink_seal_fail(self, err, "the attributes cannot be made");
}
