/* The directory: which segments there are. It is read only when its time of modification says that names came or went. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_spool_private.h"

/* A name made within this time of a listing might have been made after it under the same time stamp. */
#define STAMP_GRAIN_NS 1000000000

/* What else lies in a spool directory. */
static const char *const c_own_names[] = {"agent.lock", "starter.lock", "agent_id", "agent.log",
                                          "keys"};

static bool
s_is_own(const char *name)
{
    if (name[0] == '.')
        return true;
    for (size_t i = 0; i < sizeof c_own_names / sizeof *c_own_names; i++)
        if (strcmp(name, c_own_names[i]) == 0)
            return true;
    return false;
}

/* Digits are lower case: another spelling would be another name of the same segment. */
static bool
s_parse(const char *name, crema_id_t *ret_id, uint64_t *ret_first)
{
    if (strlen(name) != CREMA_SPOOL_NAME_CHARS || strncmp(name, "sp-", 3) != 0 ||
        name[3 + CREMA_ID_HEX_CHARS] != '-')
        return false;
    char hex[CREMA_ID_HEX_CHARS + 1] = {0};
    memcpy(hex, name + 3, CREMA_ID_HEX_CHARS);
    const char *digits = name + 3 + CREMA_ID_HEX_CHARS + 1;
    if (strspn(digits, "0123456789abcdef") != 16 ||
        strspn(hex, "0123456789abcdef") != CREMA_ID_HEX_CHARS || !crema_id_parse(hex, ret_id))
        return false;
    *ret_first = strtoull(digits, NULL, 16);
    return *ret_first > 0 && *ret_first < INT64_MAX;
}

/* Doubles an array when it is full. */
static bool
s_reserve(void **array, size_t *size, size_t n, size_t item_bytes)
{
    if (n < *size)
        return true;
    size_t more = *size ? 2 * *size : 4;
    void *grown = realloc(*array, more * item_bytes);
    if (!grown)
        return false;
    *array = grown;
    *size = more;
    return true;
}

static crema_err_t
s_insert_entry(crema_spool_t *self, const crema_id_t *id, crema_spool_entry_t **ret_entry)
{
    if (!s_reserve((void **)&self->entries, &self->entries_size, self->n_entries,
                   sizeof *self->entries))
        return CREMA_ENOMEM;
    crema_spool_entry_t *entry = calloc(1, sizeof *entry);
    if (!entry)
        return CREMA_ENOMEM;
    entry->public.stream_id = *id;
    entry->fd = -1;
    size_t i = self->n_entries++;
    for (; i > 0 && crema_id_compare(&self->entries[i - 1]->public.stream_id, id) > 0; i--)
        self->entries[i] = self->entries[i - 1];
    self->entries[i] = entry;
    *ret_entry = entry;
    return CREMA_OK;
}

/* Nobody was told of a stream without its first record, so it may be read as if for the first time. */
static void
s_read_anew(crema_spool_entry_t *entry)
{
    for (size_t i = 0; i < entry->n_segments; i++) {
        crema_spool_segment_t *segment = &entry->segments[i];
        segment->offset = segment->walked = 0;
        segment->last_seq = segment->first_seq - 1;
        segment->final = false;
    }
    entry->public.closed = false;
    entry->public.hi = entry->public.first_avail = entry->public.lost = 0;
    entry->read_seq = 0;
}

static crema_err_t
s_see_segment(crema_spool_t *self, crema_spool_entry_t *entry, uint64_t first_seq)
{
    size_t i = entry->n_segments;
    while (i > 0 && entry->segments[i - 1].first_seq > first_seq)
        i--;
    if (i > 0 && entry->segments[i - 1].first_seq == first_seq) {
        entry->segments[i - 1].seen = self->listing;
        return CREMA_OK;
    }
    if (!s_reserve((void **)&entry->segments, &entry->segments_size, entry->n_segments,
                   sizeof *entry->segments))
        return CREMA_ENOMEM;
    memmove(entry->segments + i + 1, entry->segments + i,
            (entry->n_segments++ - i) * sizeof *entry->segments);
    entry->segments[i] = (crema_spool_segment_t){
        .first_seq = first_seq, .last_seq = first_seq - 1, .seen = self->listing};
    if (i + 1 < entry->n_segments && entry->head_bytes == 0) /* as when files are copied here */
        s_read_anew(entry);
    return CREMA_OK;
}

static crema_err_t
s_see_name(crema_spool_t *self, const char *name)
{
    crema_id_t id;
    uint64_t first_seq;
    if (s_is_own(name))
        return CREMA_OK;
    if (!s_parse(name, &id, &first_seq)) {
        self->foreign_names++;
        return CREMA_OK;
    }
    crema_spool_entry_t *entry = crema_spool_entry(self, &id);
    if (!entry && self->n_entries == CREMA_SPOOL_STREAMS_MAX) {
        self->stats.waiting_files++;
        self->list_again = true;
        return CREMA_OK;
    }
    if (!entry) {
        crema_err_t err = s_insert_entry(self, &id, &entry);
        if (err != CREMA_OK)
            return err;
    }
    return s_see_segment(self, entry, first_seq);
}

static void
s_forget_unseen(crema_spool_t *self)
{
    for (size_t i = self->n_entries; i-- > 0;) {
        crema_spool_entry_t *entry = self->entries[i];
        size_t kept = 0;
        for (size_t k = 0; k < entry->n_segments; k++)
            if (entry->segments[k].seen == self->listing)
                entry->segments[kept++] = entry->segments[k];
            else
                entry->public.bytes -= entry->segments[k].size;
        entry->n_segments = kept;
        if (kept == 0)
            crema_spool_forget(self, entry);
    }
}

static bool
s_changed(crema_spool_t *self, const struct stat *st)
{
    return self->list_again || st->st_mtim.tv_sec != self->mtime.tv_sec ||
           st->st_mtim.tv_nsec != self->mtime.tv_nsec;
}

static DIR *
s_open_dir(const crema_spool_t *self)
{
    int fd = openat(self->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

bool
crema_spool_has_newer(const crema_spool_t *self, const crema_id_t *stream_id, uint64_t first_seq)
{
    DIR *dir = s_open_dir(self);
    if (!dir)
        return true;
    bool found = false;
    const struct dirent *item;
    while (!found && (item = readdir(dir))) {
        crema_id_t id;
        uint64_t first;
        found = s_parse(item->d_name, &id, &first) && crema_id_equal(&id, stream_id) &&
                first > first_seq;
    }
    closedir(dir);
    return found;
}

crema_err_t
crema_spool_list(crema_spool_t *self)
{
    struct stat st;
    if (fstat(self->dir, &st) != 0)
        return CREMA_EIO;
    if (!s_changed(self, &st))
        return CREMA_OK;
    DIR *dir = s_open_dir(self);
    if (!dir)
        return CREMA_EIO;
    int64_t age_ns =
        crema_clock_real_ns() - ((int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    self->mtime = st.st_mtim;
    self->list_again = age_ns < STAMP_GRAIN_NS;
    self->listing++;
    self->foreign_names = 0;
    self->stats.waiting_files = 0;
    crema_err_t err = CREMA_OK;
    const struct dirent *item;
    while (err == CREMA_OK && (item = readdir(dir)))
        err = s_see_name(self, item->d_name);
    closedir(dir);
    if (err == CREMA_OK)
        s_forget_unseen(self);
    else
        self->list_again = true;
    return err;
}
