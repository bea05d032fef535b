/* What a sample costs in machine instructions on its way from the agent to the run file: each step
 * has a budget, a tenth above what it takes. Instructions are the same on a busy machine as on an
 * idle one, so that a step that became dearer is seen at once.
 *
 * The counts are those of gcc with optimization; other builds print theirs, and are held to
 * nothing. */
#include "aggregator/core/core_rig.h"
#include "children.h"
#include "sink/store/store_verbs.h"

#include "agent_stream.h"
#include "crema_spool.h"
#include "instruction_count.h"
#include "message_parts.h"
#include "sink_decoder.h"

#if defined __x86_64__ && defined __OPTIMIZE__ && !defined __clang__ &&                            \
    !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define IS_COUNTED true
#else
#define IS_COUNTED false
#endif

/* Few, since a step of a traced process takes microseconds. */
enum { ROWS = 64, BATCHES = 1, SAMPLES = ROWS * BATCHES, WORKERS = 16 };

static crema_arena_t *s_arena;
static uint8_t *s_bytes; /* a message, as it comes */
static size_t s_size;

/* What `act` does to so many samples, without what `prepare` does alone (NULL: nothing). */
static void
must_cost(const char *step, void (*prepare)(void), void (*act)(void), unsigned samples,
          unsigned budget)
{
    uint64_t steps = must_count_steps(act);
    if (prepare)
        steps -= must_count_steps(prepare);
    unsigned each = (unsigned)(steps / samples);
    print_message("%s: %u instructions per sample, budget %u%s\n", step, each, budget,
                  IS_COUNTED ? "" : " (not of this build)");
    if (!IS_COUNTED)
        not_tested_here(MISSING_OPTIMISED);
    assert_in_range(each, 1, budget);
}

/* ---- samples */

/* Records first..first+BATCHES-1: batches of rows of /custom, with times and values that differ. */
static void
s_fill(uint64_t first)
{
    static int64_t ints[16 * ROWS];
    static double reals[4 * ROWS];
    crema_record_t record = {.type = CREMA_RECORD_BATCH};
    record.batch = (crema_batch_t){
        .table = crema_table(CREMA_TABLE_CUSTOM), .rows = ROWS, .ints = ints, .reals = reals};
    crema_table_wire_columns(record.batch.table, &record.batch.n_int_columns,
                             &record.batch.n_real_columns);
    assert_true(record.batch.n_int_columns <= 16 && record.batch.n_real_columns <= 4);
    frames_clear(&s_frames);
    for (uint64_t i = 0; i < BATCHES; i++) {
        for (uint64_t row = 0; row < ROWS; row++) {
            ints[row] = (int64_t)(1767225600000000000 + (i * ROWS + row) * 1000123);
            reals[row] = (double)(i * ROWS + row) / 7;
        }
        frames_add(&s_frames, &record, first + i);
    }
}

/* The stream's beginning, as numbers 1 and 2. */
static Crema__Put
s_beginning(void)
{
    Crema__DictEntry names[] = {
        {.kind = CREMA_DICT_METRIC, .text = "sample", .memory_limit_b = -1},
        {.kind = CREMA_DICT_UNIT, .text = "1", .memory_limit_b = -1},
        {.kind = CREMA_DICT_WORKER, .text = "worker", .uuid = "uuid", .memory_limit_b = -1},
    };
    const crema_record_t records[] = {
        {.type = CREMA_RECORD_STREAM,
         .stream = {.run_id = body_id(frames_id(RUN)),
                    .kind = CREMA_STREAM_WORKER,
                    .host = "node"}},
        {.type = CREMA_RECORD_DICT, .dict = {.n_entries = 3, .entries = body_entries(3, names)}},
    };
    frames_clear(&s_frames);
    frames_add(&s_frames, &records[0], 1);
    frames_add(&s_frames, &records[1], 2);
    return frames_put(&s_frames, 1, RUN, 1);
}

static void
must_receive(const crema_msg_t *msg)
{
    free(s_bytes);
    must(crema_wire_encode(msg, &s_bytes, &s_size));
}

/* ---- agent: rows become a record in the spool */

static crema_worker_samples_row_t s_rows[WORKERS];
static crema_spool_writer_t *s_writer;

/* In the process that counts, because a writer writes in the process alone that opened it. */
static void
s_open_spool(void)
{
    const crema_id_t stream_id = frames_id(3);
    const Crema__StreamInfo info = {.run_id = body_id(frames_id(RUN)), .kind = CREMA_STREAM_AGENT};
    must(crema_spool_writer_open(s_dir, &stream_id, &info, CREMA_SPOOL_SELF, &s_writer));
}

static void
s_sample(void)
{
    s_open_spool();
    for (int i = 0; i < WORKERS; i++) {
        crema_worker_samples_row_t *row = &s_rows[i];
        crema_row_clear(crema_table(CREMA_TABLE_WORKER_SAMPLES), (uint8_t *)row);
        row->t_ns = 1767225600000000000 + i;
        row->net_read_b = 1000000 + i;
        row->net_write_b = 2000000 + i;
        row->cpu_pct = 99.5 - i;
        row->rss_b = 500000000 + i;
        row->memory_limit_b = 2000000000;
        row->disk_read_b = 3000000 + i;
        row->disk_write_b = 4000000 + i;
        row->worker_id = (uint32_t)i;
        row->nthreads = 2;
    }
    must(agent_stream_write_rows(s_writer, CREMA_TABLE_WORKER_SAMPLES, s_rows, WORKERS, 1));
}

static void
test_the_agent_encodes_samples(void **state)
{
    (void)state;
    must_cost("agent, a row of /worker_samples", s_open_spool, s_sample, WORKERS, 3020);
}

/* ---- aggregator: a message of the agent becomes one to the sink */

static rig_t s_aggregator;

static void
s_forward(void)
{
    crema_msg_t msg;
    agg_action_t action;
    uint64_t records = 0;
    must(crema_wire_decode(s_bytes, s_size, s_arena, &msg));
    s_peer(&s_aggregator, 1, &msg);
    while (agg_core_next(s_aggregator.core, s_aggregator.now, &action)) {
        uint8_t *bytes;
        size_t size;
        if (action.type == AGG_TO_SINK && action.msg->type == CREMA_MSG_PUT)
            records += action.msg->put.n;
        must(crema_wire_encode(action.msg, &bytes, &size));
        free(bytes);
    }
    assert_int_equal(records, BATCHES);
}

static void
test_the_aggregator_forwards_records(void **state)
{
    (void)state;
    s_aggregator = s_served_rig();
    s_fill(1);
    crema_msg_t msg = {.type = CREMA_MSG_DATA, .session = SESSION};
    msg.data = (Crema__Data){.stream_id = body_id(s_stream(1)),
                             .run_id = body_id(s_run),
                             .first_seq = 1,
                             .n = s_frames.n,
                             .frames = {s_frames.size, s_frames.bytes}};
    must_receive(&msg);
    must_cost("aggregator, a sample in a record of 64", NULL, s_forward, SAMPLES, 140);
    agg_core_destroy(&s_aggregator.core);
}

/* ---- sink: a message of the aggregator becomes durable */

static sink_store_t *s_store;

static void
s_take(void)
{
    crema_msg_t msg;
    sink_store_put_t answer;
    must(crema_wire_decode(s_bytes, s_size, s_arena, &msg));
    must(sink_store_put(s_store, &msg.put, 1, &answer));
    assert_int_equal(answer.decision, SINK_PUT_APPEND);
    must_commit(s_store);
}

static void
test_the_sink_commits_records(void **state)
{
    (void)state;
    sink_store_put_t answer;
    crema_msg_t msg = {.type = CREMA_MSG_PUT, .put = s_beginning()};
    s_store = must_open(NULL);
    must(sink_store_put(s_store, &msg.put, 1, &answer));
    must_commit(s_store);
    s_fill(3);
    msg.put = frames_put(&s_frames, 1, RUN, 3);
    must_receive(&msg);
    must_cost("sink, a sample in a record of 64", NULL, s_take, SAMPLES, 144);
    sink_store_close(&s_store);
}

/* ---- sealing: a record becomes rows */

static sink_decoder_t *s_decoder;
static sink_journal_put_t s_put_read;
static unsigned s_decoded;

static crema_err_t
s_on_rows(void *context, crema_table_id_t table, const uint8_t *rows, size_t n)
{
    (void)context, (void)rows;
    s_decoded += table == CREMA_TABLE_CUSTOM ? n : 0;
    return CREMA_OK;
}

static void
s_read_put(const Crema__Put *put)
{
    s_put_read = (sink_journal_put_t){.stream_id = *crema_id_of(put->stream_id),
                                      .agent_id = *crema_id_of(put->agent_id),
                                      .first_seq = put->first_seq,
                                      .n = put->n,
                                      .frames = put->frames.data,
                                      .frames_bytes = put->frames.len,
                                      .t_recv_ns = 1};
}

static void
s_decode(void)
{
    must(sink_decoder_put(s_decoder, &s_put_read));
    assert_int_equal(s_decoded, SAMPLES);
}

static void
test_sealing_decodes_rows(void **state)
{
    (void)state;
    must(sink_decoder_new(s_on_rows, NULL, &s_decoder));
    Crema__Put put = s_beginning();
    s_read_put(&put);
    must(sink_decoder_put(s_decoder, &s_put_read));
    s_fill(3);
    put = frames_put(&s_frames, 1, RUN, 3);
    s_read_put(&put);
    must_cost("sealing, a row in a record of 64", NULL, s_decode, SAMPLES, 268);
    sink_decoder_destroy(&s_decoder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_agent_encodes_samples, s_setup, s_teardown),
        cmocka_unit_test_teardown(test_the_aggregator_forwards_records, children_end),
        cmocka_unit_test_setup_teardown(test_the_sink_commits_records, s_setup, s_teardown),
        cmocka_unit_test_teardown(test_sealing_decodes_rows, children_end),
    };
    must(crema_arena_new((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX, &s_arena));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    crema_arena_destroy(&s_arena);
    free(s_bytes);
    return failed;
}
