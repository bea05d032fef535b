#include "sink_segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "crema_grow.h"
#include "sink_fs.h"

#define NAME_BYTES 40 /* of a segment, damaged or not */

char *
sink_segments_path(const char *dir, uint32_t number, char path[PATH_MAX])
{
    char name[32];
    snprintf(name, sizeof name, "%06u.journal", number);
    return sink_fs_path(dir, name, path);
}

/* The number in "000001.journal" and similar names; 0 for any other name. */
static uint32_t
s_segment_number(const char *name, const char *suffix)
{
    size_t digits = strspn(name, "0123456789");
    if (digits < 6 || digits > 8 || strcmp(name + digits, suffix) != 0)
        return 0;
    return (uint32_t)strtoul(name, NULL, 10);
}

static int
s_by_number(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static crema_err_t
s_append(sink_segments_t *self, size_t *room, uint32_t number)
{
    uint32_t *numbers = crema_grow(self->numbers, self->n, room, sizeof *numbers);
    if (!numbers)
        return CREMA_ENOMEM;
    self->numbers = numbers;
    self->numbers[self->n++] = number;
    return CREMA_OK;
}

static crema_err_t
s_take_entry(sink_segments_t *self, size_t *room, DIR *stream, const char *name)
{
    struct stat st;
    uint32_t number = s_segment_number(name, ".journal");
    uint32_t damaged = s_segment_number(name, SINK_SEGMENT_DAMAGED);
    if (number == 0 && damaged == 0)
        return CREMA_OK;
    if (number > self->newest || damaged > self->newest)
        self->newest = number > 0 ? number : damaged;
    if (damaged > self->last_damaged)
        self->last_damaged = damaged;
    if (fstatat(dirfd(stream), name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        *(number > 0 ? &self->bytes : &self->damaged_bytes) += (uint64_t)st.st_size;
    return number > 0 ? s_append(self, room, number) : CREMA_OK;
}

crema_err_t
sink_segments_find(const char *dir, sink_segments_t *ret_found)
{
    DIR *stream = sink_fs_fits(dir, NAME_BYTES) ? opendir(dir) : NULL;
    if (!stream)
        return sink_fs_error(errno);
    sink_segments_t found = {0};
    size_t room = 0;
    crema_err_t err = CREMA_OK;
    struct dirent *entry;
    while (err == CREMA_OK && (errno = 0, entry = readdir(stream)))
        err = s_take_entry(&found, &room, stream, entry->d_name);
    if (err == CREMA_OK && errno != 0)
        err = sink_fs_error(errno);
    closedir(stream);
    if (err != CREMA_OK) {
        free(found.numbers);
        return err;
    }
    if (found.n > 0)
        qsort(found.numbers, found.n, sizeof *found.numbers, s_by_number);
    *ret_found = found;
    return CREMA_OK;
}
