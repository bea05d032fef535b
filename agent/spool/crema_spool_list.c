/* The directory listing. It is read only when the directory's modification time shows that names
 * were added or removed, when it may be incomplete, or when a file that waits gets a place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_grow.h"
#include "crema_spool_private.h"
#include "crema_text.h"

/* Other files in a spool directory. */
static const char *const c_own_names[] = {"agent.lock", "starter.lock", "agent_id", "agent.log",
                                          "way",        "way.lock",     "keys",     NULL};

static bool
s_is_own(const char *name)
{
    return name[0] == '.' || crema_text_is_in(name, c_own_names);
}

/* Digits are lower case: another spelling would be a second name of the same segment. */
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

static crema_err_t
s_insert_entry(crema_spool_t *self, const crema_id_t *id, crema_spool_entry_t **ret_entry)
{
    crema_spool_entry_t **entries = crema_grow(self->entries, self->n_entries, &self->entries_size,
                                               sizeof(crema_spool_entry_t *));
    if (!entries)
        return CREMA_ENOMEM;
    self->entries = entries;
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

/* Until a listing has seen its file, it has no segment. */
crema_err_t
crema_spool_expect(crema_spool_t *self, const crema_id_t *stream_id)
{
    crema_spool_entry_t *entry;
    return crema_spool_entry(self, stream_id) ? CREMA_OK : s_insert_entry(self, stream_id, &entry);
}

/* A stream without its first record was not reported yet, so it may be read again from the
 * start. */
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

/* Marks a known segment as seen; false if it is unknown. */
static bool
s_see_again(const crema_spool_t *self, crema_spool_entry_t *entry, uint64_t first_seq)
{
    for (size_t i = entry->n_segments; i-- > 0;)
        if (entry->segments[i].first_seq == first_seq) {
            entry->segments[i].seen = self->listing;
            return true;
        }
    return false;
}

static crema_err_t
s_see_segment(crema_spool_t *self, crema_spool_entry_t *entry, uint64_t first_seq, uint32_t owner)
{
    size_t i = entry->n_segments;
    while (i > 0 && entry->segments[i - 1].first_seq > first_seq)
        i--;
    crema_spool_segment_t *segments =
        crema_grow(entry->segments, entry->n_segments, &entry->segments_size, sizeof *segments);
    if (!segments)
        return CREMA_ENOMEM;
    entry->segments = segments;
    memmove(entry->segments + i + 1, entry->segments + i,
            (entry->n_segments++ - i) * sizeof *entry->segments);
    entry->segments[i] = (crema_spool_segment_t){
        .first_seq = first_seq,
        .last_seq = first_seq - 1,
        .seen = self->listing,
        .owner = owner,
    };
    if (i + 1 < entry->n_segments &&
        entry->head_bytes == 0) /* for example when files are copied here */
        s_read_anew(entry);
    return CREMA_OK;
}

/* *ret_entry is NULL if it waits until others leave. */
static crema_err_t
s_give_place(crema_spool_t *self, const crema_id_t *id, uint64_t first_seq, uid_t owner,
             crema_spool_entry_t **ret_entry)
{
    crema_spool_user_t *user = crema_spool_user(self, owner);
    if (!user)
        return CREMA_ENOMEM;
    if (crema_spool_has_room(self, user)) {
        crema_err_t err = s_insert_entry(self, id, ret_entry);
        user->streams += err == CREMA_OK;
        return err;
    }
    if (self->stats.waiting_files < CREMA_SPOOL_WAITING_NAMES)
        self->waiting[self->stats.waiting_files] = (crema_spool_waiting_t){*id, first_seq};
    self->stats.waiting_files++;
    return CREMA_OK;
}

static crema_err_t
s_see_name(crema_spool_t *self, const char *name)
{
    crema_id_t id;
    uint64_t first_seq;
    struct stat st;
    if (s_is_own(name))
        return CREMA_OK;
    if (!s_parse(name, &id, &first_seq)) {
        self->foreign_names++;
        return CREMA_OK;
    }
    crema_spool_entry_t *entry = crema_spool_entry(self, &id);
    if (entry && s_see_again(self, entry, first_seq))
        return CREMA_OK;
    if (fstatat(self->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? CREMA_OK : CREMA_EIO; /* removed since it was listed */
    if (!S_ISREG(st.st_mode) || st.st_size > CREMA_SPOOL_SEGMENT_MAX) {
        self->foreign_names++;
        return CREMA_OK;
    }
    if (!entry) {
        crema_err_t err = s_give_place(self, &id, first_seq, st.st_uid, &entry);
        if (err != CREMA_OK || !entry)
            return err;
    }
    return s_see_segment(self, entry, first_seq, st.st_uid);
}

/* A stream belongs to the owner of its first file: files of other owners under its name are
 * ignored. */
static void
s_forget_unseen(crema_spool_t *self)
{
    for (size_t i = self->n_entries; i-- > 0;) {
        crema_spool_entry_t *entry = self->entries[i];
        size_t kept = 0;
        for (size_t k = 0; k < entry->n_segments; k++) {
            const crema_spool_segment_t *segment = &entry->segments[k];
            bool is_seen = segment->seen == self->listing;
            bool is_foreign = is_seen && kept > 0 && segment->owner != entry->segments[0].owner;
            self->foreign_names += is_foreign;
            if (is_seen && !is_foreign)
                entry->segments[kept++] = *segment;
            else
                entry->public.bytes -= segment->size;
        }
        entry->n_segments = kept;
        if (kept == 0)
            crema_spool_forget(self, entry);
    }
}

static DIR *
s_open_dir(const crema_spool_t *self)
{
    int fd = openat(self->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int why = errno;
    if (fd >= 0 && !dir)
        close(fd);
    errno = why;
    return dir;
}

bool
crema_spool_has_newer(const crema_spool_t *self, const crema_spool_entry_t *entry)
{
    const crema_spool_segment_t *newest = &entry->segments[entry->n_segments - 1];
    DIR *dir = s_open_dir(self);
    if (!dir)
        return true;
    bool found = false;
    const struct dirent *item;
    while (errno = 0, !found && (item = readdir(dir))) {
        crema_id_t id;
        uint64_t first;
        struct stat st;
        found = s_parse(item->d_name, &id, &first) &&
                crema_id_equal(&id, &entry->public.stream_id) && first > newest->first_seq &&
                fstatat(self->dir, item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                st.st_uid == entry->segments[0].owner;
    }
    found = found || errno != 0;
    closedir(dir);
    return found;
}

/* Processes every name; returns 0 or an errno. */
static int
s_see_names(crema_spool_t *self, DIR *dir)
{
    const struct dirent *item;
    while (errno = 0, (item = readdir(dir)))
        switch (s_see_name(self, item->d_name)) {
        case CREMA_OK:
            break;
        case CREMA_ENOMEM:
            return ENOMEM;
        default:
            return errno;
        }
    return errno;
}

static int
s_list(crema_spool_t *self)
{
    struct stat st;
    if (fstat(self->dir, &st) != 0)
        return errno;
    int64_t changed_ns = crema_clock_ns(st.st_mtim);
    if (!self->list_again && changed_ns == self->changed_ns)
        return 0;
    DIR *dir = s_open_dir(self);
    if (!dir)
        return errno;
    self->changed_ns = changed_ns;
    self->list_again = crema_clock_real_ns() - changed_ns < CREMA_SPOOL_GRAIN_NS;
    self->listing++;
    self->foreign_names = 0;
    self->stats.waiting_files = 0;
    int why = crema_spool_count_users(self) == CREMA_OK ? s_see_names(self, dir) : ENOMEM;
    closedir(dir);
    if (why == 0)
        s_forget_unseen(self);
    return why;
}

void
crema_spool_list_anew(crema_spool_t *self)
{
    self->list_again = true;
}

crema_err_t
crema_spool_list(crema_spool_t *self)
{
    self->list_fault = s_list(self);
    if (self->list_fault == 0)
        return CREMA_OK;
    self->list_again = true;
    return self->list_fault == ENOMEM ? CREMA_ENOMEM : CREMA_EIO;
}
