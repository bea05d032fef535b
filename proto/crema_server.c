#include "crema_server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <czmq.h>

#include "crema_json.h"

struct crema_server {
    crema_keys_t *keys; /* NULL: plain, and only reached from this host */
    crema_zap_t *zap;
    zsock_t *router;
    char endpoint[256];
};

crema_err_t
crema_server_fail(crema_err_t err, char *ret_why, size_t why_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ret_why, why_size, format, arguments);
    va_end(arguments);
    return err;
}

bool
crema_server_refuses(const char *option, const char *endpoint, const char *keys_dir, char *ret_why,
                     size_t why_size)
{
    if (!strstr(endpoint, "://"))
        snprintf(ret_why, why_size, "--%s: %s is no endpoint such as tcp://127.0.0.1:5700", option,
                 endpoint);
    else if (!keys_dir && !crema_keys_is_local(endpoint))
        snprintf(ret_why, why_size,
                 "--%s: %s can be reached from other hosts: give --keys DIR (crema-aggregator "
                 "--make-keys DIR makes one), or bind to 127.0.0.1",
                 option, endpoint);
    else
        return false;
    return true;
}

crema_err_t
crema_server_bind_failed(crema_err_t err, const char *option, const char *endpoint, char *ret_why,
                         size_t why_size)
{
    if (err == CREMA_EBUSY)
        return crema_server_fail(
            err, ret_why, why_size,
            "%s is taken by another process: stop it, or choose another port with --%s", endpoint,
            option);
    if (err == CREMA_EINVAL)
        return crema_server_fail(CREMA_ECONFIG, ret_why, why_size,
                                 "--%s: %s is no endpoint such as tcp://127.0.0.1:5700", option,
                                 endpoint);
    return crema_server_fail(err, ret_why, why_size, "%s cannot be bound: %s", endpoint,
                             strerror(errno));
}

/* The ZAP handler is there before the socket is bound: CURVE without one admits every key. */
static crema_err_t
s_load_keys(crema_server_t *self, const char *dir, char *why, size_t size)
{
    const char *reason = NULL;
    crema_err_t err = crema_keys_load(dir, true, &self->keys, &reason);
    if (err != CREMA_OK)
        return crema_server_fail(CREMA_ECONFIG, why, size, "the keys in %s cannot be used: %s", dir,
                                 reason ? reason : crema_err_text(err));
    err = crema_zap_new(self->keys, &self->zap);
    return err == CREMA_OK
               ? err
               : crema_server_fail(err, why, size, "the handler of keys cannot start: %s",
                                   crema_err_text(err));
}

static crema_err_t
s_bind(crema_server_t *self, crema_socket_role_t role, const char *endpoint, char *why, size_t size)
{
    self->router = zsock_new(ZMQ_ROUTER);
    if (!self->router)
        return crema_server_fail(CREMA_ENOMEM, why, size, "no socket: %s", strerror(errno));
    crema_socket_prepare(self->router, role);
    crema_keys_serve(self->keys, self->router);
    crema_err_t err =
        crema_socket_bind(self->router, endpoint, self->endpoint, sizeof self->endpoint);
    return err == CREMA_OK ? err : crema_server_bind_failed(err, "bind", endpoint, why, size);
}

crema_err_t
crema_server_new(crema_socket_role_t role, const char *endpoint, const char *keys_dir,
                 char *ret_why, size_t why_size, crema_server_t **ret_self)
{
    if (crema_server_refuses("bind", endpoint, keys_dir, ret_why, why_size))
        return CREMA_ECONFIG;
    crema_server_t *self = calloc(1, sizeof *self);
    if (!self)
        return crema_server_fail(CREMA_ENOMEM, ret_why, why_size, "out of memory");
    crema_err_t err = s_load_keys(self, keys_dir, ret_why, why_size);
    if (err == CREMA_OK)
        err = s_bind(self, role, endpoint, ret_why, why_size);
    if (err != CREMA_OK) {
        crema_server_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
crema_server_destroy(crema_server_t **self_p)
{
    crema_server_t *self = *self_p;
    if (self) {
        zsock_destroy(&self->router);
        crema_zap_destroy(&self->zap);
        crema_keys_destroy(&self->keys);
        free(self);
    }
    *self_p = NULL;
}

static int
s_on_zap(zloop_t *loop, zsock_t *sock, void *context)
{
    (void)loop, (void)sock;
    crema_zap_handle(context);
    return 0;
}

crema_err_t
crema_server_attach(crema_server_t *self, zloop_t *loop)
{
    if (!self->zap)
        return CREMA_OK;
    int rc = zloop_reader(loop, crema_zap_socket(self->zap), s_on_zap, self->zap);
    return rc == 0 ? CREMA_OK : CREMA_ENOMEM;
}

zsock_t *
crema_server_socket(const crema_server_t *self)
{
    return self->router;
}

const crema_keys_t *
crema_server_keys(const crema_server_t *self)
{
    return self->keys;
}

const char *
crema_server_endpoint(const crema_server_t *self)
{
    return self->endpoint;
}

void
crema_server_print_ready(const char *program, const char *endpoint, const char *tap)
{
    char line[1024];
    crema_json_t json = crema_json_begin(line, sizeof line);
    crema_json_open(&json, NULL, '{');
    crema_json_text(&json, "event", "ready");
    crema_json_text(&json, "program", program);
    crema_json_text(&json, "endpoint", endpoint);
    if (tap)
        crema_json_text(&json, "tap", tap);
    crema_json_close(&json, '}');
    puts(line);
    fflush(stdout);
}
