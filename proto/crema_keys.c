#include "crema_keys.h"

#include <arpa/inet.h>
#include <czmq.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "crema_clock.h"
#include "crema_config.h"

#define KEY_BYTES 32
#define KEY_CHARS 41 /* Z85, with its NUL */
#define ZAP_ENDPOINT "inproc://zeromq.zap.01"
#define ZAP_DOMAIN "crema"

/* Named in libzmq's header for draft builds only, but honoured by every libzmq 4.3: a server socket without a ZAP handler then
 * refuses everybody instead of admitting everybody. */
#define ENFORCE_DOMAIN 93

/* How long the handler may take to prove itself. */
#define SELF_TEST_NS (3 * INT64_C(1000000000))

struct crema_keys {
    bool server;               /* which side of the pair we are */
    zcert_t *own;              /* with its secret */
    char peer_text[KEY_CHARS]; /* the other side's public key */
    uint8_t peer[KEY_BYTES];   /* the same, decoded */
};

/* ---- files */

static const char *const s_files[] = {"server.key", "client.key"};
static const char *const s_secret_files[] = {"server.key_secret", "client.key_secret"};

static void
s_path(const char *dir, const char *file, char *ret_path, size_t size)
{
    snprintf(ret_path, size, "%s/%s", dir, file);
}

static crema_err_t
s_err_of(int number)
{
    switch (number) {
    case ENOENT:
    case ENOTDIR:
        return CREMA_ENOENT;
    case ENOSPC:
    case EDQUOT:
        return CREMA_ENOSPC;
    case ENOMEM:
        return CREMA_ENOMEM;
    default:
        return CREMA_EIO;
    }
}

/* True if any key file, even one of a making that was cut short, is there. */
static bool
s_holds_keys(int dir)
{
    for (size_t i = 0; i < 2; i++)
        if (faccessat(dir, s_files[i], F_OK, 0) == 0 ||
            faccessat(dir, s_secret_files[i], F_OK, 0) == 0)
            return true;
    return false;
}

static crema_err_t
s_save_pair(const char *dir, size_t i)
{
    char path[PATH_MAX], secret_path[PATH_MAX];
    zcert_t *cert = zcert_new();
    if (!cert)
        return CREMA_ENOMEM;
    s_path(dir, s_files[i], path, sizeof path);
    s_path(dir, s_secret_files[i], secret_path, sizeof secret_path);
    int rc = zcert_save(cert, path);
    zcert_destroy(&cert);
    if (rc == 0)
        rc = chmod(secret_path, 0600);
    return rc == 0 ? CREMA_OK : s_err_of(errno);
}

/* `fd` is the directory, locked: of two that make keys at once, the second finds them. */
static crema_err_t
s_make_in(const char *dir, int fd)
{
    if (flock(fd, LOCK_EX) < 0 || fchmod(fd, 0700) < 0)
        return s_err_of(errno);
    if (s_holds_keys(fd))
        return CREMA_EBUSY;
    crema_err_t err = s_save_pair(dir, 0);
    if (err == CREMA_OK)
        err = s_save_pair(dir, 1);
    for (size_t i = 0; err != CREMA_OK && i < 2; i++) {
        unlinkat(fd, s_files[i], 0);
        unlinkat(fd, s_secret_files[i], 0);
    }
    return err;
}

crema_err_t
crema_keys_make(const char *dir)
{
    if (!zsys_has_curve())
        return CREMA_ECONFIG;
    if (strlen(dir) > PATH_MAX - 32)
        return CREMA_EINVAL;
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return s_err_of(errno);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return s_err_of(errno);
    crema_err_t err = s_make_in(dir, fd);
    close(fd);
    return err;
}

/* Key of 40 characters at curve/<name> of a certificate file. */
static bool
s_read_key(zconfig_t *file, const char *name, uint8_t ret_key[KEY_BYTES])
{
    const char *text = zconfig_get(file, name, NULL);
    return text && strlen(text) == KEY_CHARS - 1 && zmq_z85_decode(ret_key, text) != NULL;
}

static zconfig_t *
s_open(const char *dir, const char *file)
{
    char path[PATH_MAX];
    s_path(dir, file, path, sizeof path);
    return crema_config_read(path);
}

static bool
s_load_own(crema_keys_t *self, const char *dir)
{
    uint8_t public_key[KEY_BYTES], secret_key[KEY_BYTES];
    zconfig_t *file = s_open(dir, s_secret_files[self->server ? 0 : 1]);
    if (file && s_read_key(file, "curve/public-key", public_key) &&
        s_read_key(file, "curve/secret-key", secret_key))
        self->own = zcert_new_from(public_key, secret_key);
    zconfig_destroy(&file);
    explicit_bzero(secret_key, sizeof secret_key);
    return self->own != NULL;
}

static bool
s_load_peer(crema_keys_t *self, const char *dir)
{
    zconfig_t *file = s_open(dir, s_files[self->server ? 1 : 0]);
    bool loaded = file && s_read_key(file, "curve/public-key", self->peer) &&
                  zmq_z85_encode(self->peer_text, self->peer, KEY_BYTES) != NULL;
    zconfig_destroy(&file);
    return loaded;
}

static bool
s_is_private(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* NULL, or what is wrong with the directory. */
static const char *
s_load(crema_keys_t *self, const char *dir)
{
    char secret_path[PATH_MAX];
    if (!zsys_has_curve())
        return "libzmq was built without CURVE";
    if (strlen(dir) > sizeof secret_path - 32)
        return "the name of the key directory is too long";
    s_path(dir, s_secret_files[self->server ? 0 : 1], secret_path, sizeof secret_path);
    if (access(dir, F_OK) < 0)
        return "there is no such key directory";
    if (!s_is_private(dir))
        return "the key directory is open to others; chmod 0700 it";
    if (access(secret_path, F_OK) < 0)
        return self->server ? "server.key_secret is missing" : "client.key_secret is missing";
    if (!s_is_private(secret_path))
        return "the secret key is open to others; chmod 0600 it, or make new keys";
    if (!s_load_own(self, dir))
        return self->server ? "server.key_secret is not a readable CZMQ certificate"
                            : "client.key_secret is not a readable CZMQ certificate";
    if (!s_load_peer(self, dir))
        return self->server ? "client.key is not a readable CZMQ certificate"
                            : "server.key is not a readable CZMQ certificate";
    return NULL;
}

crema_err_t
crema_keys_load(const char *dir, bool server, crema_keys_t **ret_self, const char **ret_why)
{
    if (!dir) {
        *ret_self = NULL;
        return CREMA_OK;
    }
    crema_keys_t *self = calloc(1, sizeof *self);
    if (!self) {
        *ret_why = "out of memory";
        return CREMA_ENOMEM;
    }
    self->server = server;
    const char *why = s_load(self, dir);
    if (why) {
        crema_keys_destroy(&self);
        *ret_why = why;
        return CREMA_ECONFIG;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
crema_keys_destroy(crema_keys_t **self_p)
{
    crema_keys_t *self = *self_p;
    if (!self)
        return;
    zcert_destroy(&self->own);
    free(self);
    *self_p = NULL;
}

/* ---- sockets */

/* False if libzmq does not know the option that closes the door when no handler stands there. */
static bool
s_secure(const crema_keys_t *self, zsock_t *sock)
{
    static const int yes = 1;
    zcert_apply(self->own, sock);
    zsock_set_curve_server(sock, 1);
    zsock_set_zap_domain(sock, ZAP_DOMAIN);
    return zmq_setsockopt(zsock_resolve(sock), ENFORCE_DOMAIN, &yes, sizeof yes) == 0;
}

void
crema_keys_serve(const crema_keys_t *self, zsock_t *sock)
{
    if (self) {
        bool secured = s_secure(self, sock);
        assert(secured); /* crema_zap_new() has seen it work, and comes first */
        (void)secured;
    }
}

void
crema_keys_connect(const crema_keys_t *self, zsock_t *sock)
{
    if (self) {
        zcert_apply(self->own, sock);
        zsock_set_curve_serverkey(sock, self->peer_text);
    }
}

/* True if host[0..length) is an address of 127.0.0.0/8, ::1 in brackets, or localhost. */
static bool
s_is_loopback(const char *host, size_t length)
{
    char text[64];
    struct in_addr v4;
    struct in6_addr v6;
    if (length >= sizeof text)
        return false;
    memcpy(text, host, length);
    text[length] = '\0';
    if (strcmp(text, "localhost") == 0)
        return true;
    if (length > 2 && text[0] == '[' && text[length - 1] == ']') {
        text[length - 1] = '\0';
        return inet_pton(AF_INET6, text + 1, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    }
    return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

bool
crema_keys_is_local(const char *endpoint)
{
    static const char tcp[] = "tcp://";
    if (strncmp(endpoint, "ipc://", 6) == 0 || strncmp(endpoint, "inproc://", 9) == 0)
        return true;
    if (strncmp(endpoint, tcp, sizeof tcp - 1) != 0)
        return false;
    const char *host = endpoint + sizeof tcp - 1;
    const char *colon = strrchr(host, ':');
    return colon && s_is_loopback(host, (size_t)(colon - host));
}

/* ---- the ZAP handler */

struct crema_zap {
    zsock_t *rep;
    uint8_t admitted[2][KEY_BYTES]; /* the peer's; the self-test's while it lasts */
    size_t n_admitted;
    unsigned long refused;
};

/* Frames of a request, RFC 27. */
enum { VERSION, REQUEST_ID, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS, REQUEST_FRAMES };

static bool
s_may_enter(const crema_zap_t *self, zframe_t *const frames[REQUEST_FRAMES])
{
    if (!zframe_streq(frames[VERSION], "1.0") || !zframe_streq(frames[DOMAIN], ZAP_DOMAIN) ||
        !zframe_streq(frames[MECHANISM], "CURVE") || zframe_size(frames[CREDENTIALS]) != KEY_BYTES)
        return false;
    for (size_t i = 0; i < self->n_admitted; i++)
        if (memcmp(zframe_data(frames[CREDENTIALS]), self->admitted[i], KEY_BYTES) == 0)
            return true;
    return false;
}

/* The user id of a message is its sender's public key: what a server asks for to know who speaks. */
static void
s_answer(crema_zap_t *self, zframe_t *request_id, bool admitted, zframe_t *credentials)
{
    char user[KEY_CHARS] = "";
    zmsg_t *reply = zmsg_new();
    if (admitted)
        zmq_z85_encode(user, zframe_data(credentials), KEY_BYTES);
    zmsg_addstr(reply, "1.0");
    zmsg_addmem(reply, request_id ? zframe_data(request_id) : NULL,
                request_id ? zframe_size(request_id) : 0);
    zmsg_addstr(reply, admitted ? "200" : "400");
    zmsg_addstr(reply, admitted ? "OK" : "not admitted");
    zmsg_addstr(reply, user);
    zmsg_addmem(reply, NULL, 0);
    if (zmsg_send(&reply, self->rep) != 0)
        zmsg_destroy(&reply);
}

void
crema_zap_handle(crema_zap_t *self)
{
    zmsg_t *request = zmsg_recv(self->rep);
    if (!request)
        return;
    zframe_t *frames[REQUEST_FRAMES] = {NULL};
    size_t n = 0;
    for (zframe_t *frame = zmsg_first(request); frame && n < REQUEST_FRAMES;
         frame = zmsg_next(request))
        frames[n++] = frame;
    bool admitted =
        n == REQUEST_FRAMES && zmsg_size(request) == REQUEST_FRAMES && s_may_enter(self, frames);
    self->refused += !admitted;
    s_answer(self, frames[REQUEST_ID], admitted, frames[CREDENTIALS]);
    zmsg_destroy(&request);
}

/* ---- the self-test: a stranger must be refused and a guest must get through */

typedef struct {
    zsock_t *server;
    zsock_t *stranger;
    zsock_t *guest;
} self_test_t;

/* A client with a fresh pair that says `word` once it is let in; NULL if it cannot be made. */
static zsock_t *
s_new_client(const crema_keys_t *keys, const char *endpoint, const char *word,
             uint8_t ret_key[KEY_BYTES])
{
    zcert_t *cert = zcert_new();
    zsock_t *sock = zsock_new(ZMQ_PUSH);
    if (cert && sock) {
        memcpy(ret_key, zcert_public_key(cert), KEY_BYTES);
        zcert_apply(cert, sock);
        zsock_set_curve_serverkey(sock, zcert_public_txt(keys->own));
        zsock_set_linger(sock, 0);
        zsock_set_reconnect_ivl(sock, -1);
        zsock_set_sndtimeo(sock, 0);
        if (zsock_connect(sock, "%s", endpoint) != 0 || zstr_send(sock, word) != 0)
            zsock_destroy(&sock);
    }
    zcert_destroy(&cert);
    return sock;
}

static bool
s_prepare(self_test_t *test, crema_zap_t *zap, const crema_keys_t *keys)
{
    uint8_t stranger_key[KEY_BYTES];
    test->server = zsock_new(ZMQ_PULL);
    if (!test->server || !s_secure(keys, test->server))
        return false;
    zsock_set_linger(test->server, 0);
    if (zsock_bind(test->server, "tcp://127.0.0.1:*") < 0)
        return false;
    const char *endpoint = zsock_endpoint(test->server);
    test->stranger = s_new_client(keys, endpoint, "stranger", stranger_key);
    test->guest = s_new_client(keys, endpoint, "guest", zap->admitted[zap->n_admitted]);
    zap->n_admitted++;
    return test->stranger && test->guest;
}

/* True once the stranger was refused and the guest was heard; false if the stranger was, or nothing comes. */
static bool
s_watch(self_test_t *test, crema_zap_t *zap)
{
    bool heard = false;
    int64_t deadline_ns = crema_clock_mono_ns() + SELF_TEST_NS;
    while (!heard || zap->refused == 0) {
        zmq_pollitem_t items[] = {{zsock_resolve(zap->rep), 0, ZMQ_POLLIN, 0},
                                  {zsock_resolve(test->server), 0, ZMQ_POLLIN, 0}};
        int64_t left_ms = (deadline_ns - crema_clock_mono_ns()) / 1000000;
        if (left_ms <= 0 || (zmq_poll(items, 2, left_ms) < 0 && errno != EINTR))
            return false;
        if (items[0].revents & ZMQ_POLLIN)
            crema_zap_handle(zap);
        if (items[1].revents & ZMQ_POLLIN) {
            char *word = zstr_recv(test->server);
            heard = word && strcmp(word, "guest") == 0;
            zstr_free(&word);
            if (!heard)
                return false;
        }
    }
    return true;
}

static crema_err_t
s_self_test(crema_zap_t *zap, const crema_keys_t *keys)
{
    self_test_t test = {NULL, NULL, NULL};
    bool passed = s_prepare(&test, zap, keys) && s_watch(&test, zap);
    zsock_destroy(&test.guest);
    zsock_destroy(&test.stranger);
    zsock_destroy(&test.server);
    zap->n_admitted = 1;
    zap->refused = 0;
    return passed ? CREMA_OK : CREMA_ENET;
}

crema_err_t
crema_zap_new(const crema_keys_t *keys, crema_zap_t **ret_self)
{
    if (!keys) {
        *ret_self = NULL;
        return CREMA_OK;
    }
    if (!keys->server)
        return CREMA_EINVAL;
    crema_zap_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    memcpy(self->admitted[0], keys->peer, KEY_BYTES);
    self->n_admitted = 1;
    self->rep = zsock_new(ZMQ_REP);
    crema_err_t err = self->rep ? CREMA_OK : CREMA_ENOMEM;
    if (err == CREMA_OK) {
        zsock_set_linger(self->rep, 0);
        zsock_set_rcvtimeo(self->rep, 0);
        zsock_set_sndtimeo(self->rep, 0);
        err =
            zsock_bind(self->rep, "%s", ZAP_ENDPOINT) == 0 ? s_self_test(self, keys) : CREMA_EBUSY;
    }
    if (err != CREMA_OK)
        crema_zap_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
crema_zap_destroy(crema_zap_t **self_p)
{
    crema_zap_t *self = *self_p;
    if (!self)
        return;
    /* Closing a socket gives its inproc name back some time later; unbinding does so now. */
    if (self->rep)
        zsock_unbind(self->rep, "%s", ZAP_ENDPOINT);
    zsock_destroy(&self->rep);
    free(self);
    *self_p = NULL;
}

zsock_t *
crema_zap_socket(crema_zap_t *self)
{
    return self ? self->rep : NULL;
}

unsigned long
crema_zap_refused(const crema_zap_t *self)
{
    return self ? self->refused : 0;
}
