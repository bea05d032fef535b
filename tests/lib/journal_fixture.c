#include "journal_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_error.h"
#include "crema_frame.h"
#include "journal_sync.h"
#include "message_parts.h"

#define ROWS_MAX 1024
#define COLUMNS_MAX 64
#define FRAME_BYTES (CREMA_FRAME_HEADER_BYTES + CREMA_RECORD_BODY_MAX)

typedef struct {
    crema_dict_t kind;
    char text[160];
    int64_t id;
} name_t;

typedef struct {
    int64_t ints[COLUMNS_MAX];
    double reals[COLUMNS_MAX];
} row_t;

struct fixture_stream {
    fixture_t *fixture;
    crema_id_t id, agent;
    int64_t t_real_ns, t_mono_ns;
    uint64_t next_seq;
    name_t *names;
    size_t n_names;
    int64_t next_id[CREMA_DICT_COUNT];
    const crema_table_t *table;
    uint32_t n_rows;
    row_t *rows;
    uint8_t *last; /* the last frame, for repeating */
    size_t last_bytes;
    uint64_t last_seq;
};

struct fixture {
    sink_journal_t *journal;
    crema_id_t run_id;
    bool late;
    int64_t t_recv_ns;
    fixture_stream_t **streams;
    size_t n_streams;
    uint8_t frame[FRAME_BYTES]; /* being made */
};

static void
s_must(crema_err_t err, const char *what)
{
    if (err == CREMA_OK)
        return;
    fprintf(stderr, "journal_fixture: %s: %s\n", what, crema_err_text(err));
    abort();
}

static crema_id_t
s_id(uint8_t kind, uint8_t number)
{
    crema_id_t id = {{kind, 0x11, 0x22, 0x33, 0x44, 0x55, 0x70, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc,
                      0xdd, 0xee, number}};
    return id;
}

fixture_t *
fixture_new(const char *dir, uint8_t number)
{
    fixture_t *self = calloc(1, sizeof *self);
    crema_id_t store = s_id(0x50, 1);
    self->run_id = s_id(0x01, number);
    self->t_recv_ns = FIXTURE_T0;
    char where[PATH_MAX];
    sink_journal_report_t report;
    s_must(sink_journal_open(dir, &store, &self->run_id, 1, NULL, &report, where, &self->journal),
           dir);
    return self;
}

static void
s_free_stream(fixture_stream_t *stream)
{
    free(stream->names);
    free(stream->rows);
    free(stream->last);
    free(stream);
}

/* Room for element `n` of an array that grows by doubling. */
static void *
s_grown(void *array, size_t n, size_t size)
{
    if (n & (n - 1))
        return array;
    void *grown = realloc(array, (n ? 2 * n : 1) * size);
    s_must(grown ? CREMA_OK : CREMA_ENOMEM, "memory");
    return grown;
}

void
fixture_close(fixture_t **self_p)
{
    fixture_t *self = *self_p;
    s_must(journal_sync(self->journal), "sync");
    sink_journal_close(&self->journal);
    for (size_t i = 0; i < self->n_streams; i++)
        s_free_stream(self->streams[i]);
    free(self->streams);
    free(self);
    *self_p = NULL;
}

crema_id_t
fixture_run_id(const fixture_t *self)
{
    return self->run_id;
}

void
fixture_late(fixture_t *self)
{
    self->late = true;
}

/* ---- messages */

void
fixture_open(fixture_t *self, int64_t t_start_ns, const char *const *keys,
             const char *const *values, const char *prefix)
{
    char *prefixes[] = {(char *)prefix};
    size_t n = 0;
    while (keys && keys[n])
        n++;
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_OPEN,
                             .run_open = {.run_id = body_id(self->run_id),
                                          .t_start_ns = t_start_ns,
                                          .n_keys = n,
                                          .keys = (char **)keys,
                                          .n_values = n,
                                          .values = (char **)values,
                                          .n_processor_prefixes = prefix != NULL,
                                          .processor_prefixes = prefixes}};
    s_must(sink_journal_run(self->journal, &msg, t_start_ns), "open");
}

void
fixture_seal(fixture_t *self, int64_t t_end_ns, Crema__Reason *reasons, size_t n)
{
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_SEAL,
                             .run_seal = {.run_id = body_id(self->run_id),
                                          .t_end_ns = t_end_ns,
                                          .t_verdict_ns = t_end_ns,
                                          .n_reasons = n,
                                          .reasons = body_reasons(n, reasons)}};
    s_must(sink_journal_run(self->journal, &msg, t_end_ns), "seal");
}

void
fixture_sealed(fixture_t *self, int64_t revision, const uint8_t sha256[32])
{
    sink_journal_sealed_t sealed = {.revision = revision};
    memcpy(sealed.sha256, sha256, sizeof sealed.sha256);
    s_must(sink_journal_sealed(self->journal, &sealed, self->t_recv_ns), "sealed");
}

void
fixture_run_end(fixture_t *self, int64_t t_end_ns, uint32_t parts)
{
    const crema_msg_t msg = {
        .type = CREMA_MSG_RUN_END,
        .run_end = {.run_id = body_id(self->run_id), .t_end_ns = t_end_ns, .writer_parts = parts}};
    s_must(sink_journal_run(self->journal, &msg, t_end_ns), "end");
}

void
fixture_writers(fixture_t *self, uint32_t part, uint32_t parts, Crema__Writer *writers, size_t n)
{
    const Crema__RunWriters msg = {.run_id = body_id(self->run_id),
                                   .part = part,
                                   .parts = parts,
                                   .n_writers = n,
                                   .writers = body_writers(n, writers)};
    s_must(sink_journal_writers(self->journal, &msg, FIXTURE_T0), "writers");
}

void
fixture_clock(fixture_t *self, uint8_t agent, int64_t t_ns, int64_t offset_ns,
              int64_t uncertainty_ns)
{
    Crema__ClockSample sample = {.run_id = body_id(self->run_id),
                                 .agent_id = body_id(s_id(0xa9, agent)),
                                 .t_ns = t_ns,
                                 .offset_ns = offset_ns,
                                 .uncertainty_ns = uncertainty_ns,
                                 .rtt_ns = 2 * uncertainty_ns};
    s_must(sink_journal_clock(self->journal, &sample, t_ns), "clock");
}

/* ---- records */

static void
s_put_frame(fixture_stream_t *stream, const uint8_t *frame, size_t bytes, uint64_t first_seq)
{
    fixture_t *self = stream->fixture;
    sink_journal_put_t put = {.stream_id = stream->id,
                              .agent_id = stream->agent,
                              .first_seq = first_seq,
                              .n = 1,
                              .late = self->late,
                              .frames = frame,
                              .frames_bytes = bytes,
                              .t_recv_ns = self->t_recv_ns++};
    crema_err_t err = sink_journal_put(self->journal, &put);
    if (err == CREMA_EAGAIN) {
        s_must(journal_sync(self->journal), "sync");
        err = sink_journal_put(self->journal, &put);
    }
    s_must(err, "put");
}

static void
s_write(fixture_stream_t *stream, const crema_record_t *record, uint64_t seq, int64_t t_real_ns)
{
    int64_t t_mono_ns = stream->t_mono_ns + (t_real_ns - stream->t_real_ns);
    uint8_t *frame = stream->fixture->frame;
    s_must(crema_record_encode(record, seq, t_mono_ns, frame, FRAME_BYTES, &stream->last_bytes),
           "record");
    stream->last = realloc(stream->last, stream->last_bytes);
    memcpy(stream->last, frame, stream->last_bytes);
    stream->last_seq = seq;
    s_put_frame(stream, stream->last, stream->last_bytes, stream->next_seq);
    stream->next_seq = seq + 1;
}

crema_id_t
fixture_stream_id(uint32_t number)
{
    crema_id_t id = s_id(0x57, (uint8_t)number);
    id.bytes[14] ^= (uint8_t)(number >> 8);
    id.bytes[13] ^= (uint8_t)(number >> 16);
    return id;
}

static char *
s_uuid_of(const char *name, char uuid[192])
{
    snprintf(uuid, 192, "uuid-%s", name);
    return uuid;
}

fixture_stream_t *
fixture_stream(fixture_t *self, uint32_t number, uint8_t agent, crema_stream_kind_t kind,
               const char *name, uint32_t nthreads, int64_t t_real_ns)
{
    return fixture_process(self, number, agent, kind, name, nthreads, t_real_ns, 0);
}

fixture_stream_t *
fixture_process(fixture_t *self, uint32_t number, uint8_t agent, crema_stream_kind_t kind,
                const char *name, uint32_t nthreads, int64_t t_real_ns, int64_t t_process_ns)
{
    static char *keys[] = {"python_version", "coffea_version"};
    static char *values[] = {"3.11.9", "2026.9.0"};
    fixture_stream_t *stream = calloc(1, sizeof *stream);
    char uuid[192];
    stream->fixture = self;
    stream->id = fixture_stream_id(number);
    stream->agent = s_id(0xa9, agent);
    stream->next_seq = 1;
    stream->t_real_ns = t_real_ns;
    stream->t_mono_ns = 5000 * FIXTURE_S;
    self->streams = s_grown(self->streams, self->n_streams, sizeof(fixture_stream_t *));
    self->streams[self->n_streams++] = stream;
    crema_record_t record = {.type = CREMA_RECORD_STREAM};
    record.stream = (Crema__StreamInfo){
        .run_id = body_id(self->run_id),
        .kind = kind,
        .host = "node1",
        .pid = 1000 + (int32_t)number,
        .worker_uuid = kind == CREMA_STREAM_WORKER ? s_uuid_of(name, uuid) : "",
        .worker_name = kind == CREMA_STREAM_WORKER ? (char *)name : "",
        .nthreads = nthreads,
        .memory_limit_b = kind == CREMA_STREAM_WORKER ? 4000000000 : -1,
        .t_real_ns = t_real_ns,
        .t_mono_ns = stream->t_mono_ns,
        .boot_id = "boot",
        .t_process_ns = t_process_ns,
        .n_attribute_keys = 2,
        .attribute_keys = keys,
        .n_attribute_values = 2,
        .attribute_values = values,
    };
    if (kind == CREMA_STREAM_AGENT)
        record.stream.agent_id = body_id(stream->agent);
    s_write(stream, &record, 1, t_real_ns);
    return stream;
}

static int64_t
s_find_name(const fixture_stream_t *stream, crema_dict_t kind, const char *text)
{
    for (size_t i = 0; i < stream->n_names; i++)
        if (stream->names[i].kind == kind && strcmp(stream->names[i].text, text) == 0)
            return stream->names[i].id;
    return -1;
}

static int64_t
s_name(fixture_stream_t *stream, Crema__DictEntry *entry)
{
    int64_t id = s_find_name(stream, entry->kind, entry->text);
    if (id >= 0)
        return id;
    stream->names = s_grown(stream->names, stream->n_names, sizeof *stream->names);
    id = stream->next_id[entry->kind]++;
    entry->id = (uint32_t)id;
    crema_record_t record = {.type = CREMA_RECORD_DICT};
    record.dict.n_entries = 1;
    record.dict.entries = body_entries(1, entry);
    s_write(stream, &record, stream->next_seq, stream->t_real_ns);
    stream->names[stream->n_names].kind = entry->kind;
    stream->names[stream->n_names].id = id;
    snprintf(stream->names[stream->n_names++].text, sizeof stream->names[0].text, "%s",
             entry->text);
    return id;
}

int64_t
fixture_name(fixture_stream_t *stream, crema_dict_t kind, const char *text)
{
    char uuid[192];
    bool has_uuid = kind == CREMA_DICT_WORKER || kind == CREMA_DICT_SPAN;
    Crema__DictEntry entry = {.kind = kind,
                              .text = (char *)text,
                              .uuid = has_uuid ? s_uuid_of(text, uuid) : "",
                              .host = "",
                              .memory_limit_b = -1,
                              .size_b = -1,
                              .n_entries = -1};
    return s_name(stream, &entry);
}

int64_t
fixture_file(fixture_stream_t *stream, const char *name, const char *uuid, int64_t dataset)
{
    Crema__DictEntry entry = {.kind = CREMA_DICT_FILE,
                              .text = (char *)name,
                              .uuid = (char *)uuid,
                              .host = "",
                              .memory_limit_b = -1,
                              .parent = (uint32_t)dataset,
                              .size_b = 9000000,
                              .n_entries = 100000,
                              .tree_b = 8000000,
                              .n_branches = 150};
    return s_name(stream, &entry);
}

/* ---- rows */

void
fixture_row(fixture_stream_t *stream, crema_table_id_t id)
{
    uint8_t blank[1024];
    const crema_table_t *table = crema_table(id);
    if (stream->n_rows == ROWS_MAX || (stream->n_rows > 0 && stream->table != table))
        s_must(CREMA_ELIMIT, "rows");
    stream->table = table;
    stream->rows = s_grown(stream->rows, stream->n_rows, sizeof *stream->rows);
    row_t *row = &stream->rows[stream->n_rows];
    crema_row_clear(table, blank);
    for (size_t i = 0; i < table->n_columns; i++) {
        bool real = table->columns[i].type == CREMA_T_F64;
        row->reals[i] = NAN;
        row->ints[i] = real || table->columns[i].size == 0 || table->columns[i].type == CREMA_T_STR
                           ? 0
                           : crema_row_get_i64(table, blank, i);
    }
    stream->n_rows++;
}

static size_t
s_column(const fixture_stream_t *stream, const char *column)
{
    int i = crema_table_column(stream->table, column);
    if (i < 0)
        s_must(CREMA_EINVAL, column);
    return (size_t)i;
}

void
fixture_set(fixture_stream_t *stream, const char *column, int64_t value)
{
    stream->rows[stream->n_rows - 1].ints[s_column(stream, column)] = value;
}

void
fixture_real(fixture_stream_t *stream, const char *column, double value)
{
    stream->rows[stream->n_rows - 1].reals[s_column(stream, column)] = value;
}

void
fixture_put(fixture_stream_t *stream, uint32_t flags)
{
    const crema_table_t *table = stream->table;
    uint32_t n = stream->n_rows;
    size_t n_ints, n_reals;
    crema_table_wire_columns(table, &n_ints, &n_reals);
    int64_t *ints = calloc(n * n_ints + 1, sizeof *ints);
    double *reals = calloc(n * n_reals + 1, sizeof *reals);
    int64_t t_ns = stream->rows[n - 1].ints[table->columns[0].origin == CREMA_FROM_SINK ? 1 : 0];
    for (size_t i = 0; i < table->n_columns; i++) {
        int at = crema_table_wire_index(table, i);
        for (uint32_t r = 0; at >= 0 && r < n; r++) {
            if (table->columns[i].type == CREMA_T_F64)
                reals[(size_t)at * n + r] = stream->rows[r].reals[i];
            else
                ints[(size_t)at * n + r] = stream->rows[r].ints[i];
        }
    }
    crema_record_t record = {.type = CREMA_RECORD_BATCH};
    record.batch = (crema_batch_t){.table = table,
                                   .rows = n,
                                   .flags = flags,
                                   .n_int_columns = n_ints,
                                   .n_real_columns = n_reals,
                                   .ints = ints,
                                   .reals = reals};
    s_write(stream, &record, stream->next_seq, t_ns);
    stream->n_rows = 0;
    free(ints);
    free(reals);
}

/* ---- the ends of streams, and what goes wrong */

void
fixture_end(fixture_stream_t *stream, crema_end_reason_t reason, int64_t t_real_ns,
            uint64_t torn_bytes, uint64_t dropped)
{
    const Crema__End end = {.reason = reason, .torn_bytes = torn_bytes, .dropped = dropped};
    fixture_write_end(stream, &end, t_real_ns);
}

void
fixture_write_end(fixture_stream_t *stream, const Crema__End *end, int64_t t_real_ns)
{
    crema_record_t record = {.type = CREMA_RECORD_END, .end = *end};
    s_write(stream, &record, stream->next_seq, t_real_ns);
}

void
fixture_lose(fixture_stream_t *stream, uint64_t n, crema_loss_reason_t reason, int64_t t_real_ns)
{
    crema_record_t record = {.type = CREMA_RECORD_LOSS};
    record.loss = (Crema__Loss){.first = stream->next_seq,
                                .last = stream->next_seq + n - 1,
                                .reason = reason,
                                .t_real_ns = t_real_ns};
    s_write(stream, &record, record.loss.last, t_real_ns);
}

void
fixture_nonsense(fixture_stream_t *stream)
{
    static const uint8_t body[] = {0xff, 0xff, 0xff, 0xff, 0xff};
    crema_frame_t frame = {.seq = stream->next_seq,
                           .t_ns = stream->t_mono_ns,
                           .type = CREMA_RECORD_BATCH,
                           .len = sizeof body,
                           .body = body};
    stream->last = realloc(stream->last, crema_frame_bytes(&frame));
    crema_frame_encode(&frame, stream->last);
    s_put_frame(stream, stream->last, crema_frame_bytes(&frame), stream->next_seq);
    stream->next_seq++;
}

void
fixture_skip(fixture_stream_t *stream, uint64_t n)
{
    stream->next_seq += n;
}

uint64_t
fixture_last(const fixture_stream_t *stream)
{
    return stream->next_seq - 1;
}

void
fixture_repeat(fixture_stream_t *stream)
{
    s_put_frame(stream, stream->last, stream->last_bytes, stream->last_seq);
}
