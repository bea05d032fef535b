#include "store_life.h"

#include "must.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "message_parts.h"
#include "record_frames.h"
#include "sink_store.h"
#include "store_opened.h"

#define ROUNDS 4
#define PER_PUT 5
#define TRIES 3 /* of what was refused and not broken */

void (*store_life_pause)(int paused);

static const struct {
    uint8_t stream, run;
} c_streams[LIFE_STREAMS] = {{1, 0x70}, {2, 0x70}, {3, 0x71}};

typedef struct {
    store_life_t *life;
    sink_store_t *store;
    bool broken; /* the sink would end now */
    frames_t frames;
} run_t;

int
store_life_is_long(void)
{
    const char *word = getenv("CREMA_LONG");
    return word && strcmp(word, "1") == 0;
}

static crema_err_t
s_open(const char *dir, sink_store_t **ret_store)
{
    char why[512];
    sink_store_config_t config = {.dir = dir, .streams_max = 100, .runs_max = 10};
    crema_err_t err = sink_store_open(&config, why, sizeof why, ret_store);
    while (err == CREMA_OK && sink_store_examine(*ret_store))
        ;
    if (err == CREMA_OK)
        must(sink_store_commit(*ret_store)); /* until what was there is durable, or set aside */
    return err;
}

/* Zeros if nothing can be said of it. */
static crema_stream_row_t
s_row(sink_store_t *store, size_t i)
{
    const crema_stream_row_t asked = {.stream_id = frames_id(c_streams[i].stream),
                                      .run_id = frames_id(c_streams[i].run)};
    crema_stream_row_t row;
    crema_err_t err = sink_store_stream(store, &asked, &row);
    if (err == CREMA_EAGAIN) { /* what was found is being renewed */
        must(sink_store_commit(store));
        err = sink_store_stream(store, &asked, &row);
    }
    return err == CREMA_OK ? row : (crema_stream_row_t){0};
}

static void
s_pause(int paused)
{
    if (store_life_pause)
        store_life_pause(paused);
}

static bool
s_is_freed(sink_store_t *store)
{
    crema_id_t id = frames_id(0x70);
    const sink_run_t *run = sink_store_find(store, &id);
    return run && run->freed;
}

/* What the sink's reactor does: an I/O error ends it, anything else is said again. */
static void
s_commit(run_t *run)
{
    for (int i = 0; i < TRIES && !run->broken; i++) {
        crema_err_t err = sink_store_commit(run->store);
        run->broken = err == CREMA_EIO;
        if (err != CREMA_OK)
            continue;
        crema_stream_row_t told[LIFE_STREAMS];
        while (sink_commit_take(sink_store_watermarks(run->store), told, LIFE_STREAMS) > 0)
            ;
        for (size_t k = 0; k < LIFE_STREAMS; k++) {
            crema_stream_row_t row = s_row(run->store, k);
            if (row.committed > run->life->acked[k])
                run->life->acked[k] = row.committed;
        }
        return;
    }
}

static void
s_put(run_t *run, size_t i, bool end)
{
    frames_t *frames = &run->frames;
    for (int tries = 0; tries < TRIES && !run->broken; tries++) {
        crema_stream_row_t row = s_row(run->store, i);
        uint64_t first = row.recv_next ? row.recv_next : 1, last = first + PER_PUT - 1;
        s_pause(1);
        frames_clear(frames);
        frames_add_dicts(frames, first, end ? last - 1 : last);
        if (end)
            frames_add_end(frames, last);
        s_pause(0);
        Crema__Put put = frames_put(frames, c_streams[i].stream, c_streams[i].run, first);
        sink_store_put_t answer;
        if (sink_store_put(run->store, &put, 5000, &answer) == CREMA_OK)
            return;
        s_commit(run); /* a refusal for want of room is over after a commit that worked */
    }
}

static void
s_say(run_t *run, crema_msg_type_t type)
{
    crema_msg_t msg = {.type = type, .run_id = body_id(frames_id(0x70))};
    if (type == CREMA_MSG_RUN_SEAL)
        msg.run_seal.t_verdict_ns = 1;
    bool is_new;
    for (int i = 0; i < TRIES && !run->broken; i++)
        if (sink_store_run_msg(run->store, &msg, NULL, 5000, &is_new) == CREMA_OK)
            return;
}

static void
s_seal_and_free(run_t *run)
{
    crema_id_t id = frames_id(0x70);
    sink_journal_sealed_t sealed = {.revision = 1};
    s_say(run, CREMA_MSG_RUN_SEAL);
    for (int i = 0; i < TRIES && !run->broken; i++) {
        if (sink_store_keep_answer(run->store, &id, (const uint8_t *)"answer", 6) == CREMA_OK)
            break;
    }
    for (int i = 0; i < TRIES && !run->broken; i++)
        if (sink_store_sealed(run->store, &id, &sealed, 6000) == CREMA_OK)
            break;
    s_commit(run);
    for (int i = 0; i < TRIES && !run->broken && !run->life->freed; i++) {
        crema_err_t err = store_free(run->store, &id);
        run->life->freed = err == CREMA_OK;
        run->broken = err == CREMA_EIO;
    }
}

/* A spool comes with records of the run that is no more. */
static void
s_refuse(run_t *run)
{
    const crema_stream_row_t asked = {
        .stream_id = frames_id(1), .run_id = frames_id(0x70), .hi = 100, .committed = 40};
    const sink_run_t *freed = sink_store_find(run->store, &asked.run_id);
    crema_stream_row_t row;
    if (run->broken || !freed || !freed->freed ||
        sink_store_stream(run->store, &asked, &row) != CREMA_OK)
        return;
    assert_int_equal(row.committed, 100);
    crema_err_t err = sink_store_keep_refused(run->store);
    while (err == CREMA_EAGAIN && sink_store_end(run->store) == CREMA_OK)
        err = sink_store_keep_refused(run->store);
    run->life->refused |= err == CREMA_OK;
}

void
store_life_live(store_life_t *self, const char *dir)
{
    run_t run = {.life = self};
    if (s_open(dir, &run.store) != CREMA_OK)
        return;
    self->freed |= s_is_freed(run.store);
    s_say(&run, CREMA_MSG_RUN_OPEN);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < LIFE_STREAMS; i++) {
            s_put(&run, i, round + 1 == ROUNDS);
            if (round % 2 == 1)
                s_put(&run, i, false); /* two to a group; behind an END it is refused */
        }
        s_commit(&run);
    }
    s_seal_and_free(&run);
    s_refuse(&run);
    s_put(&run, 2, false);
    s_commit(&run);
    sink_store_close(&run.store);
}

/* ---- checking */

typedef struct {
    size_t i;
    uint64_t next;
} reading_t;

static void
must_be_what_was_put(const uint8_t *at, const crema_frame_t *frame)
{
    static frames_t frames;
    frames_clear(&frames);
    if (frame->type == CREMA_RECORD_END)
        frames_add_end(&frames, frame->seq);
    else
        frames_add_dicts(&frames, frame->seq, frame->seq);
    assert_int_equal(crema_frame_bytes(frame), frames.size);
    assert_memory_equal(at, frames.bytes, frames.size);
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    reading_t *reading = context;
    crema_id_t id = frames_id(c_streams[reading->i].stream);
    const uint8_t *at = put->frames;
    size_t left = put->frames_bytes;
    while (crema_id_equal(&put->stream_id, &id) && left > 0) {
        crema_frame_t frame;
        must(crema_frame_decode(at, left, &frame));
        if (frame.seq != reading->next)
            fail_msg("stream %zu: %llu where %llu is due", reading->i,
                     (unsigned long long)frame.seq, (unsigned long long)reading->next);
        must_be_what_was_put(at, &frame);
        reading->next++;
        at += crema_frame_bytes(&frame);
        left -= crema_frame_bytes(&frame);
    }
    return CREMA_OK;
}

void
store_life_check(const store_life_t *self, const char *dir)
{
    sink_store_t *store;
    char why[512] = "", path[PATH_MAX];
    sink_store_config_t config = {.dir = dir, .streams_max = 100, .runs_max = 10};
    if (sink_store_open(&config, why, sizeof why, &store) != CREMA_OK)
        fail_msg("%s", why);
    while (sink_store_examine(store))
        ;
    must(sink_store_commit(store));
    if (self->freed && !s_is_freed(store))
        fail_msg("a run that was freed is taken for a new one");
    uint64_t refused = sink_store_report(store).refused_records;
    if (refused != LIFE_REFUSED && (refused != 0 || self->refused))
        fail_msg("%llu records are called refused", (unsigned long long)refused);
    for (size_t i = 0; i < LIFE_STREAMS; i++) {
        crema_id_t run_id = frames_id(c_streams[i].run);
        const sink_run_t *run = sink_store_find(store, &run_id);
        crema_stream_row_t row = s_row(store, i);
        if (run && run->aside)
            fail_msg("stream %zu: %s", i, run->aside);
        if (run && run->freed)
            continue;
        if (row.committed < self->acked[i])
            fail_msg("stream %zu: %llu were acknowledged, %llu are there", i,
                     (unsigned long long)self->acked[i], (unsigned long long)row.committed);
        if (row.committed == 0)
            continue;
        reading_t reading = {i, 1};
        sink_journal_visitor_t visitor = {.context = &reading, .put = s_on_put};
        sink_journal_report_t report;
        sink_store_run_dir(store, &run_id, path);
        must(sink_journal_read(path, &visitor, &report));
        assert_int_equal(report.missing_frames, 0);
        assert_int_equal(reading.next, row.committed + 1);
    }
    sink_store_close(&store);
}
