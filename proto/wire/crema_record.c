#include "crema_record.h"

#include <string.h>

#include "crema_bytes.h"
#include "crema_wire_private.h"

/* Of all records but batches. NULL: an unknown type. */
static const ProtobufCMessageDescriptor *
s_body(crema_record_type_t type)
{
    static const ProtobufCMessageDescriptor *const c_bodies[] = {
        [CREMA_RECORD_STREAM] = &crema__stream_info__descriptor,
        [CREMA_RECORD_DICT] = &crema__dict__descriptor,
        [CREMA_RECORD_END] = &crema__end__descriptor,
        [CREMA_RECORD_LOSS] = &crema__loss__descriptor,
    };
    return (size_t)type < sizeof c_bodies / sizeof *c_bodies ? c_bodies[type] : NULL;
}

/* ---- batches, of which a run has millions. Their fields are read here if each comes once at most
 * and in the order of its number, as writers put them; protobuf-c reads all others. */

#define VARINT(field) ((field) << 3)
#define PACKED(field) ((field) << 3 | 2)
#define EIGHT_CONTINUE UINT64_C(0x8080808080808080)

/* Seven bits of each byte, the lowest first; a byte below 0x80 is the last one. Returns what
 * follows; NULL: damaged. */
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

/* Integers with the sign in the lowest bit. Each has a byte at least, so there are `bytes` of them
 * at most. NULL: damaged, or too many. */
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
        crema_arena_begin(arena, frame->len);
        in = (Crema__Batch *)crema_wire_unpack(&crema__batch__descriptor, frame->body, frame->len,
                                               arena);
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
s_keep_known(Crema__Dict *dict)
{
    size_t n = 0;
    for (size_t i = 0; i < dict->n_entries; i++)
        if (dict->entries[i]->kind < CREMA_DICT_COUNT)
            dict->entries[n++] = dict->entries[i];
    dict->n_entries = n;
}

/* Checks what a type requires of a body whose fields are sound, and replaces what is unknown
 * here. */
static bool
s_check(const crema_frame_t *frame, crema_record_t *record)
{
    const Crema__StreamInfo *stream = &record->stream;
    Crema__End *end = &record->end;
    Crema__Loss *loss = &record->loss;
    switch (record->type) {
    case CREMA_RECORD_STREAM:
        return stream->run_id.len > 0 && stream->kind <= CREMA_STREAM_CLIENT &&
               stream->n_attribute_keys == stream->n_attribute_values;
    case CREMA_RECORD_DICT:
        s_keep_known(&record->dict);
        return true;
    case CREMA_RECORD_END:
        if (end->reason != CREMA_END_FINISHED)
            end->reason = CREMA_END_WRITER_GONE;
        return true;
    case CREMA_RECORD_LOSS:
        if (loss->reason > CREMA_LOSS_DISK_FULL)
            loss->reason = CREMA_LOSS_UNKNOWN;
        return loss->first > 0 && loss->last >= loss->first && loss->last == frame->seq;
    default:
        return false;
    }
}

static crema_err_t
s_decode_other(const crema_frame_t *frame, crema_arena_t *arena, crema_record_t *ret)
{
    const ProtobufCMessageDescriptor *descriptor = s_body(ret->type);
    const ProtobufCMessage *body =
        descriptor ? crema_wire_unpack(descriptor, frame->body, frame->len, arena) : NULL;
    if (!body)
        return CREMA_EPROTO;
    memcpy(ret, body, descriptor->sizeof_message);
    return s_check(frame, ret) ? CREMA_OK : CREMA_EPROTO;
}

crema_err_t
crema_record_decode(const crema_frame_t *frame, crema_arena_t *arena, crema_record_t *ret_record)
{
    if (frame->len > CREMA_RECORD_BODY_MAX)
        return CREMA_ELIMIT;
    crema_record_t record = {.type = (crema_record_type_t)frame->type};
    crema_arena_begin(arena, frame->len);
    crema_err_t err = record.type == CREMA_RECORD_BATCH
                          ? s_decode_batch(frame, arena, &record.batch)
                          : s_decode_other(frame, arena, &record);
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
    const ProtobufCMessageDescriptor *descriptor = s_body(record->type);
    if (!descriptor)
        return CREMA_EINVAL;
    crema_record_t own = *record;
    own.base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(descriptor);
    return s_pack(&own.base, buf, size, ret_len);
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
