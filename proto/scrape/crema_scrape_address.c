#include "crema_scrape_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crema_value.h"

#define BACKLOG 64
#define HOST_BYTES 64

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address_t;

static bool
s_parse_host(const char *host, uint16_t port, address_t *ret_address, socklen_t *ret_size)
{
    *ret_address = (address_t){0};
    if (host[0] == '\0' || strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &ret_address->v4.sin_addr) == 1) {
        ret_address->v4.sin_family = AF_INET;
        ret_address->v4.sin_port = htons(port);
        *ret_size = sizeof ret_address->v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &ret_address->v6.sin6_addr) == 1) {
        ret_address->v6.sin6_family = AF_INET6;
        ret_address->v6.sin6_port = htons(port);
        *ret_size = sizeof ret_address->v6;
        return true;
    }
    return false;
}

static bool
s_parse(const char *address, address_t *ret_address, socklen_t *ret_size)
{
    char host[HOST_BYTES] = "";
    int64_t port;
    const char *colon = strrchr(address, ':');
    const char *digits = colon ? colon + 1 : address;
    size_t size = colon ? (size_t)(colon - address) : 0;
    if (size > 2 && address[0] == '[' && address[size - 1] == ']') {
        address++;
        size -= 2;
    } else if (size > 0 && memchr(address, ':', size)) {
        return false; /* IPv6 without brackets: where the port begins is ambiguous */
    }
    if (size >= sizeof host || !crema_value_parse_int(digits, &port) || port < 0 || port > 65535)
        return false;
    memcpy(host, address, size);
    return s_parse_host(host, (uint16_t)port, ret_address, ret_size);
}

bool
crema_scrape_address_is_sound(const char *address)
{
    address_t parsed;
    socklen_t size;
    return s_parse(address, &parsed, &size);
}

static void
s_print_url(const address_t *address, char ret_url[CREMA_SCRAPE_URL_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    const bool is_v6 = address->any.sa_family == AF_INET6;
    const void *bytes =
        is_v6 ? (const void *)&address->v6.sin6_addr : (const void *)&address->v4.sin_addr;
    inet_ntop(address->any.sa_family, bytes, host, sizeof host);
    snprintf(ret_url, CREMA_SCRAPE_URL_BYTES, "http://%s%s%s:%u/metrics", is_v6 ? "[" : "", host,
             is_v6 ? "]" : "", ntohs(is_v6 ? address->v6.sin6_port : address->v4.sin_port));
}

static crema_err_t
s_bind(int fd, const char *address, char ret_url[CREMA_SCRAPE_URL_BYTES])
{
    address_t bound;
    socklen_t size;
    const int on = 1;
    if (!s_parse(address, &bound, &size))
        return CREMA_EINVAL;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, &bound.any, size) != 0 || listen(fd, BACKLOG) != 0)
        return errno == EADDRINUSE ? CREMA_EBUSY : CREMA_EIO;
    if (getsockname(fd, &bound.any, &size) != 0)
        return CREMA_EIO;
    s_print_url(&bound, ret_url);
    return CREMA_OK;
}

crema_err_t
crema_scrape_listen(const char *address, int *ret_fd, char ret_url[CREMA_SCRAPE_URL_BYTES])
{
    address_t parsed;
    socklen_t size;
    if (!s_parse(address, &parsed, &size))
        return CREMA_EINVAL;
    int fd = socket(parsed.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return CREMA_EIO;
    crema_err_t err = s_bind(fd, address, ret_url);
    if (err != CREMA_OK) {
        const int why = errno;
        close(fd);
        errno = why;
        return err;
    }
    *ret_fd = fd;
    return CREMA_OK;
}
