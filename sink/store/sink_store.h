/* sink_store - the store directory: one writer, the journals of all runs, and the durable state of
 * every stream.
 *
 *     <store>/store        identity of the store, made once
 *     <store>/generation   how often it was opened, and its total time in service
 *     <store>/lock         held while it is open
 *     <store>/tombstones   see sink_tombs.h
 *     <store>/refused      see sink_refused.h
 *     <store>/<run_id>/    see sink_journal.h
 *
 * What is put collects in memory; sink_store_begin() has it written and synced in the background,
 * each journal for itself; the watermarks move when the sync of their journal has ended. A journal
 * that an earlier process wrote is renewed first, see sink_journal.h: what it holds is written, and
 * durable when that has ended. If it cannot be renewed, the run is set aside and what was appended
 * meanwhile is dropped; none of that was acknowledged.
 *
 * A run is in one of these stages. Work and memory grow with the number of live runs only.
 *
 *     UNREAD    its directory is from before the start; it is read on demand or examined
 *     LIVE      its journal is open and its streams are in memory
 *     RESTING   sealed and idle: its journal ends with a checkpoint; no file or stream is open
 *     ASIDE     its journal cannot be read: it accepts nothing and is retried every few seconds
 *     (freed)   its journal is gone and it accepts nothing: only its id is known */
#ifndef SINK_STORE_H
#define SINK_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_cost.h"
#include "crema_error.h"
#include "crema_id.h"
#include "crema_wire.h"
#include "sink_commit.h"
#include "sink_journal.h"

typedef struct sink_store sink_store_t;

/* A run as its journal describes it. */
typedef struct {
    crema_id_t run_id;
    sink_journal_state_t state; /* as of its next checkpoint */
    bool freed;                 /* its journal is gone: it accepts nothing more */
    bool is_full;      /* it has reached the limit of a run since this start: records are lost */
    bool is_renewing;  /* what was found in its journal is not durable yet */
    bool is_crowded;   /* its group is full: PUTs are refused until the next one begins */
    const char *aside; /* why its journal cannot be read, with the file; NULL: it is readable */
    uint64_t news;     /* PUTs and RUN_SEALs appended since the store was opened */
    uint64_t durable_news; /* those of them that are durable */
    /* the same of everything that was appended, of which a renewal counts as one */
    uint64_t appends, durable_appends;
    int64_t t_news_ns; /* real time of the last of them; 0: none */
    uint64_t bytes;    /* of its journal */
} sink_run_t;

/* An event for the log. */
typedef struct {
    enum {
        SINK_STORE_ASIDE = 1, /* a journal cannot be read */
        SINK_STORE_BACK,      /* it can be read again */
        SINK_STORE_DAMAGED,   /* part of a journal is lost */
        SINK_STORE_RUN_FULL,  /* a run has reached its limit */
        SINK_STORE_REFUSED,   /* records that a spool still held of a freed run are lost */
        SINK_STORE_STRAYS,    /* a journal holds streams of another run */
        SINK_STORE_BROKEN,    /* a commit failed: the process ends */
    } type;
    crema_id_t run_id;
    const char *text;
} sink_store_event_t;

/* A group of one run that has become durable, or (0 bytes) what was found in its journal. */
typedef struct {
    const sink_run_t *run;
    sink_journal_position_t end; /* of its journal */
    size_t bytes;
    int64_t waited_ns, took_ns; /* since its first append; its write and sync */
} sink_store_group_t;

typedef struct {
    const char *dir;         /* created if it is missing; its parent must exist */
    int64_t limit_bytes;     /* of all journals together; 0: no limit */
    int64_t run_limit_bytes; /* of the journal of one run; 0: no limit */
    size_t streams_max;      /* of live runs */
    size_t runs_max;         /* runs with a journal; freed ones do not count */
    /* NULL: not called. What they are given is borrowed during the call. */
    void (*on_event)(void *context, const sink_store_event_t *event);
    void (*on_group)(void *context, const sink_store_group_t *group);
    /* A run was freed, or could not be; after CREMA_EIO, of which errno is the reason, the process
     * ends. */
    void (*on_freed)(void *context, const crema_id_t *run_id, const char *why, crema_err_t err);
    void *context;
} sink_store_config_t;

/* What recovery has found so far. */
typedef struct {
    uint64_t runs;   /* directories of runs found at the start */
    uint64_t unread; /* of these, not read yet */
    uint64_t frames, bytes;
    uint64_t torn_bytes;     /* cut off: they were never acknowledged */
    uint64_t damaged_bytes;  /* unreadable in the middle */
    uint64_t missing_frames; /* acknowledged, and no longer readable */
    uint64_t aside;          /* runs that are set aside now */
    /* upper bound of the records of freed runs that are in no file, over all starts */
    uint64_t refused_records;
} sink_store_report_t;

/* CREMA_EBUSY: another sink holds it; for other errors `ret_why` is one sentence. */
CREMA_MUST_CHECK crema_err_t sink_store_open(const sink_store_config_t *config, char *ret_why,
                                             size_t why_size, sink_store_t **ret_self);

/* Identity of a store that is only looked at. CREMA_ENOENT: not a store; CREMA_EMAGIC: its file
 * `store` holds something else. After an error ret_why is a sentence that says what to pass
 * instead. */
CREMA_MUST_CHECK crema_err_t sink_store_identify(const char *dir, crema_id_t *ret_id, char *ret_why,
                                                 size_t why_size);

/* True if the name of a directory is a run id in lower case with hyphens. */
bool sink_store_is_run_name(const char *name, crema_id_t *ret_run_id);

/* Does not commit. */
void sink_store_close(sink_store_t **self_p);

/* Reads some of the runs that were there at the start; call it while idle until it returns
 * false. */
bool sink_store_examine(sink_store_t *self);
sink_store_report_t sink_store_report(const sink_store_t *self);

/* To continue a run nothing before its newest checkpoint is read. The whole journal of an
 * unfinished run is therefore re-read ("scrubbed") after a start, and when its list of writers
 * has come, before that list is confirmed. At a hole the watermarks fall back, so that what
 * spools still hold is asked for again. */
typedef struct {
    crema_id_t run_id;
    uint32_t parts; /* of its list of writers, which may be incomplete */
    bool for_list;  /* the list of writers can be confirmed now */
    bool fell;      /* records are missing: senders must be asked for them again */
} sink_store_scrubbed_t;
/* Reads the next piece of one such journal; true if it was the last one, described by
 * *ret_scrubbed. */
bool sink_store_scrub_some(sink_store_t *self, sink_store_scrubbed_t *ret_scrubbed);
/* True while there is more to read, or a run's end waits for what is being written of it. */
bool sink_store_is_scrubbing(const sink_store_t *self);
/* Starts the check for the list of writers, once per start; false: it is still running. */
bool sink_store_check_list(sink_store_t *self, const crema_id_t *run_id);
/* True while the run is being scrubbed for its list of writers or has a hole, or is renewed: until
 * then no sender may learn how far its streams are, or its spool would free the records. */
bool sink_store_is_held(const sink_store_t *self, const crema_id_t *run_id);
/* True if that part of the list of writers is in the journal. */
bool sink_store_has_part(const sink_store_t *self, const crema_id_t *run_id, uint32_t part);

/* Call it about once a second. Idle runs come to rest here, and the time in service, which
 * survives restarts, is advanced. */
void sink_store_tick(sink_store_t *self, int64_t mono_ns);

crema_id_t sink_store_id(const sink_store_t *self);
sink_commit_t *sink_store_watermarks(sink_store_t *self);

/* NULL if the run is unknown. Valid until the next call of the store. */
const sink_run_t *sink_store_find(sink_store_t *self, const crema_id_t *run_id);
/* Iterates over the live runs in no particular order: set *cursor to 0, call until NULL. */
const sink_run_t *sink_store_next(const sink_store_t *self, size_t *cursor);
size_t sink_store_live(const sink_store_t *self);
/* Number of all runs that were ever in this store, including freed ones. */
size_t sink_store_known(const sink_store_t *self);
/* Number of runs by stage; together all runs that were ever in this store. */
typedef struct {
    size_t live[CREMA_LIFE_COUNT]; /* live runs by state */
    size_t resting, unread, aside, freed;
} sink_store_census_t;
sink_store_census_t sink_store_census(const sink_store_t *self);
/* The run that has been resting longest, NULL if there is none; *ret_sealed_for_ns: how long ago
 * it was sealed, in time of service. */
const sink_run_t *sink_store_oldest(sink_store_t *self, int64_t *ret_sealed_for_ns);
/* The run that has been sealed longest of those whose file is COMPLETE, else of the others:
 * *ret_complete says which. NULL: none is sealed, or no COMPLETE one is known yet. Its file holds
 * all that its journal does, so its journal is removed when other records need room. Verdicts are
 * read from files, 256 per call. */
const sink_run_t *sink_store_redundant(sink_store_t *self, bool *ret_complete);
/* A run that still needs its end or a verdict and of which no record or message has come for
 * `after_ns`; NULL: none. Aggregators end silent runs themselves; this is for runs that no
 * aggregator knows any more. Call it about once a second. */
const sink_run_t *sink_store_silent(sink_store_t *self, int64_t after_ns, int64_t mono_ns);
/* A message about the run has come. */
void sink_store_heard(sink_store_t *self, const crema_id_t *run_id, int64_t mono_ns);
/* Bytes of all journals; bytes of the resting ones. */
uint64_t sink_store_bytes(const sink_store_t *self);
uint64_t sink_store_resting_bytes(const sink_store_t *self);

/* The state of a stream; `asked` is what its sender has. All zero if it is unknown. A freed run
 * accepts nothing, so everything its senders have counts as settled, with
 * CREMA_STREAM_FLAG_REFUSED; do not send that before sink_store_keep_refused() has succeeded.
 * CREMA_EIO: the run is set aside, its state is unknown; CREMA_EPROTO: the stream belongs to
 * another run; CREMA_EAGAIN: it is known, see sink_store_is_held(), or the run is crowded. */
CREMA_MUST_CHECK crema_err_t sink_store_stream(sink_store_t *self, const crema_stream_row_t *asked,
                                               crema_stream_row_t *ret_row);
/* Has the refused ranges made durable in a thread; once they are, their senders may discard the
 * records. CREMA_EAGAIN: they are being written. After an error they may not, and it is tried again
 * at the next call but one. */
CREMA_MUST_CHECK crema_err_t sink_store_keep_refused(sink_store_t *self);
/* Rows of all streams whose run has no final file yet, or has news since; the caller frees them.
 * CREMA_EAGAIN: some runs are still unread, or being renewed. */
CREMA_MUST_CHECK crema_err_t sink_store_open_streams(const sink_store_t *self,
                                                     crema_stream_row_t **ret_rows, size_t *ret_n);
/* The directory of the run's journal. Returns `ret_path`; see sink_fs_path(). */
char *sink_store_run_dir(const sink_store_t *self, const crema_id_t *run_id,
                         char ret_path[PATH_MAX]);

typedef struct {
    sink_put_t decision;
    uint64_t next; /* number expected before this PUT */
} sink_store_put_t;

/* Checks the frames, decides, and appends what is new. Of a run that has reached its limit only
 * the first and last records of streams are kept, with a LOSS for the rest. CREMA_EPROTO: the
 * frames are invalid, or the stream belongs to another run; CREMA_ENOENT: the run was freed;
 * CREMA_EIO: it is set aside; CREMA_ENOSPC: refused until there is room; CREMA_EAGAIN: the run is
 * crowded, or being freed; CREMA_ELIMIT: too many streams or runs. After an error nothing was
 * taken. */
CREMA_MUST_CHECK crema_err_t sink_store_put(sink_store_t *self, const Crema__Put *put,
                                            int64_t t_real_ns, sink_store_put_t *ret_put);

/* Takes RUN_OPEN, RUN_END or RUN_SEAL. If it is new, this program's `cost` so far (may be NULL) is
 * journaled before it, so that the file contains it. CREMA_EDENIED: the run was opened with another
 * key. *ret_new is false, and nothing is appended, for a message equal to the last one of its type
 * and for a RUN_SEAL without an end of a run that has ended. */
CREMA_MUST_CHECK crema_err_t sink_store_run_msg(sink_store_t *self, const crema_msg_t *msg,
                                                const crema_cost_t *cost, int64_t t_real_ns,
                                                bool *ret_new);
/* The same for a part of the list of writers. CREMA_ELIMIT: it was changed too often, or the run
 * has reached its limit. */
CREMA_MUST_CHECK crema_err_t sink_store_writers(sink_store_t *self, const Crema__RunWriters *msg,
                                                int64_t t_real_ns, bool *ret_new);
CREMA_MUST_CHECK crema_err_t sink_store_clock(sink_store_t *self, const Crema__ClockSample *sample,
                                              int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_store_sealed(sink_store_t *self, const crema_id_t *run_id,
                                               const sink_journal_sealed_t *sealed,
                                               int64_t t_real_ns);

/* File in a run's directory: the answer to RUN_SEAL, a SEALED message. */
#define SINK_STORE_ANSWER "sealed"
/* That answer, kept so that it can be repeated after a restart:
 * durable with the next append to the run, which it comes before. CREMA_ENOENT: there is none. The
 * caller frees the bytes. */
CREMA_MUST_CHECK crema_err_t sink_store_keep_answer(sink_store_t *self, const crema_id_t *run_id,
                                                    const uint8_t *bytes, size_t size);
CREMA_MUST_CHECK crema_err_t sink_store_answer(const sink_store_t *self, const crema_id_t *run_id,
                                               uint8_t **ret_bytes, size_t *ret_size);

/* True if the last RUN_SEAL of a live run is durable: sealing reads it from the journal. */
bool sink_store_may_seal(const sink_store_t *self, const crema_id_t *run_id);
/* Bytes of the runs that were appended to and not written since. */
size_t sink_store_pending_bytes(const sink_store_t *self);
/* True if something of the run is not durable. */
bool sink_store_is_pending(const sink_store_t *self, const crema_id_t *run_id);

/* A run rests after a sync as long as that took, at least a millisecond, at most `rest_max_ns`,
 * unless `bytes` have collected or a message of its life has come; after it found the disk full
 * as long as possible. */
typedef struct {
    int64_t rest_max_ns;
    size_t bytes;
} sink_store_pace_t;

/* Writes the group of each run that has rested (`pace` NULL: of each), and has it synced in the
 * background, while the next one collects: a slow sync delays only its own run. *ret_due_ns: when
 * the next run has rested, INT64_MAX: none rests. CREMA_ENOMEM: one of the groups is not written,
 * and PUTs are refused until it is. CREMA_EIO: end the process. */
CREMA_MUST_CHECK crema_err_t sink_store_begin(sink_store_t *self, const sink_store_pace_t *pace,
                                              int64_t *ret_due_ns);
/* Readable when a sync has ended. */
int sink_store_fd(const sink_store_t *self);
bool sink_store_has_ended(const sink_store_t *self);
/* Takes the syncs that have ended: moves the watermarks, then calls on_group() for each group.
 * CREMA_ENOSPC: nothing of one of the groups was written, it stays in memory, and PUTs are
 * refused until that succeeds. CREMA_EIO: end the process. */
CREMA_MUST_CHECK crema_err_t sink_store_end(sink_store_t *self);
/* Both for everything, and waits for it. */
CREMA_MUST_CHECK crema_err_t sink_store_commit(sink_store_t *self);

typedef enum {
    SINK_SPACE_FREE,
    /* 90 % of the limit, or of a disk with less than 2 GiB free: ask for a slower pace */
    SINK_SPACE_SHORT,
    SINK_SPACE_FULL, /* 95 %, or of a disk with less than 1 GiB free: refuse */
} sink_space_t;

/* Checks the disk again; *ret_free_b is how much journals may still grow. */
sink_space_t sink_store_space(sink_store_t *self, uint64_t *ret_free_b);

/* Has the tombstone of a sealed run without late records written, then its journal removed except
 * for files set aside as damaged; sink_store_begin() begins that in a thread for all that were
 * taken, and on_freed() is called when it has ended. Meanwhile nothing of the run is taken or
 * told. `why` is borrowed until then. CREMA_EINVAL: it is not sealed; CREMA_EAGAIN: try again
 * later: it has yet to come to rest, or others are being freed. */
CREMA_MUST_CHECK crema_err_t sink_store_begin_free(sink_store_t *self, const crema_id_t *run_id,
                                                   const char *why);

#endif
