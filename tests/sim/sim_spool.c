#include "sim.h"

#include <stdio.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_frame.h"

#define BODY_BYTES 8
#define SYNC_NS (300 * SIM_MS)

int
sim_stream_find(const sim_t *sim, const crema_id_t *id)
{
    for (int i = 0; i < sim->n_streams; i++)
        if (crema_id_equal(&sim->streams[i].id, id))
            return i;
    return -1;
}

int
sim_stream_new(sim_t *sim, int agent, int run, bool own)
{
    if (sim->n_streams == SIM_STREAMS_MAX)
        return -1;
    int i = sim->n_streams++;
    sim_stream_t *stream = &sim->streams[i];
    stream->id = sim_random_id(sim);
    char hex[CREMA_ID_HEX_CHARS + 1];
    snprintf(stream->file, sizeof stream->file, "sp-%s-%016x", crema_id_hex(&stream->id, hex), 1);
    stream->run_id = sim->run_ids[run];
    stream->agent = agent;
    stream->own = own;
    stream->writer_alive = true;
    stream->first_avail = 1;
    sim_record(sim, i, false);
    return i;
}

/* One record is one write(): there as soon as it returns. A stream that came to its limit only
 * ends. */
bool
sim_record(sim_t *sim, int i, bool is_end)
{
    sim_stream_t *stream = &sim->streams[i];
    if (stream->closed || stream->hi >= (is_end ? SIM_RECORDS_MAX : SIM_RECORDS_MAX - 1))
        return false;
    sim_record_t *record = &stream->records[++stream->hi];
    uint64_t body = is_end ? crema_id_hash(&stream->id) | 1 : sim_random(sim) | 1;
    if (record->body && record->body != body)
        record->other = record->body; /* a power cut took it, but it may be on its way */
    record->body = body;
    record->t_ns = sim->now_ns;
    record->is_end = is_end;
    stream->closed = is_end;
    stream->unread = true;
    sim->totals->records++;
    return true;
}

/* The lock is free and there is no END: whoever scans writes it. */
void
sim_stream_abandon(sim_t *sim, int i)
{
    sim_stream_t *stream = &sim->streams[i];
    if (!stream->writer_alive && !stream->closed && !stream->gone)
        sim_record(sim, i, true);
}

static size_t
s_frame(uint8_t *out, uint64_t seq, uint16_t type, uint64_t body)
{
    memset(out, 0, CREMA_FRAME_HEADER_BYTES);
    crema_put_u32(out, CREMA_FRAME_MAGIC);
    crema_put_u32(out + 4, BODY_BYTES);
    crema_put_u64(out + 8, seq);
    crema_put_u16(out + 24, type);
    crema_put_u64(out + CREMA_FRAME_HEADER_BYTES, body);
    return CREMA_FRAME_HEADER_BYTES + BODY_BYTES;
}

size_t
sim_spool_read(sim_t *sim, int i, uint64_t first_seq, uint8_t *buf, size_t size, uint32_t *ret_n,
               uint64_t *ret_last)
{
    const sim_stream_t *stream = &sim->streams[i];
    size_t bytes = 0;
    *ret_n = 0;
    for (uint64_t seq = first_seq; !stream->gone && seq <= stream->hi &&
                                   bytes + CREMA_FRAME_HEADER_BYTES + BODY_BYTES <= size;
         seq++) {
        const sim_record_t *record = &stream->records[seq];
        if (seq < stream->first_avail) {
            seq = stream->first_avail - 1; /* what was trimmed and is wanted again is lost */
            bytes += s_frame(buf + bytes, seq, CREMA_RECORD_LOSS, CREMA_LOSS_STORE_REGRESSED);
        } else {
            bytes += s_frame(buf + bytes, seq,
                             record->is_end ? CREMA_RECORD_END : CREMA_RECORD_BATCH, record->body);
        }
        *ret_last = seq;
        (*ret_n)++;
    }
    return bytes;
}

void
sim_spool_trim(sim_t *sim, int i, uint64_t committed)
{
    sim_stream_t *stream = &sim->streams[i];
    sim_check_trim(sim, stream, committed);
    uint64_t first = committed / SIM_SEGMENT * SIM_SEGMENT + 1;
    if (first > stream->first_avail)
        stream->first_avail = first;
    if (stream->closed && committed >= stream->hi)
        stream->gone = true;
}

/* The host loses power: writers and agent are gone, and so may be what was not synced. */
void
sim_spool_power_cut(sim_t *sim, int agent)
{
    for (int i = 0; i < sim->n_streams; i++) {
        sim_stream_t *stream = &sim->streams[i];
        if (stream->agent != agent)
            continue;
        stream->writer_alive = false;
        if (stream->gone)
            continue;
        uint64_t keep = (uint64_t)sim_between(sim, (int64_t)stream->synced, (int64_t)stream->hi);
        if (keep + 1 < stream->first_avail)
            keep = stream->first_avail - 1;
        if (keep < stream->hi) {
            if (stream->hi > stream->power_lost)
                stream->power_lost = stream->hi;
            stream->hi = keep;
            stream->gone = keep == 0; /* without its first record a stream has no run */
            stream->closed = keep > 0 && stream->records[keep].is_end;
            for (uint64_t seq = keep + 1; seq <= stream->power_lost; seq++)
                stream->records[seq].is_end = false;
        }
    }
}

/* ---------------------------------------------------------------- writers */

static bool
s_run_is_over(const sim_t *sim, int run)
{
    return sim->now_ns >= sim->runs[run].end_at_ns;
}

static void
s_write(sim_t *sim, int i, int pace_ms, crema_msg_t *msg)
{
    (void)msg;
    sim_stream_t *stream = &sim->streams[i];
    int run = sim_run_of(sim, &stream->run_id);
    if (!stream->writer_alive || stream->closed || s_run_is_over(sim, run))
        return;
    for (int64_t n = sim_between(sim, 1, 3); n > 0; n--)
        sim_record(sim, i, false);
    sim_at(sim, sim->now_ns + sim_between(sim, 1, 2 * pace_ms) * SIM_MS, s_write, i, pace_ms, NULL);
}

static void
s_start_writer(sim_t *sim, int agent, int run, crema_msg_t *msg)
{
    (void)msg;
    if (s_run_is_over(sim, run) || sim->agents[agent].dead)
        return;
    int i = sim_stream_new(sim, agent, run, false);
    if (i >= 0 && sim->faults && sim_chance(sim, 0.1))
        sim->streams[i].hidden_until_ns = sim->now_ns + sim_between(sim, SIM_MS, 80 * SIM_S);
    if (i >= 0)
        sim_at(sim, sim->now_ns, s_write, i, (int)sim_between(sim, 20, 300), NULL);
}

/* A worker is killed or leaves; now and then another takes its place. */
static void
s_stop_writer(sim_t *sim, int i, int killed, crema_msg_t *msg)
{
    (void)msg;
    if (i >= sim->n_streams || sim->streams[i].own || !sim->streams[i].writer_alive)
        return;
    sim_stream_t *stream = &sim->streams[i];
    if (!killed)
        sim_record(sim, i, true);
    stream->writer_alive = false;
    if (sim_chance(sim, 0.5))
        s_start_writer(sim, stream->agent, sim_run_of(sim, &stream->run_id), NULL);
}

/* The collector flushes every writer it can reach before it says RUN_END; one in twenty hangs and
 * ends later. */
static void
s_flush(sim_t *sim, int run, int last, crema_msg_t *msg)
{
    (void)msg;
    for (int i = 0; i < sim->n_streams; i++) {
        sim_stream_t *stream = &sim->streams[i];
        if (stream->own || !stream->writer_alive || sim_run_of(sim, &stream->run_id) != run)
            continue;
        if (!last && sim->faults && sim_chance(sim, 0.05))
            continue;
        sim_record(sim, i, false);
        sim_record(sim, i, true);
        stream->writer_alive = false;
        if (!sim->runs[run].has_list)
            stream->listed = stream->hi;
    }
}

static void
s_sync(sim_t *sim, int a, int b, crema_msg_t *msg)
{
    (void)a, (void)b, (void)msg;
    for (int i = 0; i < sim->n_streams; i++)
        if (sim_chance(sim, 0.5))
            sim->streams[i].synced = sim->streams[i].hi;
    sim_at(sim, sim->now_ns + SYNC_NS, s_sync, 0, 0, NULL);
}

void
sim_writers_start(sim_t *sim)
{
    for (int run = 0; run < sim->n_runs; run++) {
        int64_t end_ns = sim->runs[run].end_at_ns;
        for (int agent = 0; agent < sim->n_agents; agent++)
            for (int64_t n = sim_between(sim, 1, 3); n > 0; n--)
                sim_at(sim, sim_between(sim, 0, end_ns * 3 / 4), s_start_writer, agent, run, NULL);
        if (sim_chance(sim, 0.5)) /* a worker that begins at the last moment */
            sim_at(sim, end_ns - sim_between(sim, 1, 120 * SIM_MS), s_start_writer,
                   (int)sim_between(sim, 0, sim->n_agents - 1), run, NULL);
        sim_at(sim, end_ns, s_flush, run, 0, NULL);
        sim_at(sim, end_ns + 25 * SIM_S, s_flush, run, 1, NULL);
    }
    for (int64_t n = sim->faults ? sim_between(sim, 0, 4) : 0; n > 0; n--)
        sim_at(sim, sim_between(sim, SIM_S, 8 * SIM_S), s_stop_writer, (int)sim_between(sim, 0, 12),
               (int)sim_between(sim, 0, 1), NULL);
    if (sim->power)
        sim_at(sim, SYNC_NS, s_sync, 0, 0, NULL);
}
