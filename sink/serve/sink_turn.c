#include "sink_turn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "crema_bytes.h"
#include "crema_log.h"
#include "crema_server.h"
#include "sink_fs.h"

#define FILE_NAME ".crema-sink"

crema_err_t
sink_turn_take(const char *output_dir, const crema_id_t *store_id, char *ret_why, size_t why_size,
               int *ret_fd)
{
    char path[PATH_MAX], uuid[37];
    *ret_fd = -1;
    int fd = open(sink_fs_path(output_dir, FILE_NAME, path),
                  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    struct flock lock = {
        .l_type = F_WRLCK,
        .l_whence = SEEK_SET,
        .l_start = (off_t)(crema_get_u64(store_id->bytes) >> 2),
        .l_len = 1,
    };
    if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0) {
        *ret_fd = fd;
        return CREMA_OK;
    }
    const int why = errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && (why == EAGAIN || why == EACCES))
        return crema_server_fail(
            CREMA_EBUSY, ret_why, why_size,
            "another crema-sink serves a copy of this store (%s) with the output directory %s; "
            "end one of the two, or give this one another --output",
            crema_id_uuid(store_id, uuid), output_dir);
    crema_log_warn("output_not_locked", CREMA_TEXT("path", path), CREMA_TEXT("why", strerror(why)));
    return CREMA_OK;
}
