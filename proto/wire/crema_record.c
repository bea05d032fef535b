#include "crema_record.h"

#include <string.h>

#include "crema.pb-c.h"
#include "crema_bytes.h"
#include "crema_protobuf.h"

/* ---- decoding: protobuf-c and the plain structs take their memory from the arena */

static crema_err_t
s_decode_stream(const crema_frame_t *frame, ProtobufCAllocator *allocator, crema_stream_info_t *ret)
{
    Crema__StreamInfo *in = crema__stream_info__unpack(allocator, frame->len, frame->body);
    if (!in || !crema_protobuf_take_id(&in->run_id, &ret->run_id) ||
        crema_id_is_zero(&ret->run_id) || !crema_protobuf_take_id(&in->agent_id, &ret->agent_id) ||
        in->kind > CREMA_STREAM_CLIENT || in->n_attribute_keys != in->n_attribute_values)
        return CREMA_EPROTO;
    if (!crema_protobuf_is_text(in->host) || !crema_protobuf_is_text(in->worker_uuid) ||
        !crema_protobuf_is_text(in->worker_name) || !crema_protobuf_is_text(in->boot_id))
        return CREMA_EPROTO;
    for (size_t i = 0; i < in->n_attribute_keys; i++)
        if (!crema_protobuf_is_text(in->attribute_keys[i]) ||
            !crema_protobuf_is_text(in->attribute_values[i]))
            return CREMA_EPROTO;
    ret->kind = (crema_stream_kind_t)in->kind;
    ret->host = in->host;
    ret->pid = in->pid;
    ret->worker_uuid = in->worker_uuid;
    ret->worker_name = in->worker_name;
    ret->nthreads = in->nthreads;
    ret->memory_limit_b = in->memory_limit_b;
    ret->t_real_ns = in->t_real_ns;
    ret->t_mono_ns = in->t_mono_ns;
    ret->boot_id = in->boot_id;
    ret->n_attributes = in->n_attribute_keys;
    ret->attribute_keys = (const char *const *)in->attribute_keys;
    ret->attribute_values = (const char *const *)in->attribute_values;
    return CREMA_OK;
}

static crema_err_t
s_decode_dict(const crema_frame_t *frame, crema_arena_t *arena, ProtobufCAllocator *allocator,
              crema_record_t *ret)
{
    Crema__Dict *in = crema__dict__unpack(allocator, frame->len, frame->body);
    if (!in)
        return CREMA_EPROTO;
    crema_dict_entry_t *entries = crema_arena_take(arena, in->n_entries * sizeof *entries);
    if (!entries)
        return CREMA_ELIMIT;
    size_t n = 0;
    for (size_t i = 0; i < in->n_entries; i++) {
        const Crema__DictEntry *entry = in->entries[i];
        if (entry->kind >= CREMA_DICT_COUNT)
            continue;
        if (!crema_protobuf_is_text(entry->text) || !crema_protobuf_is_text(entry->uuid) ||
            !crema_protobuf_is_text(entry->host))
            return CREMA_EPROTO;
        entries[n++] = (crema_dict_entry_t){
            .kind = (crema_dict_t)entry->kind,
            .id = entry->id,
            .text = entry->text,
            .uuid = entry->uuid,
            .host = entry->host,
            .pid = entry->pid,
            .nthreads = entry->nthreads,
            .memory_limit_b = entry->memory_limit_b,
            .parent = entry->parent,
            .size_b = entry->size_b,
            .n_entries = entry->n_entries,
            .tree_b = entry->tree_b,
            .n_branches = entry->n_branches,
        };
    }
    ret->dict.n = n;
    ret->dict.entries = entries;
    return CREMA_OK;
}

/* ---- batches, of which a run has millions. Their fields are read here if each comes once at most and in the order of its
 * number, as writers put them; protobuf-c reads all others. */

#define VARINT(field) ((field) << 3)
#define PACKED(field) ((field) << 3 | 2)
#define EIGHT_CONTINUE UINT64_C(0x8080808080808080)

/* Seven bits of each byte, the lowest first; a byte below 0x80 is the last one. Returns what follows; NULL: damaged. */
static const uint8_t *
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
            for (int i = 0; i < 8; i++)
                *next++ = (int64_t)(value << (56 - 8 * i)) >> 56;
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
s_decode_batch(const crema_frame_t *frame, crema_arena_t *arena, ProtobufCAllocator *allocator,
               crema_batch_t *ret)
{
    Crema__Batch usual = CREMA__BATCH__INIT, *in = &usual;
    if (!s_read_batch(frame, arena, &usual)) {
        crema_arena_begin(arena, frame->len);
        in = crema__batch__unpack(allocator, frame->len, frame->body);
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

static crema_err_t
s_decode_end(const crema_frame_t *frame, ProtobufCAllocator *allocator, crema_end_t *ret)
{
    Crema__End *in = crema__end__unpack(allocator, frame->len, frame->body);
    if (!in)
        return CREMA_EPROTO;
    ret->reason = in->reason == CREMA_END_FINISHED ? CREMA_END_FINISHED : CREMA_END_WRITER_GONE;
    ret->torn_bytes = in->torn_bytes;
    ret->dropped = in->dropped;
    return CREMA_OK;
}

static crema_err_t
s_decode_loss(const crema_frame_t *frame, ProtobufCAllocator *allocator, crema_loss_t *ret)
{
    Crema__Loss *in = crema__loss__unpack(allocator, frame->len, frame->body);
    if (!in || in->first == 0 || in->last < in->first || in->last != frame->seq)
        return CREMA_EPROTO;
    ret->first = in->first;
    ret->last = in->last;
    ret->reason =
        in->reason <= CREMA_LOSS_DISK_FULL ? (crema_loss_reason_t)in->reason : CREMA_LOSS_UNKNOWN;
    ret->bytes = in->bytes;
    ret->t_real_ns = in->t_real_ns;
    return CREMA_OK;
}

crema_err_t
crema_record_decode(const crema_frame_t *frame, crema_arena_t *arena, crema_record_t *ret_record)
{
    if (frame->len > CREMA_RECORD_BODY_MAX)
        return CREMA_ELIMIT;
    ProtobufCAllocator allocator = crema_protobuf_allocator(arena);
    crema_record_t record = {.type = (crema_record_type_t)frame->type};
    crema_err_t err = CREMA_EPROTO;
    crema_arena_begin(arena, frame->len);
    switch (record.type) {
    case CREMA_RECORD_STREAM:
        err = s_decode_stream(frame, &allocator, &record.stream);
        break;
    case CREMA_RECORD_DICT:
        err = s_decode_dict(frame, arena, &allocator, &record);
        break;
    case CREMA_RECORD_BATCH:
        err = s_decode_batch(frame, arena, &allocator, &record.batch);
        break;
    case CREMA_RECORD_END:
        err = s_decode_end(frame, &allocator, &record.end);
        break;
    case CREMA_RECORD_LOSS:
        err = s_decode_loss(frame, &allocator, &record.loss);
        break;
    }
    if (err != CREMA_OK)
        return crema_arena_refused(arena) ? CREMA_ELIMIT : err;
    *ret_record = record;
    return CREMA_OK;
}

/* ---- encoding: protobuf-c's structs borrow everything, hence the casts that drop const */

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
s_encode_stream(const crema_stream_info_t *info, uint8_t *buf, size_t size, uint32_t *ret_len)
{
    Crema__StreamInfo out = CREMA__STREAM_INFO__INIT;
    out.run_id = crema_protobuf_id(&info->run_id);
    out.agent_id = crema_protobuf_id(&info->agent_id);
    out.kind = info->kind;
    out.host = crema_protobuf_text(info->host);
    out.pid = info->pid;
    out.worker_uuid = crema_protobuf_text(info->worker_uuid);
    out.worker_name = crema_protobuf_text(info->worker_name);
    out.nthreads = info->nthreads;
    out.memory_limit_b = info->memory_limit_b;
    out.t_real_ns = info->t_real_ns;
    out.t_mono_ns = info->t_mono_ns;
    out.boot_id = crema_protobuf_text(info->boot_id);
    out.n_attribute_keys = info->n_attributes;
    out.n_attribute_values = info->n_attributes;
    out.attribute_keys = (char **)info->attribute_keys;
    out.attribute_values = (char **)info->attribute_values;
    return s_pack(&out.base, buf, size, ret_len);
}

static void
s_fill_entry(const crema_dict_entry_t *entry, Crema__DictEntry *out)
{
    crema__dict_entry__init(out);
    out->kind = entry->kind;
    out->id = entry->id;
    out->text = crema_protobuf_text(entry->text);
    out->uuid = crema_protobuf_text(entry->uuid);
    out->host = crema_protobuf_text(entry->host);
    out->pid = entry->pid;
    out->nthreads = entry->nthreads;
    out->memory_limit_b = entry->memory_limit_b;
    out->parent = entry->parent;
    out->size_b = entry->size_b;
    out->n_entries = entry->n_entries;
    out->tree_b = entry->tree_b;
    out->n_branches = entry->n_branches;
}

static crema_err_t
s_encode_dict(const crema_record_t *record, uint8_t *buf, size_t size, uint32_t *ret_len)
{
    size_t n = record->dict.n;
    if (n > CREMA_RECORD_BODY_MAX) /* an entry takes at least two bytes */
        return CREMA_ELIMIT;
    crema_arena_t *scratch = NULL;
    crema_err_t err =
        crema_arena_new(64 + n * (sizeof(Crema__DictEntry) + sizeof(void *)), &scratch);
    if (err != CREMA_OK)
        return err;
    Crema__DictEntry **pointers = crema_arena_take(scratch, n * sizeof *pointers);
    Crema__DictEntry *entries = crema_arena_take(scratch, n * sizeof *entries);
    for (size_t i = 0; pointers && entries && i < n; i++) {
        s_fill_entry(&record->dict.entries[i], &entries[i]);
        pointers[i] = &entries[i];
    }
    Crema__Dict out = CREMA__DICT__INIT;
    out.n_entries = n;
    out.entries = pointers;
    err = pointers && entries ? s_pack(&out.base, buf, size, ret_len) : CREMA_ENOMEM;
    crema_arena_destroy(&scratch);
    return err;
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
s_encode_end(const crema_end_t *end, uint8_t *buf, size_t size, uint32_t *ret_len)
{
    Crema__End out = CREMA__END__INIT;
    out.reason = end->reason;
    out.torn_bytes = end->torn_bytes;
    out.dropped = end->dropped;
    return s_pack(&out.base, buf, size, ret_len);
}

static crema_err_t
s_encode_loss(const crema_loss_t *loss, uint8_t *buf, size_t size, uint32_t *ret_len)
{
    Crema__Loss out = CREMA__LOSS__INIT;
    out.first = loss->first;
    out.last = loss->last;
    out.reason = loss->reason;
    out.bytes = loss->bytes;
    out.t_real_ns = loss->t_real_ns;
    return s_pack(&out.base, buf, size, ret_len);
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
    crema_err_t err = CREMA_EINVAL;
    switch (record->type) {
    case CREMA_RECORD_STREAM:
        err = s_encode_stream(&record->stream, buf, size, &frame.len);
        break;
    case CREMA_RECORD_DICT:
        err = s_encode_dict(record, buf, size, &frame.len);
        break;
    case CREMA_RECORD_BATCH:
        err = s_encode_batch(&record->batch, buf, size, &frame.len);
        break;
    case CREMA_RECORD_END:
        err = s_encode_end(&record->end, buf, size, &frame.len);
        break;
    case CREMA_RECORD_LOSS:
        err = s_encode_loss(&record->loss, buf, size, &frame.len);
        break;
    }
    if (err != CREMA_OK)
        return err;
    crema_frame_encode(&frame, buf);
    *ret_bytes = crema_frame_bytes(&frame);
    return CREMA_OK;
}
