#include "message_parts.h"
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

/* The same of what can still be read: the sink does not know of a hole before it has read
 * everything again. */
static bool
s_is_readable(const sim_t *sim, const sim_stream_t *stream, uint64_t hi)
{
    const sim_journal_t *journal = &sim->sink.journals[stream - sim->streams];
    if (!journal->damaged)
        return s_durable(sim, stream) >= hi;
    return journal->hole > 0 && journal->entries[journal->hole - 1].last >= hi;
}

/* Nothing can follow: the spool holds its END, or the sink does (a power cut may take it from the
 * spool again). */
static bool
s_is_ended(const sim_t *sim, const sim_stream_t *stream)
{
    const sim_journal_t *journal = &sim->sink.journals[stream - sim->streams];
    return stream->closed || (journal->durable && journal->entries[journal->durable - 1].is_end);
}

/* Every record up to hi is there. What an earlier store held and lost is not the oracle's
 * business. */
static bool
s_is_covered(const sim_t *sim, const sim_stream_t *stream, uint64_t hi)
{
    return s_durable(sim, stream) >= hi;
}

/* I2: nothing is freed that is not durable. What was said of it before a hole was found may still
 * be on the way. */
void
sim_check_trim(sim_t *sim, const sim_stream_t *stream, uint64_t committed)
{
    bool was_durable = committed <= sim->sink.journals[stream - sim->streams].fell_from;
    if (!s_is_covered(sim, stream, committed) && !was_durable && !sim->regressed)
        sim_violation(sim, "I2: stream %d trimmed to %llu, durable are %llu",
                      (int)(stream - sim->streams), (unsigned long long)committed,
                      (unsigned long long)s_durable(sim, stream));
}

/* An agent whose spool goes with it must have nothing in it. */
void
sim_check_dismissed(sim_t *sim, int agent)
{
    if (sim->agents[agent].blind_until_ns > sim->now_ns - 2 * SIM_S)
        sim->anybody_dead = true; /* nobody is there who could say that it held nothing more */
    for (int i = 0; i < sim->n_streams; i++) {
        const sim_stream_t *stream = &sim->streams[i];
        if (stream->agent != agent || stream->gone || s_is_covered(sim, stream, stream->hi))
            continue;
        /* It may have become readable while the agent said goodbye. */
        int64_t lately_ns = sim->now_ns - 2 * SIM_S;
        if (stream->hidden_until_ns > lately_ns || sim->agents[agent].blind_until_ns > lately_ns)
            sim->anybody_dead = true; /* what it cannot read stays, and nobody serves it */
        else if (!sim->regressed)
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

/* What an older store or a hole lost and no spool holds, an aggregator can only know that was
 * there before. */
static bool
s_is_forgotten(const sim_t *sim, const sim_stream_t *stream)
{
    const sim_journal_t *journal = &sim->sink.journals[stream - sim->streams];
    const unsigned life = sim->agg.process.life;
    return stream->gone && ((sim->regressed && life != sim->regress_life) ||
                            (journal->fell_from > 0 && life != journal->fell_life));
}

/* The older or damaged store has not said a word to the aggregator yet. */
static bool
s_is_news(const sim_t *sim)
{
    return (sim->regressed || sim->damaged) && sim->agg.heard_boot != sim->sink.boot;
}

/* What must be there. Of whoever is in the list nothing is left to chance: the number it gave
 * counts, whatever became of its spool. */
static uint64_t
s_owed(const sim_stream_t *stream, int64_t at_ns)
{
    uint64_t hi = s_hi_at(stream, at_ns);
    return stream->is_listed && stream->listed > hi ? stream->listed : hi;
}

static bool
s_is_excused(const sim_t *sim, const sim_stream_t *stream)
{
    if (s_is_news(sim))
        return true;
    if (stream->is_listed && stream->listed > 0)
        return false;
    return (!stream->is_listed && s_is_unknowable(sim, stream)) || s_is_forgotten(sim, stream);
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
    if (state->is_unlisted)
        sim_violation(sim, "I5: run %d COMPLETE, and nobody said who wrote", run);
    for (int i = 0; i < sim->n_streams; i++) {
        const sim_stream_t *stream = &sim->streams[i];
        uint64_t hi = s_owed(stream, state->ended_ns);
        if (sim_run_of(sim, &stream->run_id) != run || hi == 0)
            continue;
        if (s_is_readable(sim, stream, hi) && s_is_ended(sim, stream))
            continue;
        if (s_is_excused(sim, stream))
            sim->totals->exempt++;
        else
            sim_violation(
                sim, "I5: run %d COMPLETE, stream %d of agent %d has %llu, durable %llu%s", run, i,
                stream->agent, (unsigned long long)hi, (unsigned long long)s_durable(sim, stream),
                s_is_ended(sim, stream) ? "" : ", open");
    }
}

/* I7: no run is given up whose client was heard lately, whatever the wall clock shows. */
void
sim_check_abandoned(sim_t *sim, int run)
{
    int64_t silent_ns = sim->now_ns - sim->runs[run].client_ns;
    if (silent_ns < SIM_ABANDON_NS - SIM_ABANDON_NS / 1000)
        sim_violation(sim, "I7: run %d given up %lld ms after its client was heard", run,
                      (long long)(silent_ns / SIM_MS));
}

/* Nobody will ever end it. */
static bool
s_is_left(const sim_run_t *run)
{
    return run->gone_ns && !run->back_ns;
}

static bool
s_is_sealed(const sim_t *sim, int run)
{
    const sim_sealed_t *sealed = &sim->sink.sealed[run];
    return s_is_left(&sim->runs[run]) ? sealed->life == CREMA_LIFE_UNENDED && sealed->reasons > 0
                                      : sim->runs[run].sealed;
}

/* I4: what is on the way stays within the pool. */
void
sim_check_credit(sim_t *sim)
{
    agg_stats_t stats = agg_core_stats(sim->agg.core);
    if (stats.credit_granted_b > SIM_CREDIT_B)
        sim_violation(sim, "I4: %llu bytes granted", (unsigned long long)stats.credit_granted_b);
}

/* The estimate holds its bound against the true difference of the two clocks now. It may not,
 * rarely, where one of them began anew on the way. */
void
sim_check_offset(sim_t *sim, const Crema__ClockSample *sample)
{
    int64_t mine_ns = sim_clock(sim, &sim->agg.clock) + sim->agg.wall_ahead_ns;
    int64_t theirs_ns =
        sim_clock(sim, &sim->agents[crema_id_of(sample->agent_id)->bytes[0] - 1].clock);
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

/* What was durable once, was trimmed, and is gone: an older store, or a hole in the journal, is
 * the one way to that. */
static bool
s_may_be_lost(const sim_t *sim, const sim_journal_t *journal, const sim_entry_t *entry)
{
    return sim->regressed || entry->last <= journal->fell_from;
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
        if (entry->is_loss ? !s_may_be_lost(sim, journal, entry)
                           : entry->body != record->body && entry->body != record->other)
            sim_violation(sim, "I1: stream %d number %llu is not what was recorded", i,
                          (unsigned long long)entry->last);
        next = entry->last + 1;
    }
}

/* I3, I6: everything that lies in a living spool is in the sink, also what was recorded after it
 * healed. */
static bool
s_is_delivered(const sim_t *sim, int i)
{
    const sim_stream_t *stream = &sim->streams[i];
    if (stream->gone || sim->agents[stream->agent].dead)
        return true;
    return s_is_covered(sim, stream, stream->hi) && stream->closed;
}

/* A journal lost it to a hole, and no spool has it any more. */
static bool
s_lacks_for_good(const sim_t *sim, int run)
{
    for (int i = 0; i < sim->n_streams; i++) {
        const sim_stream_t *stream = &sim->streams[i];
        if (sim_run_of(sim, &stream->run_id) == run && stream->gone &&
            s_durable(sim, stream) < sim->sink.journals[i].fell_from)
            return true;
    }
    return false;
}

/* A verdict with reasons must be taken back by the aggregator that gave it once nothing is
 * missing. */
static bool
s_must_mend(const sim_t *sim, int run)
{
    const sim_run_t *state = &sim->runs[run];
    /* A run without its client is given up, which dismisses its agents in any case. Those whose
     * goodbye was lost say nothing any more when the client is back. */
    if (state->back_ns > 0 && sim->hostile)
        return false;
    return state->reasons > 0 && sim->sink.sealed[run].reasons > 0 && !state->is_unlisted &&
           !s_is_left(state) && !sim->anybody_dead && !sim->power && !sim->regressed &&
           !s_lacks_for_good(sim, run) && state->verdict_life == sim->agg.process.life;
}

bool
sim_is_finished(const sim_t *sim)
{
    for (int run = 0; run < sim->n_runs; run++)
        if (!s_is_sealed(sim, run) || s_must_mend(sim, run))
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
        Crema__RunState known;
        if (!s_is_sealed(sim, run))
            sim_violation(sim, "run %d was never sealed%s", run,
                          s_is_left(state) ? ", though nobody will end it" : "");
        else if ((sim->agg.opened[run] || sim->agg.ended[run]) &&
                 !agg_core_look(sim->agg.core, &sim->run_ids[run], &known))
            sim_violation(sim, "run %d was forgotten early", run);
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
