#include "crema_keys.h"

#include <arpa/inet.h>
#include <czmq.h>
#include <sodium.h>
#include <sys/stat.h>

#include "crema_config.h"

#define KEY_BYTES 32
#define KEY_CHARS 41 /* Z85, with its NUL */

/* Declared in libzmq's header only for draft builds, but supported by every libzmq 4.3: a server
 * socket without a ZAP handler then refuses every connection instead of admitting all. */
#define ENFORCE_DOMAIN 93

struct crema_keys {
    crema_as_t as;             /* our side of the pair */
    char *dir;                 /* the directory in use */
    zcert_t *own;              /* with its secret */
    char peer_text[KEY_CHARS]; /* the server's public key, for connecting roles */
};

/* ---- files */

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
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return crema_config_read(path);
}

static void
s_secret_name(crema_as_t as, char ret_name[32])
{
    snprintf(ret_name, 32, "%s.key_secret", crema_as_name(as));
}

static bool
s_load_own(crema_keys_t *self, const char *file_name)
{
    uint8_t public_key[KEY_BYTES], secret_key[KEY_BYTES];
    zconfig_t *file = s_open(self->dir, file_name);
    if (file && s_read_key(file, "curve/public-key", public_key) &&
        s_read_key(file, "curve/secret-key", secret_key))
        self->own = zcert_new_from(public_key, secret_key);
    zconfig_destroy(&file);
    sodium_memzero(secret_key, sizeof secret_key);
    return self->own != NULL;
}

static bool
s_load_peer(crema_keys_t *self)
{
    uint8_t peer[KEY_BYTES];
    zconfig_t *file = s_open(self->dir, "server.key");
    bool loaded = file && s_read_key(file, "curve/public-key", peer) &&
                  zmq_z85_encode(self->peer_text, peer, KEY_BYTES) != NULL;
    zconfig_destroy(&file);
    return loaded;
}

static bool
s_is_private(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* `dir` itself if it contains the role's secret, otherwise the role's directory below it. */
static char *
s_find_dir(const char *dir, crema_as_t as, const char *secret)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, secret);
    if (access(path, F_OK) == 0)
        return strdup(dir);
    snprintf(path, sizeof path, "%s/%s", dir, crema_as_name(as));
    return strdup(access(path, F_OK) == 0 ? path : dir);
}

static const char *
s_missing(crema_as_t as, const char *dir)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/client.key_secret", dir);
    switch (as) {
    case CREMA_AS_SERVER:
        return "server.key_secret is missing";
    case CREMA_AS_AGGREGATOR:
        return "aggregator.key_secret is missing: crema keys makes a directory with keys of all "
               "roles";
    case CREMA_AS_AGENT:
        return access(path, F_OK) == 0
                   ? "agent.key_secret is missing: these are a client's keys, agents have their own"
                   : "agent.key_secret is missing";
    default:
        return "client.key_secret is missing";
    }
}

/* NULL, or the problem with the directory. */
static const char *
s_load(crema_keys_t *self, const char *dir)
{
    char secret_path[PATH_MAX], secret[32];
    if (!zsys_has_curve())
        return "libzmq was built without CURVE";
    if (strlen(dir) > sizeof secret_path - 64)
        return "the name of the key directory is too long";
    s_secret_name(self->as, secret);
    self->dir = s_find_dir(dir, self->as, secret);
    if (!self->dir)
        return "out of memory";
    snprintf(secret_path, sizeof secret_path, "%s/%s", self->dir, secret);
    if (access(dir, F_OK) < 0)
        return "the key directory does not exist";
    if (!s_is_private(self->dir))
        return "the key directory is open to others; chmod 0700 it";
    if (access(secret_path, F_OK) < 0)
        return s_missing(self->as, self->dir);
    if (!s_is_private(secret_path))
        return "the secret key is open to others; chmod 0600 it, or make new keys";
    if (!s_load_own(self, secret))
        return "the secret key is not a readable CZMQ certificate";
    if (self->as != CREMA_AS_SERVER && !s_load_peer(self))
        return "server.key is not a readable CZMQ certificate";
    return NULL;
}

crema_err_t
crema_keys_load(const char *dir, crema_as_t as, crema_keys_t **ret_self, const char **ret_why)
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
    self->as = as;
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
    free(self->dir);
    free(self);
    *self_p = NULL;
}

const char *
crema_keys_dir(const crema_keys_t *self)
{
    return self->dir;
}

const char *
crema_keys_public(const crema_keys_t *self)
{
    return zcert_public_txt(self->own);
}

crema_as_t
crema_keys_as(const crema_keys_t *self)
{
    return self->as;
}

/* ---- sockets */

bool
crema_keys_secure(const crema_keys_t *self, zsock_t *sock, const char *domain)
{
    static const int yes = 1;
    zcert_apply(self->own, sock);
    zsock_set_curve_server(sock, 1);
    zsock_set_zap_domain(sock, domain);
    return zmq_setsockopt(zsock_resolve(sock), ENFORCE_DOMAIN, &yes, sizeof yes) == 0;
}

void
crema_keys_serve(const crema_keys_t *self, zsock_t *sock, const char *domain)
{
    if (self) {
        bool secured = crema_keys_secure(self, sock, domain);
        assert(secured); /* crema_zap_new() has tested this before */
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
