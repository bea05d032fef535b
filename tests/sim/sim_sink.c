#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "message_parts.h"

#define GROUP_NS (20 * SIM_MS)
#define SEALING_NS (30 * SIM_MS)

static void
s_send(sim_t *sim, crema_msg_t *msg)
{
    msg->session = sim->sink.boot;
    sim_send(sim, sim->sink_conn, false, msg);
}

/* ------------------------------------------------ the journal: buffered, written, durable */

static void
s_append(sim_t *sim, int i, const sim_entry_t *entry)
{
    sim_journal_t *journal = &sim->sink.journals[i];
    if (journal->n == journal->capacity) {
        journal->capacity = journal->capacity ? 2 * journal->capacity : 64;
        journal->entries = realloc(journal->entries, journal->capacity * sizeof *entry);
        if (!journal->entries)
            abort();
    }
    journal->entries[journal->n++] = *entry;
}

static void
s_acknowledge(sim_t *sim)
{
    crema_stream_row_t rows[SIM_STREAMS_MAX];
    size_t n = sink_commit_take(sim->sink.commit, rows, SIM_STREAMS_MAX), told = 0;
    for (size_t i = 0; i < n; i++)
        if (!sim->sink.sealed[sim_run_of(sim, &rows[i].run_id)].held)
            rows[told++] = rows[i];
    crema_msg_t msg = {.type = CREMA_MSG_COMMITTED, .committed.table = body_table(told, rows)};
    if (told > 0)
        s_send(sim, &msg);
}

static void
s_on_synced(sim_t *sim, int a, int life, crema_msg_t *msg)
{
    (void)a, (void)msg;
    if (sim->sink.process.life != (unsigned)life || !sim->sink.process.up)
        return;
    for (int i = 0; i < sim->n_streams; i++)
        sim->sink.journals[i].durable = sim->sink.journals[i].written;
    for (int run = 0; run < sim->n_runs; run++)
        sink_commit_durable(sim->sink.commit, &sim->run_ids[run]);
    s_acknowledge(sim);
}

/* write(), then fdatasync(), which takes its time; what comes meanwhile is in the next group. */
static void
s_on_commit_due(sim_t *sim, int a, int life, crema_msg_t *msg)
{
    (void)a, (void)msg;
    if (sim->sink.process.life != (unsigned)life || !sim->sink.process.up)
        return;
    if (sim->now_ns <= sim->sink.busy_until_ns) {
        sim_at(sim, sim->sink.busy_until_ns + 1, s_on_commit_due, 0, life, NULL);
        return;
    }
    sim->sink.commit_due = false;
    for (int i = 0; i < sim->n_streams; i++)
        sim->sink.journals[i].written = sim->sink.journals[i].n;
    for (int run = 0; run < sim->n_runs; run++)
        sink_commit_begin(sim->sink.commit, &sim->run_ids[run]);
    int64_t took = sim_between(sim, SIM_MS, 8 * SIM_MS);
    if (sim->faults && !sim->healed && sim_chance(sim, 0.02))
        took += sim_between(sim, 0, 800 * SIM_MS);
    sim->sink.busy_until_ns = sim->now_ns + took;
    sim_at(sim, sim->sink.busy_until_ns, s_on_synced, 0, life, NULL);
}

static void
s_commit_soon(sim_t *sim)
{
    if (sim->sink.commit_due)
        return;
    sim->sink.commit_due = true;
    sim_at(sim, sim->now_ns + GROUP_NS, s_on_commit_due, 0, (int)sim->sink.process.life, NULL);
}

/* ---------------------------------------------------------------- messages */

static void
s_on_put(sim_t *sim, const Crema__Put *put)
{
    const crema_id_t *stream_id = crema_id_of(put->stream_id), *run_id = crema_id_of(put->run_id);
    sink_put_t decision;
    uint32_t skip;
    uint64_t next;
    crema_msg_t msg = {0};
    if (sim->sink.full) {
        msg.type = CREMA_MSG_FULL;
        msg.full.retry_after_ms = 1000;
        s_send(sim, &msg);
        return;
    }
    int i = sim_stream_find(sim, stream_id);
    if (sink_commit_put(sim->sink.commit, stream_id, run_id, put->first_seq, put->n, &decision,
                        &skip, &next) != CREMA_OK)
        return;
    if (decision == SINK_PUT_GAP) {
        msg.type = CREMA_MSG_NACK;
        msg.nack.stream_id = put->stream_id;
        s_send(sim, &msg);
        return;
    }
    if (decision != SINK_PUT_APPEND) {
        sink_commit_ask(sim->sink.commit, stream_id);
        s_commit_soon(sim);
        return;
    }
    const uint8_t *at = put->frames.data;
    sim_entry_t entry = {.last = put->first_seq - 1};
    for (uint32_t n = 0; n < put->n; n++) {
        uint16_t type = crema_get_u16(at + 24);
        entry = (sim_entry_t){
            .first = type == CREMA_RECORD_LOSS && n == skip ? next : crema_get_u64(at + 8),
            .last = crema_get_u64(at + 8),
            .body = crema_get_u64(at + CREMA_FRAME_HEADER_BYTES),
            .is_loss = type == CREMA_RECORD_LOSS,
            .is_end = type == CREMA_RECORD_END,
        };
        if (n >= skip)
            s_append(sim, i, &entry);
        at += CREMA_FRAME_HEADER_BYTES + crema_get_u32(at + 4);
    }
    sink_commit_written(sim->sink.commit, stream_id, entry.last, entry.is_end);
    s_commit_soon(sim);
}

typedef struct {
    sim_t *sim;
    size_t n;
    crema_stream_row_t rows[SIM_STREAMS_MAX];
} listing_t;

static void
s_list(void *context, const crema_stream_row_t *row)
{
    listing_t *listing = context;
    int run = sim_run_of(listing->sim, &row->run_id);
    if (run >= 0 && !listing->sim->sink.sealed[run].sealed)
        listing->rows[listing->n++] = *row;
}

static void
s_on_open(sim_t *sim, const Crema__StreamTable *asked)
{
    listing_t listing = {.sim = sim};
    const size_t n_asked = crema_stream_table_rows(asked);
    for (size_t i = 0; i < n_asked; i++) {
        const crema_stream_row_t known = crema_stream_table_row(asked, i);
        crema_stream_row_t *row = &listing.rows[listing.n++];
        if (!sink_commit_get(sim->sink.commit, &known.stream_id, row))
            row->run_id = known.run_id;
    }
    for (int run = 0; n_asked == 0 && run < sim->n_runs; run++)
        sink_commit_each(sim->sink.commit, &sim->run_ids[run], s_list, &listing);
    crema_msg_t msg = {
        .type = CREMA_MSG_STATE,
        .state = {.free_b = sim->sink.full ? 0 : 1 << 30,
                  .table = body_table(listing.n, listing.rows)},
    };
    s_send(sim, &msg);
}

static void
s_say_sealed(sim_t *sim, int run)
{
    Crema__Reason not_ended = crema_reason(CREMA_LIFE_NOT_ENDED, "", "", 0);
    const sim_sealed_t *sealed = &sim->sink.sealed[run];
    if (sealed->life != CREMA_LIFE_SEALED && sealed->life != CREMA_LIFE_UNENDED)
        return; /* it ended since: another verdict follows */
    crema_msg_t answer = {
        .type = CREMA_MSG_SEALED,
        .sealed = {.run_id = crema_id_field(&sim->run_ids[run]),
                   .path = "run.h5",
                   .verdict = sealed->reasons ? "PARTIAL" : "COMPLETE",
                   .error = "",
                   .n_reasons = sealed->life == CREMA_LIFE_UNENDED,
                   .reasons = body_reasons(1, &not_ended),
                   .revision = sealed->revision},
    };
    s_send(sim, &answer);
}

static void
s_on_sealing_done(sim_t *sim, int run, int life, crema_msg_t *msg)
{
    (void)msg;
    if (sim->sink.process.life != (unsigned)life || !sim->sink.process.up)
        return;
    sim_sealed_t *sealed = &sim->sink.sealed[run];
    bool is_of_its_end = sealed->life == CREMA_LIFE_ENDED || sealed->life == CREMA_LIFE_SEALED;
    if (is_of_its_end && sealed->lacks_end)
        return; /* it was ended while the file was made */
    (void)!crema_life_step(sealed->life, CREMA_LIFE_FILE, &sealed->life);
    sealed->sealed = true;
    sealed->revision++;
    s_say_sealed(sim, run);
}

/* ------------------------------------------------ the journal, read once more after a start */

static void
s_say_listed(sim_t *sim, int run, uint32_t part)
{
    s_send(sim, &(crema_msg_t){.type = CREMA_MSG_RUN_LISTED,
                               .run_listed = {.run_id = crema_id_field(&sim->run_ids[run]),
                                              .part = part,
                                              .parts = SIM_PARTS}});
}

static bool
s_is_open(const sim_t *sim, int run)
{
    return !sim->sink.sealed[run].sealed && !sim->sink.sealed[run].seal_asked;
}

/* Watermarks fall to the hole; what lies behind it is delivered anew, or was trimmed and is said
 * to be lost. */
static void
s_fall_back(sim_t *sim, int i)
{
    sim_journal_t *journal = &sim->sink.journals[i];
    int run = sim_run_of(sim, &sim->streams[i].run_id);
    journal->fell_from = journal->entries[journal->n - 1].last;
    journal->fell_life = sim->agg.process.life;
    journal->n = journal->written = journal->durable = journal->hole;
    sink_commit_lower(sim->sink.commit, &sim->streams[i].id,
                      journal->n ? journal->entries[journal->n - 1].last : 0);
    for (uint32_t part = 0; part < SIM_PARTS; part++)
        sim->sink.sealed[run].listed[part] = false;
    sim->totals->holes++;
    sim_say(sim, "the sink finds the hole in stream %d at %zu", i, journal->hole);
}

/* The sealing reads all of a run's journal by itself. */
static bool
s_fall_back_where_damaged(sim_t *sim)
{
    bool fell = false;
    for (int i = 0; i < sim->n_streams; i++) {
        sim_journal_t *journal = &sim->sink.journals[i];
        if (!journal->damaged || !s_is_open(sim, sim_run_of(sim, &sim->streams[i].run_id)))
            continue;
        journal->damaged = false;
        fell = true;
        s_fall_back(sim, i);
    }
    return fell;
}

/* Who heard the sink before takes it for another one, and asks for everything anew. */
static void
s_on_scrubbed(sim_t *sim, int a, int life, crema_msg_t *unused)
{
    (void)a, (void)unused;
    sim_sink_t *sink = &sim->sink;
    if (sink->process.life != (unsigned)life || !sink->process.up)
        return;
    if (sink->commit_due ||
        sink->busy_until_ns > sim->now_ns) { /* what is not synced comes first */
        sim_at(sim, sim->now_ns + SIM_MS, s_on_scrubbed, 0, life, NULL);
        return;
    }
    sink->scrubbing = false;
    if (s_fall_back_where_damaged(sim)) {
        sink->boot = sim_random(sim) | 1;
        s_send(sim, &(crema_msg_t){.type = CREMA_MSG_COMMITTED});
    }
    for (int i = 0; i < sim->n_streams; i++)
        if (sink->sealed[sim_run_of(sim, &sim->streams[i].run_id)].held)
            sink_commit_ask(sink->commit, &sim->streams[i].id);
    for (int run = 0; run < sim->n_runs; run++) {
        for (uint32_t part = 0; sink->sealed[run].held && part < SIM_PARTS; part++)
            if (sink->sealed[run].listed[part])
                s_say_listed(sim, run, part);
        sink->sealed[run].held = false;
    }
    s_acknowledge(sim);
}

/* Of what a message says something new about its run; -1: nothing. */
static int
s_news_of(const sim_t *sim, const crema_msg_t *msg)
{
    switch (msg->type) {
    case CREMA_MSG_PUT:
        return sim_run_of(sim, crema_id_of(msg->put.run_id));
    case CREMA_MSG_RUN_OPEN:
    case CREMA_MSG_RUN_END:
    case CREMA_MSG_RUN_SEAL:
        return sim_run_of(sim, crema_id_of(msg->run_id));
    default:
        return -1;
    }
}

/* Runs that no aggregator ends. */
static void
s_on_watch(sim_t *sim, int a, int life, crema_msg_t *unused)
{
    (void)a, (void)unused;
    Crema__Reason not_ended = crema_reason(CREMA_LIFE_NOT_ENDED, "", "", 0);
    if (sim->sink.process.life != (unsigned)life || !sim->sink.process.up)
        return;
    for (int run = 0; run < sim->n_runs; run++) {
        const sim_sealed_t *sealed = &sim->sink.sealed[run];
        bool is_open = sealed->life == CREMA_LIFE_NONE || sealed->life == CREMA_LIFE_OPEN;
        const crema_msg_t msg = {.type = CREMA_MSG_RUN_SEAL,
                                 .run_seal = {.run_id = crema_id_field(&sim->run_ids[run]),
                                              .n_reasons = 1,
                                              .reasons = body_reasons(1, &not_ended)}};
        if (is_open && sealed->heard_ns > 0 && sim->now_ns - sealed->heard_ns >= SIM_ORPHAN_NS)
            sim_sink_on_message(sim, &msg);
    }
    sim_at(sim, sim->now_ns + SIM_S, s_on_watch, 0, life, NULL);
}

void
sim_sink_on_message(sim_t *sim, const crema_msg_t *msg)
{
    int run = s_news_of(sim, msg);
    if (run >= 0)
        sim->sink.sealed[run].heard_ns = sim->now_ns;
    switch (msg->type) {
    case CREMA_MSG_PUT:
        s_on_put(sim, &msg->put);
        break;
    case CREMA_MSG_OPEN:
        s_on_open(sim, msg->open.table);
        break;
    case CREMA_MSG_RUN_OPEN:
    case CREMA_MSG_RUN_END:
        run = sim_run_of(sim, crema_id_of(msg->run_id));
        (void)!crema_life_step(sim->sink.sealed[run].life, crema_life_event(msg),
                               &sim->sink.sealed[run].life);
        if (sim->sink.sealed[run].sealed)
            s_say_sealed(sim, run);
        break;
    case CREMA_MSG_RUN_WRITERS:
        run = sim_run_of(sim, crema_id_of(msg->run_id));
        sim->sink.sealed[run].listed[msg->run_writers.part] = true;
        sim->sink.sealed[run].held |= sim->sink.scrubbing && s_is_open(sim, run);
        if (!sim->sink.sealed[run].held)
            s_say_listed(sim, run, msg->run_writers.part);
        break;
    case CREMA_MSG_RUN_SEAL:
        run = sim_run_of(sim, crema_id_of(msg->run_id));
        if (crema_life_step(sim->sink.sealed[run].life, crema_life_event(msg),
                            &sim->sink.sealed[run].life) != CREMA_OK) {
            s_say_sealed(sim, run);
            break;
        }
        sim->sink.sealed[run].seal_asked = true;
        sim->sink.sealed[run].lacks_end =
            crema_life_lacks_end(msg->run_seal.n_reasons, msg->run_seal.reasons);
        for (uint32_t i = 0; i < SIM_PARTS; i++)
            if (!sim->sink.sealed[run].lacks_end && !sim->sink.sealed[run].listed[i] &&
                !sim->runs[run].is_unlisted && !sim->hostile && !sim->regressed && !sim->damaged)
                sim_violation(sim, "run %d is to be sealed without part %u of its list", run, i);
        sim->sink.sealed[run].reasons = msg->run_seal.n_reasons;
        sim_at(sim, sim->now_ns + SEALING_NS, s_on_sealing_done, run, (int)sim->sink.process.life,
               NULL);
        break;
    default:
        break;
    }
}

/* ---------------------------------------------------------------- life */

static bool
s_holds_anything(const sim_t *sim)
{
    bool holds = false;
    for (int i = 0; i < sim->n_streams; i++)
        holds = holds || sim->sink.journals[i].n > 0;
    return holds;
}

void
sim_sink_start(sim_t *sim)
{
    sim_sink_t *sink = &sim->sink;
    if (sink->process.up)
        return;
    if (sink_commit_new(SIM_STREAMS_MAX, &sink->commit) != CREMA_OK) {
        sim_violation(sim, "the sink has no memory");
        return;
    }
    sink->boot = sim_random(sim) | 1;
    sink->process.up = true;
    sink->process.life++;
    sink->commit_due = false;
    sink->busy_until_ns = 0;
    for (int run = 0; run < sim->n_runs; run++) {
        sink->sealed[run].held = false;
        if (sink->sealed[run].heard_ns > 0)
            sink->sealed[run].heard_ns = sim->now_ns;
    }
    sink->scrubbing = s_holds_anything(sim);
    sim_at(sim, sim->now_ns + sim_between(sim, SIM_MS, 5 * SIM_S), s_on_scrubbed, 0,
           (int)sink->process.life, NULL);
    sim_at(sim, sim->now_ns + SIM_S, s_on_watch, 0, (int)sink->process.life, NULL);
    for (int i = 0; i < sim->n_streams; i++) {
        sim_journal_t *journal = &sink->journals[i];
        journal->durable = journal->written; /* recovery syncs before it trusts */
        const sim_entry_t *last = journal->n ? &journal->entries[journal->n - 1] : NULL;
        if (last && sink_commit_restore(sink->commit, &sim->streams[i].id, &sim->streams[i].run_id,
                                        last->last, 0, last->is_end) != CREMA_OK)
            sim_violation(sim, "the sink cannot restore");
    }
    sim_say(sim, "sink starts");
}

void
sim_sink_kill(sim_t *sim, bool power_cut)
{
    sim_sink_t *sink = &sim->sink;
    if (!sink->process.up)
        return;
    sim_say(sim, "sink is gone%s", power_cut ? ", its host too" : "");
    sink->process.up = false;
    sim_disconnect(sim, sim->sink_conn);
    sim->sink_conn = -1;
    sink_commit_destroy(&sink->commit);
    for (int i = 0; i < sim->n_streams; i++) {
        sim_journal_t *journal = &sink->journals[i];
        if (power_cut)
            journal->written =
                (size_t)sim_between(sim, (int64_t)journal->durable, (int64_t)journal->written);
        journal->n = journal->written;
    }
}

/* An older copy of the store is put back while the sink is down. */
void
sim_sink_regress(sim_t *sim)
{
    for (int i = 0; i < sim->n_streams; i++) {
        sim_journal_t *journal = &sim->sink.journals[i];
        journal->n = (size_t)sim_between(sim, (int64_t)journal->n / 2, (int64_t)journal->n);
        journal->written = journal->durable = journal->n;
    }
    sim->regressed = true;
    sim->sink.boot = 0; /* whoever heard it heard another store */
    sim->regress_life = sim->agg.process.life;
    sim_say(sim, "an older store is put back");
}

/* While the sink is down: a hole before what its newest checkpoint says, in the journal of a run
 * that is still open. */
void
sim_sink_damage(sim_t *sim)
{
    int i = (int)sim_between(sim, 0, sim->n_streams ? sim->n_streams - 1 : 0);
    sim_journal_t *journal = &sim->sink.journals[i];
    if (journal->n == 0 || !s_is_open(sim, sim_run_of(sim, &sim->streams[i].run_id)))
        return;
    journal->damaged = sim->damaged = true;
    journal->hole = (size_t)sim_between(sim, 0, (int64_t)journal->n - 1);
    sim->sink.boot = 0; /* whoever heard it heard a store that was whole */
    sim->totals->damages++;
    sim_say(sim, "the journal of stream %d is damaged at %zu of %zu", i, journal->hole, journal->n);
}

void
sim_sink_destroy(sim_t *sim)
{
    sink_commit_destroy(&sim->sink.commit);
    for (int i = 0; i < SIM_STREAMS_MAX; i++)
        free(sim->sink.journals[i].entries);
}
