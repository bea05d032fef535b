/* sink_seal - a run's journal becomes its final file.
 *
 * Reads the journal, decodes every record once, orders the rows, computes the summaries, writes `<output>.tmp`, closes, syncs, re-opens and
 * verifies, renames, syncs the directory. Equal journals give equal content. */
#ifndef SINK_SEAL_H
#define SINK_SEAL_H

#include <stddef.h>

#include "crema_error.h"
#include "sink_report.h"

/* output_path NULL: `<run_id>.h5` beside the current directory. `ret_why` (at least 512 bytes) says in one sentence what went wrong. */
CREMA_MUST_CHECK crema_err_t sink_seal_journal(const char *journal_dir, const char *output_path,
                                               sink_seal_result_t *ret_result, char *ret_why,
                                               size_t why_size);

/* Verifies a run file; prints one line a finding on `out`. *ret_findings is their number. CREMA_EMAGIC: not a run file. */
CREMA_MUST_CHECK crema_err_t sink_check_file(const char *path, void *out_file, int *ret_findings);

/* The same in a process of its own: on some damage the HDF5 library crashes, which then is a finding. */
CREMA_MUST_CHECK crema_err_t sink_check_apart(const char *path, void *out_file, int *ret_findings);

#endif
