/* sealed_files - run files made from journals, for tests of sealing and of checking. */
#ifndef SEALED_FILES_H
#define SEALED_FILES_H

#include "sink_seal.h"

/* Where a file of that name may be made; none is there. Valid until the next call. */
const char *sealed_path(const char *name);

/* Seals the journal in `dir`; fails the test if that does not work. */
sink_seal_result_t sealed_make(const char *dir, const char *output);

/* Number of findings of a check. Fails the test if `want` is not in their text; NULL: if there are
 * any. */
int sealed_findings(const char *path, const char *want);

#endif
