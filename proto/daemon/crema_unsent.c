#include "crema_unsent.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* False: not a TCP connection. */
static bool
s_acked(int fd, uint64_t *ret_bytes)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked)
        return false;
    *ret_bytes = info.tcpi_bytes_acked;
    return true;
}

/* Frames, encryption and heartbeats are acknowledged too, but not counted as sent: the peer gets
 * no credit for them. A lower count means another connection with the same descriptor. */
static void
s_look(crema_unsent_t *self, uint64_t acked)
{
    if (acked > self->sent || acked < self->acked)
        self->sent = acked;
    self->acked = acked;
}

void
crema_unsent_heard(crema_unsent_t *self, int fd)
{
    uint64_t acked;
    if (fd == self->fd)
        return;
    *self = (crema_unsent_t){0};
    if (fd < 1 || !s_acked(fd, &acked))
        return;
    self->fd = fd;
    s_look(self, acked);
}

bool
crema_unsent_takes(crema_unsent_t *self, size_t size, size_t max)
{
    uint64_t acked;
    if (self->fd < 1)
        return true;
    if (self->sent - self->acked + size > max) {
        if (!s_acked(self->fd, &acked))
            return true; /* it has disconnected, as libzmq will report */
        s_look(self, acked);
        if (self->sent - self->acked + size > max)
            return false;
    }
    self->sent += size;
    return true;
}
