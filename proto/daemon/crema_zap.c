#include "crema_zap.h"

#include <czmq.h>

#include "crema_clock.h"

#define KEY_BYTES 32
#define ZAP_ENDPOINT "inproc://zeromq.zap.01"

/* Time limit of the self-test. */
#define SELF_TEST_NS (3 * INT64_C(1000000000))

struct crema_zap {
    zsock_t *rep;
    crema_keyring_t *ring;
    uint8_t guest[KEY_BYTES]; /* key of the self-test while it runs */
    bool has_guest;
    bool patient;
    unsigned long refused;
    char refused_address[64];
};

/* Frames of a request, RFC 27. */
enum { VERSION, REQUEST_ID, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS, REQUEST_FRAMES };

/* True and the principal, or false. */
static bool
s_may_enter(const crema_zap_t *self, zframe_t *const frames[REQUEST_FRAMES],
            crema_principal_t *ret_peer)
{
    bool is_tap = zframe_streq(frames[DOMAIN], CREMA_DOMAIN_TAP);
    if (!zframe_streq(frames[VERSION], "1.0") ||
        (!is_tap && !zframe_streq(frames[DOMAIN], CREMA_DOMAIN_SERVICE)) ||
        !zframe_streq(frames[MECHANISM], "CURVE") || zframe_size(frames[CREDENTIALS]) != KEY_BYTES)
        return false;
    const uint8_t *key = zframe_data(frames[CREDENTIALS]);
    const crema_principal_t *known = crema_keyring_find(self->ring, key);
    if (known && (known->as == CREMA_AS_MONITOR) == is_tap)
        *ret_peer = *known;
    else if (self->has_guest && memcmp(key, self->guest, KEY_BYTES) == 0)
        *ret_peer = (crema_principal_t){.name = "guest"};
    else
        return false;
    return true;
}

/* The user id of a message names its sender to a server. `peer` NULL: refused. */
static void
s_answer(crema_zap_t *self, zframe_t *request_id, const crema_principal_t *peer)
{
    char user[CREMA_PRINCIPAL_TEXT_MAX] = "";
    zmsg_t *reply = zmsg_new();
    zmsg_addstr(reply, "1.0");
    zmsg_addmem(reply, request_id ? zframe_data(request_id) : NULL,
                request_id ? zframe_size(request_id) : 0);
    zmsg_addstr(reply, peer ? "200" : self->patient ? "300" : "400");
    zmsg_addstr(reply, peer ? "OK" : "not admitted");
    zmsg_addstr(reply, peer ? crema_principal_print(peer, user) : user);
    zmsg_addmem(reply, NULL, 0);
    if (zmsg_send(&reply, self->rep) != 0)
        zmsg_destroy(&reply);
}

static void
s_count_refused(crema_zap_t *self, zframe_t *address)
{
    self->refused++;
    size_t size = address ? zframe_size(address) : 0;
    if (size >= sizeof self->refused_address)
        size = sizeof self->refused_address - 1;
    memcpy(self->refused_address, address ? zframe_data(address) : (const void *)"", size);
    self->refused_address[size] = '\0';
}

void
crema_zap_set_patient(crema_zap_t *self, bool patient)
{
    self->patient = patient;
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
    crema_principal_t peer;
    bool admitted = n == REQUEST_FRAMES && zmsg_size(request) == REQUEST_FRAMES &&
                    s_may_enter(self, frames, &peer);
    if (!admitted)
        s_count_refused(self, frames[ADDRESS]);
    s_answer(self, frames[REQUEST_ID], admitted ? &peer : NULL);
    zmsg_destroy(&request);
}

/* ---- the self-test: an unknown key must be refused and a known one admitted */

typedef struct {
    zsock_t *server;
    zsock_t *stranger;
    zsock_t *guest;
} self_test_t;

/* A client with a new pair that sends `word` when admitted; NULL on failure. */
static zsock_t *
s_new_client(const crema_keys_t *keys, const char *endpoint, const char *word,
             uint8_t ret_key[KEY_BYTES])
{
    zcert_t *cert = zcert_new();
    zsock_t *sock = zsock_new(ZMQ_PUSH);
    if (cert && sock) {
        memcpy(ret_key, zcert_public_key(cert), KEY_BYTES);
        zcert_apply(cert, sock);
        zsock_set_curve_serverkey(sock, crema_keys_public(keys));
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
    if (!test->server || !crema_keys_secure(keys, test->server, CREMA_DOMAIN_SERVICE))
        return false;
    zsock_set_linger(test->server, 0);
    if (zsock_bind(test->server, "tcp://127.0.0.1:*") < 0)
        return false;
    const char *endpoint = zsock_endpoint(test->server);
    test->stranger = s_new_client(keys, endpoint, "stranger", stranger_key);
    test->guest = s_new_client(keys, endpoint, "guest", zap->guest);
    zap->has_guest = true;
    return test->stranger && test->guest;
}

/* True after the unknown key was refused and the known one was heard; false if the unknown one
 * was heard, or on timeout. */
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
    zap->has_guest = false;
    zap->refused = 0;
    zap->refused_address[0] = '\0';
    return passed ? CREMA_OK : CREMA_ENET;
}

crema_err_t
crema_zap_new(const crema_keys_t *keys, crema_keyring_t *ring, crema_zap_t **ret_self)
{
    if (!keys) {
        *ret_self = NULL;
        return CREMA_OK;
    }
    if (!ring || crema_keys_as(keys) != CREMA_AS_SERVER)
        return CREMA_EINVAL;
    crema_zap_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->ring = ring;
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
    /* Closing a socket releases its inproc name only later; unbinding releases it now. */
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

const char *
crema_zap_refused_address(const crema_zap_t *self)
{
    return self ? self->refused_address : "";
}
