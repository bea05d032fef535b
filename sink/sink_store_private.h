/* sink_store_private - what sink_store.c and sink_store_open.c share. */
#ifndef SINK_STORE_PRIVATE_H
#define SINK_STORE_PRIVATE_H

#include "crema_map.h"
#include "sink_store.h"

/* What the store holds of one run beside what it shows. */
typedef struct {
    sink_run_t shown;
    sink_journal_t *journal; /* NULL: not open; opened by the first append */
    uint64_t bytes;          /* of the journal on disk, while it is not open */
    bool dirty;              /* appended to since the last commit */
    /* Checksums of the last RUN_OPEN, RUN_END and RUN_SEAL without the time of the verdict; 0: none yet. */
    uint32_t said_open, said_end, said_seal;
} sink_store_run_t;

struct sink_store {
    char *dir;
    sink_store_config_t config;
    int lock_fd; /* -1: not held */
    crema_id_t store_id;
    uint64_t generation;
    sink_commit_t *watermarks;
    crema_map_t *runs; /* sink_store_run_t * by run_id */
    crema_arena_t *arena;
    bool stuck; /* the last commit found no room: nothing new is taken until one succeeds */
    sink_store_report_t report;
};

sink_store_run_t *sink_store_run(const sink_store_t *self, const crema_id_t *run_id);
CREMA_MUST_CHECK crema_err_t sink_store_add_run(sink_store_t *self, const crema_id_t *run_id,
                                                sink_store_run_t **ret_run);
CREMA_MUST_CHECK crema_err_t sink_store_open_journal(sink_store_t *self, sink_store_run_t *run);

/* Checksum of what a message says, the time of its verdict left out; never 0. */
uint32_t sink_store_fingerprint(crema_msg_type_t type, const crema_run_msg_t *msg);
/* Where the checksum of the last message of a type is kept; NULL: not a type that is journaled. */
uint32_t *sink_store_said(sink_store_run_t *run, crema_msg_type_t type);
/* The message is in the journal. */
void sink_store_note_message(sink_store_run_t *run, crema_msg_type_t type, uint32_t fingerprint);

void sink_store_remove_dir(const char *path);

#endif
