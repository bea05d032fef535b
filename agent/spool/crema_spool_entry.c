/* The table of streams: find, forget, count; opens their segments. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_spool_private.h"

char *
crema_spool_name(const crema_id_t *stream_id, uint64_t first_seq,
                 char name[CREMA_SPOOL_NAME_CHARS + 1])
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    snprintf(name, CREMA_SPOOL_NAME_CHARS + 1, "sp-%s-%016llx", crema_id_hex(stream_id, hex),
             (unsigned long long)first_seq);
    return name;
}

void
crema_spool_free_texts(Crema__StreamInfo *info)
{
    free(info->host);
    free(info->worker_uuid);
    free(info->worker_name);
    free(info->boot_id);
    info->host = info->worker_uuid = info->worker_name = info->boot_id = NULL;
}

void
crema_spool_entry_destroy(crema_spool_entry_t *entry)
{
    if (entry->fd >= 0)
        close(entry->fd);
    crema_spool_free_texts(&entry->public.info);
    free(entry->segments);
    free(entry);
}

static int
s_compare_entry(const void *key, const void *slot)
{
    const crema_spool_entry_t *entry = *(crema_spool_entry_t *const *)slot;
    return crema_id_compare(key, &entry->public.stream_id);
}

crema_spool_entry_t *
crema_spool_entry(const crema_spool_t *self, const crema_id_t *stream_id)
{
    if (self->n_entries == 0)
        return NULL;
    crema_spool_entry_t **slot =
        bsearch(stream_id, self->entries, self->n_entries, sizeof *self->entries, s_compare_entry);
    return slot ? *slot : NULL;
}

void
crema_spool_forget(crema_spool_t *self, crema_spool_entry_t *entry)
{
    size_t i = 0;
    while (self->entries[i] != entry)
        i++;
    memmove(self->entries + i, self->entries + i + 1,
            (--self->n_entries - i) * sizeof *self->entries);
    if (self->stats.waiting_files > 0) /* one of them gets this place */
        self->list_again = true;
    if (self->gone)
        self->gone(self->gone_context, &entry->public);
    crema_spool_entry_destroy(entry);
}

int
crema_spool_open_segment(crema_spool_t *self, const crema_spool_entry_t *entry, uint64_t first_seq)
{
    char name[CREMA_SPOOL_NAME_CHARS + 1];
    crema_spool_name(&entry->public.stream_id, first_seq, name);
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = openat(self->dir, name, O_RDWR | flags);
    if (fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM))
        fd = openat(self->dir, name, O_RDONLY | flags);
    int why = errno;
    struct stat st;
    if (fd >= 0) {
        why = fstat(fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : EINVAL;
        if (why) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0)
        self->stats.io_errors++;
    errno = why;
    return fd;
}

void
crema_spool_on_gone(crema_spool_t *self, crema_spool_gone_fn *gone, void *context)
{
    self->gone = gone;
    self->gone_context = context;
}

size_t
crema_spool_count(const crema_spool_t *self)
{
    return self->n_entries;
}

crema_spool_stream_t *
crema_spool_stream(const crema_spool_t *self, size_t i)
{
    return &self->entries[i]->public;
}

const crema_spool_stream_t *
crema_spool_find(const crema_spool_t *self, const crema_id_t *stream_id)
{
    const crema_spool_entry_t *entry = crema_spool_entry(self, stream_id);
    return entry ? &entry->public : NULL;
}

crema_spool_stats_t
crema_spool_stats(const crema_spool_t *self)
{
    crema_spool_stats_t stats = self->stats;
    stats.foreign_files = self->foreign_names;
    for (size_t i = 0; i < self->n_entries; i++) {
        const crema_spool_entry_t *entry = self->entries[i];
        stats.bytes += entry->public.bytes;
        if (entry->head_bytes == 0)
            stats.foreign_files += entry->n_segments;
        else if (entry->public.hi >= entry->public.first_avail)
            stats.records += entry->public.hi - entry->public.first_avail + 1;
    }
    return stats;
}
