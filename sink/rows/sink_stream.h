/* sink_stream - one stream of a run as the sink sees it: which process wrote it, how far it has
 * come, what is missing, and what its local numbers mean. Pure: memory only. */
#ifndef SINK_STREAM_H
#define SINK_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_id.h"
#include "crema_limit.h"
#include "crema_record.h"

/* A gap that waits for the next record, which gives its end. */
typedef struct {
    bool open;
    int64_t t_from_ns, t_detected_ns;
    uint64_t first_seq, last_seq, n_lost;
    unsigned cause; /* of /gaps */
} sink_gap_t;

typedef struct {
    crema_id_t id;
    crema_id_t agent_id; /* the agent that shipped it, or the writer itself if it is an agent */
    uint32_t row;        /* of /dict/stream */
    uint32_t worker;     /* of /dict/worker; all ones for other kinds */
    crema_stream_kind_t kind;
    bool has_info;
    uint32_t nthreads;

    int64_t t_real_ns, t_mono_ns; /* both clocks at its start */
    int64_t t_process_ns;         /* start of a process outside Dask; 0 for all others */
    int64_t t_first_ns, t_last_ns;
    int64_t t_totals_ns; /* when activity totals were last read; 0 never */

    uint64_t next_seq;
    uint64_t held;     /* the highest number that the journal once held */
    uint64_t received; /* decoded records */
    uint64_t lost;     /* numbers without a record: LOSS, holes, undecodable */
    uint64_t repeats;  /* records that the journal holds twice */
    uint64_t late;     /* records that came after the verdict */
    uint64_t dropped;  /* records the writer had to drop before they got a number */
    /* of them: because the disk was full, because the spool's limit was reached */
    uint64_t dropped_disk_full, dropped_spool_limit;
    bool torn; /* a partly written last record was cut off */
    bool closed;
    crema_end_reason_t end;
    sink_gap_t gap;

    uint32_t *ids[CREMA_DICT_COUNT]; /* local number -> row of the run's dictionary */
    uint32_t n_ids[CREMA_DICT_COUNT], room[CREMA_DICT_COUNT];
} sink_stream_t;

CREMA_MUST_CHECK crema_err_t sink_stream_new(const crema_id_t *id, uint32_t row,
                                             sink_stream_t **ret_self);
void sink_stream_destroy(sink_stream_t **self_p);

/* Converts the writer's monotonic time to time since 1970; 0 while its clocks are unknown. */
int64_t sink_stream_real_ns(const sink_stream_t *self, int64_t t_mono_ns);

/* `*held_b`: memory used by the numbers of all the run's streams. Beyond
 * CREMA_LIMIT_NAME_NUMBERS the name is left out and counted. */
CREMA_MUST_CHECK crema_err_t sink_stream_name(sink_stream_t *self, crema_dict_t kind,
                                              uint32_t local, uint32_t id, crema_limits_t *limits,
                                              uint64_t *held_b);
/* The run's id of a local number; all ones if the stream never named it. */
uint32_t sink_stream_id(const sink_stream_t *self, crema_dict_t kind, int64_t local);

#endif
