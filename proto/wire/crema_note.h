/* crema_note - codes in lists of reasons that are only notes: worth knowing, though nothing is
 * missing. */
#ifndef CREMA_NOTE_H
#define CREMA_NOTE_H

#include <stdbool.h>

#define CREMA_NOTE_INPUT_DROPPED "input_dropped"
#define CREMA_NOTE_RESULT_REUSED "result_reused"
#define CREMA_NOTE_ATTRIBUTE_REFUSED "attribute_refused"
#define CREMA_NOTE_JOURNAL_DAMAGED "journal_damaged"
#define CREMA_NOTE_COLUMNS_UNAVAILABLE "columns_unavailable"
#define CREMA_NOTE_BUDGET_OPEN "budget_open"
#define CREMA_NOTE_KILLED_AFTER_RETIREMENT "killed_after_retirement"
#define CREMA_NOTE_CHUNK_ENDED_WORKERS "chunk_ended_workers"
#define CREMA_NOTE_MORE "more_notes" /* so many that a list had no room for */

/* Prefix of the metric by which a writer names columns that Dask, coffea or uproot do not
 * provide. */
#define CREMA_UNAVAILABLE_METRIC "crema.unavailable."

extern const char *const crema_note_codes[]; /* ends with NULL */

bool crema_note(const char *code);

#endif
