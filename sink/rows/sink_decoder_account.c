/* The accounts of a run besides its rows: gaps, clocks, and when workers were seen. */
#include <stdlib.h>

#include "crema_grow.h"
#include "sink_decoder_impl.h"

/* ---- gaps */

static crema_err_t
s_emit_gap(sink_decoder_t *self, const sink_stream_t *stream, const sink_gap_t *gap,
           int64_t t_to_ns)
{
    const crema_gaps_row_t row = {
        .t_from_ns = gap->t_from_ns,
        .t_to_ns = t_to_ns,
        .t_detected_ns = gap->t_detected_ns,
        .first_seq = gap->first_seq ? (int64_t)gap->first_seq : -1,
        .last_seq = gap->first_seq ? (int64_t)gap->last_seq : -1,
        .n_lost = (int64_t)gap->n_lost,
        .stream_id = stream->row,
        .cause = (uint8_t)gap->cause,
        .closed = 1,
    };
    return self->emit(self->context, CREMA_TABLE_GAPS, (const uint8_t *)&row, 1);
}

crema_err_t
sink_decoder_gap_end(sink_decoder_t *self, sink_stream_t *stream, int64_t t_ns)
{
    if (!stream->gap.open)
        return CREMA_OK;
    stream->gap.open = false;
    return s_emit_gap(self, stream, &stream->gap, t_ns);
}

crema_err_t
sink_decoder_gap(sink_decoder_t *self, sink_stream_t *stream, unsigned cause, uint64_t first,
                 uint64_t last, uint64_t n, int64_t t_detected_ns)
{
    sink_gap_t gap = {true, stream->t_last_ns, t_detected_ns, first, last, n, cause};
    if (first == 0)
        return s_emit_gap(self, stream, &gap, stream->t_last_ns);
    stream->lost += n;
    if (stream->gap.open && stream->gap.cause == cause && stream->gap.last_seq + 1 == first) {
        stream->gap.last_seq = last;
        stream->gap.n_lost += n;
        return CREMA_OK;
    }
    crema_err_t err = sink_decoder_gap_end(self, stream, t_detected_ns);
    stream->gap = gap;
    return err;
}

/* ---- clocks */

static crema_err_t
s_emit_clock(sink_decoder_t *self, sink_clock_t *clock, uint32_t stream)
{
    clock->row.stream_id = stream;
    return self->emit(self->context, CREMA_TABLE_CLOCK, (const uint8_t *)&clock->row, 1);
}

static uint32_t
s_stream_of_agent(const sink_decoder_t *self, const crema_id_t *agent_id)
{
    uint32_t number = sink_intern_find(self->agents, agent_id, sizeof *agent_id);
    return number == SINK_INTERN_NONE ? UINT32_MAX
                                      : *(uint32_t *)sink_intern_value(self->agents, number);
}

crema_err_t
sink_decoder_agent(sink_decoder_t *self, const crema_id_t *agent_id, uint32_t stream)
{
    uint32_t number;
    bool fresh;
    if (sink_intern_count(self->agents) >= self->limits->limit[CREMA_LIMIT_AGENTS] &&
        sink_intern_find(self->agents, agent_id, sizeof *agent_id) == SINK_INTERN_NONE) {
        crema_limits_met(self->limits, CREMA_LIMIT_AGENTS, 1);
        return CREMA_OK;
    }
    crema_err_t err = sink_intern_add(self->agents, agent_id, sizeof *agent_id, &number, &fresh);
    if (err == CREMA_OK && fresh)
        *(uint32_t *)sink_intern_value(self->agents, number) = stream;
    return err == CREMA_OK ? sink_decoder_give_clocks(self, false) : err;
}

crema_err_t
sink_decoder_give_clocks(sink_decoder_t *self, bool all)
{
    size_t kept = 0;
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < self->n_clocks && err == CREMA_OK; i++) {
        uint32_t stream = s_stream_of_agent(self, &self->clocks[i].agent_id);
        if (stream == UINT32_MAX && !all)
            self->clocks[kept++] = self->clocks[i];
        else
            err = s_emit_clock(self, &self->clocks[i], stream);
        self->has_stray_clocks |= stream == UINT32_MAX && all;
    }
    self->n_clocks = kept;
    return err;
}

crema_err_t
sink_decoder_clock(sink_decoder_t *self, const Crema__ClockSample *sample)
{
    sink_clock_t clock = {
        .agent_id = *crema_id_of(sample->agent_id),
        .row = {.t_ns = sample->t_ns,
                .offset_ns = sample->offset_ns,
                .uncertainty_ns = sample->uncertainty_ns,
                .rtt_ns = sample->rtt_ns,
                .drift_ppb = sample->drift_ppb,
                .method = CREMA_CLOCK_RTT_MIN},
    };
    uint32_t stream = s_stream_of_agent(self, &clock.agent_id);
    if (stream != UINT32_MAX)
        return s_emit_clock(self, &clock, stream);
    if (self->n_clocks >= self->limits->limit[CREMA_LIMIT_CLOCK_SAMPLES]) {
        crema_limits_met(self->limits, CREMA_LIMIT_CLOCK_SAMPLES, 1);
        return s_emit_clock(self, &clock, stream);
    }
    sink_clock_t *clocks =
        crema_grow(self->clocks, self->n_clocks, &self->clocks_room, sizeof *clocks);
    if (!clocks)
        return CREMA_ENOMEM;
    self->clocks = clocks;
    self->clocks[self->n_clocks++] = clock;
    return CREMA_OK;
}

bool
sink_decoder_has_agents(const sink_decoder_t *self)
{
    for (size_t i = 0; i < self->n_streams; i++) {
        const sink_stream_t *stream = self->streams[i];
        uint32_t own = s_stream_of_agent(self, &stream->agent_id);
        bool is_own = own < self->n_streams && self->streams[own]->kind == CREMA_STREAM_AGENT;
        if (!crema_id_is_zero(&stream->agent_id) && !is_own)
            return false;
    }
    return !self->has_stray_clocks;
}

/* ---- workers */

crema_err_t
sink_decoder_saw(sink_decoder_t *self, uint32_t worker, int64_t t_first_ns, int64_t t_last_ns)
{
    if (worker >= sink_dict_count(self->dict, CREMA_TABLE_DICT_WORKER) || t_first_ns == 0)
        return CREMA_OK;
    if (worker >= self->seen_room) {
        size_t room = self->seen_room ? self->seen_room : 64;
        while (room <= worker)
            room *= 2;
        sink_seen_t *seen = realloc(self->seen, room * sizeof *seen);
        if (!seen)
            return CREMA_ENOMEM;
        for (size_t i = self->seen_room; i < room; i++)
            seen[i] = (sink_seen_t){0, 0};
        self->seen = seen;
        self->seen_room = room;
    }
    sink_seen_t *seen = &self->seen[worker];
    if (seen->t_first_ns == 0 || t_first_ns < seen->t_first_ns)
        seen->t_first_ns = t_first_ns;
    if (t_last_ns > seen->t_last_ns)
        seen->t_last_ns = t_last_ns;
    return CREMA_OK;
}
