/* agg_tap - an XPUB socket that publishes events and run states. Lossy: a slow subscriber misses
 * messages and can detect that from their numbers.
 *
 * Each message is one part: the topic (`event` or `run`), a space, and a JSON object with a
 * field `n` that counts the messages of the topic. */
#ifndef AGG_TAP_H
#define AGG_TAP_H

#include <stddef.h>
#include <stdint.h>

#include "agg_core.h"
#include "agg_rollup.h"
#include "crema_error.h"
#include "crema_wire.h"

typedef struct _zsock_t zsock_t;
typedef struct crema_keys crema_keys_t;
typedef struct agg_tap agg_tap_t;

/* Binds. Errors as of crema_socket_bind(): CREMA_EBUSY, CREMA_EINVAL, CREMA_EIO. */
CREMA_MUST_CHECK crema_err_t agg_tap_new(const char *endpoint, const crema_keys_t *keys,
                                         agg_tap_t **ret_self);
void agg_tap_destroy(agg_tap_t **self_p);

const char *agg_tap_bound(const agg_tap_t *self);
/* Readable when a subscription came; then call agg_tap_on_readable(). */
zsock_t *agg_tap_socket(agg_tap_t *self);
void agg_tap_on_readable(agg_tap_t *self);

/* {"n":1,"t_ns":…,"event":"agent_welcomed","agent":"…","run":"…","subject":"host","detail":"…"} */
void agg_tap_event(agg_tap_t *self, const agg_action_t *action, int64_t real_ns);

/* {"n":1,"t_ns":…,"run":"…","phase":"open","agents":2,"streams":5,…,"seconds":{"processor":1.5,…}};
 * `rollup` may be NULL. */
void agg_tap_run(agg_tap_t *self, const Crema__RunState *state, const agg_rollup_t *rollup,
                 int64_t real_ns);

#endif
