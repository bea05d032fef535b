#include "crema_health.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_log.h"
#include "crema_notify.h"

static bool
s_touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return false;
    bool touched = futimens(fd, NULL) == 0;
    close(fd);
    return touched;
}

void
crema_health_report(const char *path, bool healthy)
{
    crema_notify_alive(healthy ? "serving" : "waiting: see the log");
    if (!path)
        return;
    bool written = healthy ? s_touch(path) : unlink(path) == 0 || errno == ENOENT;
    if (!written)
        crema_log_warn("health_not_written", CREMA_TEXT("path", path),
                       CREMA_TEXT("why", strerror(errno)));
}
