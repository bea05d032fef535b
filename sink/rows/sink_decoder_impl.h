/* sink_decoder_impl - shared by the source files of sink_decoder; private to them. */
#ifndef SINK_DECODER_IMPL_H
#define SINK_DECODER_IMPL_H

#include "crema_map.h"
#include "sink_activity.h"
#include "sink_attempt.h"
#include "sink_bound.h"
#include "sink_decoder.h"
#include "sink_intern.h"

/* The departure of a worker. */
typedef struct {
    uint32_t worker;
    int64_t t_ns;
} sink_departure_t;

typedef struct {
    int64_t t_first_ns, t_last_ns;
} sink_seen_t;

typedef struct {
    crema_id_t agent_id;
    crema_clock_row_t row;
} sink_clock_t;

/* The common columns of a stream table; -1: the table does not have it. */
typedef struct {
    int time_at, worker_at;  /* offsets in a row: an i64, a u32 */
    int seq, t_recv, stream; /* indices */
    int wire_only;           /* index of what only a Batch has */
    sink_bound_t bound;
} sink_columns_t;

struct sink_decoder {
    sink_rows_fn emit;
    void *context;
    crema_arena_t *arena;
    sink_dict_t *dict;
    sink_meta_t *meta;
    sink_texts_t *versions;
    sink_activity_t *activity;
    sink_attempts_t *attempts;
    sink_columns_t columns[CREMA_TABLE_WIRE_COUNT];

    sink_stream_t **streams; /* by row of /dict/stream */
    size_t n_streams, streams_room;

    crema_map_t *chunk_tasks; /* (task key, stream) of chunks whose task event is not here yet */
    /* whose stream is known, each with a uint32_t, its row of /dict/stream */
    sink_intern_t *agents;
    sink_clock_t *clocks; /* waiting for the stream of their agent */
    size_t n_clocks, clocks_room;
    bool has_stray_clocks; /* of agents without a stream that shipped none either */

    uint32_t plain_metric; /* the last one that was not a limit; they come in series */

    sink_seen_t *seen; /* by row of /dict/worker */
    size_t seen_room;
    sink_departure_t *departures;
    size_t n_departures, departures_room;

    crema_limits_t *limits;
    uint64_t name_numbers_b; /* memory used by the numbers of all streams */
};

/* Decodes the rows of one batch. `t_ns` is the record's time. */
CREMA_MUST_CHECK crema_err_t sink_decoder_batch(sink_decoder_t *self, sink_stream_t *stream,
                                                const crema_batch_t *batch, uint64_t seq,
                                                int64_t t_recv_ns);
/* Emits every attempt that is still open as lost. */
CREMA_MUST_CHECK crema_err_t sink_decoder_lose_attempts(sink_decoder_t *self);

/* Records first..last are missing; first 0: `n` records without numbers. */
CREMA_MUST_CHECK crema_err_t sink_decoder_gap(sink_decoder_t *self, sink_stream_t *stream,
                                              unsigned cause, uint64_t first, uint64_t last,
                                              uint64_t n, int64_t t_detected_ns);
/* Ends an open gap with a record of time t_ns; 0: none came. */
CREMA_MUST_CHECK crema_err_t sink_decoder_gap_end(sink_decoder_t *self, sink_stream_t *stream,
                                                  int64_t t_ns);

/* Extends the time span in which the worker was seen; t_first_ns 0: unknown. */
CREMA_MUST_CHECK crema_err_t sink_decoder_saw(sink_decoder_t *self, uint32_t worker,
                                              int64_t t_first_ns, int64_t t_last_ns);

CREMA_MUST_CHECK crema_err_t sink_decoder_agent(sink_decoder_t *self, const crema_id_t *agent_id,
                                                uint32_t stream);
/* Emits the clock samples of known agents, with `all` those of unknown agents too. */
CREMA_MUST_CHECK crema_err_t sink_decoder_give_clocks(sink_decoder_t *self, bool all);

/* Determines side and rule of every prefix, or of one, again. */
void sink_decoder_side_prefixes(sink_decoder_t *self);
void sink_decoder_side_prefix(sink_decoder_t *self, uint32_t prefix);

#endif
