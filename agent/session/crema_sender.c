#include "crema_sender.h"

#include <stdlib.h>

#include "crema_list.h"
#include "crema_map.h"

struct crema_sender {
    crema_map_t *by_id; /* crema_spool_stream_t *, borrowed */
    crema_link_t all;
    crema_link_t turns; /* with a known position and something to send */
    crema_link_t aside; /* being sent, or not sendable now */
    crema_link_t trims;
    size_t undelivered;
    uint64_t committed_records;
};

#define FIRST(list, link) CREMA_LIST_FIRST(list, crema_spool_stream_t, cursor.link)

static crema_spool_stream_t *
s_first(const crema_sender_t *self)
{
    return FIRST(&self->all, all);
}

static crema_spool_stream_t *
s_next(const crema_sender_t *self, const crema_spool_stream_t *stream)
{
    crema_link_t *next = stream->cursor.all.next;
    return next == &self->all ? NULL : CREMA_LIST_ITEM(next, crema_spool_stream_t, cursor.all);
}

/* ---- streams */

crema_err_t
crema_sender_new(size_t streams_max, crema_sender_t **ret_self)
{
    crema_sender_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_list_init(&self->all);
    crema_list_init(&self->turns);
    crema_list_init(&self->aside);
    crema_list_init(&self->trims);
    crema_err_t err = crema_map_new(streams_max, &self->by_id);
    if (err != CREMA_OK) {
        crema_sender_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
crema_sender_destroy(crema_sender_t **self_p)
{
    crema_sender_t *self = *self_p;
    if (!self)
        return;
    for (crema_spool_stream_t *stream; (stream = s_first(self)) != NULL;)
        crema_sender_forget(self, stream);
    crema_map_destroy(&self->by_id);
    free(self);
    *self_p = NULL;
}

/* The part that the receiver has for good and the spool holds. */
static uint64_t
s_free_to(const crema_spool_stream_t *stream)
{
    const uint64_t committed = stream->cursor.committed;
    return committed < stream->hi ? committed : stream->hi;
}

/* Puts the stream into the lists that fit its numbers. Streams set aside stay there. */
static void
s_update(crema_sender_t *self, crema_spool_stream_t *stream)
{
    crema_cursor_t *cursor = &stream->cursor;
    bool undelivered = stream->hi > cursor->committed;
    self->undelivered += (size_t)undelivered - (size_t)cursor->undelivered;
    cursor->undelivered = undelivered;
    if (!cursor->placed || cursor->next > stream->hi)
        crema_list_remove(&cursor->turn);
    else
        crema_list_append(&self->turns, &cursor->turn);
    if (s_free_to(stream) > stream->committed)
        crema_list_append(&self->trims, &cursor->trim);
}

crema_err_t
crema_sender_follow(crema_sender_t *self, crema_spool_stream_t *stream, bool *ret_new)
{
    const bool is_new = !crema_list_is_linked(&stream->cursor.all);
    crema_err_t err = is_new ? crema_map_add(self->by_id, &stream->stream_id, stream) : CREMA_OK;
    if (err != CREMA_OK)
        return err;
    crema_list_append(&self->all, &stream->cursor.all);
    s_update(self, stream);
    *ret_new = is_new;
    return CREMA_OK;
}

void
crema_sender_forget(crema_sender_t *self, crema_spool_stream_t *stream)
{
    crema_cursor_t *cursor = &stream->cursor;
    if (!crema_list_is_linked(&cursor->all))
        return;
    (void)crema_map_take(self->by_id, &stream->stream_id);
    crema_list_remove(&cursor->all);
    crema_list_remove(&cursor->turn);
    crema_list_remove(&cursor->trim);
    self->undelivered -= cursor->undelivered;
    *cursor = (crema_cursor_t){0};
}

/* ---- what the receiver says */

void
crema_sender_begin_session(crema_sender_t *self)
{
    for (crema_spool_stream_t *stream = s_first(self); stream; stream = s_next(self, stream)) {
        stream->cursor.placed = false;
        s_update(self, stream);
    }
}

static void
s_set_committed(crema_sender_t *self, crema_cursor_t *cursor, uint64_t committed)
{
    if (committed > cursor->committed)
        self->committed_records += committed - cursor->committed;
    cursor->committed = committed;
    if (cursor->next <= committed)
        cursor->next = committed + 1;
}

static void
s_go_on_at(crema_cursor_t *cursor, uint64_t next, int64_t now_ns)
{
    cursor->placed = true;
    cursor->next = cursor->recv_next = next;
    cursor->moved_ns = now_ns;
}

void
crema_sender_welcome(crema_sender_t *self, const crema_stream_row_t *row, int64_t now_ns)
{
    crema_spool_stream_t *stream = crema_map_find(self->by_id, &row->stream_id);
    if (!stream || row->recv_next == 0)
        return;
    s_set_committed(self, &stream->cursor, row->committed);
    s_go_on_at(&stream->cursor, row->committed + 1, now_ns);
    s_update(self, stream);
}

void
crema_sender_confirm(crema_sender_t *self, const crema_stream_row_t *row, int64_t now_ns)
{
    crema_spool_stream_t *stream = crema_map_find(self->by_id, &row->stream_id);
    if (!stream)
        return;
    crema_cursor_t *cursor = &stream->cursor;
    if (row->committed > cursor->committed)
        s_set_committed(self, cursor, row->committed);
    if (row->recv_next == 0) {
        cursor->placed = false;
    } else if (!cursor->placed) {
        s_go_on_at(cursor, row->recv_next, now_ns);
    } else if (row->recv_next > cursor->recv_next) {
        cursor->recv_next = row->recv_next;
        cursor->moved_ns = now_ns;
        if (cursor->next < row->recv_next)
            cursor->next = row->recv_next;
    }
    s_update(self, stream);
}

bool
crema_sender_rewind(crema_sender_t *self, const crema_id_t *stream_id, uint64_t from_seq,
                    int64_t now_ns)
{
    crema_spool_stream_t *stream = crema_map_find(self->by_id, stream_id);
    if (!stream || from_seq < 1)
        return false;
    s_go_on_at(&stream->cursor, from_seq, now_ns);
    s_update(self, stream);
    return true;
}

size_t
crema_sender_rewind_stale(crema_sender_t *self, int64_t patience_ns, int64_t now_ns)
{
    size_t rewound = 0;
    for (crema_spool_stream_t *stream = s_first(self); stream; stream = s_next(self, stream)) {
        crema_cursor_t *cursor = &stream->cursor;
        if (!cursor->placed || cursor->next <= cursor->recv_next ||
            now_ns - cursor->moved_ns < patience_ns)
            continue;
        s_go_on_at(cursor, cursor->recv_next, now_ns);
        s_update(self, stream);
        rewound++;
    }
    return rewound;
}

/* ---- what is sent, what is freed */

const crema_spool_stream_t *
crema_sender_turn(crema_sender_t *self)
{
    crema_spool_stream_t *stream = FIRST(&self->turns, turn);
    if (stream) {
        crema_list_remove(&stream->cursor.turn);
        crema_list_append(&self->aside, &stream->cursor.turn);
    }
    return stream;
}

void
crema_sender_sent(crema_sender_t *self, const crema_id_t *stream_id, uint64_t first_seq, uint64_t n,
                  int64_t now_ns)
{
    crema_spool_stream_t *stream = crema_map_find(self->by_id, stream_id);
    if (!stream || n == 0)
        return;
    crema_cursor_t *cursor = &stream->cursor;
    if (cursor->placed && cursor->next == first_seq) {
        if (cursor->next <= cursor->recv_next)
            cursor->moved_ns = now_ns;
        cursor->next = first_seq + n;
    }
    crema_list_remove(&cursor->turn);
    s_update(self, stream);
}

void
crema_sender_retry(crema_sender_t *self)
{
    crema_spool_stream_t *stream;
    while ((stream = FIRST(&self->aside, turn)) != NULL) {
        crema_list_remove(&stream->cursor.turn);
        s_update(self, stream);
    }
}

const crema_spool_stream_t *
crema_sender_trim(crema_sender_t *self, uint64_t *ret_committed)
{
    crema_spool_stream_t *stream = FIRST(&self->trims, trim);
    if (stream) {
        crema_list_remove(&stream->cursor.trim);
        *ret_committed = s_free_to(stream);
    }
    return stream;
}

/* ---- sums and tables */

size_t
crema_sender_count(const crema_sender_t *self)
{
    return crema_map_count(self->by_id);
}

static crema_stream_row_t
s_row(const crema_spool_stream_t *stream, bool owner)
{
    return (crema_stream_row_t){
        .stream_id = stream->stream_id,
        .run_id = stream->run_id,
        .first_avail = stream->first_avail,
        .hi = stream->hi,
        .committed = stream->cursor.committed,
        .recv_next = stream->cursor.recv_next,
        .flags = stream->closed ? CREMA_STREAM_FLAG_CLOSED : 0,
        .user = owner ? stream->owner + 1 : 0,
    };
}

size_t
crema_sender_rows(const crema_sender_t *self, size_t from, size_t max, bool owners,
                  Crema__StreamTable *table)
{
    size_t at = 0, n = 0;
    for (crema_spool_stream_t *stream = s_first(self); stream; stream = s_next(self, stream)) {
        if (n == max)
            break;
        if (at++ < from)
            continue;
        const crema_stream_row_t row = s_row(stream, owners);
        crema_stream_table_add(table, &row);
        n++;
    }
    return n;
}

size_t
crema_sender_undelivered(const crema_sender_t *self)
{
    return self->undelivered;
}

bool
crema_sender_has_open(const crema_sender_t *self)
{
    for (crema_spool_stream_t *stream = s_first(self); stream; stream = s_next(self, stream))
        if (!stream->closed)
            return true;
    return false;
}

uint64_t
crema_sender_uncommitted_records(const crema_sender_t *self)
{
    uint64_t records = 0;
    for (crema_spool_stream_t *stream = s_first(self); stream; stream = s_next(self, stream))
        records += stream->hi - s_free_to(stream);
    return records;
}

uint64_t
crema_sender_committed_records(const crema_sender_t *self)
{
    return self->committed_records;
}
