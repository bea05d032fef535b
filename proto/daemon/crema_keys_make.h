/* crema_keys_make - creates key directories, adds named keys to them and revokes keys.
 *
 *     DIR/server/      server.key_secret, server.key, and ROLE.NAME.key of the others
 *     DIR/aggregator/  aggregator.key_secret, aggregator.key, server.key: towards the sink
 *     DIR/agent/       agent.key_secret, agent.key, server.key
 *     DIR/client/      client.key_secret, client.key, server.key
 *     DIR/monitor/     monitor.key_secret, monitor.key, server.key: for subscribers of the tap
 *     DIR/client-NAME/ the same for the user of that name
 *
 * Each directory is for one role and holds all it needs. Every file appears whole; secrets have
 * mode 0600 in directories of mode 0700. The format is that of CZMQ's zcert, which reads them; its
 * zcert_save() writes in place, and the secret with the mode of the umask. */
#ifndef CREMA_KEYS_MAKE_H
#define CREMA_KEYS_MAKE_H

#include "crema_error.h"
#include "crema_principal.h"

#define CREMA_KEYS_DEFAULT "default" /* name of the key in DIR/agent and so on */

/* Creates DIR with one pair per role. CREMA_EBUSY: there are keys already, which are kept, as is
 * the mode of an existing directory. CREMA_ENOENT: its parent is missing; CREMA_ECONFIG: libzmq
 * has no CURVE; CREMA_EIO, CREMA_ENOSPC: see errno. */
CREMA_MUST_CHECK crema_err_t crema_keys_make(const char *dir);

/* The same for a pipeline of one run: without the directories of agent and monitor, and without
 * waiting for the disk. */
CREMA_MUST_CHECK crema_err_t crema_keys_make_for_run(const char *dir);

#define CREMA_KEYS_UID_MAX INT64_C(4294967294)

/* Creates DIR/ROLE-NAME with a new pair and admits it. `uid` binds a client's key to a user of
 * the workers' hosts, see crema_keyring_user(); below 0: not bound. CREMA_EINVAL: an invalid
 * name or uid, or not a role that connects; CREMA_EBUSY: the name exists; CREMA_ENOENT: DIR
 * holds no server's keys. */
CREMA_MUST_CHECK crema_err_t crema_keys_add(const char *dir, crema_as_t as, const char *name,
                                            int64_t uid);

/* Revokes the key; servers that watch DIR/server notice. CREMA_ENOENT: it was not admitted.
 * DIR/ROLE-NAME stays. */
CREMA_MUST_CHECK crema_err_t crema_keys_revoke(const char *dir, crema_as_t as, const char *name);

/* Creates DIR for an agent that makes its own pair: agent.key_secret, agent.key, and server.key
 * with that public key (Z85). Existing files stay. CREMA_EINVAL: not a key; other errors as for
 * crema_keys_make(). */
CREMA_MUST_CHECK crema_err_t crema_keys_make_own(const char *dir, const char *server_key);

#endif
