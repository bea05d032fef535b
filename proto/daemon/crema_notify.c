#include "crema_notify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
    bool read;
    int fd; /* -1: no service manager */
    struct sockaddr_un address;
    socklen_t length;
} s_manager = {.fd = -1};

static void
s_find_manager(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    s_manager.read = true;
    if (!path || (path[0] != '/' && path[0] != '@') ||
        strlen(path) >= sizeof s_manager.address.sun_path)
        return;
    s_manager.address.sun_family = AF_UNIX;
    strcpy(s_manager.address.sun_path, path);
    s_manager.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (path[0] == '@')
        s_manager.address.sun_path[0] = '\0'; /* an abstract name */
    s_manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

bool
crema_notify_is_heard(void)
{
    if (!s_manager.read)
        s_find_manager();
    return s_manager.fd >= 0;
}

/* A lost notification is not repeated: the next one comes within a second. */
static void
s_say(const char *words)
{
    if (!crema_notify_is_heard())
        return;
    ssize_t ignored = sendto(s_manager.fd, words, strlen(words), MSG_NOSIGNAL,
                             (const struct sockaddr *)&s_manager.address, s_manager.length);
    (void)ignored;
}

void
crema_notify_ready(void)
{
    s_say("READY=1");
}

void
crema_notify_alive(const char *status)
{
    char words[256];
    snprintf(words, sizeof words, "WATCHDOG=1\nSTATUS=%s", status);
    s_say(words);
}

void
crema_notify_stopping(void)
{
    s_say("STOPPING=1");
}
