/* crema_spool_stream - one stream of a spool: what is held, which crema_spool writes, and how far
 * it is delivered, which crema_sender writes. Pure: structs.
 *
 *     1 ... committed ... cursor.recv_next ... cursor.next ... hi
 *           may be freed  received             to send         in the spool */
#ifndef CREMA_SPOOL_STREAM_H
#define CREMA_SPOOL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_body.h"
#include "crema_id.h"
#include "crema_list.h"

/* All zero until a sender follows the stream. */
typedef struct {
    uint64_t committed; /* at the receiver; below the stream's if that has another store now */
    uint64_t recv_next; /* the next number that the receiver takes; 0: unknown */
    uint64_t next;      /* the next number to send */
    int64_t moved_ns;   /* when recv_next moved, or the first record after a pause was sent */
    bool placed;        /* the receiver has given its position in this session */
    bool undelivered;   /* hi > committed */
    crema_link_t all;
    crema_link_t turn; /* with something to send, or set aside */
    crema_link_t trim; /* with something to free */
} crema_cursor_t;

typedef struct {
    crema_id_t stream_id;
    crema_id_t run_id;      /* zero without a StreamInfo: such a stream cannot be delivered */
    Crema__StreamInfo info; /* texts live as long as the stream is held; no ids, no attributes */
    uint64_t first_avail; /* first number held; a StreamInfo kept for the run's id does not count */
    uint64_t hi;          /* last complete number held; never decreases */
    uint64_t committed;   /* from crema_spool_trim() */
    uint64_t bytes;       /* on disk */
    bool closed;          /* hi is END */
    uint64_t lost;        /* numbers replaced by LOSS so far */
    uint32_t owner;       /* user id that owns the file with the StreamInfo */
    crema_cursor_t cursor;
} crema_spool_stream_t;

#endif
