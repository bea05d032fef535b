#include "proto_samples.h"

#include <string.h>

crema_id_t
sample_id(uint8_t byte)
{
    crema_id_t id;
    memset(id.bytes, byte, sizeof id.bytes);
    return id;
}

static const char *const s_keys[] = {"processor_name", "user"};
static const char *const s_values[] = {"Mü", "anna"};
static const char *const s_prefixes[] = {"Processor", "OtherProcessor"};
static const char *const s_waiting[] = {"node-1", "node-2"};

static const crema_dict_entry_t s_entries[] = {
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

static const crema_reason_t s_reasons[] = {
    {"agent_lost", "node-1", "node-1 was not heard of for 30 s", 12},
    {"records_lost", "0a0b", "", 1},
};

static const crema_reason_t c_fault_rows[] = {
    {CREMA_FAULT_FILE, "sp-51515151515151515151515151515151-0000000000000001", "Permission denied",
     0},
    {CREMA_FAULT_MORE, "", "", 7},
};
static const crema_faults_t c_faults = {2, c_fault_rows};

static const crema_writer_t s_writers[] = {
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

static const uint8_t s_frames[80] = {1, 2, 3};

static crema_stream_table_t
s_table(crema_stream_row_t rows[2])
{
    memcpy(rows, s_rows, sizeof s_rows);
    rows[0].stream_id = sample_id(0x51);
    rows[0].run_id = sample_id(0xa1);
    rows[1].stream_id = sample_id(0x52);
    rows[1].run_id = sample_id(0xa1);
    return (crema_stream_table_t){2, rows};
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
        record.stream = (crema_stream_info_t){.run_id = sample_id(0xa1),
                                              .agent_id = sample_id(0xb2),
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
                                              .n_attributes = 2,
                                              .attribute_keys = s_keys,
                                              .attribute_values = s_values};
        break;
    case 1:
        record.type = CREMA_RECORD_DICT;
        record.dict.n = 2;
        record.dict.entries = s_entries;
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
        record.end = (crema_end_t){CREMA_END_WRITER_GONE, 17, 3};
        break;
    default:
        record.type = CREMA_RECORD_LOSS;
        record.loss = (crema_loss_t){5, SAMPLE_SEQ, CREMA_LOSS_CORRUPT, 400, 1767225600000000001};
    }
    return record;
}

static crema_run_msg_t
s_run(crema_msg_type_t type)
{
    crema_run_msg_t run = {.run_id = sample_id(0xa1),
                           .t_start_ns = 1767225600000000000,
                           .n_attributes = 2,
                           .keys = s_keys,
                           .values = s_values,
                           .n_prefixes = 2,
                           .processor_prefixes = s_prefixes};
    if (type != CREMA_MSG_RUN_OPEN) {
        run.t_end_ns = 1767225660000000000;
        run.writer_parts = 3;
    }
    if (type == CREMA_MSG_RUN_END)
        run.dismiss = true;
    if (type == CREMA_MSG_RUN_OPEN)
        memset(run.agent_key, 0xc3, sizeof run.agent_key);
    run.owner = sample_id(0xd4);
    if (type == CREMA_MSG_RUN_SEAL) {
        run.t_verdict_ns = 1767225660100000000;
        run.n_reasons = 2;
        run.reasons = s_reasons;
    }
    return run;
}

static void
s_fill(crema_msg_t *msg)
{
    static crema_stream_row_t rows[2];
    static crema_writer_t writers[2];
    const crema_stream_table_t table = s_table(rows);
    switch (msg->type) {
    case CREMA_MSG_HELLO:
        msg->hello = (crema_hello_t){2,    2,       sample_id(0xb2), 99,    "node-1", -42,
                                     1000, "0.1.0", sample_id(0xa1), table, c_faults};
        break;
    case CREMA_MSG_DATA:
        msg->data = (crema_data_t){.stream_id = sample_id(0x51),
                                   .run_id = sample_id(0xa1),
                                   .first_seq = 9,
                                   .hi = 300,
                                   .n = 2,
                                   .flags = CREMA_STREAM_FLAG_CLOSED,
                                   .frames = s_frames,
                                   .frames_bytes = sizeof s_frames};
        break;
    case CREMA_MSG_PUT:
        msg->data = (crema_data_t){.stream_id = sample_id(0x51),
                                   .run_id = sample_id(0xa1),
                                   .first_seq = 9,
                                   .n = 2,
                                   .frames = s_frames,
                                   .frames_bytes = sizeof s_frames,
                                   .agent_id = sample_id(0xb2)};
        break;
    case CREMA_MSG_HEARTBEAT:
        msg->heartbeat = (crema_heartbeat_t){.hb_no = 12,
                                             .hb_ivl_ms = 1000,
                                             .barrier_seen = 3,
                                             .t1_mono_ns = -5,
                                             .t1_real_ns = 1767225600000000000,
                                             .echo_t1_mono_ns = 10,
                                             .echo_t2_mono_ns = 20,
                                             .echo_t3_mono_ns = 30,
                                             .echo_t4_mono_ns = 40,
                                             .table = table,
                                             .faults = c_faults};
        break;
    case CREMA_MSG_BYE:
        msg->bye.reason = 1;
        msg->bye.table = table;
        msg->bye.faults = c_faults;
        break;
    case CREMA_MSG_WELCOME:
        msg->welcome = (crema_welcome_t){4 << 20, 192 << 10, 500, table};
        break;
    case CREMA_MSG_ACK:
        msg->ack = (crema_ack_t){table, 5 << 20, 12, -5, 6, 7};
        break;
    case CREMA_MSG_REPLAY:
        msg->replay.stream_id = sample_id(0x51);
        msg->replay.from_seq = 9;
        break;
    case CREMA_MSG_BARRIER:
        msg->barrier.barrier_id = 3;
        msg->barrier.run_id = sample_id(0xa1);
        break;
    case CREMA_MSG_FENCE:
        msg->fence.reason = CREMA_FENCE_DISMISSED;
        msg->fence.retry_after_ms = 100;
        msg->fence.run_id = sample_id(0xa1);
        break;
    case CREMA_MSG_OPEN:
    case CREMA_MSG_COMMITTED:
        msg->table = table;
        break;
    case CREMA_MSG_RUN_SEAL:
    case CREMA_MSG_RUN_OPEN:
    case CREMA_MSG_RUN_END:
        msg->run = s_run(msg->type);
        break;
    case CREMA_MSG_CLOCK:
        msg->clock = (crema_clock_sample_t){
            sample_id(0xa1), sample_id(0xb2), 1767225600000000000, -1500000, 20000, 40000, -12.5};
        break;
    case CREMA_MSG_STATE:
        msg->state.free_b = 1ull << 40;
        msg->state.table = table;
        break;
    case CREMA_MSG_NACK:
        msg->nack.stream_id = sample_id(0x51);
        break;
    case CREMA_MSG_FULL:
        msg->full.retry_after_ms = 2000;
        msg->full.free_b = 4096;
        msg->full.why = "the disk is full";
        break;
    case CREMA_MSG_SEALED:
        msg->sealed =
            (crema_sealed_t){sample_id(0xa1), "/data/run.h5", "PARTIAL", "", 2, 2, s_reasons};
        break;
    case CREMA_MSG_RUN_WRITERS:
        memcpy(writers, s_writers, sizeof writers);
        writers[0].stream_id = sample_id(0x51);
        msg->writers = (crema_writers_msg_t){sample_id(0xa1), 2, 3, 2, writers, sample_id(0xd4)};
        break;
    case CREMA_MSG_RUN_LISTED:
        msg->writers = (crema_writers_msg_t){.run_id = sample_id(0xa1), .part = 2, .parts = 3};
        break;
    case CREMA_MSG_RUN_QUERY:
        msg->query = sample_id(0xa1);
        break;
    case CREMA_MSG_RUN_STATE:
        msg->run_state = (crema_run_state_t){.run_id = sample_id(0xa1),
                                             .phase = CREMA_RUN_SEALED,
                                             .refusal = CREMA_REFUSED_OTHER_KEY,
                                             .trouble = "the disk is full",
                                             .streams = 5,
                                             .streams_done = 4,
                                             .agents = 2,
                                             .committed = 1000,
                                             .missing = 12,
                                             .n_waiting = 2,
                                             .waiting_for = s_waiting,
                                             .path = "/data/run.h5",
                                             .verdict = "PARTIAL",
                                             .error = "",
                                             .n_reasons = 2,
                                             .reasons = s_reasons,
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
