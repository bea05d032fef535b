#include "sim.h"

#define FAST_NS                                                                                    \
    (250 * SIM_MS) /* a verdict when nothing is wrong, whatever the heartbeat interval */

/* The last number of the stream that a power cut would leave in the sink. */
static uint64_t
s_durable(const sim_t *sim, const sim_stream_t *stream)
{
    const sim_journal_t *journal = &sim->sink.journals[stream - sim->streams];
    return journal->durable ? journal->entries[journal->durable - 1].last : 0;
}

/* Nothing can follow: the spool holds its END, or the sink does (a power cut may take it from the spool again). */
static bool
s_is_ended(const sim_t *sim, const sim_stream_t *stream)
{
    const sim_journal_t *journal = &sim->sink.journals[stream - sim->streams];
    return stream->closed || (journal->durable && journal->entries[journal->durable - 1].is_end);
}

/* Every record up to hi is there. What an earlier store held and lost is not the oracle's business. */
static bool
s_is_covered(const sim_t *sim, const sim_stream_t *stream, uint64_t hi)
{
    return s_durable(sim, stream) >= hi;
}

/* I2: nothing is freed that is not durable. */
void
sim_check_trim(sim_t *sim, const sim_stream_t *stream, uint64_t committed)
{
    if (!s_is_covered(sim, stream, committed) && !sim->regressed)
        sim_violation(sim, "I2: stream %d trimmed to %llu, durable are %llu",
                      (int)(stream - sim->streams), (unsigned long long)committed,
                      (unsigned long long)s_durable(sim, stream));
}

/* An agent whose spool goes with it must have nothing in it. */
void
sim_check_dismissed(sim_t *sim, int agent)
{
    for (int i = 0; i < sim->n_streams; i++) {
        const sim_stream_t *stream = &sim->streams[i];
        if (stream->agent == agent && !stream->gone && !s_is_covered(sim, stream, stream->hi) &&
            !sim->regressed)
            sim_violation(sim, "I3: agent %d dismissed with records of stream %d", agent, i);
    }
}

/* The last record of the stream that was there when the aggregator heard RUN_END. */
static uint64_t
s_hi_at(const sim_stream_t *stream, int64_t at_ns)
{
    uint64_t hi = stream->hi;
    while (hi > 0 && stream->records[hi].t_ns > at_ns)
        hi--;
    return hi;
}

/* An aggregator cannot know of an agent that did not reach it in this life of it. */
static bool
s_is_unknowable(const sim_t *sim, const sim_stream_t *stream)
{
    return !sim->agents[stream->agent].known;
}

/* What an older store lost and no spool holds, an aggregator can only know that was there before. */
static bool
s_is_forgotten(const sim_t *sim)
{
    return sim->regressed && sim->agg.process.life != sim->regress_life;
}

/* The older store has not said a word to the aggregator yet. */
static bool
s_is_news(const sim_t *sim)
{
    return sim->regressed && sim->agg.heard_boot != sim->sink.boot;
}

/* I5: COMPLETE means that all is there, and that nothing can follow. */
void
sim_check_verdict(sim_t *sim, int run, size_t reasons)
{
    sim_run_t *state = &sim->runs[run];
    state->verdicts++;
    state->partials += reasons > 0;
    state->reasons = reasons;
    sim->totals->verdicts++;
    sim->totals->partials += reasons > 0;
    if (reasons > 0)
        return;
    for (int i = 0; i < sim->n_streams; i++) {
        const sim_stream_t *stream = &sim->streams[i];
        uint64_t hi = s_hi_at(stream, state->ended_ns);
        if (sim_run_of(sim, &stream->run_id) != run || hi == 0)
            continue;
        if (s_is_covered(sim, stream, hi) && s_is_ended(sim, stream))
            continue;
        if (s_is_unknowable(sim, stream) || (stream->gone && s_is_forgotten(sim)) || s_is_news(sim))
            sim->totals->exempt++;
        else
            sim_violation(
                sim, "I5: run %d COMPLETE, stream %d of agent %d has %llu, durable %llu%s", run, i,
                stream->agent, (unsigned long long)hi, (unsigned long long)s_durable(sim, stream),
                s_is_ended(sim, stream) ? "" : ", open");
    }
}

/* I4: what is on the way stays within the pool. */
void
sim_check_credit(sim_t *sim)
{
    agg_stats_t stats = agg_core_stats(sim->agg.core);
    if (stats.credit_granted_b > SIM_CREDIT_B)
        sim_violation(sim, "I4: %llu bytes granted", (unsigned long long)stats.credit_granted_b);
}

/* The estimate holds its bound against the true difference of the two clocks now. It may not, rarely, where one of them began anew on the way. */
void
sim_check_offset(sim_t *sim, const crema_clock_sample_t *sample)
{
    int64_t mine_ns = sim_clock(sim, &sim->agg.clock);
    int64_t theirs_ns = sim_clock(sim, &sim->agents[sample->agent_id.bytes[0] - 1].clock);
    int64_t error_ns = sample->offset_ns - (theirs_ns - mine_ns);
    if (error_ns < 0)
        error_ns = -error_ns;
    int64_t step = error_ns / 10000;
    sim->totals->offsets++;
    sim->totals->offsets_held += error_ns <= sample->uncertainty_ns;
    if (!sim->faults) {
        sim->totals->calm_offsets++;
        sim->totals->offset_errors[step < SIM_ERRORS ? step : SIM_ERRORS - 1]++;
    }
}

/* I1: every number once, in order, as it was recorded. */
static void
s_check_journal(sim_t *sim, int i)
{
    const sim_journal_t *journal = &sim->sink.journals[i];
    uint64_t next = 1;
    for (size_t e = 0; e < journal->n; e++) {
        const sim_entry_t *entry = &journal->entries[e];
        if (entry->first != next || entry->last < entry->first || entry->last > SIM_RECORDS_MAX) {
            sim_violation(sim, "I1: stream %d has %llu where %llu is due", i,
                          (unsigned long long)entry->first, (unsigned long long)next);
            return;
        }
        const sim_record_t *record = &sim->streams[i].records[entry->last];
        if (entry->is_loss ? !sim->regressed
                           : entry->body != record->body && entry->body != record->other)
            sim_violation(sim, "I1: stream %d number %llu is not what was recorded", i,
                          (unsigned long long)entry->last);
        next = entry->last + 1;
    }
}

/* I3, I6: everything that lies in a living spool is in the sink, also what was recorded after it healed. */
static bool
s_is_delivered(const sim_t *sim, int i)
{
    const sim_stream_t *stream = &sim->streams[i];
    if (stream->gone || sim->agents[stream->agent].dead)
        return true;
    return s_is_covered(sim, stream, stream->hi) && stream->closed;
}

/* A verdict with reasons must be taken back by the aggregator that gave it once nothing is missing. */
static bool
s_must_mend(const sim_t *sim, int run)
{
    const sim_run_t *state = &sim->runs[run];
    return state->reasons > 0 && !sim->anybody_dead && !sim->power && !sim->regressed &&
           state->verdict_life == sim->agg.process.life;
}

bool
sim_is_finished(const sim_t *sim)
{
    for (int run = 0; run < sim->n_runs; run++)
        if (!sim->runs[run].sealed || s_must_mend(sim, run))
            return false;
    for (int i = 0; i < sim->n_streams; i++)
        if (!s_is_delivered(sim, i))
            return false;
    return sim->healed;
}

void
sim_check_end(sim_t *sim)
{
    for (int i = 0; i < sim->n_streams; i++) {
        s_check_journal(sim, i);
        if (!s_is_delivered(sim, i))
            sim_violation(sim, "I3: stream %d of agent %d: %llu recorded, %llu durable%s", i,
                          sim->streams[i].agent, (unsigned long long)sim->streams[i].hi,
                          (unsigned long long)s_durable(sim, &sim->streams[i]),
                          sim->streams[i].closed ? "" : ", open");
    }
    for (int run = 0; run < sim->n_runs; run++) {
        const sim_run_t *state = &sim->runs[run];
        if (!state->sealed)
            sim_violation(sim, "run %d was never sealed", run);
        else if (s_must_mend(sim, run))
            sim_violation(sim, "run %d stayed PARTIAL though everything came", run);
        if (sim->faults)
            continue;
        if (state->partials > 0 || state->verdicts != 1)
            sim_violation(sim, "run %d: nothing was wrong and the verdict was not COMPLETE", run);
        if (state->verdict_after_ns > FAST_NS)
            sim_violation(sim, "run %d: verdict after %lld ms though nothing was wrong", run,
                          (long long)(state->verdict_after_ns / SIM_MS));
    }
}
