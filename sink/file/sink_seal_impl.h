/* sink_seal_impl - shared by the source files of sink_seal; private to them. */
#ifndef SINK_SEAL_IMPL_H
#define SINK_SEAL_IMPL_H

#include <limits.h>
#include <stdio.h>

#include "sink_attribute.h"
#include "sink_budget.h"
#include "sink_decoder.h"
#include "sink_facts.h"
#include "sink_h5.h"
#include "sink_journal.h"
#include "sink_model.h"
#include "sink_offset.h"
#include "sink_payload.h"
#include "sink_seal.h"
#include "sink_tables.h"
#include "sink_verdict.h"

/* Of a table as it was written, after its chunks were compared with its rows. */
typedef struct {
    uint32_t chunks;      /* CRC-32 of the chunks as stored */
    uint32_t first, last; /* of the rows of the first and the last chunk */
} sink_seal_sum_t;

typedef struct {
    char path[PATH_MAX];      /* of the final file */
    char temporary[PATH_MAX]; /* in the same directory, under an unguessable name */
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
    sink_payload_t *payload;
    sink_seal_sum_t sums[CREMA_TABLE_COUNT];
    char file_why[SINK_H5_WHY_BYTES]; /* of sink_seal_write_rows() */
    sink_journal_report_t report;
    sink_journal_sealed_t sealed; /* the last one of the journal; revision 0: none */
    char *why;
    size_t why_size;
} sink_seal_t;

/* Writes "<what>: <text of err>" to self->why; returns err. */
static inline crema_err_t
sink_seal_fail(sink_seal_t *self, crema_err_t err, const char *what)
{
    snprintf(self->why, self->why_size, "%s: %s", what, crema_err_text(err));
    return err;
}

/* Converts times of rows to the aggregator's clock, and flags chunks whose clock was never
 * compared. */
CREMA_MUST_CHECK crema_err_t sink_seal_correct_rows(sink_seal_t *self);

/* Converts first and last times of streams and workers; call it after the rows and dictionaries
 * are complete. */
void sink_seal_correct_dictionaries(sink_seal_t *self);

/* Sets all root attributes except those that depend on the file itself: checksum and revision. */
CREMA_MUST_CHECK crema_err_t sink_seal_describe(sink_seal_t *self);

/* The tables of the first two stages have the first paths, so that their part of the checksum
 * comes first, and rows that nothing needs once their facts were taken: they are dropped then. */
typedef enum {
    SINK_SEAL_ACTIVITIES,
    SINK_SEAL_CHUNKS, /* and /clock and /custom */
    SINK_SEAL_ROWS,
    SINK_SEAL_SUMMARIES
} sink_seal_stage_t;

/* Creates the file under its temporary name. This and the next write to file, file_why and sums
 * only: the other core does something else meanwhile. */
CREMA_MUST_CHECK crema_err_t sink_seal_create(sink_seal_t *self);

/* Writes the tables of a stage and compares what is stored with their rows. */
CREMA_MUST_CHECK crema_err_t sink_seal_write_rows(sink_seal_t *self, sink_seal_stage_t stage);

/* Adds the rows of a stage to the checksum; stages come in order. sink_seal_make_file() adds those
 * from SINK_SEAL_ROWS on. */
void sink_seal_sum(sink_seal_t *self, sink_seal_stage_t stage);
/* Frees the rows of a stage. Those of a table that is stored uncompressed stay: they are compared
 * with the closed file. */
void sink_seal_drop(sink_seal_t *self, sink_seal_stage_t stage);

/* Opens the closed file and compares it with the sums, and the summaries with their rows. */
CREMA_MUST_CHECK crema_err_t sink_seal_verify(sink_seal_t *self);

/* Writes the rest of the file, verifies it and renames it. */
CREMA_MUST_CHECK crema_err_t sink_seal_make_file(sink_seal_t *self, sink_seal_result_t *result);

#endif
