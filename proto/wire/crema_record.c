#include "crema_record.h"

#include <string.h>

#include "crema_bytes.h"
#include "crema_wire_private.h"

#define PLAIN crema_stream_info_t
static const crema_wire_field_t s_stream[] = {
    AT(NEED_ID, Crema__StreamInfo, run_id, run_id),
    AT(ID, Crema__StreamInfo, agent_id, agent_id),
    NUMBER(WORD, Crema__StreamInfo, kind, kind),
    AT(TEXT, Crema__StreamInfo, host, host),
    NUMBER(WORD, Crema__StreamInfo, pid, pid),
    AT(TEXT, Crema__StreamInfo, worker_uuid, worker_uuid),
    AT(TEXT, Crema__StreamInfo, worker_name, worker_name),
    NUMBER(WORD, Crema__StreamInfo, nthreads, nthreads),
    NUMBER(LONG, Crema__StreamInfo, memory_limit_b, memory_limit_b),
    NUMBER(LONG, Crema__StreamInfo, t_real_ns, t_real_ns),
    NUMBER(LONG, Crema__StreamInfo, t_mono_ns, t_mono_ns),
    AT(TEXT, Crema__StreamInfo, boot_id, boot_id),
    NUMBER(LONG, Crema__StreamInfo, t_process_ns, t_process_ns),
    LIST(TEXTS, Crema__StreamInfo, attribute_keys, attribute_keys, n_attributes),
    LIST(SAME_TEXTS, Crema__StreamInfo, attribute_values, attribute_values, n_attributes),
};
static const crema_wire_layout_t c_stream = LAYOUT(crema__stream_info__descriptor, s_stream);
#undef PLAIN

#define PLAIN crema_dict_entry_t
static const crema_wire_field_t s_entry[] = {
    NUMBER(WORD, Crema__DictEntry, kind, kind),
    NUMBER(WORD, Crema__DictEntry, id, id),
    AT(TEXT, Crema__DictEntry, text, text),
    AT(TEXT, Crema__DictEntry, uuid, uuid),
    AT(TEXT, Crema__DictEntry, host, host),
    NUMBER(WORD, Crema__DictEntry, pid, pid),
    NUMBER(WORD, Crema__DictEntry, nthreads, nthreads),
    NUMBER(LONG, Crema__DictEntry, memory_limit_b, memory_limit_b),
    NUMBER(WORD, Crema__DictEntry, parent, parent),
    NUMBER(LONG, Crema__DictEntry, size_b, size_b),
    NUMBER(LONG, Crema__DictEntry, n_entries, n_entries),
    NUMBER(LONG, Crema__DictEntry, tree_b, tree_b),
    NUMBER(LONG, Crema__DictEntry, n_branches, n_branches),
};
static const crema_wire_layout_t c_entry = LAYOUT(crema__dict_entry__descriptor, s_entry);
#undef PLAIN

#define PLAIN crema_dict_entries_t
static const crema_wire_field_t s_dict[] = {
    LIST(ROWS, Crema__Dict, entries, entries, n, .rows = &c_entry),
};
static const crema_wire_layout_t c_dict = LAYOUT(crema__dict__descriptor, s_dict);
#undef PLAIN

#define PLAIN crema_end_t
static const crema_wire_field_t s_end[] = {
    NUMBER(WORD, Crema__End, reason, reason),
    NUMBER(LONG, Crema__End, torn_bytes, torn_bytes),
    NUMBER(LONG, Crema__End, dropped, dropped),
};
static const crema_wire_layout_t c_end = LAYOUT(crema__end__descriptor, s_end);
#undef PLAIN

#define PLAIN crema_loss_t
static const crema_wire_field_t s_loss[] = {
    NUMBER(LONG, Crema__Loss, first, first),         NUMBER(LONG, Crema__Loss, last, last),
    NUMBER(WORD, Crema__Loss, reason, reason),       NUMBER(LONG, Crema__Loss, bytes, bytes),
    NUMBER(LONG, Crema__Loss, t_real_ns, t_real_ns),
};
static const crema_wire_layout_t c_loss = LAYOUT(crema__loss__descriptor, s_loss);
#undef PLAIN

/* Of all records but batches. NULL: an unknown type. */
static const crema_wire_layout_t *
s_layout(crema_record_type_t type)
{
    static const crema_wire_layout_t *const c_layouts[] = {
        [CREMA_RECORD_STREAM] = &c_stream,
        [CREMA_RECORD_DICT] = &c_dict,
        [CREMA_RECORD_END] = &c_end,
        [CREMA_RECORD_LOSS] = &c_loss,
    };
    return (size_t)type < sizeof c_layouts / sizeof *c_layouts ? c_layouts[type] : NULL;
}

/* ---- batches, of which a run has millions. Their fields are read here if each comes once at most and in the order of its
 * number, as writers put them; protobuf-c reads all others. */

#define VARINT(field) ((field) << 3)
#define PACKED(field) ((field) << 3 | 2)
#define EIGHT_CONTINUE UINT64_C(0x8080808080808080)

/* Seven bits of each byte, the lowest first; a byte below 0x80 is the last one. Returns what follows; NULL: damaged. */
static inline const uint8_t *
s_varint(const uint8_t *at, const uint8_t *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    unsigned shift = 0;
    if (end - at >= 8) { /* the first eight at once: into pairs, fours, one number */
        const uint64_t word = crema_get_u64(at), last = ~word & EIGHT_CONTINUE;
        value = word & ~EIGHT_CONTINUE & (last ^ (last - 1));
        value = (value & 0x00ff00ff00ff00ff) | (value & 0xff00ff00ff00ff00) >> 1;
        value = (value & 0x0000ffff0000ffff) | (value & 0xffff0000ffff0000) >> 2;
        value = (value & 0x00000000ffffffff) | value >> 32 << 28;
        if (last) {
            *ret_value = value;
            return at + __builtin_ctzll(last) / 8 + 1;
        }
        at += 8;
        shift = 56;
    }
    for (; at < end && shift < 70; shift += 7) {
        uint64_t byte = *at++;
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return at;
        }
    }
    return NULL;
}

/* Integers with the sign in the lowest bit. Each has a byte at least, so there are `bytes` of them at most. NULL: damaged, or too many. */
static int64_t *
s_unpack_ints(const uint8_t *at, uint64_t bytes, crema_arena_t *arena, size_t *ret_n)
{
    const uint8_t *end = at + bytes;
    int64_t *ints = crema_arena_room(arena, bytes * sizeof *ints), *next = ints;
    while (ints && at && at < end) {
        uint64_t value = end - at >= 8 ? crema_get_u64(at) : EIGHT_CONTINUE;
        if (!(value & EIGHT_CONTINUE)) { /* eight small ones, which stand in series */
            value = (value >> 1 & 0x3f3f3f3f3f3f3f3f) ^ (value & 0x0101010101010101) * 0xff;
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++)
                next[i] = (int64_t)(value << (56 - 8 * i)) >> 56;
            next += 8;
            at += 8;
        } else {
            at = s_varint(at, end, &value);
            *next++ = (int64_t)(value >> 1 ^ -(value & 1));
        }
    }
    *ret_n = (size_t)(next - ints);
    return at ? ints : NULL;
}

static void *
s_copy(const uint8_t *at, uint64_t bytes, crema_arena_t *arena, size_t *ret_n)
{
    void *numbers = bytes % 8 == 0 ? crema_arena_room(arena, bytes) : NULL;
    *ret_n = bytes / 8;
    return numbers ? memcpy(numbers, at, bytes) : NULL;
}

static bool
s_read_batch(const crema_frame_t *frame, crema_arena_t *arena, Crema__Batch *in)
{
    const uint8_t *at = frame->body, *end = at + frame->len;
    uint64_t value; /* of a field, or the number of its bytes */
    for (unsigned tag, before = 0; at < end; before = tag) {
        tag = *at++;
        at = s_varint(at, end, &value);
        bool is_packed = (tag & 7) == 2, is_read = true;
        if (!at || tag <= before || value > (is_packed ? (size_t)(end - at) : frame->len))
            return false;
        switch (tag) {
        case VARINT(1):
            in->table = (uint32_t)value;
            break;
        case VARINT(2):
            in->rows = (uint32_t)value;
            break;
        case PACKED(3):
            is_read = (in->ints = s_unpack_ints(at, value, arena, &in->n_ints));
            break;
        case PACKED(4):
            is_read = (in->reals = s_copy(at, value, arena, &in->n_reals));
            break;
        case VARINT(5):
            in->flags = (uint32_t)value;
            break;
        case PACKED(6):
            is_read = (in->fixed_ints = s_copy(at, value, arena, &in->n_fixed_ints));
            break;
        default:
            is_read = false;
        }
        if (!is_read)
            return false;
        at += is_packed ? value : 0;
    }
    return true;
}

/* Number of columns in a list of `values` numbers; false if it is not a whole number. */
static bool
s_count_columns(size_t values, uint32_t rows, size_t known, size_t *ret_columns)
{
    if (rows == 0 || values % rows != 0)
        return false;
    *ret_columns = values / rows < known ? values / rows : known;
    return true;
}

static crema_err_t
s_decode_batch(const crema_frame_t *frame, crema_arena_t *arena, crema_batch_t *ret)
{
    Crema__Batch usual = CREMA__BATCH__INIT, *in = &usual;
    if (!s_read_batch(frame, arena, &usual)) {
        ProtobufCAllocator allocator = crema_wire_allocator(arena);
        crema_arena_begin(arena, frame->len);
        in = crema__batch__unpack(&allocator, frame->len, frame->body);
    }
    if (!in || in->table >= CREMA_TABLE_WIRE_COUNT)
        return CREMA_EPROTO;
    if (in->rows > CREMA_BATCH_ROWS_MAX)
        return CREMA_ELIMIT;
    const crema_table_t *table = crema_table((crema_table_id_t)in->table);
    size_t ints, reals;
    crema_table_wire_columns(table, &ints, &reals);
    bool fixed = in->n_fixed_ints > 0;
    if ((fixed && in->n_ints > 0) ||
        !s_count_columns(fixed ? in->n_fixed_ints : in->n_ints, in->rows, ints,
                         &ret->n_int_columns) ||
        !s_count_columns(in->n_reals, in->rows, reals, &ret->n_real_columns))
        return CREMA_EPROTO;
    if (ret->n_int_columns + ret->n_real_columns ==
        0) /* without columns, rows would cost no bytes */
        return CREMA_EPROTO;
    ret->table = table;
    ret->rows = in->rows;
    ret->flags = in->flags;
    ret->ints = fixed ? in->fixed_ints : in->ints;
    ret->reals = in->reals;
    return CREMA_OK;
}

/* ---- the other records */

/* Leaves out entries of dictionaries that are unknown here. */
static void
s_keep_known(crema_dict_entries_t *dict)
{
    crema_dict_entry_t *entries = (crema_dict_entry_t *)dict->entries;
    size_t n = 0;
    for (size_t i = 0; i < dict->n; i++)
        if ((unsigned)entries[i].kind < CREMA_DICT_COUNT)
            entries[n++] = entries[i];
    dict->n = n;
}

/* Checks what the tables cannot, and replaces what is unknown here. */
static bool
s_check(const crema_frame_t *frame, crema_record_t *record)
{
    crema_end_t *end = &record->end;
    crema_loss_t *loss = &record->loss;
    switch (record->type) {
    case CREMA_RECORD_STREAM:
        return (unsigned)record->stream.kind <= CREMA_STREAM_CLIENT;
    case CREMA_RECORD_DICT:
        s_keep_known(&record->dict);
        return true;
    case CREMA_RECORD_END:
        if (end->reason != CREMA_END_FINISHED)
            end->reason = CREMA_END_WRITER_GONE;
        return true;
    case CREMA_RECORD_LOSS:
        if ((unsigned)loss->reason > CREMA_LOSS_DISK_FULL)
            loss->reason = CREMA_LOSS_UNKNOWN;
        return loss->first > 0 && loss->last >= loss->first && loss->last == frame->seq;
    default:
        return false;
    }
}

crema_err_t
crema_record_decode(const crema_frame_t *frame, crema_arena_t *arena, crema_record_t *ret_record)
{
    if (frame->len > CREMA_RECORD_BODY_MAX)
        return CREMA_ELIMIT;
    crema_record_t record = {.type = (crema_record_type_t)frame->type};
    const crema_wire_layout_t *layout = s_layout(record.type);
    crema_err_t err = CREMA_EPROTO;
    crema_arena_begin(arena, frame->len);
    if (record.type == CREMA_RECORD_BATCH)
        err = s_decode_batch(frame, arena, &record.batch);
    else if (layout && crema_wire_unpack(layout, frame->body, frame->len, arena, &record.stream) &&
             s_check(frame, &record))
        err = CREMA_OK;
    if (err != CREMA_OK)
        return crema_arena_refused(arena) ? CREMA_ELIMIT : err;
    *ret_record = record;
    return CREMA_OK;
}

/* ---- encoding */

/* Packs a body behind the header of the frame at `buf`. */
static crema_err_t
s_pack(const ProtobufCMessage *message, uint8_t *buf, size_t size, uint32_t *ret_len)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    if (size < CREMA_FRAME_HEADER_BYTES || len > size - CREMA_FRAME_HEADER_BYTES ||
        len > CREMA_RECORD_BODY_MAX)
        return CREMA_ELIMIT;
    *ret_len = (uint32_t)protobuf_c_message_pack(message, buf + CREMA_FRAME_HEADER_BYTES);
    return CREMA_OK;
}

static crema_err_t
s_encode_batch(const crema_batch_t *batch, uint8_t *buf, size_t size, uint32_t *ret_len)
{
    if (batch->rows > CREMA_BATCH_ROWS_MAX)
        return CREMA_ELIMIT;
    size_t ints, reals;
    crema_table_wire_columns(batch->table, &ints, &reals);
    if (batch->rows == 0 || batch->table->id >= CREMA_TABLE_WIRE_COUNT ||
        batch->n_int_columns > ints || batch->n_real_columns > reals)
        return CREMA_EINVAL;
    Crema__Batch out = CREMA__BATCH__INIT;
    out.table = batch->table->id;
    out.rows = batch->rows;
    out.flags = batch->flags;
    out.n_ints = batch->n_int_columns * batch->rows;
    out.ints = (int64_t *)batch->ints;
    out.n_reals = batch->n_real_columns * batch->rows;
    out.reals = (double *)batch->reals;
    return s_pack(&out.base, buf, size, ret_len);
}

static crema_err_t
s_encode_other(const crema_record_t *record, uint8_t *buf, size_t size, uint32_t *ret_len)
{
    const crema_wire_layout_t *layout = s_layout(record->type);
    if (!layout)
        return CREMA_EINVAL;
    crema_wire_body_t body;
    crema_wire_encoder_t encoder = {0};
    crema_wire_fill(&encoder, layout, &record->stream, &body);
    crema_err_t err =
        encoder.err == CREMA_OK ? s_pack(&body.base, buf, size, ret_len) : encoder.err;
    crema_arena_destroy(&encoder.scratch);
    return err;
}

/* Field 1 comes first and is omitted when it is 0. */
bool
crema_record_is_batch_of(const crema_frame_t *frame, crema_table_id_t table)
{
    if (frame->type != CREMA_RECORD_BATCH)
        return false;
    bool has_table = frame->len >= 2 && frame->body[0] == 1 << 3;
    return (has_table ? frame->body[1] : 0u) == (unsigned)table;
}

crema_err_t
crema_record_encode(const crema_record_t *record, uint64_t seq, int64_t t_ns, uint8_t *buf,
                    size_t size, size_t *ret_bytes)
{
    crema_frame_t frame = {
        .seq = seq,
        .t_ns = t_ns,
        .type = (uint16_t)record->type,
        .body = buf + CREMA_FRAME_HEADER_BYTES,
    };
    crema_err_t err = record->type == CREMA_RECORD_BATCH
                          ? s_encode_batch(&record->batch, buf, size, &frame.len)
                          : s_encode_other(record, buf, size, &frame.len);
    if (err != CREMA_OK)
        return err;
    crema_frame_encode(&frame, buf);
    *ret_bytes = crema_frame_bytes(&frame);
    return CREMA_OK;
}
