/* agg_frames: frames that continue each other pass, anything else does not; a LOSS comes alone. */
#include "must.h"

#include <string.h>

#include "agg_frames.h"
#include "crema_bytes.h"
#include "crema_frame.h"

typedef struct {
    uint8_t bytes[4096];
    size_t size;
    uint32_t n;
} batch_t;

static void
s_add(batch_t *batch, uint64_t seq, uint16_t type, uint32_t len)
{
    static const uint8_t body[64];
    const crema_frame_t frame = {.seq = seq, .type = type, .len = len, .body = body};
    crema_frame_encode(&frame, batch->bytes + batch->size);
    batch->size += crema_frame_bytes(&frame);
    batch->n++;
}

/* 5 6 LOSS(7..20) 21 22 LOSS(23..30) */
static batch_t
s_batch(void)
{
    batch_t batch = {0};
    s_add(&batch, 5, CREMA_RECORD_BATCH, 10);
    s_add(&batch, 6, CREMA_RECORD_BATCH, 0);
    s_add(&batch, 20, CREMA_RECORD_LOSS, 7);
    s_add(&batch, 21, CREMA_RECORD_BATCH, 64);
    s_add(&batch, 22, CREMA_RECORD_BATCH, 1);
    s_add(&batch, 30, CREMA_RECORD_LOSS, 7);
    return batch;
}

static void
must_pass_frames_that_continue(void **state)
{
    (void)state;
    batch_t batch = s_batch();
    uint64_t last = 0;
    must(agg_frames_check(batch.bytes, batch.size, batch.n, 5, &last));
    assert_int_equal(last, 30);
}

static void
must_refuse_the_rest(void **state)
{
    (void)state;
    batch_t batch = s_batch();
    uint64_t last = 0;
    assert_int_equal(agg_frames_check(batch.bytes, batch.size, batch.n, 4, &last), CREMA_EPROTO);
    assert_int_equal(agg_frames_check(batch.bytes, batch.size, batch.n, 6, &last), CREMA_EPROTO);
    assert_int_equal(agg_frames_check(batch.bytes, batch.size, 0, 5, &last), CREMA_EPROTO);
    assert_int_equal(agg_frames_check(batch.bytes, batch.size, 5, 5, &last), CREMA_EPROTO);
    assert_int_equal(agg_frames_check(batch.bytes, batch.size, 7, 5, &last), CREMA_EPROTO);
    assert_int_equal(agg_frames_check(batch.bytes, batch.size, batch.n, 0, &last), CREMA_EPROTO);
    for (size_t size = 0; size < batch.size; size++)
        assert_int_equal(agg_frames_check(batch.bytes, size, batch.n, 5, &last), CREMA_EPROTO);
    const uint64_t most = UINT64_MAX / 2; /* the largest number that a record has */
    for (uint64_t seq = most; seq <= most + 1; seq++) {
        crema_put_u64(batch.bytes + 8, seq);
        size_t first = CREMA_FRAME_HEADER_BYTES + crema_get_u32(batch.bytes + 4);
        assert_int_equal(agg_frames_check(batch.bytes, first, 1, seq, &last),
                         seq == most ? CREMA_OK : CREMA_EPROTO);
        last = 0;
    }
    memset(batch.bytes + 4, 0xff, 4); /* an absurd length */
    assert_int_equal(agg_frames_check(batch.bytes, batch.size, batch.n, 5, &last), CREMA_EPROTO);
    assert_int_equal(last, 0);
}

static void
must_cut_into_pieces_from_any_number_on(void **state)
{
    (void)state;
    static const struct {
        uint64_t from;
        size_t n_pieces;
        struct {
            uint64_t first, last;
            uint32_t n;
        } pieces[4];
    } rows[] = {
        {5, 4, {{5, 6, 2}, {7, 20, 1}, {21, 22, 2}, {23, 30, 1}}},
        {6, 4, {{6, 6, 1}, {7, 20, 1}, {21, 22, 2}, {23, 30, 1}}},
        {7, 3, {{7, 20, 1}, {21, 22, 2}, {23, 30, 1}}},
        {12, 3, {{12, 20, 1}, {21, 22, 2}, {23, 30, 1}}},
        {22, 2, {{22, 22, 1}, {23, 30, 1}}},
        {30, 1, {{30, 30, 1}}},
        {31, 0, {{0, 0, 0}}},
    };
    batch_t batch = s_batch();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        agg_frames_t frames = {batch.bytes, batch.size, 5};
        agg_piece_t piece;
        agg_frames_skip(&frames, rows[i].from);
        size_t bytes = frames.left;
        for (size_t p = 0; p < rows[i].n_pieces; p++) {
            assert_true(agg_frames_take(&frames, &piece));
            assert_int_equal(piece.first, rows[i].pieces[p].first);
            assert_int_equal(piece.last, rows[i].pieces[p].last);
            assert_int_equal(piece.n, rows[i].pieces[p].n);
            bytes -= piece.size;
        }
        assert_false(agg_frames_take(&frames, &piece));
        assert_int_equal(bytes, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_pass_frames_that_continue),
        cmocka_unit_test(must_refuse_the_rest),
        cmocka_unit_test(must_cut_into_pieces_from_any_number_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
