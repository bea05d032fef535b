/* rows_fixture - decoding a synthetic journal into memory, for tests that look at rows. */
#ifndef ROWS_FIXTURE_H
#define ROWS_FIXTURE_H

#include "sink_budget.h"
#include "sink_decoder.h"
#include "sink_facts.h"
#include "sink_model.h"
#include "sink_tables.h"

typedef struct {
    sink_decoder_t *run;
    sink_tables_t *tables;
    sink_facts_t *facts; /* NULL until decoded_facts */
    sink_budget_t *budget;
    sink_model_t *model;
} decoded_t;

/* Everything in the journal, finished; messages first. Failures end the test program. */
void decoded_open(decoded_t *self, const char *journal_dir);
/* The same with limits of its own. */
void decoded_open_limited(decoded_t *self, const char *journal_dir, const crema_limits_t *limits);
/* Sorted rows, dictionaries, facts, budget and model. */
void decoded_facts(decoded_t *self);
void decoded_close(decoded_t *self);

size_t decoded_count(const decoded_t *self, crema_table_id_t table);
int64_t decoded_int(const decoded_t *self, crema_table_id_t table, size_t row, const char *column);
double decoded_real(const decoded_t *self, crema_table_id_t table, size_t row, const char *column);
/* The text lives until the next call. */
const char *decoded_text(const decoded_t *self, crema_table_id_t table, size_t row,
                         const char *column);
/* Value of a metric of /summary/workflow, and its status. */
double decoded_metric(const decoded_t *self, const char *name, int64_t *ret_status);

/* Path of a directory of this process that is not there: a call with the same name removes it, and
 * so does the end. */
const char *scratch_dir(const char *name);

#endif
