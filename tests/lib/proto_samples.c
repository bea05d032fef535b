#include "proto_samples.h"
#include "message_parts.h"

#include <string.h>

crema_id_t
sample_id(uint8_t byte)
{
    crema_id_t id;
    memset(id.bytes, byte, sizeof id.bytes);
    return id;
}

static char *s_keys[] = {"processor_name", "user"};
static char *s_values[] = {"Mü", "anna"};
static char *s_prefixes[] = {"Processor", "OtherProcessor"};
static char *s_waiting[] = {"node-1", "node-2"};

static Crema__DictEntry s_entries[] = {
    {.kind = CREMA_DICT_WORKER,
     .id = 0,
     .text = "tcp://10.0.0.1:40001",
     .uuid = "Worker-4f1c",
     .host = "node-1",
     .pid = -1,
     .nthreads = 4,
     .memory_limit_b = 8000000000},
    {.kind = CREMA_DICT_FILE,
     .id = 3,
     .text = "root://eos/é.root",
     .uuid = "9b2e",
     .host = "",
     .parent = 1,
     .size_b = -1,
     .n_entries = 1000},
};

/* Two rows of /heartbeats: t_ns, sent, dropped, backlog, worker_id; interval_s. */
static const int64_t s_ints[] = {1000, 2000, 5, 6, 0, -1, 3, 4, 0, 0};
static const double s_reals[] = {0.5, 1.0};

static const crema_stream_row_t s_rows[] = {
    {.first_avail = 1, .hi = 300, .committed = 299, .recv_next = 300, .flags = 1},
    {.first_avail = 5, .hi = UINT64_MAX, .committed = 0, .recv_next = 6, .flags = 0},
};

static Crema__Reason s_reasons[] = {
    {.code = "agent_lost",
     .subject = "node-1",
     .text = "node-1 was not heard of for 30 s",
     .count = 12},
    {.code = "records_lost", .subject = "0a0b", .text = "", .count = 1},
};

static Crema__Reason s_faults[] = {
    {.code = CREMA_FAULT_FILE,
     .subject = "sp-51515151515151515151515151515151-0000000000000001",
     .text = "Permission denied"},
    {.code = CREMA_FAULT_MORE, .count = 7},
};

static Crema__Writer s_writers[] = {
    {.last = 80,
     .kind = CREMA_STREAM_WORKER,
     .state = CREMA_WRITER_ENDED,
     .name = "tcp://10.0.0.1:40001",
     .uuid = "Worker-4f1c",
     .text = ""},
    {.kind = CREMA_STREAM_SCHEDULER,
     .state = CREMA_WRITER_UNKNOWN,
     .name = "tcp://10.0.0.1:8786",
     .uuid = "",
     .text = "Dask did not answer within 60 s"},
};

static uint8_t s_frames[80] = {1, 2, 3};

static Crema__StreamTable *
s_table(void)
{
    crema_stream_row_t rows[2];
    memcpy(rows, s_rows, sizeof s_rows);
    rows[0].stream_id = sample_id(0x51);
    rows[0].run_id = sample_id(0xa1);
    rows[1].stream_id = sample_id(0x52);
    rows[1].run_id = sample_id(0xa1);
    return body_table(2, rows);
}

crema_record_t
sample_record(size_t i, const char **ret_name)
{
    static const char *const names[SAMPLE_RECORDS] = {
        "stream", "dict", "batch", "batch_provisional", "end", "loss"};
    *ret_name = names[i];
    crema_record_t record = {0};
    switch (i) {
    case 0:
        record.type = CREMA_RECORD_STREAM;
        record.stream = (Crema__StreamInfo){.run_id = body_id(sample_id(0xa1)),
                                            .agent_id = body_id(sample_id(0xb2)),
                                            .kind = CREMA_STREAM_AGENT,
                                            .host = "node-1",
                                            .pid = 4711,
                                            .worker_uuid = "",
                                            .worker_name = "node-1:4711",
                                            .nthreads = 4,
                                            .memory_limit_b = -1,
                                            .t_real_ns = 1767225600000000000,
                                            .t_mono_ns = 86400000000000,
                                            .boot_id = "c7b5",
                                            .t_process_ns = 1700000000000000000,
                                            .n_attribute_keys = 2,
                                            .attribute_keys = s_keys,
                                            .n_attribute_values = 2,
                                            .attribute_values = s_values};
        break;
    case 1:
        record.type = CREMA_RECORD_DICT;
        record.dict.n_entries = 2;
        record.dict.entries = body_entries(2, s_entries);
        break;
    case 2:
    case 3:
        record.type = CREMA_RECORD_BATCH;
        record.batch = (crema_batch_t){.table = crema_table(CREMA_TABLE_HEARTBEATS),
                                       .rows = 2,
                                       .flags = i == 3 ? CREMA_BATCH_PROVISIONAL : 0,
                                       .n_int_columns = 5,
                                       .n_real_columns = 1,
                                       .ints = s_ints,
                                       .reals = s_reals};
        break;
    case 4:
        record.type = CREMA_RECORD_END;
        record.end = (Crema__End){.reason = CREMA_END_WRITER_GONE, .torn_bytes = 17, .dropped = 3};
        break;
    default:
        record.type = CREMA_RECORD_LOSS;
        record.loss = (Crema__Loss){.first = 5,
                                    .last = SAMPLE_SEQ,
                                    .reason = CREMA_LOSS_CORRUPT,
                                    .bytes = 400,
                                    .t_real_ns = 1767225600000000001};
    }
    return record;
}

/* What RUN_OPEN, RUN_END and RUN_SEAL have in common. */
static void
s_fill_run(Crema__RunOpen *run)
{
    run->run_id = body_id(sample_id(0xa1));
    run->t_start_ns = 1767225600000000000;
    run->n_keys = run->n_values = run->n_processor_prefixes = 2;
    run->keys = s_keys;
    run->values = s_values;
    run->processor_prefixes = s_prefixes;
    run->owner = body_id(sample_id(0xd4));
}

static void
s_fill(crema_msg_t *msg)
{
    static uint8_t key[CREMA_WIRE_KEY_BYTES];
    Crema__StreamTable *table = s_table();
    switch (msg->type) {
    case CREMA_MSG_HELLO:
        msg->hello = (Crema__Hello){.ver_min = 2,
                                    .ver_max = 2,
                                    .agent_id = body_id(sample_id(0xb2)),
                                    .boot = 99,
                                    .host = "node-1",
                                    .pid = -42,
                                    .hb_ivl_ms = 1000,
                                    .version = "0.1.0",
                                    .run_id = body_id(sample_id(0xa1)),
                                    .table = table,
                                    .n_faults = 2,
                                    .faults = body_reasons(2, s_faults)};
        break;
    case CREMA_MSG_DATA:
        msg->data = (Crema__Data){.stream_id = body_id(sample_id(0x51)),
                                  .run_id = body_id(sample_id(0xa1)),
                                  .first_seq = 9,
                                  .hi = 300,
                                  .n = 2,
                                  .flags = CREMA_STREAM_FLAG_CLOSED,
                                  .frames = {sizeof s_frames, s_frames}};
        break;
    case CREMA_MSG_PUT:
        msg->put = (Crema__Put){.stream_id = body_id(sample_id(0x51)),
                                .run_id = body_id(sample_id(0xa1)),
                                .first_seq = 9,
                                .n = 2,
                                .frames = {sizeof s_frames, s_frames},
                                .agent_id = body_id(sample_id(0xb2))};
        break;
    case CREMA_MSG_HEARTBEAT:
        msg->heartbeat = (Crema__Heartbeat){.hb_no = 12,
                                            .hb_ivl_ms = 1000,
                                            .barrier_seen = 3,
                                            .t1_mono_ns = -5,
                                            .t1_real_ns = 1767225600000000000,
                                            .echo_t1_mono_ns = 10,
                                            .echo_t2_mono_ns = 20,
                                            .echo_t3_mono_ns = 30,
                                            .echo_t4_mono_ns = 40,
                                            .table = table,
                                            .n_faults = 2,
                                            .faults = body_reasons(2, s_faults)};
        break;
    case CREMA_MSG_BYE:
        msg->bye = (Crema__Bye){
            .reason = 1, .table = table, .n_faults = 2, .faults = body_reasons(2, s_faults)};
        break;
    case CREMA_MSG_WELCOME:
        msg->welcome = (Crema__Welcome){.credit_total_b = 4 << 20,
                                        .max_batch_b = 192 << 10,
                                        .retry_after_ms = 500,
                                        .table = table};
        break;
    case CREMA_MSG_ACK:
        msg->ack = (Crema__Ack){.table = table,
                                .credit_total_b = 5 << 20,
                                .hb_no = 12,
                                .t1_mono_ns = -5,
                                .t2_mono_ns = 6,
                                .t3_mono_ns = 7};
        break;
    case CREMA_MSG_REPLAY:
        msg->replay.stream_id = body_id(sample_id(0x51));
        msg->replay.from_seq = 9;
        break;
    case CREMA_MSG_BARRIER:
        msg->barrier.barrier_id = 3;
        msg->barrier.run_id = body_id(sample_id(0xa1));
        break;
    case CREMA_MSG_FENCE:
        msg->fence.reason = CREMA_FENCE_DISMISSED;
        msg->fence.retry_after_ms = 100;
        msg->fence.run_id = body_id(sample_id(0xa1));
        break;
    case CREMA_MSG_OPEN:
        msg->open.table = table;
        break;
    case CREMA_MSG_COMMITTED:
        msg->committed.table = table;
        break;
    case CREMA_MSG_RUN_OPEN:
        s_fill_run(&msg->run_open);
        memset(key, 0xc3, sizeof key);
        msg->run_open.agent_key = (ProtobufCBinaryData){sizeof key, key};
        break;
    case CREMA_MSG_RUN_END:
        s_fill_run(&msg->run_open);
        msg->run_end.t_end_ns = 1767225660000000000;
        msg->run_end.writer_parts = 3;
        msg->run_end.dismiss = true;
        break;
    case CREMA_MSG_RUN_SEAL:
        s_fill_run(&msg->run_open);
        msg->run_seal.t_end_ns = 1767225660000000000;
        msg->run_seal.writer_parts = 3;
        msg->run_seal.t_verdict_ns = 1767225660100000000;
        msg->run_seal.n_reasons = 2;
        msg->run_seal.reasons = body_reasons(2, s_reasons);
        break;
    case CREMA_MSG_CLOCK:
        msg->clock = (Crema__ClockSample){.run_id = body_id(sample_id(0xa1)),
                                          .agent_id = body_id(sample_id(0xb2)),
                                          .t_ns = 1767225600000000000,
                                          .offset_ns = -1500000,
                                          .uncertainty_ns = 20000,
                                          .rtt_ns = 40000,
                                          .drift_ppb = -12.5};
        break;
    case CREMA_MSG_STATE:
        msg->state.free_b = 1ull << 40;
        msg->state.table = table;
        break;
    case CREMA_MSG_NACK:
        msg->nack.stream_id = body_id(sample_id(0x51));
        break;
    case CREMA_MSG_FULL:
        msg->full.retry_after_ms = 2000;
        msg->full.free_b = 4096;
        msg->full.why = "the disk is full";
        break;
    case CREMA_MSG_SEALED:
        msg->sealed = (Crema__Sealed){.run_id = body_id(sample_id(0xa1)),
                                      .path = "/data/run.h5",
                                      .verdict = "PARTIAL",
                                      .error = "",
                                      .revision = 2,
                                      .n_reasons = 2,
                                      .reasons = body_reasons(2, s_reasons)};
        break;
    case CREMA_MSG_RUN_WRITERS:
        s_writers[0].stream_id = body_id(sample_id(0x51));
        msg->run_writers = (Crema__RunWriters){.run_id = body_id(sample_id(0xa1)),
                                               .part = 2,
                                               .parts = 3,
                                               .n_writers = 2,
                                               .writers = body_writers(2, s_writers),
                                               .owner = body_id(sample_id(0xd4))};
        break;
    case CREMA_MSG_RUN_LISTED:
        msg->run_listed =
            (Crema__RunListed){.run_id = body_id(sample_id(0xa1)), .part = 2, .parts = 3};
        break;
    case CREMA_MSG_RUN_QUERY:
        msg->run_id = body_id(sample_id(0xa1));
        break;
    case CREMA_MSG_RUN_STATE:
        msg->run_state = (Crema__RunState){.run_id = body_id(sample_id(0xa1)),
                                           .phase = CREMA_RUN_SEALED,
                                           .refusal = CREMA_REFUSED_OTHER_KEY,
                                           .trouble = "the disk is full",
                                           .streams = 5,
                                           .streams_done = 4,
                                           .agents = 2,
                                           .committed = 1000,
                                           .missing = 12,
                                           .n_waiting_for = 2,
                                           .waiting_for = s_waiting,
                                           .path = "/data/run.h5",
                                           .verdict = "PARTIAL",
                                           .error = "",
                                           .n_reasons = 2,
                                           .reasons = body_reasons(2, s_reasons),
                                           .revision = 1,
                                           .verdict_after_ns = 80000000,
                                           .processor_s = 12.5,
                                           .overhead_s = 0.25,
                                           .writers_kept = 3};
        break;
    }
}

crema_msg_t
sample_message(size_t i)
{
    static const crema_msg_type_t types[SAMPLE_MESSAGES] = {
        CREMA_MSG_HELLO,     CREMA_MSG_DATA,      CREMA_MSG_HEARTBEAT,   CREMA_MSG_BYE,
        CREMA_MSG_WELCOME,   CREMA_MSG_ACK,       CREMA_MSG_REPLAY,      CREMA_MSG_BARRIER,
        CREMA_MSG_FENCE,     CREMA_MSG_OPEN,      CREMA_MSG_PUT,         CREMA_MSG_RUN_SEAL,
        CREMA_MSG_CLOCK,     CREMA_MSG_STATE,     CREMA_MSG_COMMITTED,   CREMA_MSG_NACK,
        CREMA_MSG_FULL,      CREMA_MSG_SEALED,    CREMA_MSG_RUN_OPEN,    CREMA_MSG_RUN_END,
        CREMA_MSG_RUN_QUERY, CREMA_MSG_RUN_STATE, CREMA_MSG_RUN_WRITERS, CREMA_MSG_RUN_LISTED,
    };
    crema_msg_t msg = {
        .type = types[i], .flags = CREMA_WIRE_FLAG_MORE, .session = 0x0102030405060708};
    s_fill(&msg);
    return msg;
}
