/* The reader: open, scan, close. */
#include "crema_spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "crema_spool_private.h"

/* A StreamInfo is the only record the reader decodes. */
#define ARENA_BYTES (CREMA_ARENA_FACTOR * (size_t)CREMA_RECORD_BODY_MAX + 4096)

crema_err_t
crema_spool_open(const char *dir, crema_spool_t **ret_self)
{
    crema_spool_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->lock = -1;
    self->list_again = true;
    self->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->dir < 0) {
        crema_err_t err = errno == ENOENT ? CREMA_ENOENT : CREMA_EIO;
        crema_spool_close(&self);
        return err;
    }
    crema_err_t err = crema_walk_new(&self->walk);
    if (err == CREMA_OK)
        err = crema_arena_new(ARENA_BYTES, &self->arena);
    if (err != CREMA_OK) {
        crema_spool_close(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
crema_spool_close(crema_spool_t **self_p)
{
    crema_spool_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->n_entries; i++)
        crema_spool_entry_destroy(self->entries[i]);
    free(self->entries);
    free(self->users);
    crema_walk_destroy(&self->walk);
    crema_arena_destroy(&self->arena);
    if (self->lock >= 0)
        close(self->lock);
    if (self->dir >= 0)
        close(self->dir);
    free(self);
    *self_p = NULL;
}

crema_err_t
crema_spool_scan(crema_spool_t *self)
{
    crema_err_t err = crema_spool_list(self);
    const size_t from = self->scan_from;
    bool is_short = false;
    self->search_left = CREMA_SPOOL_SEARCH_BYTES;
    for (size_t n = 0; n < self->n_entries; n++) {
        const size_t i = (from + n) % self->n_entries;
        crema_spool_entry_t *entry = self->entries[i];
        if (entry->public.closed)
            continue;
        crema_spool_scan_entry(self, entry);
        if (!entry->public.closed && self->lock >= 0)
            crema_spool_close_abandoned(self, entry);
        if (self->search_left <= 0 && !is_short) /* who has waited comes first */
            self->scan_from = entry->scan_fault.why == EAGAIN ? i : i + 1;
        is_short = self->search_left <= 0;
        if (!entry->public.closed)
            continue;
        if (entry->fd >= 0)
            close(entry->fd);
        entry->fd = -1;
        if (self->lock >= 0)
            crema_spool_drop_behind_end(self, entry);
    }
    return err;
}
