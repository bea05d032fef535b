#include "crema_crowd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "crema_grow.h"

#define FREE_IN_A_ROW                                                                              \
    1024 /* descriptors are assigned from the lowest: after this many free ones there are no more */

typedef struct {
    struct in6_addr address; /* IPv4 addresses in their IPv6 form */
    uint16_t port;
} end_t;

typedef struct {
    end_t from;
    int fd;
    bool is_new;
} connection_t;

struct crema_crowd {
    size_t each_max;
    uint16_t ports[CREMA_CROWD_PORTS_MAX];
    size_t n_ports;
    connection_t *found; /* by this look */
    size_t n, room;
    end_t *known; /* by descriptor, from earlier looks; port 0: none */
    size_t n_known;
};

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address_t;

crema_err_t
crema_crowd_new(size_t each_max, crema_crowd_t **ret_self)
{
    if (each_max < 1)
        return CREMA_EINVAL;
    crema_crowd_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->each_max = each_max;
    *ret_self = self;
    return CREMA_OK;
}

void
crema_crowd_destroy(crema_crowd_t **self_p)
{
    crema_crowd_t *self = *self_p;
    if (self) {
        free(self->found);
        free(self->known);
        free(self);
    }
    *self_p = NULL;
}

void
crema_crowd_watch(crema_crowd_t *self, const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;
    if (strncmp(endpoint, "tcp://", 6) == 0 && port > 0 && port <= UINT16_MAX &&
        self->n_ports < CREMA_CROWD_PORTS_MAX)
        self->ports[self->n_ports++] = (uint16_t)port;
}

/* ---- looking */

static bool
s_end(const address_t *address, end_t *ret_end)
{
    end_t end = {.port = 0};
    if (address->any.sa_family == AF_INET6) {
        end.address = address->v6.sin6_addr;
        end.port = ntohs(address->v6.sin6_port);
    } else if (address->any.sa_family == AF_INET) {
        end.address.s6_addr[10] = end.address.s6_addr[11] = 0xff;
        memcpy(end.address.s6_addr + 12, &address->v4.sin_addr, 4);
        end.port = ntohs(address->v4.sin_port);
    }
    *ret_end = end;
    return end.port != 0;
}

/* True if this descriptor is a connection to one of the ports. */
static bool
s_is_connection(const crema_crowd_t *self, int fd, const address_t *here, end_t *ret_from)
{
    end_t end;
    address_t there = {.any.sa_family = AF_UNSPEC};
    socklen_t size = sizeof there;
    if (!s_end(here, &end))
        return false;
    for (size_t i = 0; i < self->n_ports; i++)
        if (end.port == self->ports[i])
            return getpeername(fd, &there.any, &size) == 0 && s_end(&there, ret_from);
    return false;
}

static bool
s_same(const end_t *a, const end_t *b)
{
    return a->port == b->port && memcmp(&a->address, &b->address, sizeof a->address) == 0;
}

static bool
s_note(crema_crowd_t *self, int fd, const end_t *from)
{
    connection_t *found = crema_grow(self->found, self->n, &self->room, sizeof *found);
    if (!found)
        return false;
    self->found = found;
    bool is_known = (size_t)fd < self->n_known && s_same(&self->known[fd], from);
    self->found[self->n++] = (connection_t){*from, fd, !is_known};
    return true;
}

static void
s_find(crema_crowd_t *self)
{
    self->n = 0;
    for (int fd = 0, free_before = 0; free_before < FREE_IN_A_ROW; fd++) {
        end_t from;
        address_t here = {.any.sa_family = AF_UNSPEC};
        socklen_t size = sizeof here;
        bool is_socket = getsockname(fd, &here.any, &size) == 0;
        free_before = !is_socket && errno == EBADF ? free_before + 1 : 0;
        if (is_socket && s_is_connection(self, fd, &here, &from) && !s_note(self, fd, &from))
            return; /* out of memory: the rest waits for the next look */
    }
}

/* ---- thinning */

/* By address, then known connections before new ones. */
static int
s_compare(const void *a, const void *b)
{
    const connection_t *one = a, *other = b;
    int order = memcmp(&one->from.address, &other->from.address, sizeof one->from.address);
    if (order == 0)
        order = one->is_new - other->is_new;
    return order ? order : (one->fd > other->fd) - (one->fd < other->fd);
}

static bool
s_is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

static void
s_say_address(const struct in6_addr *address, char *ret_text)
{
    if (IN6_IS_ADDR_V4MAPPED(address))
        inet_ntop(AF_INET, address->s6_addr + 12, ret_text, CREMA_CROWD_ADDRESS_BYTES);
    else
        inet_ntop(AF_INET6, address, ret_text, CREMA_CROWD_ADDRESS_BYTES);
}

/* Remembers the remaining connections for the next look. */
static void
s_know(crema_crowd_t *self)
{
    size_t n_known = 0;
    for (size_t i = 0; i < self->n; i++)
        if ((size_t)self->found[i].fd >= n_known)
            n_known = (size_t)self->found[i].fd + 1;
    end_t *known = calloc(n_known + 1, sizeof *known);
    if (!known)
        return;
    for (size_t i = 0; i < self->n; i++)
        known[self->found[i].fd] = self->found[i].from;
    free(self->known);
    self->known = known;
    self->n_known = n_known;
}

size_t
crema_crowd_thin(crema_crowd_t *self, char ret_address[CREMA_CROWD_ADDRESS_BYTES])
{
    size_t shut = 0, of_address = 0;
    s_find(self);
    if (self->n > self->each_max)
        qsort(self->found, self->n, sizeof *self->found, s_compare);
    for (size_t i = 0; self->n > self->each_max && i < self->n; i++) {
        const struct in6_addr *address = &self->found[i].from.address;
        bool is_first =
            i == 0 || memcmp(address, &self->found[i - 1].from.address, sizeof *address) != 0;
        size_t most = self->each_max * (s_is_loopback(address) ? CREMA_CROWD_LOOPBACK_TIMES : 1);
        of_address = is_first ? 1 : of_address + 1;
        if (of_address <= most)
            continue;
        (void)shutdown(self->found[i].fd, SHUT_RDWR);
        s_say_address(address, ret_address);
        self->found[i].from.port = 0; /* forgotten at the next look */
        shut++;
    }
    s_know(self);
    return shut;
}
