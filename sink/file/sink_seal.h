/* sink_seal - makes the final file of a run from its journal.
 *
 * It reads the journal, decodes every record once, sorts the rows, computes the summaries,
 * writes `<output>.tmp`, closes, syncs, re-opens and verifies it, renames it and syncs the
 * directory. Equal journals give equal content. */
#ifndef SINK_SEAL_H
#define SINK_SEAL_H

#include <stddef.h>

#include "crema_error.h"
#include "sink_report.h"

/* output_path NULL: `<run_id>.h5` in the current directory. After an error `ret_why` (at least
 * 512 bytes) is one sentence. */
CREMA_MUST_CHECK crema_err_t sink_seal_journal(const char *journal_dir, const char *output_path,
                                               sink_seal_result_t *ret_result, char *ret_why,
                                               size_t why_size);

/* Verifies a run file; prints one line per finding to `out_file`. *ret_findings is their number.
 * CREMA_EMAGIC: not a run file. */
CREMA_MUST_CHECK crema_err_t sink_check_file(const char *path, void *out_file, int *ret_findings);

/* The same in a separate process: some damage makes the HDF5 library crash, or never come to an
 * end, which counts as a finding. */
CREMA_MUST_CHECK crema_err_t sink_check_apart(const char *path, void *out_file, int *ret_findings);

#endif
