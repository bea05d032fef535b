#include "crema_record.h"

#include <assert.h>
#include <string.h>

#include "crema.pb-c.h"
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
s_decode_batch(const crema_frame_t *frame, ProtobufCAllocator *allocator, crema_batch_t *ret)
{
    Crema__Batch *in = crema__batch__unpack(allocator, frame->len, frame->body);
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
        err = s_decode_batch(frame, &allocator, &record.batch);
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

/* ---- rows of a batch */

/* Rows of one writer share most names, so the same number stands in series. */
static void
s_map_ids(crema_dict_map_fn map, void *context, crema_dict_t kind, const int64_t *locals,
          uint32_t n, int64_t *ret_ids)
{
    for (uint32_t r = 0; r < n; r++) {
        bool none = locals[r] < 0 || locals[r] >= UINT32_MAX;
        if (r > 0 && locals[r] == locals[r - 1])
            ret_ids[r] = ret_ids[r - 1];
        else
            ret_ids[r] = none ? locals[r] : map(context, kind, locals[r]);
    }
}

/* Column by column, as they came. */
void
crema_batch_rows(const crema_batch_t *batch, uint32_t first, uint32_t n, crema_dict_map_fn map,
                 void *context, uint8_t *rows)
{
    const crema_table_t *table = batch->table;
    const size_t row_bytes = crema_table_row_bytes(table);
    size_t n_ints = 0, n_reals = 0; /* columns passed */
    int64_t ids[CREMA_BATCH_BLOCK];
    assert(n <= CREMA_BATCH_BLOCK && first + n <= batch->rows);
    for (uint32_t r = 0; r < n; r++)
        crema_row_clear(table, rows + r * row_bytes);
    for (size_t i = 0; i < table->n_columns; i++) {
        const crema_column_t *column = &table->columns[i];
        if (column->origin == CREMA_FROM_SINK)
            continue;
        bool real = column->type == CREMA_T_F64;
        size_t at = real ? n_reals++ : n_ints++;
        bool sent = at < (real ? batch->n_real_columns : batch->n_int_columns);
        if (column->origin == CREMA_FROM_WIRE_ONLY || !sent)
            continue;
        at = at * batch->rows + first;
        if (real) {
            crema_rows_set_f64(table, rows, i, batch->reals + at, n);
            continue;
        }
        const int64_t *values = batch->ints + at;
        if (column->origin == CREMA_FROM_DICT) {
            s_map_ids(map, context, column->dict, values, n, ids);
            values = ids;
        }
        crema_rows_set_i64(table, rows, i, values, n);
    }
}

int64_t
crema_batch_int(const crema_batch_t *batch, uint32_t r, size_t column, int64_t missing)
{
    assert(batch->table->columns[column].type != CREMA_T_F64);
    int wire = crema_table_wire_index(batch->table, column);
    return wire >= 0 && (size_t)wire < batch->n_int_columns
               ? batch->ints[(size_t)wire * batch->rows + r]
               : missing;
}

double
crema_batch_real(const crema_batch_t *batch, uint32_t r, size_t column, double missing)
{
    assert(batch->table->columns[column].type == CREMA_T_F64);
    int wire = crema_table_wire_index(batch->table, column);
    return wire >= 0 && (size_t)wire < batch->n_real_columns
               ? batch->reals[(size_t)wire * batch->rows + r]
               : missing;
}
