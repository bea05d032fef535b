/* sink_journal_impl - shared by the source files of sink_journal; private to them. */
#ifndef SINK_JOURNAL_IMPL_H
#define SINK_JOURNAL_IMPL_H

#include "sink_journal.h"
#include "sink_segment.h"
#include "sink_segments.h"

/* Frames that are written and synced together. */
typedef struct {
    uint8_t *bytes;
    size_t n, room; /* n is 0: there is none */
    uint64_t seq;   /* number of its first frame */
    bool follows;   /* its first frame is flagged: everything before it was synced */
} sink_group_t;

/* A file of the run's directory that is written before a group. */
typedef struct {
    const char *name; /* NULL: none */
    uint8_t *bytes;
    size_t size;
} sink_journal_file_t;

/* What an earlier process wrote last, and may not have synced. */
typedef struct {
    uint32_t segment;   /* its number; 0: only names have changed */
    size_t sound, size; /* its bytes that count, and all of them */
    uint32_t crc;       /* of the sound ones */
} sink_renewal_t;

/* A group that is being written, or could not be and is written again. */
typedef struct {
    sink_group_t group;
    sink_journal_file_t file;
    uint8_t *checkpoint; /* that goes before it; NULL: none */
    size_t checkpoint_bytes;
    bool rests;  /* the checkpoint alone is written, to end the journal */
    bool renews; /* instead of a group, what was found is written again */
    sink_renewal_t renewal;
    /* The outcome; only these are changed by sink_journal_work(). */
    int fd; /* of the segment that was begun for it; -1: none was */
    size_t header_bytes;
    crema_err_t err;
    int why; /* errno */
} sink_journal_work_t;

struct sink_journal {
    char *dir;
    sink_header_t header;
    uint32_t segment;     /* number of the newest segment, of any process; 0: none yet */
    int fd;               /* of our segment; -1: the next group begins one */
    size_t segment_bytes; /* durable bytes of our segment */
    uint64_t bytes;       /* durable bytes of all segments */
    uint64_t torn_bytes;  /* cut by the opening */
    uint64_t next_seq;    /* number of the next frame */
    sink_journal_work_t work;
    sink_group_t group;       /* what was appended since */
    sink_journal_file_t file; /* for the same group */
    bool named;               /* the name of the directory is durable */
    bool rests;               /* the newest segment holds only a checkpoint */
    bool broken;              /* a write or sync failed: nothing more may be acknowledged */
};

/* Keeps a segment's tail before it is cut: it is not certain that it was never acknowledged. */
CREMA_MUST_CHECK crema_err_t sink_journal_keep_torn(const sink_journal_t *self, uint32_t number,
                                                    const uint8_t *bytes, size_t size);
/* Renews what was found, in any thread. */
CREMA_MUST_CHECK crema_err_t sink_journal_renew(const sink_journal_t *self);

/* Reads the segments of a journal from index `from` on. `whole` is false if they are only the
 * newest ones, beginning with a checkpoint. After an error ret_where names the file. */
CREMA_MUST_CHECK crema_err_t sink_journal_read_segments(const char *dir,
                                                        const sink_segments_t *segments,
                                                        size_t from, bool whole,
                                                        const sink_journal_visitor_t *visitor,
                                                        sink_journal_report_t *ret_report,
                                                        char ret_where[PATH_MAX]);

#endif
