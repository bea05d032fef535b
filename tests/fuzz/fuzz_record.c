/* Any bytes as a frame whose length and checksum are right: its body decoded, its rows made, the
 * record encoded again. */
#include <string.h>

#include "crema_bytes.h"
#include "crema_record.h"
#include "fuzz.h"

static uint32_t
s_map(void *context, crema_dict_t kind, int64_t local_id)
{
    (void)context;
    HOLDS(kind < CREMA_DICT_COUNT && local_id >= 0 && local_id < UINT32_MAX);
    return (uint32_t)local_id;
}

static void
s_look_at_rows(const crema_batch_t *batch)
{
    static uint8_t rows[CREMA_BATCH_BLOCK * 1024];
    HOLDS(batch->rows > 0 && batch->rows <= CREMA_BATCH_ROWS_MAX);
    uint32_t n = batch->rows < CREMA_BATCH_BLOCK ? batch->rows : CREMA_BATCH_BLOCK;
    for (uint32_t r = 0; r < n; r++)
        crema_row_clear(batch->table, rows + r * crema_table_row_bytes(batch->table));
    crema_batch_rows(batch, 0, n, s_map, NULL, rows);
    crema_batch_rows(batch, batch->rows - n, n, s_map, NULL, rows);
}

static void
s_look_again(const crema_record_t *record, uint64_t seq, crema_arena_t *arena)
{
    static uint8_t bytes[CREMA_FRAME_HEADER_BYTES + CREMA_RECORD_BODY_MAX];
    crema_frame_t frame;
    crema_record_t again;
    size_t size;
    /* It may not fit: integers can be shorter on the wire than as canonical varints, never by
     * much. */
    if (crema_record_encode(record, seq, 0, bytes, sizeof bytes, &size) != CREMA_OK)
        return;
    HOLDS(crema_frame_decode(bytes, size, &frame) == CREMA_OK);
    HOLDS(crema_record_decode(&frame, arena, &again) == CREMA_OK);
    HOLDS(again.type == record->type);
}

/* An unknown field changes nothing, except that the body takes the way through protobuf-c. */
static void
s_look_at_the_other_way(const crema_frame_t *frame, const crema_batch_t *batch,
                        crema_arena_t *arena)
{
    static uint8_t body[CREMA_RECORD_BODY_MAX];
    if (frame->len + 2 > sizeof body)
        return;
    memcpy(body, frame->body, frame->len);
    memcpy(body + frame->len, "\x7a", 2);
    crema_frame_t other = *frame;
    other.body = body;
    other.len += 2;
    crema_record_t record;
    HOLDS(crema_record_decode(&other, arena, &record) == CREMA_OK);
    const crema_batch_t *same = &record.batch;
    HOLDS(same->table == batch->table && same->rows == batch->rows && same->flags == batch->flags &&
          same->n_int_columns == batch->n_int_columns &&
          same->n_real_columns == batch->n_real_columns);
    HOLDS(batch->n_int_columns == 0 ||
          memcmp(same->ints, batch->ints,
                 batch->n_int_columns * batch->rows * sizeof *batch->ints) == 0);
    HOLDS(batch->n_real_columns == 0 ||
          memcmp(same->reals, batch->reals,
                 batch->n_real_columns * batch->rows * sizeof *batch->reals) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static crema_arena_t *arena, *second;
    if (!arena)
        HOLDS(crema_arena_new(CREMA_RECORD_ARENA_BYTES, &arena) == CREMA_OK &&
              crema_arena_new(CREMA_RECORD_ARENA_BYTES, &second) == CREMA_OK);
    if (size < CREMA_FRAME_HEADER_BYTES)
        return 0;
    const crema_frame_t frame = {.seq = crema_get_u64(data + 8),
                                 .type = crema_get_u16(data + 24),
                                 .len = (uint32_t)(size - CREMA_FRAME_HEADER_BYTES),
                                 .body = data + CREMA_FRAME_HEADER_BYTES};
    crema_record_t record;
    crema_err_t err = crema_record_decode(&frame, arena, &record);
    HOLDS(crema_arena_used(arena) <= CREMA_ARENA_FACTOR * (size_t)frame.len + CREMA_ARENA_SLACK);
    HOLDS(err == CREMA_OK || err == CREMA_EPROTO || err == CREMA_ELIMIT);
    if (err != CREMA_OK)
        return 0;
    if (record.type == CREMA_RECORD_BATCH) {
        s_look_at_rows(&record.batch);
        s_look_at_the_other_way(&frame, &record.batch, second);
    }
    s_look_again(&record, frame.seq, second);
    return 0;
}
