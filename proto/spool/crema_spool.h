/* crema_spool - segment files of one stream, read by the agent and written by writers that are in C.
 *
 * A spool directory holds segments `sp-<stream_id>-<first_seq>`: 32 hex digits, 16 hex digits. Only the stream's writer appends, one write()
 * a record, holding flock(LOCK_EX) on its newest segment. Readers:
 *   - a bad last record of an open stream is *not yet*; of a stream whose lock is free and that has no END it is *torn*;
 *   - damage with a whole valid record behind it is a loss of the numbers between (LOSS, CORRUPT);
 *   - missing leading segments are fine: they were committed and unlinked.
 * The reader that holds the spool's lock closes an abandoned stream (lock free, no END) by cutting the torn tail and appending an
 * END record {WRITER_GONE, torn_bytes} as the dead writer's next number, so every stream ends the same way.
 *
 * The StreamInfo names the run, so it goes last: a first segment that is committed is cut down to it, and a stream that is given up or
 * removed is first cut down to StreamInfo and END. A gap without damage right behind record 1 therefore means *trimmed*. */
#ifndef CREMA_SPOOL_H
#define CREMA_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_record.h"

#define CREMA_SPOOL_SEGMENT_BYTES (8u << 20)
#define CREMA_SPOOL_STREAMS_MAX 16384u

/* "sp-", id, "-", first seq. */
#define CREMA_SPOOL_NAME_CHARS (3 + CREMA_ID_HEX_CHARS + 1 + 16)

/* ---- writer: one stream of this process */
typedef struct crema_spool_writer crema_spool_writer_t;

/* Creates the first segment in `dir` and writes the StreamInfo record. */
CREMA_MUST_CHECK crema_err_t crema_spool_writer_open(const char *dir, const crema_id_t *stream_id,
                                                     const crema_stream_info_t *info,
                                                     crema_spool_writer_t **ret_self);

/* The same for a stream about a user's processes: its files are given to that user, where this process may do that, so that a reader finds
 * whose it is as with those that the user wrote. */
#define CREMA_SPOOL_SELF UINT32_MAX
CREMA_MUST_CHECK crema_err_t crema_spool_writer_open_for(const char *dir,
                                                         const crema_id_t *stream_id,
                                                         const crema_stream_info_t *info,
                                                         uint32_t owner,
                                                         crema_spool_writer_t **ret_self);

/* Appends one record as the next number with a single write(). On CREMA_ENOSPC or CREMA_EIO nothing remains of it, the number
 * is not used, and the writer counts it as dropped; so does CREMA_ELIMIT, a record that is too large. A forked child may not append
 * (CREMA_EINVAL), and its close leaves the stream alone. */
CREMA_MUST_CHECK crema_err_t crema_spool_writer_append(crema_spool_writer_t *self,
                                                       const crema_record_t *record,
                                                       int64_t t_mono_ns);

/* Writes END, closes and frees. Accepts NULL. */
void crema_spool_writer_close(crema_spool_writer_t **self_p);

/* ---- reader: all streams of a directory */
typedef struct crema_spool crema_spool_t;

typedef struct {
    crema_id_t stream_id;
    crema_id_t run_id; /* zero while no StreamInfo was found: such a stream cannot be delivered */
    crema_stream_info_t
        info;             /* texts live as long as the stream is held; attributes are not kept */
    uint64_t first_avail; /* first seq held; a StreamInfo kept for the run's name does not count */
    uint64_t hi;          /* last complete seq held; never shrinks */
    uint64_t committed;   /* as told by crema_spool_trim() */
    uint64_t bytes;       /* on disk */
    bool closed;          /* hi is END */
    uint64_t lost;        /* numbers replaced by LOSS so far */
    uint32_t owner;       /* user that owns the file with the StreamInfo */
} crema_spool_stream_t;

/* The directory must exist. Takes no lock itself: see crema_spool_lock. */
CREMA_MUST_CHECK crema_err_t crema_spool_open(const char *dir, crema_spool_t **ret_self);
void crema_spool_close(crema_spool_t **self_p);

/* flock on `<dir>/agent.lock`: one agent serves a spool. CREMA_EBUSY if another holds it. */
CREMA_MUST_CHECK crema_err_t crema_spool_lock(crema_spool_t *self);

/* Identity of the spool: 16 random bytes in `<dir>/agent_id`, made once and synced. A damaged one is replaced by the holder of the
 * lock. */
CREMA_MUST_CHECK crema_err_t crema_spool_agent_id(crema_spool_t *self, crema_id_t *ret_id);

/* Looks at the directory and reads on in every segment that grew; closes abandoned streams if this process holds the lock. Foreign
 * files are counted and left alone. Errors of single files are counted, not returned; if the directory itself could not be listed what is
 * known is read on all the same. crema_spool_faults() says what was left out. */
CREMA_MUST_CHECK crema_err_t crema_spool_scan(crema_spool_t *self);

/* What the last scan or read could not do. */
typedef struct {
    crema_id_t stream_id;                  /* zero: the directory could not be listed */
    crema_id_t run_id;                     /* zero if it is not known */
    char file[CREMA_SPOOL_NAME_CHARS + 1]; /* the segment's name; empty for the directory */
    int why; /* errno; EBADMSG: records without a StreamInfo; EAGAIN: it waits, see CREMA_SPOOL_STREAMS_MAX */
} crema_spool_fault_t;

/* The directory first, one for each stream, then one for each segment that waits for room; fills at most `max`, of those that wait at most 32, and
 * returns how many there are. */
size_t crema_spool_faults(const crema_spool_t *self, crema_spool_fault_t *faults, size_t max);

size_t crema_spool_count(const crema_spool_t *self);
/* i < count; borrowed until the next scan or trim. */
const crema_spool_stream_t *crema_spool_stream(const crema_spool_t *self, size_t i);
const crema_spool_stream_t *crema_spool_find(const crema_spool_t *self,
                                             const crema_id_t *stream_id);

/* Copies whole frames from `first_seq` on into buf: as many as fit and exist. LOSS frames are made up for numbers that are no longer
 * there, the same bytes each time: CORRUPT for damage, EVICTED or STORE_REGRESSED for what was removed. A record larger than `size` is
 * CREMA_ELIMIT. *ret_n counts frames and is 0 if there is nothing yet; *ret_last is the number of the last one, which with LOSS is
 * more than first_seq + n - 1. */
CREMA_MUST_CHECK crema_err_t crema_spool_read(crema_spool_t *self, const crema_id_t *stream_id,
                                              uint64_t first_seq, uint8_t *buf, size_t size,
                                              size_t *ret_bytes, uint32_t *ret_n,
                                              uint64_t *ret_last);

/* Unlinks whole segments whose last seq <= committed; a closed stream committed to its END disappears. CREMA_ENOENT: no such
 * stream; CREMA_EIO: a file would not go, it is tried again with the next call. */
CREMA_MUST_CHECK crema_err_t crema_spool_trim(crema_spool_t *self, const crema_id_t *stream_id,
                                              uint64_t committed);

/* Makes room: drops segments until at most max_bytes are held, closed streams before open ones and the oldest first; what was not
 * committed becomes LOSS(EVICTED). The newest segment of an open stream stays. Returns the number of records given up. */
uint64_t crema_spool_evict(crema_spool_t *self, uint64_t max_bytes);

typedef struct {
    uint64_t bytes;      /* held on disk */
    uint64_t records;    /* held */
    uint64_t torn_tails; /* cut */
    uint64_t torn_bytes;
    uint64_t corrupt;       /* numbers replaced by LOSS(CORRUPT) */
    uint64_t evicted;       /* numbers replaced by LOSS(EVICTED) */
    uint64_t foreign_files; /* now: not segments, or without a StreamInfo */
    uint64_t waiting_files; /* now: segments of streams above CREMA_SPOOL_STREAMS_MAX */
    uint64_t io_errors;
} crema_spool_stats_t;

crema_spool_stats_t crema_spool_stats(const crema_spool_t *self);

#endif
