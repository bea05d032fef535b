/* sink_journal - a run's journal: the commit point.
 *
 * A directory of segments `000001.journal`, ... framed as in crema_frame.h. Each segment starts
 * with a JOURNAL_HEADER, which is durable before anything else is written, and a checkpoint: the
 * state of the run and of all its streams before this segment. These two carry no number; all
 * other frames are numbered densely through all segments. So the newest segment is enough to
 * continue a run; all segments are read only to make its file.
 *
 * Appended frames collect in memory and reach the file with one write() per group; only
 * an fdatasync makes them durable. A write that finds the disk full is undone and may be
 * retried. After any other failure of write or sync the journal stays broken: Linux may have
 * marked the pages clean, so a retry could report success for lost data. What an earlier process
 * left is therefore renewed before it counts as durable: the last segment's pages are rewritten, a
 * torn tail is cut, and both are synced in a thread, as a group is. Only in a damaged journal,
 * of which the disk does not give everything, opening itself waits for a sync.
 *
 * Unreadable data is never deleted: a segment without a readable frame becomes
 * `000001.journal.damaged`, a torn tail that was cut off is kept in `000001.journal.torn`, and of a
 * newest segment that the disk gives in part `000001.journal.unread` stays beside its copy. A
 * segment no longer than its header was never written to and is removed. */
#ifndef SINK_JOURNAL_H
#define SINK_JOURNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_life.h"
#include "crema_wire.h"
#include "sink_unread.h"

#define SINK_SEGMENT_BYTES (16u << 20)     /* when it is longer, a new segment begins */
#define SINK_SEGMENT_BYTES_MAX (96u << 20) /* more than one has with a group and a checkpoint */
#define SINK_GROUP_BYTES_MAX (16u << 20)   /* collected between two syncs */

typedef enum {
    SINK_JOURNAL_HEADER = 65,
    SINK_JOURNAL_PUT = 66,
    SINK_JOURNAL_RUN = 67,
    SINK_JOURNAL_CLOCK = 68,
    SINK_JOURNAL_SEALED = 69,
    SINK_JOURNAL_CHECKPOINT = 72,
    SINK_JOURNAL_MARKS = 73,
} sink_journal_type_t;

/* Structs as they lie on disk; bits and bytes that have no meaning yet are 0 there. */

typedef struct {
    crema_id_t stream_id;
    crema_id_t agent_id;
    uint64_t first_seq;
    uint32_t n;
    uint32_t late : 1; /* arrived after the verdict */
    uint32_t no_flags : 31;
    /* Not in the same place on disk: */
    const uint8_t *frames; /* n record frames */
    size_t frames_bytes;
    int64_t t_recv_ns; /* sink's real time */
} sink_journal_put_t;

typedef struct {
    int64_t revision;
    uint64_t file_bytes;
    uint8_t sha256[32]; /* sha256_payload of the sealed file */
    int64_t t_real_ns;  /* when it was journaled, from its frame; set by reading only */
} sink_journal_sealed_t;

/* The state of a run in a checkpoint. */
typedef struct {
    uint64_t next_frame;   /* number of the frame after the checkpoint */
    int64_t revision;      /* of the last SEALED; 0: none */
    int64_t t_sealed_ns;   /* real time of that SEALED */
    int64_t age_sealed_ns; /* the store's service time at that SEALED; 0: unknown */
    /* Checksums of the last RUN_OPEN, RUN_END and RUN_SEAL, without the time of the verdict; 0:
     * none yet. */
    uint32_t said_open, said_end, said_seal;
    uint32_t seal_asked : 1; /* a RUN_SEAL is in the journal, and no RUN_END after it */
    uint32_t late : 1;       /* records or another RUN_SEAL came after the last SEALED */
    uint32_t no_flags : 30;
    uint64_t n_marks;
    crema_life_t life; /* not checked */
    uint32_t unused;
    crema_id_t owner; /* the key that opened the run; zero: no keys, or not opened */
    uint8_t agent_key[CREMA_WIRE_KEY_BYTES]; /* of its own agents, from RUN_OPEN; zero: none */
} sink_journal_state_t;

/* The state of one stream in a checkpoint. */
typedef struct {
    crema_id_t stream_id;
    uint64_t committed; /* everything up to this number is in the journal */
    uint64_t hi;        /* the highest number that was ever in it; above `committed` after damage */
    uint32_t closed : 1; /* `committed` is the END */
    uint32_t no_flags : 31;
    uint32_t unused;
} sink_journal_mark_t;

/* Returns the state of the run without what is pending, and its marks, which the caller frees. */
typedef struct {
    void *context;
    crema_err_t (*fn)(void *context, const crema_id_t *run_id, sink_journal_state_t *ret_state,
                      sink_journal_mark_t **ret_marks);
} sink_journal_head_t;

typedef struct sink_journal sink_journal_t;

/* Appending copies its argument. CREMA_EAGAIN: the group is full, begin it first; CREMA_ELIMIT:
 * more than a frame may hold; CREMA_EIO: the journal is broken. */
CREMA_MUST_CHECK crema_err_t sink_journal_put(sink_journal_t *self, const sink_journal_put_t *put);
CREMA_MUST_CHECK crema_err_t sink_journal_run(sink_journal_t *self, const crema_msg_t *msg,
                                              int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_writers(sink_journal_t *self,
                                                  const Crema__RunWriters *msg, int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_clock(sink_journal_t *self,
                                                const Crema__ClockSample *sample,
                                                int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_sealed(sink_journal_t *self,
                                                 const sink_journal_sealed_t *sealed,
                                                 int64_t t_real_ns);

/* Has a copy of the file made durable in the journal's directory before the next group, in the same
 * place of one that still waits. `name` is borrowed until then. */
CREMA_MUST_CHECK crema_err_t sink_journal_file(sink_journal_t *self, const char *name,
                                               const uint8_t *bytes, size_t size);

/* Takes what was collected as the group that sink_journal_work() writes; or, after CREMA_ENOSPC,
 * the same group again. Until sink_journal_end() the journal may be appended to, but neither
 * brought to rest nor closed. `head` provides the checkpoint if a new segment begins; NULL: no
 * checkpoint. CREMA_ENOMEM: no group was taken. CREMA_EIO: broken; acknowledge nothing and end the
 * process. */
CREMA_MUST_CHECK crema_err_t sink_journal_begin(sink_journal_t *self,
                                                const sink_journal_head_t *head);
/* Writes and syncs the group, in any thread. */
void sink_journal_work(sink_journal_t *self);
/* Its outcome. CREMA_ENOSPC: nothing of the group is in the file and all of it is still in memory.
 * CREMA_EIO: as above, with errno. */
CREMA_MUST_CHECK crema_err_t sink_journal_end(sink_journal_t *self);
/* The same for a segment that holds only a checkpoint, after which nothing else must be read to
 * know the journal's state. Nothing may be pending; what is appended meanwhile comes behind it.
 * After an error of sink_journal_end() the journal is as it was, and not broken. */
CREMA_MUST_CHECK crema_err_t sink_journal_begin_rest(sink_journal_t *self,
                                                     const sink_journal_head_t *head);
/* Appended and not durable yet. */
size_t sink_journal_pending_bytes(const sink_journal_t *self);
uint64_t sink_journal_bytes(const sink_journal_t *self);
/* The durable end: all segments before `segment`, and `bytes` of it. */
typedef struct {
    uint32_t segment;
    uint64_t bytes;
} sink_journal_position_t;
sink_journal_position_t sink_journal_position(const sink_journal_t *self);

/* For reading; any function may be NULL. An error returned by a function ends the reading and is
 * its result. Pointers in the arguments are valid during the call. Everything comes in journal
 * order except PUTs behind a hole in their stream: these wait until the hole has been filled by
 * a repeated delivery, or until the end. */
typedef struct {
    void *context;
    crema_err_t (*put)(void *context, const sink_journal_put_t *put);
    crema_err_t (*run)(void *context, const crema_msg_t *msg); /* RUN_OPEN, RUN_END, RUN_SEAL */
    crema_err_t (*clock)(void *context, const Crema__ClockSample *sample);
    crema_err_t (*sealed)(void *context, const sink_journal_sealed_t *sealed);
    crema_err_t (*writers)(void *context, const Crema__RunWriters *msg);
    crema_err_t (*state)(void *context, const sink_journal_state_t *state);
    crema_err_t (*mark)(void *context, const sink_journal_mark_t *mark);
} sink_journal_visitor_t;

typedef struct {
    crema_id_t store_id;
    crema_id_t run_id;
    uint64_t segments, frames, bytes;
    uint64_t torn_bytes;     /* after the last whole frame of the last segment */
    uint64_t damaged_bytes;  /* unreadable in the middle, or in a segment set aside */
    uint64_t missing_frames; /* numbers that no frame carries: damaged, or in a missing segment */
    uint64_t before_seal;    /* the part of these two that lies before the last RUN_SEAL */
    sink_unread_t unread;    /* the part of the damage that is what the disk did not give */
} sink_journal_report_t;

/* Opens a journal for appending in a new segment, or creates the directory. See
 * sink_journal_is_renewed().
 * `visitor` (may be NULL) receives the newest checkpoint and what follows it, or the whole
 * journal if it has no checkpoint. CREMA_EMAGIC: the directory holds a journal of another run or
 * store; CREMA_EBUSY: a later generation has written there. After an error `ret_where` names the
 * file, if one is to blame. */
CREMA_MUST_CHECK crema_err_t sink_journal_open(const char *dir, const crema_id_t *store_id,
                                               const crema_id_t *run_id, uint64_t generation,
                                               const sink_journal_visitor_t *visitor,
                                               sink_journal_report_t *ret_report,
                                               char ret_where[PATH_MAX], sink_journal_t **ret_self);
/* False: an earlier process may have written what was found, which is not durable before
 * sink_journal_work() and sink_journal_end() have renewed it. Until then the journal may be
 * appended to, and nothing else. After an error of sink_journal_end(), of which errno may be the
 * cause, close it: opening it again is a new attempt. */
bool sink_journal_is_renewed(const sink_journal_t *self);
/* Right after opening: this process has synced all of it, so that nothing must be renewed unless
 * somebody changed it. */
void sink_journal_trust(sink_journal_t *self);
void sink_journal_close(sink_journal_t **self_p);

/* Reads the state of a run, and the journal's size on disk, from the checkpoint at the end of
 * the journal only. CREMA_ENOENT: the journal does not end with a checkpoint, is damaged, or
 * belongs to another store or run: open it instead. */
CREMA_MUST_CHECK crema_err_t sink_journal_peek(const char *dir, const crema_id_t *store_id,
                                               const crema_id_t *run_id,
                                               sink_journal_state_t *ret_state, uint64_t *ret_bytes,
                                               char ret_where[PATH_MAX]);

/* Shows the visitor what opening would show, and changes nothing: a sink may be appending. The
 * report covers what was read. CREMA_ENOENT: not found, or it has no segment. After an
 * error `ret_where` names the file, if one is to blame. */
CREMA_MUST_CHECK crema_err_t sink_journal_look(const char *dir,
                                               const sink_journal_visitor_t *visitor,
                                               sink_journal_report_t *ret_report,
                                               char ret_where[PATH_MAX]);

/* Reads the whole journal. CREMA_ENOENT: not found, or it has no segment; CREMA_EMAGIC:
 * not a journal; CREMA_EIO, with errno: nothing of it could be read. */
CREMA_MUST_CHECK crema_err_t sink_journal_read(const char *dir,
                                               const sink_journal_visitor_t *visitor,
                                               sink_journal_report_t *ret_report);

/* Follows a journal while its sink appends to it: each read continues where the last one ended.
 * The visitor is copied; PUTs behind a hole are shown where they lie. */
typedef struct sink_journal_tail sink_journal_tail_t;
CREMA_MUST_CHECK crema_err_t sink_journal_tail_new(const char *dir,
                                                   const sink_journal_visitor_t *visitor,
                                                   sink_journal_tail_t **ret_self);
void sink_journal_tail_destroy(sink_journal_tail_t **self_p);
bool sink_journal_tail_is_behind(const sink_journal_tail_t *self,
                                 const sink_journal_position_t *until);
/* Shows some of what is new up to `until`, or nothing but comes nearer to it. */
CREMA_MUST_CHECK crema_err_t sink_journal_tail_read(sink_journal_tail_t *self,
                                                    const sink_journal_position_t *until);

#endif
