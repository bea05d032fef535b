#include "sink_segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sink_fs.h"

crema_err_t
sink_segments_path(const char *dir, uint32_t number, char path[PATH_MAX])
{
    char name[32];
    snprintf(name, sizeof name, "%06u.journal", number);
    return sink_fs_join(dir, name, path);
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

crema_err_t
sink_segments_list(const char *dir, uint32_t **ret_numbers, size_t *ret_n)
{
    DIR *stream = opendir(dir);
    if (!stream)
        return sink_fs_error(errno);
    uint32_t *numbers = NULL;
    size_t n = 0, room = 0;
    crema_err_t err = CREMA_OK;
    struct dirent *entry;
    while (err == CREMA_OK && (errno = 0, entry = readdir(stream))) {
        uint32_t number = s_segment_number(entry->d_name, ".journal");
        if (number == 0)
            continue;
        if (n == room) {
            room = room ? 2 * room : 16;
            uint32_t *grown = realloc(numbers, room * sizeof *numbers);
            if (!grown) {
                err = CREMA_ENOMEM;
                break;
            }
            numbers = grown;
        }
        numbers[n++] = number;
    }
    if (err == CREMA_OK && errno != 0)
        err = sink_fs_error(errno);
    closedir(stream);
    if (err != CREMA_OK) {
        free(numbers);
        return err;
    }
    if (n)
        qsort(numbers, n, sizeof *numbers, s_by_number);
    *ret_numbers = numbers;
    *ret_n = n;
    return CREMA_OK;
}

crema_err_t
sink_segments_newest(const char *dir, uint32_t *ret_number)
{
    DIR *stream = opendir(dir);
    if (!stream)
        return sink_fs_error(errno);
    struct dirent *entry;
    uint32_t newest = 0;
    while ((entry = readdir(stream))) {
        uint32_t number = s_segment_number(entry->d_name, ".journal");
        if (number == 0)
            number = s_segment_number(entry->d_name, SINK_SEGMENT_DAMAGED);
        if (number > newest)
            newest = number;
    }
    closedir(stream);
    *ret_number = newest;
    return CREMA_OK;
}

crema_err_t
sink_segments_damaged(const char *dir, uint64_t *ret_bytes)
{
    DIR *stream = opendir(dir);
    if (!stream)
        return sink_fs_error(errno);
    struct dirent *entry;
    struct stat st;
    uint64_t bytes = 0;
    while ((entry = readdir(stream)))
        if (s_segment_number(entry->d_name, SINK_SEGMENT_DAMAGED) > 0 &&
            fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            bytes += (uint64_t)st.st_size;
    closedir(stream);
    *ret_bytes = bytes;
    return CREMA_OK;
}
