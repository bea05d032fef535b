/* Bits that flip in the spool and files that end anywhere: what is hit is a loss that is told,
 * everything else is delivered as it was written. */
#include "must.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crema_spool.h"
#include "message_parts.h"
#include "record_frames.h"

#define RECORDS 21 /* with StreamInfo and END */
#define STREAMS 2

static char *s_dir;
static uint8_t s_bytes[8192]; /* the segment of stream 1, as it was written */
static size_t s_size, s_start[RECORDS + 2];
static crema_arena_t *s_arena;

static void
must_write_stream(uint8_t number)
{
    crema_id_t id = frames_id(number);
    Crema__StreamInfo info = {.run_id = body_id(frames_id(0x70)),
                              .kind = CREMA_STREAM_WORKER,
                              .host = "host",
                              .worker_uuid = "uuid",
                              .worker_name = "tcp://worker",
                              .boot_id = "boot",
                              .t_real_ns = 1000000,
                              .t_mono_ns = 1000};
    crema_spool_writer_t *writer;
    must(crema_spool_writer_open(s_dir, &id, &info, CREMA_SPOOL_SELF, &writer));
    for (int i = 2; i < RECORDS; i++) {
        Crema__DictEntry entry = {.kind = CREMA_DICT_ACTIVITY,
                                  .id = (uint32_t)i,
                                  .text = "a name of thirty-two letters ...",
                                  .memory_limit_b = -1,
                                  .size_b = -1};
        crema_record_t record = {.type = CREMA_RECORD_DICT,
                                 .dict = {.n_entries = 1, .entries = body_entries(1, &entry)}};
        must(crema_spool_writer_append(writer, &record, 2000 + i));
    }
    crema_spool_writer_close(&writer);
}

static void
path_of(uint8_t number, char path[PATH_MAX])
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    crema_id_t id = frames_id(number);
    snprintf(path, PATH_MAX, "%s/sp-%s-%016x", s_dir, crema_id_hex(&id, hex), 1);
}

/* The segment of stream 1 becomes this. */
static void
must_store(const uint8_t *bytes, size_t size)
{
    char path[PATH_MAX];
    path_of(1, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make_in_memory(32);
    must(crema_arena_new(1 << 21, &s_arena));
    for (uint8_t i = 1; i <= STREAMS; i++)
        must_write_stream(i);
    char path[PATH_MAX];
    path_of(1, path);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, s_bytes, sizeof s_bytes);
    close(fd);
    assert_true(n > 0 && n < (ssize_t)sizeof s_bytes);
    s_size = (size_t)n;
    for (size_t at = 0, i = 1; i <= RECORDS; i++) {
        crema_frame_t frame;
        must(crema_frame_decode(s_bytes + at, s_size - at, &frame));
        s_start[i] = at;
        at += crema_frame_bytes(&frame);
        s_start[i + 1] = at;
    }
    assert_int_equal(s_start[RECORDS + 1], s_size);
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    crema_arena_destroy(&s_arena);
    scratch_remove(&s_dir);
    return 0;
}

/* What a delivery brought of one stream. */
typedef struct {
    uint64_t last;       /* every number up to here was there once, as record or in a loss */
    uint64_t as_written; /* records with the bytes that were written */
    uint64_t lost;       /* numbers in losses */
    bool ended;
} brought_t;

static void
must_read_on(crema_spool_t *spool, const crema_id_t *id, brought_t *ret_brought)
{
    static uint8_t buf[1 << 16];
    brought_t brought = *ret_brought;
    size_t bytes, at = 0;
    uint32_t n;
    uint64_t last;
    must(crema_spool_read(spool, id, brought.last + 1, buf, sizeof buf, &bytes, &n, &last));
    assert_in_range(n, 1, RECORDS);
    for (; n > 0; n--) {
        crema_frame_t frame;
        crema_record_t record;
        must(crema_frame_decode(buf + at, bytes - at, &frame));
        must(crema_record_decode(&frame, s_arena, &record));
        size_t size = crema_frame_bytes(&frame);
        if (record.type == CREMA_RECORD_LOSS) {
            assert_int_equal(record.loss.first, brought.last + 1);
            assert_int_equal(record.loss.reason, CREMA_LOSS_CORRUPT);
            brought.lost += record.loss.last - record.loss.first + 1;
        } else {
            assert_int_equal(frame.seq, brought.last + 1);
            brought.as_written += memcmp(buf + at, s_bytes + s_start[frame.seq], size) == 0;
            brought.ended = record.type == CREMA_RECORD_END;
        }
        brought.last = frame.seq;
        at += size;
    }
    *ret_brought = brought;
}

/* In more than one reading if damage looks like a record that does not fit. */
static brought_t
must_deliver(crema_spool_t *spool, uint8_t number)
{
    brought_t brought = {0};
    crema_id_t id = frames_id(number);
    const crema_spool_stream_t *stream = crema_spool_find(spool, &id);
    while (brought.last < stream->hi)
        must_read_on(spool, &id, &brought);
    return brought;
}

static crema_spool_t *
must_open(void)
{
    crema_spool_t *spool;
    must(crema_spool_open(s_dir, &spool));
    must(crema_spool_lock(spool));
    must(crema_spool_scan(spool));
    return spool;
}

/* Of a whole closed stream each bit flips: no false record, no other record missing, the loss is
 * exact, and its neighbour is as it was. */
static void
test_no_flipped_bit_stays_undetected(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < 8 * s_size; bit++) {
        size_t hit = 1;
        while (s_start[hit + 1] <= bit / 8)
            hit++;
        s_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        must_store(s_bytes, s_size);
        s_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        crema_spool_t *spool = must_open();
        crema_id_t id = frames_id(1);
        const crema_spool_stream_t *stream = crema_spool_find(spool, &id);
        assert_non_null(stream);
        if (hit ==
            1) { /* it names the run: without it the stream is nobody's, and is told so and kept */
            assert_true(crema_id_is_zero(&stream->run_id));
            assert_int_equal(crema_spool_stats(spool).foreign_files, 1);
        } else {
            brought_t brought = must_deliver(spool, 1);
            assert_true(brought.ended);
            assert_int_equal(brought.last, RECORDS);
            /* END itself: what is left of it is a torn tail, and is closed for the writer */
            if (hit == RECORDS) {
                assert_int_equal(brought.lost, 0);
                assert_true(brought.as_written >= RECORDS - 1);
            } else {
                assert_int_equal(brought.lost, 1);
                assert_int_equal(brought.as_written, RECORDS - 1);
                assert_int_equal(stream->lost, 1);
            }
        }
        assert_int_equal(must_deliver(spool, 2).last, RECORDS);
        crema_spool_close(&spool);
    }
    print_message("%zu bits\n", 8 * s_size);
    assert_true(8 * s_size >= 10000);
}

/* A file that ends anywhere: whole records are delivered and the stream is closed behind them. */
static void
test_a_file_cut_at_any_byte_delivers_what_is_whole(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= s_size; cut++) {
        size_t whole = 0;
        while (whole < RECORDS && s_start[whole + 2] <= cut && whole + 1 <= RECORDS)
            whole++;
        must_store(s_bytes, cut);
        crema_spool_t *spool = must_open();
        crema_id_t id = frames_id(1);
        if (whole == 0) {
            assert_true(crema_id_is_zero(&crema_spool_find(spool, &id)->run_id));
        } else {
            brought_t brought = must_deliver(spool, 1);
            assert_true(brought.ended);
            assert_int_equal(brought.lost, 0);
            assert_int_equal(brought.last, whole < RECORDS ? whole + 1 : RECORDS);
            assert_true(brought.as_written >= whole);
        }
        assert_int_equal(must_deliver(spool, 2).last, RECORDS);
        crema_spool_close(&spool);
    }
    print_message("%zu bytes\n", s_size);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_flipped_bit_stays_undetected, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown(test_a_file_cut_at_any_byte_delivers_what_is_whole, s_setup,
                                        s_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
