/* sink_store - the store directory: one writer, the journals of all runs, and what is durable of every stream.
 *
 *     <store>/store        who this store is, made once
 *     <store>/generation   how often it was opened
 *     <store>/lock         held while it is open
 *     <store>/tombstones   see sink_tombs.h
 *     <store>/<run_id>/    see sink_journal.h
 *
 * What is put collects in memory; sink_store_commit() syncs every journal with something new and only then moves the watermarks. */
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

typedef struct {
    const char *dir;     /* made if it is missing; its parent must exist */
    int64_t limit_bytes; /* of all journals together; 0: none */
    size_t streams_max, runs_max;
} sink_store_config_t;

/* One run as the journal holds it. */
typedef struct {
    crema_id_t run_id;
    bool seal_asked;     /* a RUN_SEAL is in the journal */
    int64_t revision;    /* of the last SEALED that is in the journal, 0 before */
    int64_t t_sealed_ns; /* real time of that */
    bool late;           /* records or another RUN_SEAL came after that SEALED */
    bool freed;          /* its journal is gone, only tombstones are left: nothing more is taken */
    uint64_t news;       /* PUTs and RUN_SEALs appended since the store was opened */
    int64_t t_news_ns;   /* real time of the last of them; 0: none */
} sink_run_t;

/* What the recovery met. */
typedef struct {
    uint64_t runs, streams, frames, bytes;
    uint64_t torn_bytes;     /* cut: they were never acknowledged */
    uint64_t damaged_bytes;  /* unreadable in the middle */
    uint64_t missing_frames; /* acknowledged, and no longer readable */
    uint64_t foreign;        /* directories that are no journal of this store: left alone */
} sink_store_report_t;

/* CREMA_EBUSY: another sink holds it; otherwise `ret_why` is one sentence. */
CREMA_MUST_CHECK crema_err_t sink_store_open(const sink_store_config_t *config,
                                             sink_store_report_t *ret_report, char *ret_why,
                                             size_t why_size, sink_store_t **ret_self);
/* Does not commit. */
void sink_store_close(sink_store_t **self_p);

crema_id_t sink_store_id(const sink_store_t *self);
sink_commit_t *sink_store_watermarks(sink_store_t *self);

/* NULL if nothing is known of the run. */
const sink_run_t *sink_store_find(const sink_store_t *self, const crema_id_t *run_id);
/* Every run, freed ones too, in no particular order: set *cursor to 0, call until NULL. */
const sink_run_t *sink_store_next(const sink_store_t *self, size_t *cursor);
/* Rows of all streams whose run has no final file yet, or has news since; the caller frees them. */
CREMA_MUST_CHECK crema_err_t sink_store_open_streams(const sink_store_t *self,
                                                     crema_stream_row_t **ret_rows, size_t *ret_n);
/* The directory of its journal. */
CREMA_MUST_CHECK crema_err_t sink_store_run_dir(const sink_store_t *self, const crema_id_t *run_id,
                                                char ret_path[PATH_MAX]);

typedef struct {
    sink_put_t decision;
    uint64_t next; /* number expected before this PUT; what a NACK says */
} sink_store_put_t;

/* Checks the frames, decides, appends what is new. CREMA_EPROTO: the frames are not sound, or the stream is another run's; CREMA_ENOENT: the
 * run's journal was freed; CREMA_ENOSPC: refused until there is room; CREMA_ELIMIT: too many streams or runs, or the group is full: commit
 * and try again. Nothing was taken then. */
CREMA_MUST_CHECK crema_err_t sink_store_put(sink_store_t *self, const crema_data_t *put,
                                            int64_t t_real_ns, sink_store_put_t *ret_put);

/* What this program has cost by now, told like a message about the run that changes nothing else. */
CREMA_MUST_CHECK crema_err_t sink_store_cost(sink_store_t *self, const crema_id_t *run_id,
                                             const crema_cost_t *cost, int64_t t_real_ns);

/* RUN_OPEN, RUN_END or RUN_SEAL. A message that says the same as the last of its type appends nothing: *ret_new is false. */
CREMA_MUST_CHECK crema_err_t sink_store_run_msg(sink_store_t *self, crema_msg_type_t type,
                                                const crema_run_msg_t *msg, int64_t t_real_ns,
                                                bool *ret_new);
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

/* Syncs, moves the watermarks, then shows `fn` (may be NULL) each journal with something new; see sink_journal_group(). CREMA_ENOSPC: nothing
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

/* Writes the tombstones of a sealed run that nothing came late for, then removes its journal. */
CREMA_MUST_CHECK crema_err_t sink_store_free(sink_store_t *self, const crema_id_t *run_id);

#endif
