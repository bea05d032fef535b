/* torture_check - holds a sink's journal against the ledgers: was every record kept, and kept
 * once?
 *
 *   torture_check JOURNAL LEDGER_DIR
 *
 * Prints `records N lost L twice T wrong W unacknowledged U streams S regressed R` and exits 1 if
 * L, T or W is not 0. */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_record.h"
#include "sink_journal.h"
#include "torture_ledger.h"

typedef struct {
    torture_ledger_t ledger;
    uint64_t last;  /* highest number in the journal, contiguous from 1 */
    uint64_t ended; /* number of END, 0: none yet */
} s_stream_t;

typedef struct {
    s_stream_t *streams;
    size_t n_streams;
    crema_arena_t *arena;
    uint64_t records, lost, twice, wrong;
    uint64_t regressed; /* of those lost: LOSS says that an older store lost them */
} s_check_t;

static s_stream_t *
s_find(s_check_t *self, const crema_id_t *stream_id)
{
    for (size_t i = 0; i < self->n_streams; i++)
        if (crema_id_equal(&self->streams[i].ledger.stream_id, stream_id))
            return &self->streams[i];
    return NULL; /* an agent's own stream: no ledger of it */
}

/* It stands for everything behind the record before it. */
static void
s_take_loss(s_check_t *self, const Crema__Loss *loss, uint64_t before)
{
    const uint64_t n = loss->last - before;
    self->lost += n;
    if (loss->reason == CREMA_LOSS_STORE_REGRESSED)
        self->regressed += n;
}

static void
s_take_record(s_check_t *self, s_stream_t *stream, const crema_frame_t *frame)
{
    crema_record_t record;
    if (frame->seq <= stream->last) {
        self->twice++;
        return;
    }
    const uint64_t before = stream->last;
    stream->last = frame->seq;
    if (crema_record_decode(frame, self->arena, &record) != CREMA_OK) {
        self->lost += frame->seq - before - 1;
        self->wrong++;
    } else if (record.type == CREMA_RECORD_LOSS) {
        s_take_loss(self, &record.loss, before);
    } else {
        self->lost += frame->seq - before - 1;
        if (record.type == CREMA_RECORD_END)
            stream->ended = frame->seq;
        else if (record.type == CREMA_RECORD_BATCH &&
                 record.batch.reals[0] != torture_value(&stream->ledger.stream_id, frame->seq))
            self->wrong++;
    }
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    s_check_t *self = context;
    s_stream_t *stream = s_find(self, &put->stream_id);
    const uint8_t *at = put->frames;
    size_t left = put->frames_bytes;
    while (stream && left) {
        crema_frame_t frame;
        if (crema_frame_decode(at, left, &frame) != CREMA_OK) {
            self->wrong++;
            break;
        }
        s_take_record(self, stream, &frame);
        self->records++;
        at += crema_frame_bytes(&frame);
        left -= crema_frame_bytes(&frame);
    }
    return CREMA_OK;
}

static void
s_name(const s_stream_t *stream)
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    fprintf(stderr,
            "stream %s: recorded %" PRIu64 ", in the journal up to %" PRIu64 ", END %" PRIu64 "\n",
            crema_id_hex(&stream->ledger.stream_id, hex), stream->ledger.recorded, stream->last,
            stream->ended);
}

/* A writer that was killed before its first append leaves a ledger and no stream. */
static bool
s_never_began(const s_stream_t *stream)
{
    return stream->ledger.recorded == 0 && stream->last == 0;
}

/* A stream whose writer finished ends at recorded + 1; one whose writer was killed may hold one
 * record more than its ledger says. */
static void
s_close_books(s_check_t *self, uint64_t *ret_late_by_one)
{
    for (size_t i = 0; i < self->n_streams; i++) {
        const s_stream_t *stream = &self->streams[i];
        const uint64_t recorded = stream->ledger.recorded;
        const uint64_t data = stream->ended ? stream->ended - 1 : stream->last;
        const uint64_t before = self->lost + self->twice;
        if (s_never_began(stream))
            continue;
        if (data < recorded)
            self->lost += recorded - data;
        else if (data == recorded + 1 && !stream->ledger.finished)
            (*ret_late_by_one)++;
        else if (data > recorded)
            self->twice += data - recorded;
        if (!stream->ended)
            self->lost++;
        if (self->lost + self->twice != before)
            s_name(stream);
    }
}

static bool
s_load_ledgers(s_check_t *self, const char *dir)
{
    char pattern[4096];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.ledger", dir);
    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    self->streams = calloc(found.gl_pathc, sizeof *self->streams);
    for (size_t i = 0; self->streams && i < found.gl_pathc; i++)
        if (torture_ledger_read(found.gl_pathv[i], &self->streams[self->n_streams].ledger) ==
            CREMA_OK)
            self->n_streams++;
    globfree(&found);
    return self->n_streams > 0;
}

int
main(int argc, char **argv)
{
    s_check_t self = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: torture_check JOURNAL LEDGER_DIR\n");
        return 2;
    }
    if (!s_load_ledgers(&self, argv[2]) ||
        crema_arena_new(CREMA_RECORD_BODY_MAX * CREMA_ARENA_FACTOR, &self.arena) != CREMA_OK) {
        fprintf(stderr, "torture_check: no ledgers in %s\n", argv[2]);
        return 2;
    }
    const sink_journal_visitor_t visitor = {.context = &self, .put = s_on_put};
    sink_journal_report_t report;
    crema_err_t err = sink_journal_read(argv[1], &visitor, &report);
    if (err != CREMA_OK) {
        fprintf(stderr, "torture_check: %s: %s\n", argv[1], crema_err_text(err));
        return 1;
    }
    uint64_t late_by_one = 0;
    s_close_books(&self, &late_by_one);
    printf("records %" PRIu64 " lost %" PRIu64 " twice %" PRIu64 " wrong %" PRIu64
           " unacknowledged %" PRIu64 " streams %zu regressed %" PRIu64 "\n",
           self.records, self.lost, self.twice, self.wrong, late_by_one, self.n_streams,
           self.regressed);
    crema_arena_destroy(&self.arena);
    free(self.streams);
    return self.lost || self.twice || self.wrong;
}
