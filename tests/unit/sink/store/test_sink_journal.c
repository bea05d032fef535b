/* A run's journal: what was synced is read again, whatever tears or rots behind or within it. */
#include "children.h"
#include "journal_sync.h"
#include "must.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "message_parts.h"
#include "record_frames.h"
#include "sink_fs.h"
#include "sink_journal.h"
#include "sink_segments.h"

static char *s_dir;
static char s_path[512];
static crema_id_t s_store, s_run;
static frames_t s_frames;

static int
s_setup_room(size_t room_mib)
{
    s_dir = scratch_make_in_memory(room_mib);
    s_store = frames_id(0x51);
    s_run = frames_id(0x52);
    snprintf(s_path, sizeof s_path, "%s/run", s_dir);
    return 0;
}

static int
s_setup(void **state)
{
    (void)state;
    return s_setup_room(32);
}

static int
s_setup_for_segments(void **state)
{
    (void)state;
    return s_setup_room(256);
}

static int
s_teardown(void **state)
{
    (void)children_end(state);
    scratch_remove(&s_dir);
    return 0;
}

/* ---- verbs */

static sink_journal_report_t s_opened;

static crema_err_t
s_open(const crema_id_t *store, const crema_id_t *run, uint64_t generation,
       sink_journal_t **ret_journal)
{
    char where[PATH_MAX];
    return sink_journal_open(s_path, store, run, generation, NULL, &s_opened, where, ret_journal);
}

static sink_journal_t *
must_open(uint64_t generation)
{
    sink_journal_t *journal;
    must(s_open(&s_store, &s_run, generation, &journal));
    must(journal_renew(journal));
    return journal;
}

static void
must_put(sink_journal_t *journal, uint64_t first, uint64_t last)
{
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, first, last);
    sink_journal_put_t put = {
        .stream_id = frames_id(1),
        .agent_id = frames_id(2),
        .first_seq = first,
        .n = s_frames.n,
        .late = first > 1,
        .frames = s_frames.bytes,
        .frames_bytes = s_frames.size,
        .t_recv_ns = 1000 + (int64_t)first,
    };
    must(sink_journal_put(journal, &put));
}

/* What a reading met. */
typedef struct {
    unsigned puts, runs, clocks, seals;
    uint64_t seqs[64];
    crema_err_t answer;
} seen_t;

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    seen_t *seen = context;
    assert_int_equal(put->t_recv_ns, 1000 + (int64_t)put->first_seq);
    assert_int_equal(put->late, put->first_seq > 1);
    assert_int_equal(put->agent_id.bytes[7], 2);
    seen->seqs[seen->puts++] = put->first_seq;
    return seen->answer;
}

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    assert_int_equal(msg->type, CREMA_MSG_RUN_SEAL);
    assert_string_equal(msg->run_seal.reasons[0]->code, "agent_lost");
    ((seen_t *)context)->runs++;
    return CREMA_OK;
}

static crema_err_t
s_on_clock(void *context, const Crema__ClockSample *sample)
{
    assert_int_equal(sample->offset_ns, -5);
    ((seen_t *)context)->clocks++;
    return CREMA_OK;
}

static crema_err_t
s_on_sealed(void *context, const sink_journal_sealed_t *sealed)
{
    assert_int_equal(sealed->revision, 3);
    assert_int_equal(sealed->file_bytes, 1234);
    assert_int_equal(sealed->sha256[31], 9);
    assert_int_equal(sealed->t_real_ns, 77);
    ((seen_t *)context)->seals++;
    return CREMA_OK;
}

static sink_journal_visitor_t
s_visitor(seen_t *seen)
{
    return (sink_journal_visitor_t){.context = seen,
                                    .put = s_on_put,
                                    .run = s_on_run,
                                    .clock = s_on_clock,
                                    .sealed = s_on_sealed};
}

static sink_journal_report_t
must_read(seen_t *seen)
{
    sink_journal_report_t report;
    *seen = (seen_t){0};
    sink_journal_visitor_t visitor = s_visitor(seen);
    must(sink_journal_read(s_path, &visitor, &report));
    return report;
}

static void
s_segment(unsigned number, char out[600])
{
    snprintf(out, 600, "%s/%06u.journal", s_path, number);
}

static size_t
must_load(unsigned number, uint8_t *bytes, size_t room)
{
    char path[600];
    s_segment(number, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

static void
must_store(unsigned number, const uint8_t *bytes, size_t size)
{
    char path[600];
    s_segment(number, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* ---- tests */

static void
test_journal_gives_back_what_was_synced(void **state)
{
    (void)state;
    seen_t seen;
    sink_journal_t *journal = must_open(1);
    Crema__Reason reason = crema_reason("agent_lost", "node7", "gone", 3);
    const crema_msg_t run = {.type = CREMA_MSG_RUN_SEAL,
                             .run_seal = {.run_id = body_id(s_run),
                                          .n_reasons = 1,
                                          .reasons = body_reasons(1, &reason)}};
    Crema__ClockSample sample = {
        .run_id = body_id(s_run), .agent_id = body_id(frames_id(3)), .offset_ns = -5};
    sink_journal_sealed_t sealed = {.revision = 3, .file_bytes = 1234};
    sealed.sha256[31] = 9;
    must_put(journal, 1, 3);
    must(sink_journal_run(journal, &run, 5));
    must(sink_journal_clock(journal, &sample, 6));
    must(sink_journal_sealed(journal, &sealed, 77));
    must_put(journal, 4, 4);
    assert_true(sink_journal_pending_bytes(journal) > 0);
    assert_int_equal(sink_journal_bytes(journal), 0);
    must(journal_sync(journal));
    assert_int_equal(sink_journal_pending_bytes(journal), 0);

    sink_journal_report_t report = must_read(&seen);
    assert_int_equal(seen.puts, 2);
    assert_int_equal(seen.seqs[1], 4);
    assert_int_equal(seen.runs + seen.clocks + seen.seals, 3);
    assert_int_equal(report.frames, 6);
    assert_int_equal(report.torn_bytes + report.damaged_bytes + report.missing_frames, 0);
    assert_int_equal(report.bytes, sink_journal_bytes(journal));
    assert_true(crema_id_equal(&report.run_id, &s_run));
    assert_true(crema_id_equal(&report.store_id, &s_store));
    sink_journal_close(&journal);
    assert_null(journal);
}

/* Reads on as far as the journal is durable. */
static void
must_follow(sink_journal_tail_t *tail, const sink_journal_t *journal)
{
    const sink_journal_position_t until = sink_journal_position(journal);
    while (sink_journal_tail_is_behind(tail, &until))
        must(sink_journal_tail_read(tail, &until));
}

static void
test_journal_is_followed_as_far_as_it_is_durable(void **state)
{
    (void)state;
    seen_t seen = {0};
    sink_journal_visitor_t visitor = s_visitor(&seen);
    sink_journal_tail_t *tail;
    sink_journal_t *journal = must_open(1);
    must(sink_journal_tail_new(s_path, &visitor, &tail));
    must_put(journal, 1, 1);
    must_follow(tail, journal);
    assert_int_equal(seen.puts, 0);
    must(journal_sync(journal));
    must_follow(tail, journal);
    assert_int_equal(seen.puts, 1);
    must_put(journal, 2, 2);
    must_follow(tail, journal);
    assert_int_equal(seen.puts, 1);
    must(journal_sync(journal));
    sink_journal_close(&journal);
    journal = must_open(2);
    must_put(journal, 3, 3);
    must(journal_sync(journal));
    must_follow(tail, journal);
    assert_int_equal(seen.puts, 3);
    assert_int_equal(seen.seqs[2], 3);
    sink_journal_tail_destroy(&tail);
    sink_journal_close(&journal);
}

/* It is read in windows: frames lie across their ends, and what is damaged is longer. */
static void
test_journal_is_followed_whatever_the_length_of_its_frames(void **state)
{
    (void)state;
    enum { ROOM = 8 << 20, LONG = 900 };
    seen_t whole, followed = {0};
    sink_journal_visitor_t visitor = s_visitor(&followed);
    sink_journal_tail_t *tail;
    sink_journal_t *journal = must_open(1);
    uint64_t seq = 1;
    for (uint64_t i = 0, n; i < 60; i++, seq += n) {
        n = i < 20 ? 1 + 45 * i : LONG;
        must_put(journal, seq, seq + n - 1);
        must(journal_sync(journal));
    }
    const sink_journal_position_t until = sink_journal_position(journal);
    assert_int_equal(until.segment, 1);
    sink_journal_close(&journal);

    uint8_t *bytes = malloc(ROOM);
    const size_t size = must_load(1, bytes, ROOM);
    assert_true(size == until.bytes && size > 4 * 512 << 10);
    for (size_t at = size / 2; at < size / 2 + 100; at++)
        bytes[at] ^= 0x55;
    memset(bytes + size / 2 + (300 << 10), 0xff, 700 << 10);
    must_store(1, bytes, size);
    free(bytes);

    must_read(&whole);
    must(sink_journal_tail_new(s_path, &visitor, &tail));
    while (sink_journal_tail_is_behind(tail, &until))
        must(sink_journal_tail_read(tail, &until));
    sink_journal_tail_destroy(&tail);
    assert_in_range(whole.puts, 30, 59);
    assert_int_equal(followed.puts, whole.puts);
    assert_memory_equal(followed.seqs, whole.seqs, sizeof whole.seqs);
}

static void
test_journal_that_was_not_synced_holds_nothing(void **state)
{
    (void)state;
    seen_t seen;
    sink_journal_report_t report;
    sink_journal_visitor_t visitor = s_visitor(&seen);
    assert_int_equal(sink_journal_read(s_path, &visitor, &report), CREMA_ENOENT);
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 1);
    sink_journal_close(&journal);
    assert_int_equal(sink_journal_read(s_path, &visitor, &report), CREMA_ENOENT);
}

static void
test_journal_read_stops_with_the_visitors_error(void **state)
{
    (void)state;
    seen_t seen = {.answer = CREMA_EH5};
    sink_journal_report_t report;
    sink_journal_visitor_t visitor = s_visitor(&seen);
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 1);
    must_put(journal, 2, 2);
    must(journal_sync(journal));
    assert_int_equal(sink_journal_read(s_path, &visitor, &report), CREMA_EH5);
    assert_int_equal(seen.puts, 1);
    sink_journal_close(&journal);
}

/* Bytes of what was kept of the first segment under another name; 0 if nothing was. It is
 * removed. */
static size_t
s_kept_bytes(const char *suffix)
{
    char path[700];
    struct stat st;
    snprintf(path, sizeof path, "%s/000001.journal%s", s_path, suffix);
    if (stat(path, &st) != 0)
        return 0;
    assert_int_equal(unlink(path), 0);
    return (size_t)st.st_size - (strcmp(suffix, ".torn") == 0 ? 0 : 72);
}

/* The only segment has a header and nothing else that can be read: that is damage, and the file is
 * kept. */
static void
must_set_aside(size_t damaged_bytes)
{
    seen_t seen;
    assert_int_equal(must_read(&seen).damaged_bytes, damaged_bytes);
    sink_journal_t *journal = must_open(2);
    assert_int_equal(s_opened.damaged_bytes, damaged_bytes + 72);
    assert_int_equal(sink_journal_bytes(journal), 0);
    must_put(journal, 9, 9);
    must(journal_sync(journal));
    sink_journal_close(&journal);
    sink_journal_report_t report = must_read(&seen);
    assert_int_equal(seen.puts, 1);
    assert_int_equal(report.damaged_bytes, damaged_bytes + 72);
    assert_int_equal(s_kept_bytes(".damaged"), damaged_bytes);
    char path[600];
    s_segment(2, path);
    assert_int_equal(unlink(path), 0);
}

/* Cut anywhere: whole frames stay, the rest is told and kept, the next opening cuts it and goes on
 * behind. */
static void
test_journal_torn_at_every_byte_keeps_whole_frames(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    seen_t seen;
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 1);
    must(journal_sync(journal));
    size_t ends[3] = {0, 0, 0};
    ends[1] = (size_t)sink_journal_bytes(journal);
    must_put(journal, 2, 2);
    must(journal_sync(journal));
    ends[2] = (size_t)sink_journal_bytes(journal);
    sink_journal_close(&journal);
    size_t size = must_load(1, bytes, sizeof bytes), header = 72;
    assert_int_equal(size, ends[2]);
    for (size_t cut = header; cut <= size; cut++) {
        unsigned whole = cut == size ? 2 : cut >= ends[1] ? 1 : 0;
        size_t kept = whole ? ends[whole] : header;
        must_store(1, bytes, cut);
        if (whole == 0 && cut > header) {
            must_set_aside(cut - header);
            continue;
        }
        sink_journal_report_t report = must_read(&seen);
        assert_int_equal(seen.puts, whole);
        assert_int_equal(report.torn_bytes, cut - kept);
        assert_int_equal(report.damaged_bytes + report.missing_frames, 0);
        journal = must_open(2);
        assert_int_equal(sink_journal_bytes(journal), whole ? kept : 0); /* never written to */
        assert_int_equal(s_kept_bytes(".torn"), cut - kept);
        must_put(journal, 9, 9);
        must(journal_sync(journal));
        sink_journal_close(&journal);
        report = must_read(&seen);
        assert_int_equal(seen.puts, whole + 1);
        assert_int_equal(seen.seqs[whole], 9);
        assert_int_equal(report.torn_bytes + report.damaged_bytes + report.missing_frames, 0);
        char path[600];
        s_segment(2, path);
        assert_int_equal(unlink(path), 0);
    }
}

static crema_err_t
s_head(void *context, const crema_id_t *run_id, sink_journal_state_t *ret_state,
       sink_journal_mark_t **ret_marks)
{
    (void)context, (void)run_id, (void)ret_state;
    *ret_marks = calloc(1, sizeof **ret_marks);
    return *ret_marks ? CREMA_OK : CREMA_ENOMEM;
}

static void
must_sync_with(sink_journal_t *journal, const sink_journal_head_t *head)
{
    must(sink_journal_begin(journal, head));
    sink_journal_work(journal);
    must(sink_journal_end(journal));
}

/* Its checkpoint and the files that came with a group are written once. */
static void
test_journal_begins_a_segment_with_its_checkpoint_alone(void **state)
{
    (void)state;
    const sink_journal_head_t head = {NULL, s_head};
    char path[PATH_MAX];
    struct stat st;
    sink_journal_t *journal = must_open(1);
    snprintf(path, sizeof path, "%s/000001.journal", s_path);
    for (uint64_t first = 1; first < 6; first += 2) {
        must(sink_journal_file(journal, "beside", (const uint8_t *)"text", 4));
        must_put(journal, first, first + 1);
        const size_t pending = sink_journal_pending_bytes(journal);
        const uint64_t before = sink_journal_bytes(journal);
        must_sync_with(journal, &head);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, sink_journal_bytes(journal));
        if (first > 1)
            assert_int_equal(sink_journal_bytes(journal) - before, pending);
    }
    snprintf(path, sizeof path, "%s/beside", s_path);
    assert_int_equal(unlink(path), 0);
    must_put(journal, 7, 8);
    must_sync_with(journal, &head);
    assert_int_equal(access(path, F_OK), -1);
    sink_journal_close(&journal);
}

/* A process may end at any time: whatever is under way is freed (the sanitizer counts). */
static void
test_journal_can_be_closed_while_a_group_is_under_way(void **state)
{
    (void)state;
    const sink_journal_head_t head = {NULL, s_head};
    sink_journal_t *journal = must_open(1);
    for (int i = 0; i < 2; i++)
        must(sink_journal_file(journal, "first", (const uint8_t *)"text", 4));
    must_put(journal, 1, 2);
    must(sink_journal_begin(journal, &head));
    must_put(journal, 3, 4);
    must(sink_journal_file(journal, "second", (const uint8_t *)"text", 4));
    sink_journal_close(&journal);
    assert_null(journal);
}

static void
test_journal_torn_within_its_header_begins_anew(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    seen_t seen;
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 1);
    must(journal_sync(journal));
    sink_journal_close(&journal);
    must_load(1, bytes, sizeof bytes);
    for (size_t cut = 0; cut < 72; cut++) {
        must_store(1, bytes, cut);
        journal = must_open(2);
        must_put(journal, 2, 2);
        must(journal_sync(journal));
        sink_journal_close(&journal);
        must_read(&seen);
        assert_int_equal(seen.puts, 1);
        char path[600];
        s_segment(2, path);
        assert_int_equal(unlink(path), 0);
    }
}

/* Four groups, each synced; the first of two PUTs with record frames inside, which are no journal
 * frames. *ret_last is where the last group begins. */
static size_t
must_make_groups(uint8_t *bytes, size_t room, size_t *ret_last)
{
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 4);
    must_put(journal, 5, 8);
    must(journal_sync(journal));
    for (uint64_t first = 9; first <= 17; first += 4) {
        *ret_last = (size_t)sink_journal_bytes(journal);
        must_put(journal, first, first + 3);
        must(journal_sync(journal));
    }
    sink_journal_close(&journal);
    size_t size = must_load(1, bytes, room);
    assert_true(8 * size >= 10000);
    return size;
}

/* Every single bit: the frame it hits is lost and told, its neighbours are read, nothing false
 * comes out. Of the last group, which may never have been synced, nothing stays that lies
 * behind. */
static void
test_journal_with_a_flipped_bit_loses_that_frame_and_says_so(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    seen_t seen;
    size_t last = 0, size = must_make_groups(bytes, sizeof bytes, &last);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        must_store(1, bytes, size);
        sink_journal_report_t report = must_read(&seen);
        assert_int_equal(seen.puts, bit / 8 < 72 ? 5 : 4);
        for (unsigned i = 0; i < seen.puts; i++)
            assert_int_equal(seen.seqs[i] % 4, 1);
        assert_true(bit / 8 < last ? report.damaged_bytes > 0 : report.torn_bytes == size - last);
        assert_int_equal(report.missing_frames, bit / 8 >= 72 && bit / 8 < last);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    print_message("%zu bits\n", 8 * size);
}

/* A power cut may leave a later part of what was not synced without an earlier one. */
static void
test_journal_does_not_count_what_lies_behind_a_hole_in_its_last_group(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    seen_t seen;
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 1);
    must(journal_sync(journal));
    size_t whole = (size_t)sink_journal_bytes(journal);
    for (uint64_t seq = 2; seq <= 4; seq++)
        must_put(journal, seq, seq);
    must(journal_sync(journal));
    sink_journal_close(&journal);
    size_t size = must_load(1, bytes, sizeof bytes);
    memset(bytes + whole, 0, 20);
    must_store(1, bytes, size);
    sink_journal_report_t report = must_read(&seen);
    assert_int_equal(seen.puts, 1);
    assert_int_equal(report.torn_bytes, size - whole);
    journal = must_open(2);
    assert_int_equal(s_kept_bytes(".torn"), size - whole);
    sink_journal_close(&journal);
}

static void
test_journal_misses_a_lost_segment(void **state)
{
    (void)state;
    seen_t seen;
    for (uint64_t generation = 1; generation <= 3; generation++) {
        sink_journal_t *journal = must_open(generation);
        must_put(journal, generation, generation);
        must(journal_sync(journal));
        sink_journal_close(&journal);
    }
    assert_int_equal(must_read(&seen).segments, 3);
    char path[600];
    s_segment(2, path);
    assert_int_equal(unlink(path), 0);
    sink_journal_report_t report = must_read(&seen);
    assert_int_equal(seen.puts, 2);
    assert_int_equal(report.missing_frames, 1);
}

static void
test_journal_of_another_run_or_a_later_sink_is_refused(void **state)
{
    (void)state;
    sink_journal_t *journal = must_open(5), *other = NULL;
    must_put(journal, 1, 1);
    must(journal_sync(journal));
    sink_journal_close(&journal);
    crema_id_t foreign = frames_id(0x66);
    assert_int_equal(s_open(&s_store, &foreign, 6, &other), CREMA_EMAGIC);
    assert_int_equal(s_open(&foreign, &s_run, 6, &other), CREMA_EMAGIC);
    assert_int_equal(s_open(&s_store, &s_run, 4, &other), CREMA_EBUSY);
    assert_null(other);
    journal = must_open(5);
    sink_journal_close(&journal);
}

static void
test_journal_that_is_none_is_told(void **state)
{
    (void)state;
    seen_t seen;
    sink_journal_report_t report;
    sink_journal_visitor_t visitor = s_visitor(&seen);
    assert_int_equal(mkdir(s_path, 0700), 0);
    assert_int_equal(sink_journal_read(s_path, &visitor, &report), CREMA_ENOENT);
    must_store(1, (const uint8_t *)"this is a letter to my aunt", 27);
    assert_int_equal(sink_journal_read(s_path, &visitor, &report), CREMA_EMAGIC);
}

static void
test_journal_group_has_a_limit(void **state)
{
    (void)state;
    sink_journal_t *journal = must_open(1);
    static uint8_t big[512 << 10];
    sink_journal_put_t put = {.first_seq = 1, .n = 1, .frames = big, .frames_bytes = sizeof big};
    crema_err_t err = CREMA_OK;
    unsigned taken = 0;
    while ((err = sink_journal_put(journal, &put)) == CREMA_OK)
        taken++;
    assert_int_equal(err, CREMA_EAGAIN);
    assert_in_range(taken, 30, 32);
    must(journal_sync(journal));
    must(sink_journal_put(journal, &put));
    put.frames_bytes = CREMA_FRAME_BODY_MAX;
    assert_int_equal(sink_journal_put(journal, &put), CREMA_ELIMIT);
    sink_journal_close(&journal);
}

static void
test_journal_has_a_last_segment(void **state)
{
    (void)state;
    char path[600];
    sink_journal_t *journal = must_open(1);
    sink_journal_close(&journal);
    must_store(SINK_SEGMENT_NUMBER_MAX - 1, (const uint8_t *)"", 0);
    journal = must_open(1);
    must_put(journal, 1, 1);
    must(journal_sync(journal)); /* the last number that its files may have */
    sink_journal_close(&journal);
    journal = must_open(2);
    must_put(journal, 2, 2);
    assert_int_equal(journal_sync(journal), CREMA_ELIMIT);
    s_segment(SINK_SEGMENT_NUMBER_MAX + 1, path);
    assert_int_not_equal(access(path, F_OK), 0);
    sink_journal_close(&journal);
}

static void
test_journal_rolls_to_a_new_segment(void **state)
{
    (void)state;
    seen_t seen;
    static uint8_t big[1 << 19];
    sink_journal_t *journal = must_open(1);
    sink_journal_put_t put = {.agent_id = frames_id(2),
                              .first_seq = 1,
                              .n = 1,
                              .frames = big,
                              .frames_bytes = sizeof big,
                              .t_recv_ns = 1001};
    for (int group = 0; group < 5; group++) {
        for (int i = 0; i < 30; i++)
            must(sink_journal_put(journal, &put));
        must(journal_sync(journal));
    }
    sink_journal_visitor_t none = {0};
    sink_journal_report_t report;
    must(sink_journal_read(s_path, &none, &report));
    assert_int_equal(report.segments, 5);
    assert_int_equal(report.frames, 5 + 150);
    assert_int_equal(report.damaged_bytes + report.torn_bytes + report.missing_frames, 0);
    (void)seen;
    sink_journal_close(&journal);
}

/* The descriptor of the segment that is written, found by its name. */
static int
s_segment_fd(void)
{
    char want[600], link[64], target[600];
    s_segment(1, want);
    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        if (strcmp(target, want) == 0)
            return fd;
    }
    fail_msg("no descriptor of %s", want);
    return -1;
}

/* A pipe takes the write and refuses the fdatasync. */
static void
test_journal_is_broken_for_good_after_a_failed_sync(void **state)
{
    (void)state;
    int fds[2];
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 1);
    must(journal_sync(journal));
    int fd = s_segment_fd(), kept = dup(fd);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(dup2(fds[1], fd), fd);
    must_put(journal, 2, 2);
    assert_int_equal(journal_sync(journal), CREMA_EIO);
    assert_int_equal(dup2(kept, fd), fd); /* the disk is well again: it must not matter */
    assert_int_equal(journal_sync(journal), CREMA_EIO);
    sink_journal_put_t put = {.first_seq = 3, .n = 1, .frames = s_frames.bytes, .frames_bytes = 1};
    assert_int_equal(sink_journal_put(journal, &put), CREMA_EIO);
    close(kept), close(fds[0]), close(fds[1]);
    sink_journal_close(&journal);
}

/* /dev/full says ENOSPC to every write, but cannot be cut back: so the group must count as
 * broken. */
static void
test_journal_is_broken_when_a_full_disk_cannot_be_undone(void **state)
{
    (void)state;
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 1);
    must(journal_sync(journal));
    int full = open("/dev/full", O_WRONLY);
    assert_true(full >= 0);
    assert_true(dup2(full, s_segment_fd()) >= 0);
    close(full);
    must_put(journal, 2, 2);
    assert_int_equal(journal_sync(journal), CREMA_EIO);
    assert_int_equal(journal_sync(journal), CREMA_EIO);
    sink_journal_close(&journal);
}

/* With root: a real file system without room. What did not fit is undone, stays collected, and
 * goes in once there is room. */
static void
test_journal_survives_a_full_disk(void **state)
{
    (void)state;
    seen_t seen;
    assert_int_equal(mkdir(s_path, 0700), 0);
    if (!scratch_mount(s_path, "1m"))
        not_tested_here(MISSING_MOUNTS);
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 1);
    must(journal_sync(journal));
    uint64_t bytes = sink_journal_bytes(journal);
    char ballast[600];
    snprintf(ballast, sizeof ballast, "%s/ballast", s_path);
    scratch_fill(ballast);
    for (uint64_t seq = 2; seq < 60; seq++)
        must_put(journal, seq, seq + 60);
    size_t pending = sink_journal_pending_bytes(journal);
    assert_int_equal(journal_sync(journal), CREMA_ENOSPC);
    assert_int_equal(journal_sync(journal), CREMA_ENOSPC);
    assert_int_equal(sink_journal_pending_bytes(journal), pending);
    assert_int_equal(sink_journal_bytes(journal), bytes);
    sink_journal_report_t report = must_read(&seen);
    assert_int_equal(seen.puts, 1);
    assert_int_equal(report.torn_bytes, 0);
    assert_int_equal(unlink(ballast), 0);
    must(journal_sync(journal));
    must_read(&seen);
    assert_int_equal(seen.puts, 59);
    sink_journal_close(&journal);
    scratch_unmount(s_path);
}

/* No file could be made for the segment, so nothing is uncertain. */
static void
test_journal_waits_for_a_descriptor(void **state)
{
    (void)state;
    seen_t seen;
    struct rlimit limit, none;
    sink_journal_t *journal = must_open(1);
    must_put(journal, 1, 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    crema_err_t err = journal_sync(journal);
    const char *why = sink_fs_why(err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(err, CREMA_ENOMEM);
    assert_string_equal(why, "Too many open files");
    must(journal_sync(journal));
    must_read(&seen);
    assert_int_equal(seen.puts, 1);
    sink_journal_close(&journal);
}

/* A write that the system cuts short for another reason than space: EFBIG. */
static void
test_journal_is_broken_by_any_other_failed_write(void **state)
{
    (void)state;
    pid_t child = must_fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        sink_journal_t *journal;
        if (s_open(&s_store, &s_run, 1, &journal) != CREMA_OK)
            _exit(2);
        must_put(journal, 1, 1);
        if (journal_sync(journal) != CREMA_OK)
            _exit(3);
        struct rlimit limit = {(rlim_t)sink_journal_bytes(journal) + 40, RLIM_INFINITY};
        setrlimit(RLIMIT_FSIZE, &limit);
        must_put(journal, 2, 2);
        if (journal_sync(journal) != CREMA_EIO)
            _exit(4);
        _exit(journal_sync(journal) == CREMA_EIO ? 0 : 5);
    }
    must_exit(child);
    seen_t seen;
    sink_journal_report_t report = must_read(&seen);
    assert_int_equal(seen.puts, 1);
    assert_int_equal(report.torn_bytes, 40);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_journal_gives_back_what_was_synced),
        T(test_journal_is_followed_as_far_as_it_is_durable),
        T(test_journal_is_followed_whatever_the_length_of_its_frames),
        T(test_journal_that_was_not_synced_holds_nothing),
        T(test_journal_read_stops_with_the_visitors_error),
        T(test_journal_torn_at_every_byte_keeps_whole_frames),
        T(test_journal_begins_a_segment_with_its_checkpoint_alone),
        T(test_journal_can_be_closed_while_a_group_is_under_way),
        T(test_journal_torn_within_its_header_begins_anew),
        T(test_journal_with_a_flipped_bit_loses_that_frame_and_says_so),
        T(test_journal_does_not_count_what_lies_behind_a_hole_in_its_last_group),
        T(test_journal_misses_a_lost_segment),
        T(test_journal_of_another_run_or_a_later_sink_is_refused),
        T(test_journal_that_is_none_is_told),
        T(test_journal_group_has_a_limit),
        T(test_journal_has_a_last_segment),
        cmocka_unit_test_setup_teardown(test_journal_rolls_to_a_new_segment, s_setup_for_segments,
                                        s_teardown),
        T(test_journal_is_broken_for_good_after_a_failed_sync),
        T(test_journal_is_broken_when_a_full_disk_cannot_be_undone),
        T(test_journal_survives_a_full_disk),
        T(test_journal_waits_for_a_descriptor),
        T(test_journal_is_broken_by_any_other_failed_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
