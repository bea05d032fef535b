/* sink_store_private - shared by the source files of sink_store, of which each uses only those
 * before it: sink_store_known.c finds runs, sink_store_said.c notes messages, sink_store_state.c
 * reads and writes the state of a run, sink_store_scrub.c re-reads journals, sink_store_open.c
 * opens and closes the store, sink_store_runs.c moves runs between stages, sink_store_show.c
 * answers queries, sink_store.c takes and commits what is put. */
#ifndef SINK_STORE_PRIVATE_H
#define SINK_STORE_PRIVATE_H

#include "crema_list.h"
#include "crema_map.h"
#include "sink_ids.h"
#include "sink_refused.h"
#include "sink_scrub.h"
#include "sink_store.h"
#include "sink_syncs.h"

typedef enum {
    SINK_STAGE_UNREAD,
    SINK_STAGE_LIVE,
    SINK_STAGE_RESTING,
    SINK_STAGE_ASIDE,
    SINK_STAGE_FREEING,
} sink_stage_t;

/* Something that a thread writes and syncs, and what follows when that has ended. */
typedef struct sink_store_job sink_store_job_t;
typedef crema_err_t sink_store_end_fn(sink_store_t *self, sink_store_job_t *job);
struct sink_store_job {
    sink_sync_t sync;
    bool busy; /* it has begun and has not ended */
    sink_store_end_fn *end;
};

/* Everything the store holds of a run; `shown` is the public part. */
typedef struct {
    sink_run_t shown;
    sink_stage_t stage;
    sink_journal_t *journal; /* while it is live */
    uint64_t bytes;          /* of the journal on disk, 0 while it is unread */
    crema_link_t dirty;      /* appended to, and not written since */
    sink_store_job_t job;    /* a group, a renewal, or coming to rest */
    bool stuck;              /* the last group found the disk full */
    bool again;              /* and is therefore the next one, too */
    bool synced_here;        /* all of its journal was synced by this process */
    bool hurries;            /* what waits holds a message that somebody waits for */
    size_t syncing_bytes;
    uint64_t syncing_news, syncing_appends;
    int64_t dirty_ns; /* monotonic time of the first append */
    int64_t waits_ns, begun_ns, ended_ns,
        took_ns; /* the same of the last group; its write and sync */
    crema_link_t unread;
    crema_link_t scrubbed; /* its journal is being re-read */
    sink_scrub_t *scrub;
    bool scrub_for_list;            /* because its list of writers came */
    bool scrub_holds;               /* it has a hole, and handling that needs a pause */
    uint64_t hole_appends;          /* shown.appends when it was seen first; 0: none was */
    bool list_checked;              /* the check for the list of writers is done */
    uint64_t list_appends;          /* shown.appends with the last part of that list */
    uint64_t heard_news;            /* news at the last look for silent runs */
    int64_t heard_ns;               /* monotonic time of its last sign; 0: none yet */
    size_t place;                   /* index in the array of live runs */
    bool verdict_read, is_complete; /* by the answer to its last RUN_SEAL */
    int64_t age_used_ns;            /* time of service when it was last used */
    /* why it is set aside; shown.aside points here. It stays until the run is back. */
    char *cause;
    sink_journal_state_t durable, written; /* as of the last sync, and of the last write */
    uint32_t *said_writers; /* checksums of the parts of the list of writers, by number */
    uint32_t n_said_writers;
    uint64_t list_changed_b; /* of its changed parts, since this start and in the newest segment */
} sink_store_run_t;

#define SINK_FREED_AT_ONCE 64u

/* Runs that are freed together: a tombstone, then their directories are removed. It collects until
 * it is begun. */
typedef struct {
    sink_store_job_t job;
    crema_id_t run_ids[SINK_FREED_AT_ONCE];
    const char *whys[SINK_FREED_AT_ONCE];
    size_t n;
    crema_err_t err;
    int why; /* errno */
} sink_freeing_t;

struct sink_store {
    char *dir;
    sink_store_config_t config;
    int lock_fd; /* -1: not held */
    crema_id_t store_id;
    uint64_t generation;
    sink_commit_t *watermarks;
    sink_syncs_t *syncs;
    crema_map_t *runs; /* sink_store_run_t * by run_id */
    sink_ids_t freed;  /* runs whose journal is gone */
    sink_freeing_t freeing;
    sink_run_t shown_freed;
    sink_refused_t refused;
    sink_store_job_t refusing; /* the refused ranges are written */
    sink_store_run_t **live;
    size_t n_live, live_room;
    sink_store_run_t *oldest; /* of the resting ones; NULL: not known */
    size_t n_resting, n_renewing;
    crema_link_t unread, dirty, scrubbed;
    uint64_t bytes, resting_bytes;
    int64_t age_ns, age_kept_ns, mono_ns; /* time in service; as it is in its file */
    sink_store_job_t aging;               /* it is written */
    int64_t aging_ns;                     /* as it is written */
    crema_err_t aging_err;
    crema_arena_t *arena;
    /* runs whose last write found the disk full: until it succeeds nothing new is taken */
    size_t n_stuck;
    sink_store_report_t report;
};

/* ---- sink_store_known.c */

sink_store_run_t *sink_store_run(const sink_store_t *self, const crema_id_t *run_id);
CREMA_MUST_CHECK crema_err_t sink_store_add_run(sink_store_t *self, const crema_id_t *run_id,
                                                sink_store_run_t **ret_run);
/* True if the run's journal is gone. */
bool sink_store_is_freed(const sink_store_t *self, const crema_id_t *run_id);
/* True if the final file of the run is complete. */
bool sink_store_is_over(const sink_run_t *run);
/* Whether `run` was sealed before `other`: by service time, which no clock that is set can turn
 * round, and within one second of it by real time. Both are sealed. */
bool sink_store_is_older(const sink_store_run_t *run, const sink_store_run_t *other);
/* True if something of it is not durable yet. */
bool sink_store_is_unsynced(const sink_store_run_t *run);
/* Reports an event, with a text as of printf(). */
__attribute__((format(printf, 4, 5))) void
sink_store_tell(sink_store_t *self, int type, const crema_id_t *run_id, const char *format, ...);
/* Removes everything except damaged and unreadable files. */
void sink_store_remove_dir(const char *path);
/* Has `work` done with `context` in a thread. `end` is called by sink_store_end(), and its result
 * is part of that function's. */
void sink_store_begin_job(sink_store_t *self, sink_store_job_t *job, void (*work)(void *context),
                          void *context, sink_store_end_fn *end);

/* ---- sink_store_said.c */

/* Checksum of a message's content without the time of the verdict; never 0. */
uint32_t sink_store_fingerprint(const crema_msg_t *msg);
/* Where the checksum of the last message of a type is kept; NULL: this type is not journaled. */
uint32_t *sink_store_said(sink_store_run_t *run, crema_msg_type_t type);
/* Call it when the message is in the journal. */
void sink_store_note_message(sink_store_run_t *run, const crema_msg_t *msg, uint32_t fingerprint);
/* Moves the run's state after an event; events that its state does not allow are ignored. */
void sink_store_note_life(sink_store_run_t *run, crema_life_event_t event);

/* Call it when a part of the list of writers is in the journal. *ret_new: the part is new or
 * differs. */
CREMA_MUST_CHECK crema_err_t sink_store_note_writers(sink_store_run_t *run,
                                                     const Crema__RunWriters *msg, bool *ret_new);
/* Bytes that the part adds to the journal if it changes one that is there, else 0. */
uint64_t sink_store_list_change(const sink_store_run_t *run, const Crema__RunWriters *msg);

/* ---- sink_store_runs.c */

/* The run, live, created if it is unknown. CREMA_ENOENT: it was freed; CREMA_EIO: it is set
 * aside. */
CREMA_MUST_CHECK crema_err_t sink_store_take_run(sink_store_t *self, const crema_id_t *run_id,
                                                 sink_store_run_t **ret_run);
/* Call it after appending to the run's journal. */
void sink_store_touch(sink_store_t *self, sink_store_run_t *run);
/* The same after something that is answered when it is durable. */
void sink_store_hurry(sink_store_t *self, sink_store_run_t *run);
/* Has the work of the run's journal done in a thread. */
void sink_store_sync(sink_store_t *self, sink_store_run_t *run, sink_store_end_fn *end);
/* Call them when what the run has collected begins to be written, and after it was synced. */
void sink_store_begun(sink_store_run_t *run);
void sink_store_synced(sink_store_t *self, sink_store_run_t *run);
void sink_store_report_group(sink_store_t *self, const sink_store_run_t *run, size_t bytes);
/* Frees in a thread what was collected. */
void sink_store_begin_freeing(sink_store_t *self);

/* ---- sink_store_scrub.c */

/* Starts re-reading the journal of an unfinished run from its beginning, a piece at a time. */
void sink_store_scrub(sink_store_t *self, sink_store_run_t *run);
void sink_store_end_scrub(sink_store_run_t *run);

/* ---- sink_store_state.c */

/* The checkpoint of a run, for its journal. */
sink_journal_head_t sink_store_head(sink_store_t *self);
/* Takes the run's state and the watermarks of its streams from its journal, and opens that; or, if
 * ret_journal is NULL, changes nothing on disk and uses only the store's watermarks. */
CREMA_MUST_CHECK crema_err_t sink_store_read_journal(sink_store_t *self, sink_store_run_t *run,
                                                     const char *path,
                                                     sink_journal_report_t *ret_report,
                                                     char ret_where[PATH_MAX],
                                                     sink_journal_t **ret_journal);

/* ---- sink_store_open.c */

/* Makes the time in service durable, in a thread. */
void sink_store_begin_age(sink_store_t *self);

#endif
