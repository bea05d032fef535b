#include "crema_stream_table.h"

#include <stdlib.h>
#include <string.h>

size_t
crema_stream_table_rows(const Crema__StreamTable *self)
{
    return self ? self->stream_ids.len / CREMA_ID_BYTES : 0;
}

crema_stream_row_t
crema_stream_table_row(const Crema__StreamTable *self, size_t i)
{
    crema_stream_row_t row = {
        .first_avail = self->n_first_avail ? self->first_avail[i] : 0,
        .hi = self->n_hi ? self->hi[i] : 0,
        .committed = self->n_committed ? self->committed[i] : 0,
        .recv_next = self->n_recv_next ? self->recv_next[i] : 0,
        .flags = self->n_flags ? self->flags[i] : 0,
        .user = self->n_users ? self->users[i] : 0,
    };
    memcpy(row.stream_id.bytes, self->stream_ids.data + i * CREMA_ID_BYTES, CREMA_ID_BYTES);
    if (self->run_ids.len)
        memcpy(row.run_id.bytes, self->run_ids.data + i * CREMA_ID_BYTES, CREMA_ID_BYTES);
    return row;
}

crema_err_t
crema_stream_table_new(size_t room, Crema__StreamTable **ret_self)
{
    if (room > CREMA_WIRE_TABLE_ROWS_MAX)
        return CREMA_ELIMIT;
    const size_t row_bytes = 2 * CREMA_ID_BYTES + 4 * sizeof(uint64_t) + 2 * sizeof(uint32_t);
    Crema__StreamTable *self = malloc(sizeof *self + room * row_bytes);
    if (!self)
        return CREMA_ENOMEM;
    crema__stream_table__init(self);
    self->first_avail = (uint64_t *)(self + 1);
    self->hi = self->first_avail + room;
    self->committed = self->hi + room;
    self->recv_next = self->committed + room;
    self->flags = (uint32_t *)(self->recv_next + room);
    self->users = self->flags + room;
    self->stream_ids.data = (uint8_t *)(self->users + room);
    self->run_ids.data = self->stream_ids.data + room * CREMA_ID_BYTES;
    *ret_self = self;
    return CREMA_OK;
}

void
crema_stream_table_clear(Crema__StreamTable *self)
{
    self->stream_ids.len = self->run_ids.len = 0;
    self->n_first_avail = self->n_hi = self->n_committed = self->n_recv_next = 0;
    self->n_flags = self->n_users = 0;
}

void
crema_stream_table_add(Crema__StreamTable *self, const crema_stream_row_t *row)
{
    const size_t i = crema_stream_table_rows(self);
    memcpy(self->stream_ids.data + i * CREMA_ID_BYTES, row->stream_id.bytes, CREMA_ID_BYTES);
    memcpy(self->run_ids.data + i * CREMA_ID_BYTES, row->run_id.bytes, CREMA_ID_BYTES);
    self->first_avail[i] = row->first_avail;
    self->hi[i] = row->hi;
    self->committed[i] = row->committed;
    self->recv_next[i] = row->recv_next;
    self->flags[i] = row->flags;
    self->users[i] = row->user;
    self->stream_ids.len += CREMA_ID_BYTES;
    /* A column that is entirely zero is not sent. */
    if (self->run_ids.len || !crema_id_is_zero(&row->run_id))
        self->run_ids.len = self->stream_ids.len;
    if (self->n_first_avail || row->first_avail)
        self->n_first_avail = i + 1;
    if (self->n_hi || row->hi)
        self->n_hi = i + 1;
    if (self->n_committed || row->committed)
        self->n_committed = i + 1;
    if (self->n_recv_next || row->recv_next)
        self->n_recv_next = i + 1;
    if (self->n_flags || row->flags)
        self->n_flags = i + 1;
    if (self->n_users || row->user)
        self->n_users = i + 1;
}

Crema__StreamTable *
crema_stream_table_sent(Crema__StreamTable *self)
{
    return self->stream_ids.len ? self : NULL;
}
