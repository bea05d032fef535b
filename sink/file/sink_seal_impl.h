/* sink_seal_impl - what the files of sink_seal share; nobody else includes it. */
#ifndef SINK_SEAL_IMPL_H
#define SINK_SEAL_IMPL_H

#include <limits.h>

#include "sink_attribute.h"
#include "sink_budget.h"
#include "sink_decoder.h"
#include "sink_facts.h"
#include "sink_h5.h"
#include "sink_journal.h"
#include "sink_model.h"
#include "sink_offset.h"
#include "sink_seal.h"
#include "sink_tables.h"
#include "sink_verdict.h"

typedef struct {
    char path[PATH_MAX];      /* of the final file */
    char temporary[PATH_MAX]; /* beside it, under a name that nobody can guess */
    char dir[PATH_MAX];
    sink_decoder_t *run;
    sink_tables_t *tables;
    sink_offset_t *offset;
    sink_facts_t *facts;
    sink_budget_t *budget;
    sink_model_t *model;
    sink_verdict_t *verdict;
    sink_attributes_t *attributes;
    sink_h5_t *file;
    sink_journal_report_t report;
    char *why;
    size_t why_size;
} sink_seal_t;

/* Puts "<what>: <the error's text>" into self->why; returns err. */
crema_err_t sink_seal_fail(sink_seal_t *self, crema_err_t err, const char *what);

/* Times of rows onto the aggregator's clock, and a mark at chunks whose clock nobody compared. */
void sink_seal_correct_rows(sink_seal_t *self);

/* First and last times of streams and workers likewise, once the rows and the dictionaries are there. */
void sink_seal_correct_dictionaries(sink_seal_t *self);

/* All root attributes but those that follow from the file itself: its checksum and revision. */
CREMA_MUST_CHECK crema_err_t sink_seal_describe(sink_seal_t *self);

/* Writes the file under its temporary name, reads it again, puts it in place. */
CREMA_MUST_CHECK crema_err_t sink_seal_make_file(sink_seal_t *self, sink_seal_result_t *result);

#endif
