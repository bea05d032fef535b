/* crema_keys_make - makes key directories, adds a key of a name to them and takes one away again.
 *
 *     DIR/server/      server.key_secret, server.key, and who may connect: ROLE.NAME.key, public keys
 *     DIR/aggregator/  aggregator.key_secret, aggregator.key, server.key: of the aggregator towards the sink
 *     DIR/agent/       agent.key_secret, agent.key, server.key
 *     DIR/client/      client.key_secret, client.key, server.key
 *     DIR/monitor/     monitor.key_secret, monitor.key, server.key: of who listens to the tap
 *     DIR/client-NAME/ the same, a user's of that name
 *
 * Each directory is for those who have that role, and holds all they need. Every file appears whole; secrets are mode 0600 in directories of
 * mode 0700. */
#ifndef CREMA_KEYS_MAKE_H
#define CREMA_KEYS_MAKE_H

#include "crema_error.h"
#include "crema_principal.h"

#define CREMA_KEYS_DEFAULT "default" /* name of the key in DIR/agent and so on */

/* Makes DIR with one pair per role. CREMA_EBUSY: there are keys already; they are kept, and so is the mode of a directory that was there.
 * CREMA_ENOENT: its parent is missing; CREMA_ECONFIG: libzmq has no CURVE; CREMA_EIO, CREMA_ENOSPC: errno says why. */
CREMA_MUST_CHECK crema_err_t crema_keys_make(const char *dir);

#define CREMA_KEYS_UID_MAX INT64_C(4294967294)

/* Makes DIR/ROLE-NAME with a fresh pair and admits it. `uid` binds a client's key to a user of the workers' hosts: see
 * crema_keyring_user(); below 0: to none. CREMA_EINVAL: not a name, not a role that connects, or not a uid; CREMA_EBUSY: there is one of
 * that name; CREMA_ENOENT: DIR holds no server's keys. */
CREMA_MUST_CHECK crema_err_t crema_keys_add(const char *dir, crema_as_t as, const char *name,
                                            int64_t uid);

/* Admits it no more; servers that watch DIR/server notice. CREMA_ENOENT: it was not admitted. DIR/ROLE-NAME stays. */
CREMA_MUST_CHECK crema_err_t crema_keys_revoke(const char *dir, crema_as_t as, const char *name);

/* Makes DIR, of one agent that makes its own pair: agent.key_secret, agent.key and server.key with that public key (Z85). What is there stays.
 * CREMA_EINVAL: it is no key; the rest as crema_keys_make(). */
CREMA_MUST_CHECK crema_err_t crema_keys_make_own(const char *dir, const char *server_key);

#endif
