/* sink_journal - a run's journal: the commit point.
 *
 * A directory of segments `000001.journal`, ... of at most SINK_SEGMENT_BYTES, framed as in crema_frame.h; each starts with a
 * JOURNAL_HEADER (seq 0), all other frames are numbered densely through the segments. Appends collect in memory and reach the file with
 * one write() per group; sink_journal_sync() is the only promise. A write that finds the disk full is undone and may be tried again. After
 * any other failure of write or sync the journal is broken for good: Linux may have marked the pages clean, so a second try
 * would lie. Whoever opens it next writes the last segment's pages anew before it trusts them. */
#ifndef SINK_JOURNAL_H
#define SINK_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_wire.h"

#define SINK_SEGMENT_BYTES (64u << 20)
#define SINK_GROUP_BYTES_MAX (16u << 20) /* collected between two syncs */

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
    int64_t t_real_ns;  /* when it was journaled; given by reading */
} sink_journal_sealed_t;

typedef struct sink_journal sink_journal_t;

/* Opens for appending in a new segment after what is there (a torn tail is cut), or makes the directory. CREMA_EMAGIC: the directory holds
 * a journal of another run or store; CREMA_EBUSY: a later generation wrote there. */
CREMA_MUST_CHECK crema_err_t sink_journal_open(const char *dir, const crema_id_t *store_id,
                                               const crema_id_t *run_id, uint64_t generation,
                                               sink_journal_t **ret_self);
void sink_journal_close(sink_journal_t **self_p);

/* Appending copies. CREMA_ELIMIT: the group is full, sync first; CREMA_EIO: broken. */
CREMA_MUST_CHECK crema_err_t sink_journal_put(sink_journal_t *self, const sink_journal_put_t *put);
CREMA_MUST_CHECK crema_err_t sink_journal_run(sink_journal_t *self, crema_msg_type_t type,
                                              const crema_run_msg_t *msg, int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_clock(sink_journal_t *self,
                                                const crema_clock_sample_t *sample,
                                                int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_sealed(sink_journal_t *self,
                                                 const sink_journal_sealed_t *sealed,
                                                 int64_t t_real_ns);

/* write() what was collected, then fdatasync. CREMA_ENOSPC: nothing of the group is in the file and all of it is still
 * collected. CREMA_EIO: broken; never acknowledge, end the process. */
CREMA_MUST_CHECK crema_err_t sink_journal_sync(sink_journal_t *self);
size_t sink_journal_pending_bytes(const sink_journal_t *self);
uint64_t sink_journal_bytes(const sink_journal_t *self);
/* Bytes of a torn tail that the opening cut. */
uint64_t sink_journal_torn_bytes(const sink_journal_t *self);

/* Reading, in order; any function may be NULL. A function that returns an error stops the reading with it. What the arguments point at is
 * valid during the call. */
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
    uint64_t
        missing_frames; /* numbers that no frame carries: lost to the damage, or with a whole segment */
} sink_journal_report_t;

/* CREMA_ENOENT: no such directory or no segment in it; CREMA_EMAGIC: not a journal. */
CREMA_MUST_CHECK crema_err_t sink_journal_read(const char *dir,
                                               const sink_journal_visitor_t *visitor,
                                               sink_journal_report_t *ret_report);

/* The same for what the last successful sync made durable; nothing after an append. */
CREMA_MUST_CHECK crema_err_t sink_journal_group(const sink_journal_t *self,
                                                const sink_journal_visitor_t *visitor);

#endif
