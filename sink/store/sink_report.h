/* sink_report - the line in which `crema-sink rebuild --json` reports its result to the serving
 * sink:
 *
 *     {"path":"/data/x.h5","verdict":"COMPLETE","revision":1,"sha256":"...","file_bytes":123,
 *      "rows":45,"reasons":[]}
 *     {"error":"the disk is full"} */
#ifndef SINK_REPORT_H
#define SINK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_wire.h"
#include "sink_journal.h"

/* The result of sealing a run. */
typedef struct {
    /* from 1: that of the file it replaces if the content is equal, otherwise one more */
    int64_t revision;
    char verdict[16];   /* COMPLETE, PARTIAL */
    uint8_t sha256[32]; /* sha256_payload */
    uint64_t file_bytes;
    uint64_t rows; /* of all stream tables */
    bool kept;     /* no file was made: the one that is there holds more than the journal */
    char path[4096];
    char reasons_json[4096]; /* reasons, then notes; shortened by whole elements if too long */
} sink_seal_result_t;

/* Enough for a result with the longest path and reasons. */
#define SINK_REPORT_BYTES (40u << 10)

/* Writes the line, without a newline, into out[SINK_REPORT_BYTES]. */
void sink_report_result(const sink_seal_result_t *result, char *out);
void sink_report_error(const char *why, char *out);

/* Takes a checksum as hex; false: it is not one. */
bool sink_report_sha256(const char *hex, uint8_t out[32]);

typedef struct sink_report sink_report_t;

/* CREMA_EPROTO: not a valid line. At most SINK_REPORT_REASONS_MAX reasons are kept; the last one
 * then gives the number of the rest. */
#define SINK_REPORT_REASONS_MAX 64
CREMA_MUST_CHECK crema_err_t sink_report_parse(const char *line, sink_report_t **ret_self);
void sink_report_destroy(sink_report_t **self_p);

/* Reason of a failure; NULL if the line reports success. */
const char *sink_report_why(const sink_report_t *self);
/* The report as messages, which point into it. */
Crema__Sealed sink_report_sealed(const sink_report_t *self, const crema_id_t *run_id);
sink_journal_sealed_t sink_report_journal(const sink_report_t *self);

#endif
