/* The fields of a body: from protobuf-c's struct to the plain one, checked, and back. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "crema_utf8.h"
#include "crema_wire_private.h"

/* ---- memory for decoding, which is released as a whole */

static void *
s_alloc(void *arena, size_t size)
{
    return crema_arena_take(arena, size);
}

static void
s_free(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

ProtobufCAllocator
crema_wire_allocator(crema_arena_t *arena)
{
    return (ProtobufCAllocator){s_alloc, s_free, arena};
}

/* Pointers are copied as bytes since their types differ, at least in const. */
static void *
s_load(const void *at)
{
    void *pointer;
    memcpy(&pointer, at, sizeof pointer);
    return pointer;
}

static void
s_store(void *at, const void *pointer)
{
    memcpy(at, &pointer, sizeof pointer);
}

/* ---- decoding a field: false refuses the message */

static bool
s_is_text(const char *text)
{
    return crema_utf8_valid(text, strlen(text));
}

/* True if the field holds an id; a zero id is encoded as an empty field. */
static bool
s_get_id(const ProtobufCBinaryData *field, crema_id_t *ret_id)
{
    memset(ret_id, 0, sizeof *ret_id);
    if (field->len == CREMA_ID_BYTES)
        memcpy(ret_id->bytes, field->data, CREMA_ID_BYTES);
    return field->len == CREMA_ID_BYTES || field->len == 0;
}

static bool
s_are_texts(size_t n, char *const *texts)
{
    for (size_t i = 0; i < n; i++)
        if (!s_is_text(texts[i]))
            return false;
    return true;
}

/* A column is as long as the table, or missing. */
static bool
s_fits(size_t column, size_t rows)
{
    return column == 0 || column == rows;
}

static bool
s_get_table(const Crema__StreamTable *in, crema_arena_t *arena, crema_stream_table_t *ret)
{
    if (!in)
        return true;
    size_t n = in->stream_ids.len / CREMA_ID_BYTES;
    if (in->stream_ids.len % CREMA_ID_BYTES != 0 || n > CREMA_WIRE_TABLE_ROWS_MAX ||
        !s_fits(in->run_ids.len, n * CREMA_ID_BYTES) || !s_fits(in->n_first_avail, n) ||
        !s_fits(in->n_hi, n) || !s_fits(in->n_committed, n) || !s_fits(in->n_recv_next, n) ||
        !s_fits(in->n_flags, n) || !s_fits(in->n_users, n))
        return false;
    crema_stream_row_t *rows = crema_arena_take(arena, n * sizeof *rows);
    if (!rows)
        return false;
    for (size_t i = 0; i < n; i++) {
        memcpy(rows[i].stream_id.bytes, in->stream_ids.data + i * CREMA_ID_BYTES, CREMA_ID_BYTES);
        if (in->run_ids.len)
            memcpy(rows[i].run_id.bytes, in->run_ids.data + i * CREMA_ID_BYTES, CREMA_ID_BYTES);
        rows[i].first_avail = in->n_first_avail ? in->first_avail[i] : 0;
        rows[i].hi = in->n_hi ? in->hi[i] : 0;
        rows[i].committed = in->n_committed ? in->committed[i] : 0;
        rows[i].recv_next = in->n_recv_next ? in->recv_next[i] : 0;
        rows[i].flags = in->n_flags ? in->flags[i] : 0;
        rows[i].user = in->n_users ? in->users[i] : 0;
    }
    ret->n = n;
    ret->rows = rows;
    return true;
}

static bool
s_get_key(const ProtobufCBinaryData *wire, uint8_t plain[CREMA_WIRE_KEY_BYTES])
{
    if (wire->len == CREMA_WIRE_KEY_BYTES)
        memcpy(plain, wire->data, CREMA_WIRE_KEY_BYTES);
    return wire->len == 0 || wire->len == CREMA_WIRE_KEY_BYTES;
}

static bool s_get_fields(const crema_wire_layout_t *layout, const uint8_t *body,
                         crema_arena_t *arena, uint8_t *plain);

static bool
s_get_rows(const crema_wire_layout_t *layout, size_t n, uint8_t *const *in, crema_arena_t *arena,
           size_t *ret_n, void *ret_rows)
{
    uint8_t *rows = crema_arena_take(arena, n * layout->plain_bytes);
    if (!rows)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!s_get_fields(layout, in[i], arena, rows + i * layout->plain_bytes))
            return false;
    *ret_n = n;
    s_store(ret_rows, rows);
    return true;
}

/* Copies a field of a decoded body. */
static bool
s_get_field(const crema_wire_field_t *field, const uint8_t *body, crema_arena_t *arena,
            uint8_t *msg)
{
    const void *wire = body + field->wire;
    void *plain = msg + field->plain;
    const size_t *wire_n = (const size_t *)(body + field->wire_n);
    size_t *plain_n = (size_t *)(msg + field->plain_n);
    switch (field->how) {
    case WORD:
        memcpy(plain, wire, 4);
        return true;
    case LONG:
        memcpy(plain, wire, 8);
        return true;
    case FLAG:
        *(bool *)plain = *(const protobuf_c_boolean *)wire != 0;
        return true;
    case ID:
        return s_get_id(wire, plain);
    case NEED_ID:
        return s_get_id(wire, plain) && !crema_id_is_zero(plain);
    case KEY:
        return s_get_key(wire, plain);
    case TEXT:
        s_store(plain, s_load(wire));
        return s_is_text(s_load(wire));
    case FRAMES:
        s_store(plain, ((const ProtobufCBinaryData *)wire)->data);
        *plain_n = ((const ProtobufCBinaryData *)wire)->len;
        return *plain_n <= CREMA_WIRE_BATCH_MAX;
    case SAME_TEXTS:
        if (*wire_n != *plain_n)
            return false;
        /* fall through */
    case TEXTS:
        s_store(plain, s_load(wire));
        *plain_n = *wire_n;
        return s_are_texts(*wire_n, s_load(wire));
    case ROWS:
        return s_get_rows(field->rows, *wire_n, s_load(wire), arena, plain_n, plain);
    case TABLE:
        return s_get_table(s_load(wire), arena, plain);
    }
    return false;
}

static bool
s_get_fields(const crema_wire_layout_t *layout, const uint8_t *body, crema_arena_t *arena,
             uint8_t *plain)
{
    for (size_t i = 0; i < layout->n_fields; i++)
        if (!s_get_field(&layout->fields[i], body, arena, plain))
            return false;
    return true;
}

bool
crema_wire_unpack(const crema_wire_layout_t *layout, const uint8_t *bytes, size_t size,
                  crema_arena_t *arena, void *plain)
{
    ProtobufCAllocator allocator = crema_wire_allocator(arena);
    const ProtobufCMessage *body =
        protobuf_c_message_unpack(layout->descriptor, &allocator, size, bytes);
    return body && s_get_fields(layout, (const uint8_t *)body, arena, plain);
}

/* ---- encoding a field: protobuf-c's structs borrow what they can, hence the casts that drop
 * const; the rest is in the scratch arena, sized for the table or list of rows at the start
 * of a message and the faults that may follow */

#define FAULTS_BYTES (CREMA_WIRE_FAULTS_MAX * (sizeof(Crema__Reason) + sizeof(Crema__Reason *)))

static void *
s_scratch(crema_wire_encoder_t *self, size_t bytes)
{
    void *memory = NULL;
    if (self->err == CREMA_OK && !self->scratch)
        self->err = crema_arena_new(bytes + FAULTS_BYTES + 64, &self->scratch);
    if (self->err == CREMA_OK)
        memory = crema_arena_take(self->scratch, bytes);
    return memory;
}

/* Length of a column: one that is entirely zero is omitted. */
static size_t
s_column_length(uint64_t any, size_t n)
{
    return any ? n : 0;
}

static Crema__StreamTable *
s_put_table(crema_wire_encoder_t *self, const crema_stream_table_t *in)
{
    const size_t n = in->n;
    const size_t row_bytes = 2 * CREMA_ID_BYTES + 4 * sizeof(uint64_t) + 2 * sizeof(uint32_t);
    if (n > CREMA_WIRE_TABLE_ROWS_MAX)
        self->err = CREMA_ELIMIT;
    if (n == 0 || self->err != CREMA_OK)
        return NULL;
    Crema__StreamTable *out = s_scratch(self, sizeof *out + n * row_bytes);
    if (!out)
        return NULL;
    crema__stream_table__init(out);
    out->first_avail = (uint64_t *)(out + 1);
    out->hi = out->first_avail + n;
    out->committed = out->hi + n;
    out->recv_next = out->committed + n;
    out->flags = (uint32_t *)(out->recv_next + n);
    out->users = out->flags + n;
    out->stream_ids.data = (uint8_t *)(out->users + n);
    out->run_ids.data = out->stream_ids.data + n * CREMA_ID_BYTES;
    crema_stream_row_t any = {0};
    bool any_run = false;
    for (size_t i = 0; i < n; i++) {
        const crema_stream_row_t *row = &in->rows[i];
        memcpy(out->stream_ids.data + i * CREMA_ID_BYTES, row->stream_id.bytes, CREMA_ID_BYTES);
        memcpy(out->run_ids.data + i * CREMA_ID_BYTES, row->run_id.bytes, CREMA_ID_BYTES);
        any_run |= !crema_id_is_zero(&row->run_id);
        any.first_avail |= out->first_avail[i] = row->first_avail;
        any.hi |= out->hi[i] = row->hi;
        any.committed |= out->committed[i] = row->committed;
        any.recv_next |= out->recv_next[i] = row->recv_next;
        any.flags |= out->flags[i] = row->flags;
        any.user |= out->users[i] = row->user;
    }
    out->stream_ids.len = n * CREMA_ID_BYTES;
    out->run_ids.len = any_run ? n * CREMA_ID_BYTES : 0;
    out->n_first_avail = s_column_length(any.first_avail, n);
    out->n_hi = s_column_length(any.hi, n);
    out->n_committed = s_column_length(any.committed, n);
    out->n_recv_next = s_column_length(any.recv_next, n);
    out->n_flags = s_column_length(any.flags, n);
    out->n_users = s_column_length(any.user, n);
    return out;
}

static void s_put_fields(crema_wire_encoder_t *self, const crema_wire_layout_t *layout,
                         const uint8_t *plain, ProtobufCMessage *body);

static void *
s_put_rows(crema_wire_encoder_t *self, const crema_wire_layout_t *layout, size_t n,
           const uint8_t *in)
{
    const size_t wire_bytes = layout->descriptor->sizeof_message;
    if (n > CREMA_WIRE_MESSAGE_MAX) /* a row takes at least two bytes */
        self->err = CREMA_ELIMIT;
    if (n == 0 || self->err != CREMA_OK)
        return NULL;
    void **pointers = s_scratch(self, n * (sizeof *pointers + wire_bytes));
    if (!pointers)
        return NULL;
    uint8_t *out = (uint8_t *)(pointers + n);
    for (size_t i = 0; i < n; i++) {
        pointers[i] = out + i * wire_bytes;
        s_put_fields(self, layout, in + i * layout->plain_bytes, pointers[i]);
    }
    return pointers;
}

bool
crema_wire_is_key(const uint8_t key[CREMA_WIRE_KEY_BYTES])
{
    static const uint8_t c_none[CREMA_WIRE_KEY_BYTES];
    return memcmp(key, c_none, sizeof c_none) != 0;
}

static void
s_put_bytes(const void *plain, size_t size, ProtobufCBinaryData *wire)
{
    wire->data = size ? (uint8_t *)plain : NULL;
    wire->len = size;
}

static void
s_put_field(crema_wire_encoder_t *self, const crema_wire_field_t *field, const uint8_t *msg,
            uint8_t *body)
{
    const void *plain = msg + field->plain;
    void *wire = body + field->wire;
    const size_t *plain_n = (const size_t *)(msg + field->plain_n);
    size_t *wire_n = (size_t *)(body + field->wire_n);
    switch (field->how) {
    case WORD:
        memcpy(wire, plain, 4);
        break;
    case LONG:
        memcpy(wire, plain, 8);
        break;
    case FLAG:
        *(protobuf_c_boolean *)wire = *(const bool *)plain;
        break;
    case ID:
    case NEED_ID:
        s_put_bytes(plain, crema_id_is_zero(plain) ? 0 : CREMA_ID_BYTES, wire);
        break;
    case KEY:
        s_put_bytes(plain, crema_wire_is_key(plain) ? CREMA_WIRE_KEY_BYTES : 0, wire);
        break;
    case TEXT:
        s_store(wire, s_load(plain) ? s_load(plain) : "");
        break;
    case FRAMES:
        if (*plain_n > CREMA_WIRE_BATCH_MAX)
            self->err = CREMA_ELIMIT;
        s_put_bytes(s_load(plain), *plain_n, wire);
        break;
    case TEXTS:
    case SAME_TEXTS:
        s_store(wire, s_load(plain));
        *wire_n = *plain_n;
        break;
    case ROWS:
        s_store(wire, s_put_rows(self, field->rows, *plain_n, s_load(plain)));
        *wire_n = s_load(wire) ? *plain_n : 0;
        break;
    case TABLE:
        s_store(wire, s_put_table(self, plain));
        break;
    }
}

static void
s_put_fields(crema_wire_encoder_t *self, const crema_wire_layout_t *layout, const uint8_t *plain,
             ProtobufCMessage *body)
{
    protobuf_c_message_init(layout->descriptor, body);
    for (size_t i = 0; i < layout->n_fields; i++)
        s_put_field(self, &layout->fields[i], plain, (uint8_t *)body);
}

void
crema_wire_fill(crema_wire_encoder_t *self, const crema_wire_layout_t *layout, const void *plain,
                crema_wire_body_t *ret_body)
{
    assert(layout->descriptor->sizeof_message <= sizeof *ret_body);
    s_put_fields(self, layout, plain, &ret_body->base);
}

/* ---- copying: texts and lists follow the struct in one block */

#define COPY_ALIGNMENT 8

/* What was copied so far. Without a block its size is only measured. */
typedef struct {
    uint8_t *block;
    size_t used;
} copy_t;

/* Copies what the pointer at `at` points to, and sets it. Returns the copy, or the original while
 * that is measured. */
static void *
s_own(copy_t *self, void *at, size_t size)
{
    void *memory = s_load(at);
    if (self->block && size > 0) {
        memory = memcpy(self->block + self->used, memory, size);
        s_store(at, memory);
    }
    self->used += (size + COPY_ALIGNMENT - 1) / COPY_ALIGNMENT * COPY_ALIGNMENT;
    return memory;
}

static void
s_own_text(copy_t *self, void *at)
{
    if (s_load(at))
        (void)s_own(self, at, strlen(s_load(at)) + 1);
    else if (self->block)
        s_store(at, "");
}

static void
s_own_fields(copy_t *self, const crema_wire_layout_t *layout, uint8_t *plain)
{
    for (size_t i = 0; i < layout->n_fields; i++) {
        const crema_wire_field_t *field = &layout->fields[i];
        void *at = plain + field->plain;
        const size_t *n = (const size_t *)(plain + field->plain_n);
        if (field->how == TEXT)
            s_own_text(self, at);
        if (field->how == TEXTS || field->how == SAME_TEXTS) {
            const char **texts = s_own(self, at, *n * sizeof(char *));
            for (size_t k = 0; k < *n; k++)
                s_own_text(self, &texts[k]);
        }
        if (field->how == ROWS) {
            uint8_t *rows = s_own(self, at, *n * field->rows->plain_bytes);
            for (size_t k = 0; k < *n; k++)
                s_own_fields(self, field->rows, rows + k * field->rows->plain_bytes);
        }
    }
}

crema_err_t
crema_msg_copy(const crema_msg_t *msg, crema_msg_t **ret_copy)
{
    const crema_wire_layout_t *layout = &crema_wire_kind(msg->type)->layout;
    copy_t copy = {.block = NULL, .used = sizeof *msg};
    s_own_fields(&copy, layout, (uint8_t *)msg);
    crema_msg_t *self = malloc(copy.used);
    if (!self)
        return CREMA_ENOMEM;
    *self = *msg;
    copy = (copy_t){.block = (uint8_t *)self, .used = sizeof *msg};
    s_own_fields(&copy, layout, (uint8_t *)self);
    *ret_copy = self;
    return CREMA_OK;
}
