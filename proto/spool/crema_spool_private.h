/* crema_spool_private - what the files of crema_spool share; nobody else includes it. */
#ifndef CREMA_SPOOL_PRIVATE_H
#define CREMA_SPOOL_PRIVATE_H

#include <limits.h>
#include <stdbool.h>
#include <time.h>

#include "crema_spool.h"
#include "crema_walk.h"

/* A name or bytes made within this time of a look might have come after it under the same time stamp. */
#define CREMA_SPOOL_GRAIN_NS 1000000000

typedef struct {
    uint64_t first_seq;           /* from its name */
    uint64_t last_seq;            /* last record walked over; first_seq - 1 while there is none */
    uint64_t offset;              /* walked up to here */
    uint64_t size;                /* when it was last looked at */
    uint64_t walked;              /* size at the last walk */
    struct timespec walked_mtime; /* and its time of modification */
    bool walked_settled;          /* which was old enough to tell a later change */
    uint32_t seen;                /* listing that last showed it */
    uint32_t owner;               /* user that owns the file, when it was first seen */
    bool final;                   /* walked to its end when a newer segment was there already */
} crema_spool_segment_t;

/* Why a segment could not be read; why is 0 if it could. */
typedef struct {
    int why;
    uint64_t first_seq;
} crema_spool_blame_t;

typedef struct {
    crema_spool_stream_t public;
    crema_spool_segment_t *segments; /* by first_seq; at least one */
    size_t n_segments, segments_size;
    int fd;              /* newest segment of a stream that is not closed, -1 until it is opened */
    uint64_t fd_segment; /* first_seq of the segment behind fd */
    uint64_t head_bytes; /* frame of the StreamInfo; 0 while it is not known */
    int64_t last_t_ns;   /* of the last record */
    uint64_t end_at;     /* where END lies, in the segment end_segment */
    uint64_t end_bytes;
    uint64_t end_segment;
    uint64_t read_seq; /* the last read would go on here; 0: nowhere */
    uint64_t read_segment, read_offset;
    crema_spool_blame_t scan_fault, read_fault; /* of the last scan, of the last read */
} crema_spool_entry_t;

#define CREMA_SPOOL_WAITING_NAMES 32u

/* A segment of a stream for which there is no room yet. */
typedef struct {
    crema_id_t stream_id;
    uint64_t first_seq;
} crema_spool_waiting_t;

struct crema_spool {
    int dir;                       /* descriptor of the directory */
    int lock;                      /* descriptor of the held lock, or -1 */
    crema_spool_entry_t **entries; /* by stream id */
    size_t n_entries, entries_size;
    uint32_t listing;      /* number of the last listing */
    bool list_again;       /* the directory's time cannot tell whether the listing is complete */
    struct timespec mtime; /* of the directory at the last listing */
    crema_walk_t *walk;
    crema_arena_t *arena;
    crema_spool_stats_t stats; /* bytes, records and foreign_files are made on demand */
    uint64_t foreign_names;
    int list_fault; /* errno of the last listing, 0 if it was whole */
    crema_spool_waiting_t waiting[CREMA_SPOOL_WAITING_NAMES]; /* the first stats.waiting_files */
};

/* The name of a segment and a NUL into `name`, which is returned. */
char *crema_spool_name(const crema_id_t *stream_id, uint64_t first_seq,
                       char name[CREMA_SPOOL_NAME_CHARS + 1]);

/* ---- crema_spool.c */

crema_spool_entry_t *crema_spool_entry(const crema_spool_t *self, const crema_id_t *stream_id);
void crema_spool_forget(crema_spool_t *self, crema_spool_entry_t *entry);
void crema_spool_free_texts(crema_stream_info_t *info);

/* Opens a segment read-write, or read-only where that is not allowed; -1, errno and a counted error if that fails or it is no
 * plain file. */
int crema_spool_open_segment(crema_spool_t *self, const crema_spool_entry_t *entry,
                             uint64_t first_seq, bool *ret_writable);

/* ---- crema_spool_fault.c */

/* Notes that the segment could not be read. */
void crema_spool_blame(crema_spool_t *self, crema_spool_blame_t *fault, uint64_t first_seq,
                       int why);

/* ---- crema_spool_list.c */

/* Brings the tables in line with the directory, if that changed. */
CREMA_MUST_CHECK crema_err_t crema_spool_list(crema_spool_t *self);

/* Whether the directory holds a segment of the stream behind the one that begins at first_seq; true if it cannot be read. */
bool crema_spool_has_newer(const crema_spool_t *self, const crema_id_t *stream_id,
                           uint64_t first_seq);

/* ---- crema_spool_scan.c */

/* Reads on in every segment of the stream that grew. */
void crema_spool_scan_entry(crema_spool_t *self, crema_spool_entry_t *entry);

/* ---- crema_spool_close.c */

/* If the writer is gone without an END: cuts the torn tail, appends END. */
void crema_spool_close_abandoned(crema_spool_t *self, crema_spool_entry_t *entry);

/* ---- crema_spool_trim.c */

/* Segments behind the one with END are what a removal that was cut short left. */
void crema_spool_drop_behind_end(crema_spool_t *self, crema_spool_entry_t *entry);

#endif
