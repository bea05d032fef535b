/* torture_ledger - what was recorded, kept outside every process that is killed.
 *
 * A file mapped by its one writer, so that a kill -9 of the writer loses nothing: the pages belong
 * to the kernel. The number is raised after the append returned, so it may lag the stream by one
 * record, never lead it. */
#ifndef TORTURE_LEDGER_H
#define TORTURE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

typedef struct {
    crema_id_t stream_id;
    uint64_t recorded; /* last number whose append returned */
    uint64_t dropped;  /* appends refused (quota, disk full) */
    uint64_t finished; /* 1: END was written as recorded + 1 */
} torture_ledger_t;

/* Makes `<dir>/<stream_id>.ledger` and maps it; the mapping lives until the process ends. */
CREMA_MUST_CHECK crema_err_t torture_ledger_new(const char *dir, const crema_id_t *stream_id,
                                                torture_ledger_t **ret_ledger);

/* Reads one ledger file. */
CREMA_MUST_CHECK crema_err_t torture_ledger_read(const char *path, torture_ledger_t *ret_ledger);

/* The value that record `seq` of this stream carries: wrong bytes and swapped records show. */
double torture_value(const crema_id_t *stream_id, uint64_t seq);

#endif
