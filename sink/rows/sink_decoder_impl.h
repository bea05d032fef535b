/* sink_decoder_impl - what the files of sink_decoder share; nobody else includes it. */
#ifndef SINK_DECODER_IMPL_H
#define SINK_DECODER_IMPL_H

#include "sink_activity.h"
#include "sink_attempt.h"
#include "sink_bound.h"
#include "sink_cell.h"
#include "sink_decoder.h"
#include "sink_intern.h"

/* A worker went away. */
typedef struct {
    uint32_t worker;
    int64_t t_ns;
} sink_departure_t;

typedef struct {
    int64_t t_first_ns, t_last_ns;
} sink_seen_t;

/* Where the common columns of a stream table lie; -1: it has none. */
typedef struct {
    int time, seq, t_recv, stream, worker;
    int wire_only; /* what only a Batch has */
    sink_bound_t bound;
} sink_columns_t;

struct sink_decoder {
    sink_row_fn emit;
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

    sink_intern_t *chunk_tasks; /* (stream, task key) of tasks that were chunks */
    sink_intern_t *agents;      /* agents whose stream is known */
    uint32_t *agent_streams;    /* by number of the agent: row of /dict/stream */
    size_t agents_room;
    crema_clock_sample_t *clocks; /* waiting for their agent's stream */
    size_t n_clocks, clocks_room;
    bool has_stray_clocks; /* their agent has no stream and shipped none */

    sink_seen_t *seen; /* by row of /dict/worker */
    size_t seen_room;
    sink_departure_t *departures;
    size_t n_departures, departures_room;

    crema_limits_t *limits;
    uint64_t name_numbers_b; /* held by all streams */
    sink_decoder_stats_t stats;
};

/* Rows of one batch. `t_ns` is the record's time. */
CREMA_MUST_CHECK crema_err_t sink_decoder_batch(sink_decoder_t *self, sink_stream_t *stream,
                                                const crema_batch_t *batch, uint64_t seq,
                                                int64_t t_recv_ns);
CREMA_MUST_CHECK crema_err_t sink_decoder_emit(sink_decoder_t *self, crema_table_id_t table,
                                               const uint8_t *row);
/* What is still open becomes a lost attempt. */
CREMA_MUST_CHECK crema_err_t sink_decoder_lose_attempts(sink_decoder_t *self);

/* Records first..last are missing (first 0: without numbers, `n` of them). */
CREMA_MUST_CHECK crema_err_t sink_decoder_gap(sink_decoder_t *self, sink_stream_t *stream,
                                              unsigned cause, uint64_t first, uint64_t last,
                                              uint64_t n, int64_t t_detected_ns);
/* Ends an open gap at a record of time t_ns (0: none came). */
CREMA_MUST_CHECK crema_err_t sink_decoder_gap_end(sink_decoder_t *self, sink_stream_t *stream,
                                                  int64_t t_ns);

/* A worker was seen at that time. */
CREMA_MUST_CHECK crema_err_t sink_decoder_saw(sink_decoder_t *self, uint32_t worker, int64_t t_ns);

CREMA_MUST_CHECK crema_err_t sink_decoder_agent(sink_decoder_t *self, const crema_id_t *agent_id,
                                                uint32_t stream);
/* Gives clock samples whose agent is known; `all` those of unknown agents too. */
CREMA_MUST_CHECK crema_err_t sink_decoder_give_clocks(sink_decoder_t *self, bool all);

/* Side and rule of every prefix anew. */
void sink_decoder_side_prefixes(sink_decoder_t *self);
void sink_decoder_side_prefix(sink_decoder_t *self, uint32_t prefix);

#endif
