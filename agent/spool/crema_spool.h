/* crema_spool - segment files of one stream, read by the agent and written by writers in C.
 *
 * A spool directory holds segments `sp-<stream_id>-<first_seq>`: 32 hex digits, 16 hex digits.
 * Only the stream's writer appends, one write() a record, holding flock(LOCK_EX) on its newest
 * segment. Readers:
 *   - a bad last record of an open stream is *not yet*; of a stream whose lock is free and that
 *     has no END it is *torn*;
 *   - damage with a whole valid record behind it is a loss of the numbers between (LOSS, CORRUPT);
 *   - missing leading segments are fine: they were committed and unlinked.
 * The reader that holds the spool's lock closes an abandoned stream (lock free, no END) by cutting
 * the torn tail and appending an END record {WRITER_GONE, torn_bytes} as the dead writer's next
 * number, so every stream ends the same way.
 *
 * The StreamInfo names the run, so it goes last: a first segment that is committed is cut down to
 * it, and a stream that is given up or removed is first cut down to StreamInfo and END. A gap
 * without damage right behind record 1 therefore means *trimmed*. */
#ifndef CREMA_SPOOL_H
#define CREMA_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_record.h"
#include "crema_spool_stream.h"

#define CREMA_SPOOL_STREAMS_MAX 16384u
/* At most so many of them belong to one user other than this process's; further ones wait. */
#define CREMA_SPOOL_STREAMS_OF_USER (CREMA_SPOOL_STREAMS_MAX / 4)

/* "sp-", id, "-", first seq. */
#define CREMA_SPOOL_NAME_CHARS (3 + CREMA_ID_HEX_CHARS + 1 + 16)

/* ---- writer: one stream of this process */
typedef struct crema_spool_writer crema_spool_writer_t;

/* Creates the first segment in `dir` and writes the StreamInfo record. `owner`: the user whose
 * processes the stream is about; where permitted, the files are given to that user, so that
 * readers find the owner as with files the user wrote. */
#define CREMA_SPOOL_SELF UINT32_MAX
CREMA_MUST_CHECK crema_err_t crema_spool_writer_open(const char *dir, const crema_id_t *stream_id,
                                                     const Crema__StreamInfo *info, uint32_t owner,
                                                     crema_spool_writer_t **ret_self);

/* Appends one record as the next number with a single write(). After CREMA_ENOSPC or CREMA_EIO
 * nothing of it remains, the number is not used, and the record counts as dropped; so does
 * CREMA_ELIMIT, a record that is too large. A forked child must not append (CREMA_EINVAL), and
 * its close leaves the stream alone. */
CREMA_MUST_CHECK crema_err_t crema_spool_writer_append(crema_spool_writer_t *self,
                                                       const crema_record_t *record,
                                                       int64_t t_mono_ns);

/* Writes END, closes and frees. Accepts NULL. */
void crema_spool_writer_close(crema_spool_writer_t **self_p);

/* ---- reader: all streams of a directory */
typedef struct crema_spool crema_spool_t;

/* The directory must exist. Does not take the lock: see crema_spool_lock. */
CREMA_MUST_CHECK crema_err_t crema_spool_open(const char *dir, crema_spool_t **ret_self);
void crema_spool_close(crema_spool_t **self_p);

/* flock on `<dir>/agent.lock`: one agent serves a spool. CREMA_EBUSY if another holds it. */
CREMA_MUST_CHECK crema_err_t crema_spool_lock(crema_spool_t *self);

/* Identity of the spool: 16 random bytes in `<dir>/agent_id`, created once and synced. A damaged
 * one is replaced by the holder of the lock. */
CREMA_MUST_CHECK crema_err_t crema_spool_agent_id(crema_spool_t *self, crema_id_t *ret_id);

/* The next scan lists the directory whatever its time says: of a server whose clock is behind, or
 * whose times are coarse, it does not show that a file has come. */
void crema_spool_list_anew(crema_spool_t *self);

/* Lists the directory, reads every segment that has grown, and closes abandoned streams if this
 * process holds the lock. Foreign files are counted and left alone. Errors of single files are
 * counted, not returned; if the directory cannot be listed, known segments are still read.
 * crema_spool_faults() returns what was left out. */
CREMA_MUST_CHECK crema_err_t crema_spool_scan(crema_spool_t *self);

/* Something the last scan or read could not do. */
typedef struct {
    crema_id_t stream_id;                  /* zero: the directory could not be listed */
    crema_id_t run_id;                     /* zero if unknown */
    char file[CREMA_SPOOL_NAME_CHARS + 1]; /* the segment's name; empty for the directory */
    /* errno; EBADMSG: records without a StreamInfo; EAGAIN: waiting for room, see
     * CREMA_SPOOL_STREAMS_MAX and CREMA_SPOOL_STREAMS_OF_USER */
    int why;
} crema_spool_fault_t;

/* The directory first, one fault per stream, then one per segment that waits for room; fills at
 * most `max`, of the waiting ones at most 32, and returns the total number. */
size_t crema_spool_faults(const crema_spool_t *self, crema_spool_fault_t *faults, size_t max);

/* A stream of this process has a place, however many its user has already. It is inserted at once:
 * a loop over crema_spool_stream() leaves none out, but may visit its current stream again. */
CREMA_MUST_CHECK crema_err_t crema_spool_expect(crema_spool_t *self, const crema_id_t *stream_id);

/* `gone` is called before a stream is forgotten, by a scan or a trim: its files are not there any
 * more. NULL: nobody is told. */
typedef void crema_spool_gone_fn(void *context, crema_spool_stream_t *stream);
void crema_spool_on_gone(crema_spool_t *self, crema_spool_gone_fn *gone, void *context);

size_t crema_spool_count(const crema_spool_t *self);
/* i < count; borrowed until it is gone. Only its cursor may be written. */
crema_spool_stream_t *crema_spool_stream(const crema_spool_t *self, size_t i);
const crema_spool_stream_t *crema_spool_find(const crema_spool_t *self,
                                             const crema_id_t *stream_id);

/* Copies whole frames from `first_seq` on into buf, as many as fit, or up to damage that looks
 * like a frame that does not. For numbers that are gone it creates LOSS frames, always with the
 * same bytes: CORRUPT for damage, EVICTED or STORE_REGRESSED for removed records. CREMA_ELIMIT: a
 * record is larger than `size`. *ret_n counts frames and is 0 if there is nothing yet; *ret_last
 * is the number of the last one, which after a LOSS exceeds first_seq + n - 1. */
CREMA_MUST_CHECK crema_err_t crema_spool_read(crema_spool_t *self, const crema_id_t *stream_id,
                                              uint64_t first_seq, uint8_t *buf, size_t size,
                                              size_t *ret_bytes, uint32_t *ret_n,
                                              uint64_t *ret_last);

/* Unlinks whole segments whose last number <= committed; a closed stream committed to its END
 * disappears. CREMA_ENOENT: unknown stream; CREMA_EIO: a file could not be removed, the next
 * call retries. */
CREMA_MUST_CHECK crema_err_t crema_spool_trim(crema_spool_t *self, const crema_id_t *stream_id,
                                              uint64_t committed);

/* Makes room: drops segments until at most max_bytes are held, closed streams before open ones
 * and oldest first; uncommitted records become LOSS(EVICTED). The newest segment of an open
 * stream stays, and so does all of a user who has at most an equal share of max_bytes. Segments
 * without a StreamInfo do not count. Returns the number of records given up. */
uint64_t crema_spool_evict(crema_spool_t *self, uint64_t max_bytes);

typedef struct {
    uint64_t bytes;         /* held on disk */
    uint64_t records;       /* held */
    uint64_t torn_bytes;    /* of torn tails, cut off */
    uint64_t corrupt;       /* numbers replaced by LOSS(CORRUPT) */
    uint64_t evicted;       /* numbers replaced by LOSS(EVICTED) */
    uint64_t foreign_files; /* now: not segments, or without a StreamInfo */
    uint64_t waiting_files; /* now: segments of streams that wait for room */
    uint64_t io_errors;
} crema_spool_stats_t;

crema_spool_stats_t crema_spool_stats(const crema_spool_t *self);

#endif
