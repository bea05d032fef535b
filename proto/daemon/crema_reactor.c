#include "crema_reactor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <czmq.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "crema_random.h"
#include "crema_wire.h"

void
crema_umask_begin(void)
{
    mode_t mask = umask(077);
    (void)umask(mask & 077);
}

/* ---- signals */

static const int c_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1};

/* A listener without free descriptors would spin, so the soft limit is raised to the hard one. */
static void
s_raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

crema_err_t
crema_signals_new(int *ret_fd)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof c_signals / sizeof *c_signals; i++)
        sigaddset(&set, c_signals[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return CREMA_EIO;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of a file's size fails with EFBIG */
    zsys_handler_set(NULL);
    s_raise_file_limit();
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0)
        return CREMA_EIO;
    *ret_fd = fd;
    return CREMA_OK;
}

int
crema_signals_read(int fd)
{
    struct signalfd_siginfo info;
    ssize_t got;
    do
        got = read(fd, &info, sizeof info);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

crema_err_t
crema_signals_spawn_attr(posix_spawnattr_t *ret_attr)
{
    posix_spawnattr_t attr;
    if (posix_spawnattr_init(&attr) != 0)
        return CREMA_ENOMEM;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &defaults);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    *ret_attr = attr;
    return CREMA_OK;
}

void
crema_signals_restore(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
}

/* ---- loop */

/* Messages of up to a quarter of a MiB come and go. If the allocator returned their memory to the
 * kernel each time, the kernel would clear it for each of the next ones, which costs more than all
 * that is done with their bytes. */
static void
s_keep_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

zloop_t *
crema_loop_new(void)
{
    s_keep_memory();
    zloop_t *loop = zloop_new();
    if (loop)
        zloop_set_nonstop(loop, true);
    return loop;
}

/* ---- sockets */

#define UNSET (-2) /* keep the library's default */

/* One row per option, one column per role. High-water marks count messages; normally far fewer are
 * queued, and only the tap may drop.
 *
 * Unread messages of a server's peer are bounded by RCVHWM messages of CREMA_WIRE_MESSAGE_MAX: 8
 * MiB per connection of the aggregator, whose peers belong to many users; the rest waits in the
 * sender's spool. The sink's peers are aggregators, whose traffic is bounded by credit. Its mark
 * is higher because a connection whose reader stopped at its mark is closed after three seconds.
 *
 * A connection that broke without a word is found by the kernel: by keep-alive while it is quiet,
 * and by the limit to what may stay unacknowledged (MAXRT) while it is not. That wakes no program;
 * heartbeats of libzmq would wake both ends of each connection. The aggregator, which has
 * thousands, takes its time, since agents find it first. What only looks alive, a process that is
 * stopped or a connection that ends at a proxy, is found by the messages that do not come.
 *
 * The connecting side waits longer for the handshake than the accepting side, since many
 * simultaneous connections are accepted one after the other. */
static const struct {
    int option;
    int value[CREMA_ROLE_COUNT]; /* AGENT, AGENTS, SINK, STORE, TAP */
} c_options[] = {
    {ZMQ_LINGER, {0, 0, 0, 0, 0}},
    {ZMQ_IMMEDIATE, {1, UNSET, 1, UNSET, UNSET}},
    {ZMQ_ROUTER_MANDATORY, {UNSET, 1, UNSET, 1, UNSET}},
    {ZMQ_SNDHWM, {65536, 65536, 262144, 262144, 1000}},
    {ZMQ_RCVHWM, {65536, 32, 262144, 16384, 1000}},
    {ZMQ_TCP_KEEPALIVE, {1, 1, 1, 1, 1}},
    {ZMQ_TCP_KEEPALIVE_IDLE, {1, 30, 1, 1, 1}},
    {ZMQ_TCP_KEEPALIVE_INTVL, {1, 10, 1, 1, 1}},
    {ZMQ_TCP_KEEPALIVE_CNT, {3, 3, 3, 3, 3}},
    {ZMQ_TCP_MAXRT, {3000, UNSET, 3000, 3000, 3000}},
    {ZMQ_HANDSHAKE_IVL, {30000, 3000, 30000, 3000, 3000}},
    {ZMQ_CONNECT_TIMEOUT, {3000, UNSET, 3000, UNSET, UNSET}},
    {ZMQ_BACKLOG, {UNSET, 4096, UNSET, 4096, 128}},
};

static void
s_set_int(void *raw, int option, int value)
{
    /* Fails only for a closed socket or an invalid option, which would be a mistake in the table
     * above. */
    int rc = zmq_setsockopt(raw, option, &value, sizeof value);
    assert(rc == 0);
    (void)rc;
}

static int
s_jittered_ms(int least, int most)
{
    return least + (int)(crema_random_u64() % (uint64_t)(most - least + 1));
}

void
crema_socket_prepare(zsock_t *sock, crema_socket_role_t role)
{
    void *raw = zsock_resolve(sock);
    for (size_t i = 0; i < sizeof c_options / sizeof *c_options; i++)
        if (c_options[i].value[role] != UNSET)
            s_set_int(raw, c_options[i].option, c_options[i].value[role]);
    int64_t message_max = CREMA_WIRE_MESSAGE_MAX;
    int rc = zmq_setsockopt(raw, ZMQ_MAXMSGSIZE, &message_max, sizeof message_max);
    assert(rc == 0);
    (void)rc;
    if (role == CREMA_ROLE_AGENT)
        s_set_int(raw, ZMQ_RECONNECT_IVL, s_jittered_ms(500, 1500));
    if (role == CREMA_ROLE_SINK)
        s_set_int(raw, ZMQ_RECONNECT_IVL, s_jittered_ms(100, 300));
}

/* IPv6 is enabled only for a literal IPv6 address: otherwise a name such as localhost would
 * resolve to the one family on which there is no listener. */
static void
s_choose_family(void *raw, const char *endpoint)
{
    if (strncmp(endpoint, "tcp://[", 7) == 0)
        s_set_int(raw, ZMQ_IPV6, 1);
}

/* The lock lasts as long as the process: its descriptor is never closed. */
static crema_err_t
s_lock_ipc_path(const char *path)
{
    char lock[PATH_MAX];
    int n = snprintf(lock, sizeof lock, "%s.lock", path);
    if (n < 0 || (size_t)n >= sizeof lock)
        return CREMA_EINVAL;
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return CREMA_EIO;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return CREMA_OK;
    int why = errno;
    close(fd);
    errno = why;
    return why == EWOULDBLOCK ? CREMA_EBUSY : CREMA_EIO;
}

crema_err_t
crema_socket_bind(zsock_t *sock, const char *endpoint, char *ret_endpoint, size_t size)
{
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        crema_err_t err = s_lock_ipc_path(endpoint + 6);
        if (err != CREMA_OK)
            return err;
    }
    void *raw = zsock_resolve(sock);
    s_choose_family(raw, endpoint);
    mode_t mask = umask(077);
    int rc = zmq_bind(raw, endpoint);
    int why = errno;
    umask(mask);
    if (rc != 0) {
        errno = why;
        if (why == EADDRINUSE)
            return CREMA_EBUSY;
        return why == EINVAL || why == EPROTONOSUPPORT || why == ENOCOMPATPROTO ? CREMA_EINVAL
                                                                                : CREMA_EIO;
    }
    char full[1024];
    size_t length = sizeof full;
    if (zmq_getsockopt(raw, ZMQ_LAST_ENDPOINT, full, &length) != 0 || length > size)
        return CREMA_EIO;
    memcpy(ret_endpoint, full, length);
    return CREMA_OK;
}

crema_err_t
crema_socket_connect(zsock_t *sock, const char *endpoint)
{
    void *raw = zsock_resolve(sock);
    s_choose_family(raw, endpoint);
    return zmq_connect(raw, endpoint) == 0 ? CREMA_OK : CREMA_EINVAL;
}

/* libzmq passes the bytes to its own thread in a way that ThreadSanitizer does not see. */
#ifdef __SANITIZE_THREAD__
#define HAND_OVER(bytes) __tsan_release(bytes)
#define TAKE_OVER(bytes) __tsan_acquire(bytes)
#else
#define HAND_OVER(bytes) ((void)(bytes))
#define TAKE_OVER(bytes) ((void)(bytes))
#endif

static void
s_free(void *bytes, void *hint)
{
    (void)hint;
    TAKE_OVER(bytes);
    free(bytes);
}

crema_err_t
crema_socket_send(zsock_t *sock, uint8_t **bytes_p, size_t size)
{
    uint8_t *bytes = *bytes_p;
    *bytes_p = NULL;
    HAND_OVER(bytes);
    zmq_msg_t msg;
    if (zmq_msg_init_data(&msg, bytes, size, s_free, NULL) != 0) {
        free(bytes);
        return CREMA_ENOMEM;
    }
    if (zmq_msg_send(&msg, zsock_resolve(sock), ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&msg);
        return CREMA_EAGAIN;
    }
    return CREMA_OK;
}
