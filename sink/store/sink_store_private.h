/* sink_store_private - what the files of sink_store share: sink_store_open.c opens and closes it, sink_store_runs.c brings runs into
 * memory and out of it, sink_store_state.c reads and writes what a run is, sink_store_scrub.c
 * reads journals once more, sink_store.c takes what is put and
 * commits it, sink_store_show.c tells what is there. */
#ifndef SINK_STORE_PRIVATE_H
#define SINK_STORE_PRIVATE_H

#include "crema_list.h"
#include "crema_map.h"
#include "sink_aged.h"
#include "sink_freed.h"
#include "sink_past.h"
#include "sink_refused.h"
#include "sink_scrub.h"
#include "sink_store.h"

typedef enum {
    SINK_STAGE_UNREAD,
    SINK_STAGE_LIVE,
    SINK_STAGE_RESTING,
    SINK_STAGE_ASIDE,
} sink_stage_t;

/* What the store holds of one run beside what it shows. */
typedef struct {
    sink_run_t shown;
    sink_stage_t stage;
    sink_journal_t *journal; /* while it is live */
    uint64_t bytes;          /* of the journal on disk, 0 while it is unread */
    crema_link_t dirty;      /* appended to since the last commit */
    crema_link_t unread;
    crema_link_t scrubbed; /* its journal is being read once more */
    sink_scrub_t *scrub;
    bool scrub_for_list;          /* since its list of writers came */
    bool list_checked;            /* that was done */
    sink_age_t resting;           /* since which time of service */
    size_t place;                 /* in the array of live runs */
    int64_t age_used_ns;          /* time of service when something last asked for it */
    int64_t age_sealed_ns;        /* time of service at the last SEALED; 0: unknown */
    char *cause;                  /* why it is set aside; shown.aside */
    sink_journal_state_t durable; /* as of the last commit */
    /* Checksums of the last RUN_OPEN, RUN_END and RUN_SEAL without the time of the verdict; 0: none yet. */
    uint32_t said_open, said_end, said_seal;
    uint32_t *said_writers; /* likewise of the parts of the list of writers, by number */
    uint32_t n_said_writers;
    uint64_t
        list_changed_b; /* of parts that said something else; since this start, and in the newest segment */
} sink_store_run_t;

typedef struct sink_store_news sink_store_news_t;

struct sink_store {
    char *dir;
    sink_store_config_t config;
    int lock_fd; /* -1: not held */
    crema_id_t store_id;
    uint64_t generation;
    sink_commit_t *watermarks;
    crema_map_t *runs;  /* sink_store_run_t * by run_id */
    sink_past_t past;   /* runs that were freed long ago */
    sink_freed_t freed; /* and since */
    size_t n_tombs;     /* entries of `tombstones` */
    sink_run_t shown_freed;
    sink_refused_t refused;
    sink_store_run_t **live;
    size_t n_live, live_room;
    sink_aged_t resting;
    crema_link_t unread, dirty, scrubbed;
    bool scrub_waits; /* what was read of a journal last is all but what waits for a commit */
    uint64_t bytes, resting_bytes;
    int64_t age_ns, age_kept_ns, mono_ns;
    crema_arena_t *arena;
    bool stuck; /* the last commit found no room: nothing new is taken until one succeeds */
    sink_store_news_t *news;  /* for the log, oldest first */
    sink_store_news_t *given; /* the last that was given away */
    sink_store_report_t report;
};

/* ---- sink_store_runs.c */

sink_store_run_t *sink_store_run(const sink_store_t *self, const crema_id_t *run_id);
CREMA_MUST_CHECK crema_err_t sink_store_add_run(sink_store_t *self, const crema_id_t *run_id,
                                                sink_store_run_t **ret_run);
/* The run, live, made if it is not known. CREMA_ENOENT: it was freed; CREMA_EIO: it is set aside. */
CREMA_MUST_CHECK crema_err_t sink_store_take_run(sink_store_t *self, const crema_id_t *run_id,
                                                 sink_store_run_t **ret_run);
/* Something was appended to its journal. */
void sink_store_touch(sink_store_t *self, sink_store_run_t *run);
/* It was committed. */
void sink_store_untouch(sink_store_t *self, sink_store_run_t *run);
/* Brings it to rest if it is live. CREMA_EAGAIN: something of it is pending, or was not acknowledged yet. */
CREMA_MUST_CHECK crema_err_t sink_store_rest(sink_store_t *self, sink_store_run_t *run);
/* Its journal is gone. */
bool sink_store_is_freed(const sink_store_t *self, const crema_id_t *run_id);
/* Its file holds all there is of it. */
bool sink_store_is_over(const sink_run_t *run);
void sink_store_add_event(sink_store_t *self, int type, const crema_id_t *run_id, const char *text);
void sink_store_drop_news(sink_store_t *self);
void sink_store_drop_run(sink_store_t *self, sink_store_run_t *run);
/* All but damaged files, which are kept. */
void sink_store_remove_dir(const char *path);

/* ---- sink_store_scrub.c */

/* Its journal is read once more from its beginning, between other things; for a run that is not over. */
void sink_store_scrub(sink_store_t *self, sink_store_run_t *run);
void sink_store_end_scrub(sink_store_run_t *run);

/* ---- sink_store_state.c */

/* What a checkpoint says of a run, and the other way round. */
void sink_store_take_state(sink_store_run_t *run, const sink_journal_state_t *state);
sink_journal_state_t sink_store_state(const sink_store_run_t *run);
/* The checkpoint of a run, for its journal; it points into `context`. */
typedef struct {
    sink_store_t *store;
    sink_store_run_t *run;
} sink_store_head_t;
sink_journal_head_t sink_store_head(sink_store_head_t *context);
/* Opens its journal and takes from it what it is and how far its streams are. */
CREMA_MUST_CHECK crema_err_t sink_store_open_journal(sink_store_t *self, sink_store_run_t *run,
                                                     const char *path,
                                                     sink_journal_report_t *ret_report,
                                                     char ret_where[PATH_MAX],
                                                     sink_journal_t **ret_journal);

/* Takes from it what it is and how far its streams are, and changes nothing on the disk; of the store only the watermarks are used. */
CREMA_MUST_CHECK crema_err_t sink_store_look(sink_store_t *self, sink_store_run_t *run,
                                             const char *path, sink_journal_report_t *ret_report,
                                             char ret_where[PATH_MAX]);

/* ---- sink_store.c */

/* In the directory of a run: the answer to RUN_SEAL, a SEALED message. */
#define SINK_STORE_ANSWER "sealed"

/* Checksum of what a message says, the time of its verdict left out; never 0. */
uint32_t sink_store_fingerprint(crema_msg_type_t type, const crema_run_msg_t *msg);
/* Where the checksum of the last message of a type is kept; NULL: not a type that is journaled. */
uint32_t *sink_store_said(sink_store_run_t *run, crema_msg_type_t type);
/* The message is in the journal. */
void sink_store_note_message(sink_store_run_t *run, crema_msg_type_t type,
                             const crema_run_msg_t *msg, uint32_t fingerprint);
/* What happened to the run, as far as it changes its state. */
void sink_store_note_life(sink_store_run_t *run, crema_life_event_t event);

/* A part of the list of writers is in the journal. *ret_new: it was not, or said something else. */
CREMA_MUST_CHECK crema_err_t sink_store_note_writers(sink_store_run_t *run,
                                                     const crema_writers_msg_t *msg, bool *ret_new);

/* ---- sink_store_open.c */

/* Whether a directory's name is that of a run, in lower case with hyphens. */
bool sink_store_is_run_name(const char *name, crema_id_t *ret_run_id);
/* Identity of the store in a directory. CREMA_ENOENT: not a store; CREMA_EMAGIC: its file `store` holds something else. */
CREMA_MUST_CHECK crema_err_t sink_store_identity(const char *dir, crema_id_t *ret_id);
/* The same for one that is to be looked at: after an error ret_why is a sentence that says what to give. */
CREMA_MUST_CHECK crema_err_t sink_store_identify(const char *dir, crema_id_t *ret_id, char *ret_why,
                                                 size_t why_size);
/* Makes the directory a store with that identity. */
CREMA_MUST_CHECK crema_err_t sink_store_make(const char *dir, const crema_id_t *id);
/* The lock of a store, until the descriptor is closed. CREMA_EBUSY: another process has it. */
CREMA_MUST_CHECK crema_err_t sink_store_lock(const char *dir, int *ret_fd);

/* Another tombstone is in the file; when there are many they become part of what is past. */
void sink_store_count_tomb(sink_store_t *self);
/* Makes the time of service durable. */
CREMA_MUST_CHECK crema_err_t sink_store_keep_age(sink_store_t *self);

#endif
