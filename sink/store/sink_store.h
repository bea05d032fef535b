/* sink_store - the store directory: one writer, the journals of all runs, and what is durable of every stream.
 *
 *     <store>/store        who this store is, made once
 *     <store>/generation   how often it was opened, and how long it was in service
 *     <store>/lock         held while it is open
 *     <store>/tombstones   see sink_tombs.h
 *     <store>/refused      see sink_refused.h
 *     <store>/<run_id>/    see sink_journal.h
 *
 * What is put collects in memory; sink_store_commit() syncs every journal with something new and only then moves the watermarks.
 *
 * A run is in one of these stages; work and memory follow those that are live, not what ever was:
 *
 *     UNREAD    its directory is there since before the start; it is read when something asks for it, or by sink_store_examine()
 *     LIVE      its journal is open and its streams are in memory
 *     RESTING   sealed, and nothing came for a while: its journal ends with a checkpoint, neither file nor stream is in memory
 *     ASIDE     its journal cannot be read: it takes nothing, and is tried again every few seconds
 *     (freed)   its journal is gone and it takes nothing any more: known by its id alone */
#ifndef SINK_STORE_H
#define SINK_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_cost.h"
#include "crema_error.h"
#include "crema_id.h"
#include "crema_life.h"
#include "crema_wire.h"
#include "sink_commit.h"
#include "sink_journal.h"

typedef struct sink_store sink_store_t;

typedef struct {
    const char *dir;         /* made if it is missing; its parent must exist */
    int64_t limit_bytes;     /* of all journals together; 0: none */
    int64_t run_limit_bytes; /* of the journal of one run; 0: none */
    size_t streams_max;      /* of runs that are live */
    size_t runs_max;         /* that are there; freed ones do not count */
} sink_store_config_t;

/* One run as the journal holds it. */
typedef struct {
    crema_id_t run_id;
    crema_life_t life;
    bool seal_asked;     /* a RUN_SEAL is in the journal, and no RUN_END after it */
    int64_t revision;    /* of the last SEALED that is in the journal, 0 before */
    int64_t t_sealed_ns; /* real time of that */
    bool late;           /* records or another RUN_SEAL came after that SEALED */
    bool freed;          /* its journal is gone: nothing more is taken */
    bool is_full;        /* it has met the limit of a run since this start: records are lost */
    const char *aside;   /* why its journal cannot be read, with the file; NULL: it can */
    uint64_t news;       /* PUTs and RUN_SEALs appended since the store was opened */
    int64_t t_news_ns;   /* real time of the last of them; 0: none */
    crema_id_t owner; /* the key that opened it; zero: there were no keys, or it was not opened */
    uint8_t
        agent_key[CREMA_WIRE_KEY_BYTES]; /* of its own agents, as RUN_OPEN brought it; zero: none */
} sink_run_t;

/* What the recovery met so far. */
typedef struct {
    uint64_t runs;   /* directories of runs that were there */
    uint64_t unread; /* of these not looked at yet */
    uint64_t frames, bytes;
    uint64_t torn_bytes;     /* cut: they were never acknowledged */
    uint64_t damaged_bytes;  /* unreadable in the middle */
    uint64_t missing_frames; /* acknowledged, and no longer readable */
    uint64_t foreign;        /* directories that are no journal of this store: left alone */
    uint64_t aside;          /* runs that are set aside now */
    uint64_t
        refused_records; /* at most so many of freed runs are in no file, of all starts together */
} sink_store_report_t;

/* CREMA_EBUSY: another sink holds it; otherwise `ret_why` is one sentence. */
CREMA_MUST_CHECK crema_err_t sink_store_open(const sink_store_config_t *config, char *ret_why,
                                             size_t why_size, sink_store_t **ret_self);
/* Limits of all journals and of one run's, as in the configuration, from now on. */
void sink_store_limit(sink_store_t *self, int64_t limit_bytes, int64_t run_limit_bytes);

/* Does not commit. */
void sink_store_close(sink_store_t **self_p);

/* Looks at some of the runs that were there at the start; call it between other things until it is false. */
bool sink_store_examine(sink_store_t *self);
sink_store_report_t sink_store_report(const sink_store_t *self);

/* What lies before the newest checkpoint is not read to go on with a run. So the whole journal of a run that is not over is read once more: after
 * a start, and when its list of writers has come, before that is confirmed. Where it has a hole the watermarks fall back to it, for what
 * spools still hold can be asked for again. */
typedef struct {
    crema_id_t run_id;
    uint32_t parts; /* of its list of writers, of which it may not have all */
    bool for_list;  /* its list of writers can be confirmed now */
    bool fell;      /* something is missing: whoever delivers must be told to ask anew */
} sink_store_scrubbed_t;
/* Reads a piece of one such journal; *ret_scrubbed if that was the last one: true. */
bool sink_store_scrub_some(sink_store_t *self, sink_store_scrubbed_t *ret_scrubbed);
/* Whether there is more of it, and whether nothing goes on before a commit. */
bool sink_store_is_scrubbing(const sink_store_t *self, bool *ret_waits);
/* Asks for it, once a start; false: it is still going on. */
bool sink_store_check_list(sink_store_t *self, const crema_id_t *run_id);
/* It goes on: until it is over nobody is told how far a stream of this run is, for its spool would let go of it. */
bool sink_store_is_held(const sink_store_t *self, const crema_id_t *run_id);
/* A part of its list of writers is in the journal. */
bool sink_store_has_part(const sink_store_t *self, const crema_id_t *run_id, uint32_t part);

/* Call it about once a second. Runs come to rest here, and the time of service grows, which is kept across restarts. */
void sink_store_tick(sink_store_t *self, int64_t mono_ns);
/* How long this store has been in service, all starts together; no clock that is set changes it. */
int64_t sink_store_age_ns(const sink_store_t *self);

/* What the log should say. The text is borrowed until the next call. */
typedef struct {
    enum {
        SINK_STORE_ASIDE = 1, /* a journal cannot be read */
        SINK_STORE_BACK,      /* now it can */
        SINK_STORE_DAMAGED,   /* something of a journal is lost */
        SINK_STORE_RUN_FULL,  /* a run has reached its limit */
        SINK_STORE_REFUSED,   /* what a spool still held of a freed run is lost */
        SINK_STORE_STRAYS,    /* a journal has streams that belong to another run */
        SINK_STORE_BROKEN,    /* a commit failed: the process ends */
    } type;
    crema_id_t run_id;
    const char *text;
} sink_store_event_t;
bool sink_store_event(sink_store_t *self, sink_store_event_t *ret_event);

crema_id_t sink_store_id(const sink_store_t *self);
sink_commit_t *sink_store_watermarks(sink_store_t *self);

/* NULL if nothing is known of the run. Valid until the next call of the store. */
const sink_run_t *sink_store_find(sink_store_t *self, const crema_id_t *run_id);
/* Every run that is live, in no particular order: set *cursor to 0, call until NULL. */
const sink_run_t *sink_store_next(const sink_store_t *self, size_t *cursor);
size_t sink_store_live(const sink_store_t *self);
/* All that were ever here, freed ones too. */
size_t sink_store_known(const sink_store_t *self);
/* How many are where, as a count of all that were ever here. */
typedef struct {
    size_t live[CREMA_LIFE_COUNT]; /* their journals are open */
    size_t resting, unread, aside, freed;
} sink_store_census_t;
sink_store_census_t sink_store_census(const sink_store_t *self);
/* The run that has been resting longest, NULL if there is none, and for how long it was sealed in time of service. */
const sink_run_t *sink_store_oldest(const sink_store_t *self, int64_t *ret_sealed_for_ns);
/* Bytes of all journals, and of those that rest. */
uint64_t sink_store_bytes(const sink_store_t *self);
uint64_t sink_store_resting_bytes(const sink_store_t *self);

/* What is known of a stream of a run, of which `asked` says what its sender has: zeros if nothing is known. A freed run takes nothing, so of
 * its streams everything up to the sender's last number counts as settled, with CREMA_STREAM_FLAG_REFUSED: not to be said before
 * sink_store_keep_refused() succeeded. CREMA_EIO: the run is set aside: nothing can be said of it; CREMA_EPROTO: the stream is another
 * run's, whose numbers say nothing about it; CREMA_EAGAIN: see sink_store_is_held(). */
CREMA_MUST_CHECK crema_err_t sink_store_stream(sink_store_t *self, const crema_stream_row_t *asked,
                                               crema_stream_row_t *ret_row);
/* What was refused since is durable: whoever holds it may let go of it. After an error it may not, and trying again is sound. */
CREMA_MUST_CHECK crema_err_t sink_store_keep_refused(sink_store_t *self);
/* Rows of all streams whose run has no final file yet, or has news since; the caller frees them. CREMA_EAGAIN: not all runs were examined
 * yet. */
CREMA_MUST_CHECK crema_err_t sink_store_open_streams(const sink_store_t *self,
                                                     crema_stream_row_t **ret_rows, size_t *ret_n);
/* The directory of its journal. */
CREMA_MUST_CHECK crema_err_t sink_store_run_dir(const sink_store_t *self, const crema_id_t *run_id,
                                                char ret_path[PATH_MAX]);

typedef struct {
    sink_put_t decision;
    uint64_t next; /* number expected before this PUT; what a NACK says */
} sink_store_put_t;

/* Checks the frames, decides, appends what is new. Of a run that has reached its limit only beginnings and ends of streams are kept, and a
 * LOSS for the rest. CREMA_EPROTO: the frames are not sound, or the stream is another run's; CREMA_ENOENT: the run's journal was freed;
 * CREMA_EIO: it is set aside; CREMA_ENOSPC: refused until there is room; CREMA_ELIMIT: too many streams or runs, or the group is full:
 * commit and try again. Nothing was taken then. */
CREMA_MUST_CHECK crema_err_t sink_store_put(sink_store_t *self, const crema_data_t *put,
                                            int64_t t_real_ns, sink_store_put_t *ret_put);

/* RUN_OPEN, RUN_END or RUN_SEAL. CREMA_EDENIED: another key opened the run. A message that says the same as the last of its type appends nothing, nor does the RUN_SEAL without an end
 * of a run that has ended: *ret_new is false. */
CREMA_MUST_CHECK crema_err_t sink_store_run_msg(sink_store_t *self, crema_msg_type_t type,
                                                const crema_run_msg_t *msg, int64_t t_real_ns,
                                                bool *ret_new);
/* RUN_SEAL likewise, and before it, if it is new, what this program has cost by now, so that the file has it. */
CREMA_MUST_CHECK crema_err_t sink_store_seal(sink_store_t *self, const crema_run_msg_t *msg,
                                             const crema_cost_t *cost, int64_t t_real_ns,
                                             bool *ret_new);
/* A part of the list of writers, likewise. CREMA_ELIMIT: it was changed too often, or the run has reached its limit. */
CREMA_MUST_CHECK crema_err_t sink_store_writers(sink_store_t *self, const crema_writers_msg_t *msg,
                                                int64_t t_real_ns, bool *ret_new);
CREMA_MUST_CHECK crema_err_t sink_store_clock(sink_store_t *self,
                                              const crema_clock_sample_t *sample,
                                              int64_t t_real_ns);
CREMA_MUST_CHECK crema_err_t sink_store_sealed(sink_store_t *self, const crema_id_t *run_id,
                                               const sink_journal_sealed_t *sealed,
                                               int64_t t_real_ns);

/* The answer to RUN_SEAL, kept beside the run's journal so that it can be given again after a restart. CREMA_ENOENT: there is none. The
 * caller frees what it gets. */
CREMA_MUST_CHECK crema_err_t sink_store_keep_answer(sink_store_t *self, const crema_id_t *run_id,
                                                    const uint8_t *bytes, size_t size);
CREMA_MUST_CHECK crema_err_t sink_store_answer(const sink_store_t *self, const crema_id_t *run_id,
                                               uint8_t **ret_bytes, size_t *ret_size);

/* Bytes that wait for a commit. */
size_t sink_store_pending_bytes(const sink_store_t *self);

/* Syncs, moves the watermarks, then shows `fn` (may be NULL) each journal with something new. CREMA_ENOSPC: nothing
 * is committed, everything stays collected, and puts are refused until a commit succeeds. CREMA_EIO: end the process. */
typedef void (*sink_store_group_fn)(void *context, const sink_run_t *run,
                                    const sink_journal_t *journal);
CREMA_MUST_CHECK crema_err_t sink_store_commit(sink_store_t *self, sink_store_group_fn fn,
                                               void *context);

typedef enum {
    SINK_SPACE_FREE,
    SINK_SPACE_SHORT, /* 90 % of the limit, or of the disk with less than 2 GiB left: ask for a slower pace */
    SINK_SPACE_FULL, /* 95 %, or of the disk with less than 1 GiB left: refuse */
} sink_space_t;

/* Looks at the disk again; *ret_free_b is what journals may still take. */
sink_space_t sink_store_space(sink_store_t *self, uint64_t *ret_free_b);

/* Writes the tombstone of a sealed run that nothing came late for, then removes its journal, but for what was set aside as damaged.
 * CREMA_EINVAL: it is not sealed; CREMA_EAGAIN: something of it is not acknowledged yet; CREMA_ENOSPC: try again; CREMA_EIO: end the process,
 * nobody knows whether the tombstone is durable. */
CREMA_MUST_CHECK crema_err_t sink_store_free(sink_store_t *self, const crema_id_t *run_id);

#endif
