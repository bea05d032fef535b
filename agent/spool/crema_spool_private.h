/* crema_spool_private - shared by the source files of crema_spool; private to them. */
#ifndef CREMA_SPOOL_PRIVATE_H
#define CREMA_SPOOL_PRIVATE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "crema_spool.h"
#include "crema_walk.h"

/* A change within this time of a listing may have the same time stamp as the listing. */
#define CREMA_SPOOL_GRAIN_NS 1000000000

typedef struct {
    uint64_t first_seq;        /* from its name */
    uint64_t last_seq;         /* last record walked; first_seq - 1 if none */
    uint64_t offset;           /* end of the walked part */
    uint64_t size;             /* at the last look */
    uint64_t walked;           /* size at the last walk */
    int64_t walked_changed_ns; /* when it had changed at the last walk; real time */
    bool walked_settled;       /* walked_changed_ns is old enough for a later change to show */
    uint32_t seen;             /* the last listing that contained it */
    uint32_t owner;            /* user id that owned the file when it was first seen */
    bool final;                /* walked to its end when a newer segment existed */
} crema_spool_segment_t;

/* Why a segment could not be read; why is 0 if it could. */
typedef struct {
    int why;
    uint64_t first_seq;
} crema_spool_blame_t;

typedef struct {
    crema_spool_stream_t public;
    crema_spool_segment_t *segments; /* by first_seq; none of one that is expected */
    size_t n_segments, segments_size;
    int fd;              /* newest segment of an open stream; -1 until opened */
    uint64_t fd_segment; /* first_seq of the segment behind fd */
    uint64_t head_bytes; /* size of the StreamInfo's frame; 0 while unknown */
    int64_t last_t_ns;   /* of the last record */
    uint64_t end_at;     /* position of END in segment end_segment */
    uint64_t end_bytes;
    uint64_t end_segment;
    uint64_t read_seq; /* number where the last read ended; 0: none */
    uint64_t read_segment, read_offset;
    crema_spool_blame_t scan_fault, read_fault; /* from the last scan; from the last read */
} crema_spool_entry_t;

#define CREMA_SPOOL_WAITING_NAMES 32u

/* A segment of a stream for which there is no room yet. */
typedef struct {
    crema_id_t stream_id;
    uint64_t first_seq;
} crema_spool_waiting_t;

/* A user who has files here, and what they have of it. */
typedef struct {
    uid_t uid;
    size_t streams;
    uint64_t bytes; /* with a StreamInfo; only while room is made */
} crema_spool_user_t;

struct crema_spool {
    int dir;                       /* descriptor of the directory */
    int lock;                      /* descriptor of the held lock, or -1 */
    crema_spool_entry_t **entries; /* by stream id */
    size_t n_entries, entries_size;
    crema_spool_user_t *users; /* since the last listing began */
    size_t n_users, users_size;
    uint32_t listing;   /* number of the last listing */
    bool list_again;    /* whatever the time stamp says: it is not complete, or a place is free */
    int64_t changed_ns; /* of the directory at the last listing; real time */
    crema_spool_gone_fn *gone;
    void *gone_context;
    crema_walk_t *walk;
    crema_arena_t *arena;
    crema_spool_stats_t stats; /* bytes, records and foreign_files are computed on demand */
    uint64_t foreign_names;
    int64_t search_left; /* bytes that this scan may still search behind damage */
    size_t scan_from;    /* index of the entry with which the next scan begins */
    int list_fault;      /* errno of the last listing, 0 if it was complete */
    crema_spool_waiting_t waiting[CREMA_SPOOL_WAITING_NAMES]; /* the first stats.waiting_files */
};

/* ---- crema_spool_entry.c, which knows none of the others */

/* Writes the name of a segment with a NUL into `name`, which is returned. */
char *crema_spool_name(const crema_id_t *stream_id, uint64_t first_seq,
                       char name[CREMA_SPOOL_NAME_CHARS + 1]);

void crema_spool_entry_destroy(crema_spool_entry_t *entry);
crema_spool_entry_t *crema_spool_entry(const crema_spool_t *self, const crema_id_t *stream_id);
void crema_spool_forget(crema_spool_t *self, crema_spool_entry_t *entry);
void crema_spool_free_texts(Crema__StreamInfo *info);

/* Opens a segment read-write, or read-only without permission to write. On failure, or if it is
 * not a regular file: -1 with errno set, and the error is counted. */
int crema_spool_open_segment(crema_spool_t *self, const crema_spool_entry_t *entry,
                             uint64_t first_seq);

/* ---- crema_spool_user.c */

/* NULL: out of memory. */
crema_spool_user_t *crema_spool_user(crema_spool_t *self, uid_t uid);
/* Counts the streams of all users again. */
CREMA_MUST_CHECK crema_err_t crema_spool_count_users(crema_spool_t *self);
bool crema_spool_has_room(const crema_spool_t *self, const crema_spool_user_t *user);

/* ---- crema_spool_fault.c */

/* Records that the segment could not be read. */
void crema_spool_blame(crema_spool_t *self, crema_spool_blame_t *fault, uint64_t first_seq,
                       int why);

/* ---- crema_spool_list.c */

/* Updates the tables from the directory, if it has changed. */
CREMA_MUST_CHECK crema_err_t crema_spool_list(crema_spool_t *self);

/* Larger than any segment that a writer makes; a larger file is not one. */
#define CREMA_SPOOL_SEGMENT_MAX (CREMA_SPOOL_SEGMENT_BYTES + 2 * CREMA_WALK_RECORD_MAX)

/* True if the directory holds a segment of the stream after its newest known one, of the same
 * owner, or cannot be read. */
bool crema_spool_has_newer(const crema_spool_t *self, const crema_spool_entry_t *entry);

/* ---- crema_spool_scan.c */

/* What one scan searches for records behind damage, and one segment more: about 0.05 s, whatever
 * others put into the directory. */
#define CREMA_SPOOL_SEARCH_BYTES (16 << 20)

/* Reads every segment of the stream that has grown. Damage for which this scan has no bytes left
 * is searched by a later one; a stream that has a StreamInfo is blamed until then (EAGAIN). */
void crema_spool_scan_entry(crema_spool_t *self, crema_spool_entry_t *entry);

/* ---- crema_spool_close.c */

/* If the writer is gone and there is no END: cuts the torn tail and appends END. */
void crema_spool_close_abandoned(crema_spool_t *self, crema_spool_entry_t *entry);

/* ---- crema_spool_trim.c */

/* Removes segments after the one with END, which an interrupted removal left. */
void crema_spool_drop_behind_end(crema_spool_t *self, crema_spool_entry_t *entry);

#endif
