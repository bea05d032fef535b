/* sink_journal - a run's journal: the commit point.
 *
 * A directory of segments `000001.journal`, ... of at most SINK_SEGMENT_BYTES, framed as in crema_frame.h; each starts with a
 * JOURNAL_HEADER. Appends collect in memory and reach the file with one write() per group; sink_journal_sync() is the only
 * promise. After a failed write or sync the journal is broken for good: Linux may have marked the pages clean, so a second try would lie. */
#ifndef SINK_JOURNAL_H
#define SINK_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_wire.h"

#define SINK_SEGMENT_BYTES (64u << 20)

typedef enum {
    SINK_JOURNAL_HEADER = 65,
    SINK_JOURNAL_PUT = 66,
    SINK_JOURNAL_RUN = 67,
    SINK_JOURNAL_CLOCK = 68,
    SINK_JOURNAL_SEALED = 69,
} sink_journal_type_t;

typedef struct {
    crema_id_t stream_id;
    crema_id_t agent_id;
    uint64_t first_seq;
    uint32_t n;
    bool late;             /* came after the verdict */
    const uint8_t *frames; /* n record frames */
    size_t frames_bytes;
    int64_t t_recv_ns; /* sink's real time */
} sink_journal_put_t;

typedef struct {
    int64_t revision;
    uint64_t file_bytes;
    uint8_t sha256[32]; /* sha256_payload of the sealed file */
} sink_journal_sealed_t;

typedef struct sink_journal sink_journal_t;

/* Opens for appending after what is there (a torn tail is cut), or makes the directory. */
CREMA_MUST_CHECK crema_err_t sink_journal_open(const char *dir, const crema_id_t *store_id,
                                               const crema_id_t *run_id, uint64_t generation,
                                               sink_journal_t **ret_self);
void sink_journal_close(sink_journal_t **self_p);

CREMA_MUST_CHECK crema_err_t sink_journal_put(sink_journal_t *self, const sink_journal_put_t *put);
CREMA_MUST_CHECK crema_err_t sink_journal_run(sink_journal_t *self, crema_msg_type_t type,
                                              const crema_run_msg_t *msg, int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_clock(sink_journal_t *self,
                                                const crema_clock_sample_t *sample, int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_sealed(sink_journal_t *self,
                                                 const sink_journal_sealed_t *sealed, int64_t t_real_ns);

/* write() what was collected, then fdatasync. */
CREMA_MUST_CHECK crema_err_t sink_journal_sync(sink_journal_t *self);
size_t sink_journal_pending_bytes(const sink_journal_t *self);
uint64_t sink_journal_bytes(const sink_journal_t *self);

/* Reading, in order; any function may be NULL. A function that returns an error stops the reading with it. */
typedef struct {
    void *context;
    crema_err_t (*put)(void *context, const sink_journal_put_t *put);
    crema_err_t (*run)(void *context, crema_msg_type_t type, const crema_run_msg_t *msg);
    crema_err_t (*clock)(void *context, const crema_clock_sample_t *sample);
    crema_err_t (*sealed)(void *context, const sink_journal_sealed_t *sealed);
} sink_journal_visitor_t;

typedef struct {
    crema_id_t store_id;
    crema_id_t run_id;
    uint64_t segments, frames, bytes;
    uint64_t torn_bytes;    /* behind the last whole frame of the last segment */
    uint64_t damaged_bytes; /* unreadable in the middle: never silent */
} sink_journal_report_t;

/* CREMA_ENOENT: no such directory or no segment in it; CREMA_EMAGIC: not a journal. */
CREMA_MUST_CHECK crema_err_t sink_journal_read(const char *dir,
                                               const sink_journal_visitor_t *visitor,
                                               sink_journal_report_t *ret_report);

#endif
