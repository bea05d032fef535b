#include "crema_sender.h"

#include <stdlib.h>

#include "crema_grow.h"
#include "crema_list.h"
#include "crema_map.h"

typedef struct {
    crema_stream_row_t
        row; /* identity, first_avail, hi, flags from the spool; committed, recv_next from the receiver */
    uint64_t next;    /* to send next */
    uint64_t trimmed; /* returned by the last trim */
    int64_t moved_ns; /* when recv_next moved, or the first record after a pause was sent */
    size_t index;     /* in `all` */
    uint32_t seen;    /* the listing that last had it */
    bool placed;
    bool undelivered;  /* hi > committed */
    crema_link_t turn; /* in `turns` or `aside` */
    crema_link_t trim;
} held_t;

struct crema_sender {
    crema_map_t *by_id;
    held_t **all;
    size_t n, capacity;
    uint32_t listing;   /* number of the current one */
    crema_link_t turns; /* with a known position and something to send */
    crema_link_t aside; /* being sent, or not sendable now */
    crema_link_t trims;
    size_t undelivered;
    uint64_t committed_records;
};

crema_err_t
crema_sender_new(size_t streams_max, crema_sender_t **ret_self)
{
    crema_sender_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
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
    for (size_t i = 0; i < self->n; i++)
        free(self->all[i]);
    free(self->all);
    crema_map_destroy(&self->by_id);
    free(self);
    *self_p = NULL;
}

/* Puts the stream into the list that fits its numbers. Streams set aside stay there. */
static void
s_update(crema_sender_t *self, held_t *held)
{
    bool undelivered = held->row.hi > held->row.committed;
    self->undelivered += (size_t)undelivered - (size_t)held->undelivered;
    held->undelivered = undelivered;
    if (!held->placed || held->next > held->row.hi)
        crema_list_remove(&held->turn);
    else
        crema_list_append(&self->turns, &held->turn);
    uint64_t free_to = held->row.committed < held->row.hi ? held->row.committed : held->row.hi;
    if (free_to > held->trimmed)
        crema_list_append(&self->trims, &held->trim);
}

/* NULL: *ret_err says why. */
static held_t *
s_add(crema_sender_t *self, const crema_stream_row_t *row, crema_err_t *ret_err)
{
    held_t **all = crema_grow(self->all, self->n, &self->capacity, sizeof(held_t *));
    if (!all) {
        *ret_err = CREMA_ENOMEM;
        return NULL;
    }
    self->all = all;
    held_t *held = crema_map_make(self->by_id, &row->stream_id, sizeof *held, ret_err);
    if (!held)
        return NULL;
    held->row = *row;
    held->row.committed = held->row.recv_next = 0;
    held->index = self->n;
    self->all[self->n++] = held;
    return held;
}

crema_err_t
crema_sender_hold(crema_sender_t *self, const crema_stream_row_t *row, bool *ret_new)
{
    held_t *held = crema_map_find(self->by_id, &row->stream_id);
    const bool is_new = !held;
    crema_err_t err = CREMA_OK;
    if (is_new && !(held = s_add(self, row, &err)))
        return err;
    held->seen = self->listing;
    held->row.run_id = row->run_id;
    held->row.first_avail = row->first_avail;
    if (row->hi > held->row.hi)
        held->row.hi = row->hi;
    held->row.flags |= row->flags;
    held->row.user = row->user;
    s_update(self, held);
    *ret_new = is_new;
    return CREMA_OK;
}

void
crema_sender_forget(crema_sender_t *self, const crema_id_t *stream_id)
{
    held_t *held = crema_map_take(self->by_id, stream_id);
    if (!held)
        return;
    crema_list_remove(&held->turn);
    crema_list_remove(&held->trim);
    self->undelivered -= held->undelivered;
    self->all[held->index] = self->all[--self->n];
    self->all[held->index]->index = held->index;
    free(held);
}

size_t
crema_sender_forget_unseen(crema_sender_t *self)
{
    const size_t before = self->n;
    for (size_t i = self->n; i-- > 0;)
        if (self->all[i]->seen != self->listing)
            crema_sender_forget(self, &self->all[i]->row.stream_id);
    self->listing++;
    return before - self->n;
}

void
crema_sender_begin_session(crema_sender_t *self)
{
    for (size_t i = 0; i < self->n; i++) {
        self->all[i]->placed = false;
        s_update(self, self->all[i]);
    }
}

static void
s_set_committed(crema_sender_t *self, held_t *held, uint64_t committed)
{
    if (committed > held->row.committed)
        self->committed_records += committed - held->row.committed;
    held->row.committed = committed;
    if (held->next <= committed)
        held->next = committed + 1;
}

static void
s_go_on_at(held_t *held, uint64_t next, int64_t now_ns)
{
    held->placed = true;
    held->next = held->row.recv_next = next;
    held->moved_ns = now_ns;
}

void
crema_sender_welcome(crema_sender_t *self, const crema_stream_row_t *row, int64_t now_ns)
{
    held_t *held = crema_map_find(self->by_id, &row->stream_id);
    if (!held || row->recv_next == 0)
        return;
    s_set_committed(self, held, row->committed);
    s_go_on_at(held, row->committed + 1, now_ns);
    held->placed = true;
    s_update(self, held);
}

void
crema_sender_confirm(crema_sender_t *self, const crema_stream_row_t *row, int64_t now_ns)
{
    held_t *held = crema_map_find(self->by_id, &row->stream_id);
    if (!held)
        return;
    if (row->committed > held->row.committed)
        s_set_committed(self, held, row->committed);
    if (row->recv_next == 0) {
        held->placed = false;
    } else if (!held->placed) {
        s_go_on_at(held, row->recv_next, now_ns);
    } else if (row->recv_next > held->row.recv_next) {
        held->row.recv_next = row->recv_next;
        held->moved_ns = now_ns;
        if (held->next < row->recv_next)
            held->next = row->recv_next;
    }
    s_update(self, held);
}

bool
crema_sender_rewind(crema_sender_t *self, const crema_id_t *stream_id, uint64_t from_seq,
                    int64_t now_ns)
{
    held_t *held = crema_map_find(self->by_id, stream_id);
    if (!held || from_seq < 1)
        return false;
    s_go_on_at(held, from_seq, now_ns);
    s_update(self, held);
    return true;
}

size_t
crema_sender_rewind_stale(crema_sender_t *self, int64_t patience_ns, int64_t now_ns)
{
    size_t rewound = 0;
    for (size_t i = 0; i < self->n; i++) {
        held_t *held = self->all[i];
        if (!held->placed || held->next <= held->row.recv_next ||
            now_ns - held->moved_ns < patience_ns)
            continue;
        s_go_on_at(held, held->row.recv_next, now_ns);
        s_update(self, held);
        rewound++;
    }
    return rewound;
}

bool
crema_sender_turn(crema_sender_t *self, crema_stream_row_t *ret_row, uint64_t *ret_next)
{
    held_t *held = CREMA_LIST_FIRST(&self->turns, held_t, turn);
    if (!held)
        return false;
    crema_list_remove(&held->turn);
    crema_list_append(&self->aside, &held->turn);
    *ret_row = held->row;
    *ret_next = held->next;
    return true;
}

void
crema_sender_sent(crema_sender_t *self, const crema_id_t *stream_id, uint64_t first_seq, uint64_t n,
                  int64_t now_ns)
{
    held_t *held = crema_map_find(self->by_id, stream_id);
    if (!held || n == 0)
        return;
    if (held->placed && held->next == first_seq) {
        if (held->next <= held->row.recv_next)
            held->moved_ns = now_ns;
        held->next = first_seq + n;
    }
    crema_list_remove(&held->turn);
    s_update(self, held);
}

void
crema_sender_retry(crema_sender_t *self)
{
    held_t *held;
    while ((held = CREMA_LIST_FIRST(&self->aside, held_t, turn)) != NULL) {
        crema_list_remove(&held->turn);
        s_update(self, held);
    }
}

bool
crema_sender_trim(crema_sender_t *self, crema_id_t *ret_stream_id, uint64_t *ret_committed)
{
    held_t *held = CREMA_LIST_FIRST(&self->trims, held_t, trim);
    if (!held)
        return false;
    crema_list_remove(&held->trim);
    held->trimmed = held->row.committed < held->row.hi ? held->row.committed : held->row.hi;
    *ret_stream_id = held->row.stream_id;
    *ret_committed = held->trimmed;
    return true;
}

size_t
crema_sender_count(const crema_sender_t *self)
{
    return self->n;
}

size_t
crema_sender_rows(const crema_sender_t *self, size_t from, size_t max, Crema__StreamTable *table)
{
    size_t n = 0;
    for (; n < max && from + n < self->n; n++)
        crema_stream_table_add(table, &self->all[from + n]->row);
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
    for (size_t i = 0; i < self->n; i++)
        if (!(self->all[i]->row.flags & CREMA_STREAM_FLAG_CLOSED))
            return true;
    return false;
}

uint64_t
crema_sender_uncommitted_records(const crema_sender_t *self)
{
    uint64_t records = 0;
    for (size_t i = 0; i < self->n; i++) {
        const crema_stream_row_t *row = &self->all[i]->row;
        records += row->hi > row->committed ? row->hi - row->committed : 0;
    }
    return records;
}

uint64_t
crema_sender_committed_records(const crema_sender_t *self)
{
    return self->committed_records;
}
