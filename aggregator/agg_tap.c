#include "agg_tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <czmq.h>

#include "crema_json.h"
#include "crema_keys.h"
#include "crema_reactor.h"

#define LINE_BYTES (64u << 10)

struct agg_tap {
    zsock_t *sock;
    char endpoint[256];
    int64_t n_events, n_runs; /* messages of each topic */
    char line[LINE_BYTES];
};

crema_err_t
agg_tap_new(const char *endpoint, const crema_keys_t *keys, agg_tap_t **ret_self)
{
    agg_tap_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->sock = zsock_new(ZMQ_XPUB);
    crema_err_t err = self->sock ? CREMA_OK : CREMA_ENOMEM;
    if (err == CREMA_OK) {
        crema_socket_prepare(self->sock, CREMA_ROLE_TAP);
        crema_keys_serve(keys, self->sock, CREMA_DOMAIN_TAP);
        err = crema_socket_bind(self->sock, endpoint, self->endpoint, sizeof self->endpoint);
    }
    if (err != CREMA_OK) {
        agg_tap_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agg_tap_destroy(agg_tap_t **self_p)
{
    agg_tap_t *self = *self_p;
    if (self) {
        zsock_destroy(&self->sock);
        free(self);
    }
    *self_p = NULL;
}

const char *
agg_tap_bound(const agg_tap_t *self)
{
    return self->endpoint;
}

zsock_t *
agg_tap_socket(agg_tap_t *self)
{
    return self->sock;
}

/* The socket handles subscriptions itself; they only have to be read. */
void
agg_tap_on_readable(agg_tap_t *self)
{
    char byte;
    while (zmq_recv(zsock_resolve(self->sock), &byte, sizeof byte, ZMQ_DONTWAIT) >= 0)
        ;
}

/* Starts a message: topic, space, object. It is one part because libzmq 4.3.4 aborts when a
 * subscriber disconnects between parts. */
static crema_json_t
s_begin(agg_tap_t *self, const char *topic)
{
    size_t size = (size_t)snprintf(self->line, sizeof self->line, "%s ", topic);
    crema_json_t json = crema_json_begin(self->line + size, sizeof self->line - size);
    crema_json_open(&json, NULL, '{');
    return json;
}

static void
s_send(agg_tap_t *self, crema_json_t *json)
{
    crema_json_close(json, '}');
    size_t size = (size_t)(json->text - self->line) + json->used;
    if (!json->full)
        (void)zmq_send(zsock_resolve(self->sock), self->line, size, ZMQ_DONTWAIT);
}

static void
s_add_id(crema_json_t *json, const char *key, const crema_id_t *id)
{
    char text[37];
    if (!crema_id_is_zero(id))
        crema_json_text(json, key, crema_id_uuid(id, text));
}

void
agg_tap_event(agg_tap_t *self, const agg_action_t *action, int64_t real_ns)
{
    crema_json_t json = s_begin(self, "event");
    crema_json_int(&json, "n", ++self->n_events);
    crema_json_int(&json, "t_ns", real_ns);
    crema_json_text(&json, "event", agg_event_name(action->event));
    s_add_id(&json, "agent", &action->agent_id);
    s_add_id(&json, "run", &action->run_id);
    if (action->subject)
        crema_json_text(&json, "subject", action->subject);
    if (action->detail)
        crema_json_text(&json, "detail", action->detail);
    s_send(self, &json);
}

static const char *
s_phase_name(crema_run_phase_t phase)
{
    static const char *const c_names[] = {"unknown", "open",   "barrier",
                                          "verdict", "sealed", "failed"};
    return (size_t)phase < sizeof c_names / sizeof *c_names ? c_names[phase] : "?";
}

void
agg_tap_run(agg_tap_t *self, const Crema__RunState *state, const agg_rollup_t *rollup,
            int64_t real_ns)
{
    crema_json_t json = s_begin(self, "run");
    crema_json_int(&json, "n", ++self->n_runs);
    crema_json_int(&json, "t_ns", real_ns);
    s_add_id(&json, "run", crema_id_of(state->run_id));
    crema_json_text(&json, "phase", s_phase_name(state->phase));
    crema_json_int(&json, "agents", state->agents);
    crema_json_int(&json, "streams", state->streams);
    crema_json_int(&json, "streams_done", state->streams_done);
    crema_json_int(&json, "records", (int64_t)state->committed);
    crema_json_int(&json, "missing", (int64_t)state->missing);
    crema_json_open(&json, "seconds", '{');
    for (int side = 0; rollup && side < CREMA_SIDE_COUNT; side++)
        crema_json_real(&json, crema_side_name((crema_side_t)side),
                        agg_rollup_side_s(rollup, (crema_side_t)side));
    crema_json_close(&json, '}');
    if (rollup) {
        agg_rollup_stats_t stats = agg_rollup_stats(rollup);
        crema_json_int(&json, "rows_nameless", (int64_t)stats.nameless);
        crema_json_int(&json, "not_taken", (int64_t)stats.not_taken);
    }
    s_send(self, &json);
}
