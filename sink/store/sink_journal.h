/* sink_journal - a run's journal: the commit point.
 *
 * A directory of segments `000001.journal`, ... framed as in crema_frame.h. Each starts with a JOURNAL_HEADER, which is durable before
 * anything else is written, and a checkpoint: the state of the run and of all its streams before this segment. Neither has a number; all other
 * frames are numbered densely through the segments. So the newest segment is enough to go on with a run, and all of them are read only to
 * make its file.
 *
 * Appends collect in memory and reach the file with one write() per group; sink_journal_sync() is the only promise. A write that finds the
 * disk full is undone and may be tried again. After any other failure of write or sync the journal is broken for good: Linux may
 * have marked the pages clean, so a second try would lie. Opening it again writes the last segment's pages anew before it trusts them.
 *
 * What cannot be read is never deleted: a segment without a readable frame becomes `000001.journal.damaged`, and what was cut off as torn is kept
 * in `000001.journal.torn`. A segment no longer than its header was begun and never written to: it
 * is removed. */
#ifndef SINK_JOURNAL_H
#define SINK_JOURNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_wire.h"

#define SINK_SEGMENT_BYTES (16u << 20)     /* a new one is begun beyond that */
#define SINK_SEGMENT_BYTES_MAX (96u << 20) /* read; earlier versions wrote up to 64 MiB */
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

/* A run as a checkpoint has it. */
typedef struct {
    uint64_t next_frame;                     /* number of the frame that follows */
    int64_t revision;                        /* of the last SEALED; 0: none */
    int64_t t_sealed_ns;                     /* real time of that */
    int64_t age_sealed_ns;                   /* service time of the store at that; 0: unknown */
    uint32_t said_open, said_end, said_seal; /* checksums of the last message of each type */
    bool seal_asked, late;
    uint32_t life; /* crema_life_t */
    crema_id_t owner;
    uint8_t agent_key[CREMA_WIRE_KEY_BYTES];
    uint64_t n_marks;
} sink_journal_state_t;

/* One stream there. */
typedef struct {
    crema_id_t stream_id;
    uint64_t committed; /* everything up to here is in the journal */
    uint64_t hi; /* the highest number that was ever in it; more than committed after damage */
    bool closed; /* `committed` is the END */
} sink_journal_mark_t;

/* Gives the state of the run before what is pending, with its marks in memory that the caller frees. */
typedef struct {
    void *context;
    crema_err_t (*fn)(void *context, sink_journal_state_t *ret_state,
                      sink_journal_mark_t **ret_marks);
} sink_journal_head_t;

typedef struct sink_journal sink_journal_t;

/* Appending copies. CREMA_ELIMIT: the group is full, sync first; CREMA_EIO: broken. */
CREMA_MUST_CHECK crema_err_t sink_journal_put(sink_journal_t *self, const sink_journal_put_t *put);
CREMA_MUST_CHECK crema_err_t sink_journal_run(sink_journal_t *self, crema_msg_type_t type,
                                              const crema_run_msg_t *msg, int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_writers(sink_journal_t *self,
                                                  const crema_writers_msg_t *msg,
                                                  int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_clock(sink_journal_t *self,
                                                const crema_clock_sample_t *sample,
                                                int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_journal_sealed(sink_journal_t *self,
                                                 const sink_journal_sealed_t *sealed,
                                                 int64_t t_real_ns);

/* write() what was collected, then fdatasync. `head` gives the checkpoint if a segment begins; NULL: it has none. CREMA_ENOSPC: nothing of
 * the group is in the file and all of it is still collected. CREMA_EIO: broken; never acknowledge, end the process. */
CREMA_MUST_CHECK crema_err_t sink_journal_sync(sink_journal_t *self,
                                               const sink_journal_head_t *head);
/* Ends with a segment of nothing but a checkpoint, so that nothing else needs to be read. Nothing may be pending. */
CREMA_MUST_CHECK crema_err_t sink_journal_rest(sink_journal_t *self,
                                               const sink_journal_head_t *head);
size_t sink_journal_pending_bytes(const sink_journal_t *self);
uint64_t sink_journal_bytes(const sink_journal_t *self);
/* Up to where it is durable: all segments before, and so many bytes of this one. */
typedef struct {
    uint32_t segment;
    uint64_t bytes;
} sink_journal_position_t;
sink_journal_position_t sink_journal_position(const sink_journal_t *self);
/* Bytes of a torn tail that the opening cut. */
uint64_t sink_journal_torn_bytes(const sink_journal_t *self);

/* Reading; any function may be NULL. A function that returns an error stops the reading with it. What the arguments point at is valid during
 * the call. Everything comes in the order of the journal but for PUTs behind a hole in their stream: those wait for what was delivered
 * anew, or for the end. */
typedef struct {
    void *context;
    crema_err_t (*put)(void *context, const sink_journal_put_t *put);
    crema_err_t (*run)(void *context, crema_msg_type_t type, const crema_run_msg_t *msg);
    crema_err_t (*clock)(void *context, const crema_clock_sample_t *sample);
    crema_err_t (*sealed)(void *context, const sink_journal_sealed_t *sealed);
    crema_err_t (*writers)(void *context, const crema_writers_msg_t *msg);
    crema_err_t (*state)(void *context, const sink_journal_state_t *state);
    crema_err_t (*mark)(void *context, const sink_journal_mark_t *mark);
} sink_journal_visitor_t;

typedef struct {
    crema_id_t store_id;
    crema_id_t run_id;
    uint64_t segments, frames, bytes;
    uint64_t torn_bytes;    /* behind the last whole frame of the last segment */
    uint64_t damaged_bytes; /* unreadable in the middle, or set aside: never silent */
    uint64_t
        missing_frames; /* numbers that no frame carries: lost to the damage, or with a whole segment */
    uint64_t before_seal; /* of these two together, what lies before the last RUN_SEAL */
} sink_journal_report_t;

/* Opens for appending in a new segment after what is there (a torn tail is cut), or makes the directory. `visitor` (may be NULL) is shown the
 * newest checkpoint and what follows it, or all of a journal without one. CREMA_EMAGIC: the directory holds a journal of another run or
 * store; CREMA_EBUSY: a later generation wrote there. After an error `ret_where` names the file, if it is one. */
CREMA_MUST_CHECK crema_err_t sink_journal_open(const char *dir, const crema_id_t *store_id,
                                               const crema_id_t *run_id, uint64_t generation,
                                               const sink_journal_visitor_t *visitor,
                                               sink_journal_report_t *ret_report,
                                               char ret_where[PATH_MAX], sink_journal_t **ret_self);
void sink_journal_close(sink_journal_t **self_p);

/* What a journal that ends with a checkpoint says of its run, read from that alone, and its bytes on the disk. CREMA_ENOENT: it does not
 * end so, is damaged, or is of another store or run: open it. */
CREMA_MUST_CHECK crema_err_t sink_journal_peek(const char *dir, const crema_id_t *store_id,
                                               const crema_id_t *run_id,
                                               sink_journal_state_t *ret_state, uint64_t *ret_bytes,
                                               char ret_where[PATH_MAX]);

/* Shows what opening would, the newest checkpoint and what follows it, and changes nothing: a sink may be appending. The report is of what
 * was read. CREMA_ENOENT: no such directory, or no segment in it. After an error `ret_where` names the file, if it is one. */
CREMA_MUST_CHECK crema_err_t sink_journal_look(const char *dir,
                                               const sink_journal_visitor_t *visitor,
                                               sink_journal_report_t *ret_report,
                                               char ret_where[PATH_MAX]);

/* CREMA_ENOENT: no such directory or no segment in it; CREMA_EMAGIC: not a journal. */
CREMA_MUST_CHECK crema_err_t sink_journal_read(const char *dir,
                                               const sink_journal_visitor_t *visitor,
                                               sink_journal_report_t *ret_report);

/* Reads a journal on from where it stopped, while its sink appends. The visitor is copied; PUTs behind a hole are shown where they lie. */
typedef struct sink_journal_tail sink_journal_tail_t;
CREMA_MUST_CHECK crema_err_t sink_journal_tail_new(const char *dir,
                                                   const sink_journal_visitor_t *visitor,
                                                   sink_journal_tail_t **ret_self);
void sink_journal_tail_destroy(sink_journal_tail_t **self_p);
bool sink_journal_tail_is_behind(const sink_journal_tail_t *self,
                                 const sink_journal_position_t *until);
/* Shows what is new up to `until`, of one segment at most. */
CREMA_MUST_CHECK crema_err_t sink_journal_tail_read(sink_journal_tail_t *self,
                                                    const sink_journal_position_t *until);

#endif
