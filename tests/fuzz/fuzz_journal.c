/* Any bytes as a run's journal: read as they are and with checksums made right, then opened and
 * gone on with as after a crash. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "fuzz.h"
#include "fuzz_files.h"
#include "journal_sync.h"
#include "sink_decoder.h"
#include "sink_journal.h"
#include "sink_offset.h"

#define PUT_HEAD_BYTES 48

typedef struct {
    sink_decoder_t *run;
    sink_offset_t *offset;
} reader_t;

static crema_err_t
s_on_rows(void *context, crema_table_id_t table, const uint8_t *rows, size_t n)
{
    (void)context, (void)rows, (void)n;
    HOLDS(table < CREMA_TABLE_COUNT);
    return CREMA_OK;
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    return sink_decoder_put(((reader_t *)context)->run, put);
}

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    return sink_decoder_msg(((reader_t *)context)->run, msg);
}

static crema_err_t
s_on_clock(void *context, const Crema__ClockSample *sample)
{
    crema_err_t err = sink_offset_add(((reader_t *)context)->offset, sample);
    return err == CREMA_OK ? sink_decoder_clock(((reader_t *)context)->run, sample) : err;
}

static crema_err_t
s_on_sealed(void *context, const sink_journal_sealed_t *sealed)
{
    (void)context;
    HOLDS(sealed != NULL);
    return CREMA_OK;
}

/* What is inside the frames is right too. */
static void
s_repair(uint8_t *bytes, size_t size)
{
    (void)fuzz_repair_frames(bytes, size, 0);
    for (size_t at = 0; size - at >= CREMA_FRAME_HEADER_BYTES;) {
        size_t len = crema_get_u32(bytes + at + 4);
        uint16_t type = crema_get_u16(bytes + at + 24);
        uint8_t *body = bytes + at + CREMA_FRAME_HEADER_BYTES;
        if (type == SINK_JOURNAL_PUT && len > PUT_HEAD_BYTES)
            (void)fuzz_repair_frames(body + PUT_HEAD_BYTES, len - PUT_HEAD_BYTES, 0);
        if (type == SINK_JOURNAL_RUN || type == SINK_JOURNAL_CLOCK)
            fuzz_repair_message(body, len);
        at += CREMA_FRAME_HEADER_BYTES + len;
    }
    (void)fuzz_repair_frames(bytes, size, 0);
}

static void
s_read(const char *dir, sink_journal_report_t *report, crema_err_t *ret_err)
{
    reader_t reader = {NULL, NULL};
    HOLDS(sink_decoder_new(s_on_rows, NULL, &reader.run) == CREMA_OK);
    HOLDS(sink_offset_new(sink_decoder_limits(reader.run), &reader.offset) == CREMA_OK);
    const sink_journal_visitor_t visitor = {.context = &reader,
                                            .put = s_on_put,
                                            .run = s_on_run,
                                            .clock = s_on_clock,
                                            .sealed = s_on_sealed};
    *ret_err = sink_journal_read(dir, &visitor, report);
    if (*ret_err == CREMA_OK) {
        HOLDS(sink_decoder_finish(reader.run) == CREMA_OK);
        sink_offset_settle(reader.offset);
        const crema_id_t agent = {{0xa9}};
        for (int i = 0; i < 63; i += 3)
            (void)sink_offset_correct(reader.offset, &agent, (int64_t)1 << i);
    }
    sink_offset_destroy(&reader.offset);
    sink_decoder_destroy(&reader.run);
}

/* As the sink does after a crash: what could be read before can be read after. */
static void
s_go_on(const char *dir, const sink_journal_report_t *before)
{
    sink_journal_t *journal = NULL;
    sink_journal_report_t opened, after;
    char where[PATH_MAX];
    crema_err_t err;
    const Crema__ClockSample sample = {.run_id = crema_id_field(&before->run_id), .t_ns = 1};
    if (sink_journal_open(dir, &before->store_id, &before->run_id, UINT64_MAX, NULL, &opened, where,
                          &journal) != CREMA_OK)
        return;
    HOLDS(sink_journal_clock(journal, &sample, 1) == CREMA_OK);
    HOLDS(journal_sync(journal) == CREMA_OK);
    sink_journal_close(&journal);
    s_read(dir, &after, &err);
    HOLDS(err == CREMA_OK);
    HOLDS(after.frames >= before->frames);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[128];
    uint8_t *bytes = malloc(size + 1);
    HOLDS(bytes != NULL);
    memcpy(bytes, data, size);
    snprintf(dir, sizeof dir, "%s/journal", fuzz_dir());
    (void)mkdir(dir, 0700);
    for (int repaired = 0; repaired < 2; repaired++) {
        sink_journal_report_t report = {0};
        crema_err_t err;
        if (repaired)
            s_repair(bytes, size);
        (void)fuzz_write(dir, "000001.journal", bytes, size);
        s_read(dir, &report, &err);
        if (err == CREMA_OK)
            s_go_on(dir, &report);
        fuzz_clean(dir);
    }
    free(bytes);
    return 0;
}
