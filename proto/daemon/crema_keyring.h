/* crema_keyring - the public keys that a server admits, each with its role and name.
 *
 * They are the files ROLE.NAME.key in the server's key directory (crema_keys_make.h), read again
 * whenever that directory changes, and the keys that runs brought for their own agents. An
 * unreadable file admits no key and is counted.
 *
 * A server without keys has no ring: where NULL is taken, it admits everybody, and lends, binds
 * and revokes nothing. */
#ifndef CREMA_KEYRING_H
#define CREMA_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_principal.h"

#define CREMA_KEYRING_MAX 65536u           /* keys in files */
#define CREMA_KEYRING_LENT_MAX (1u << 20)  /* keys of runs' agents: each host of a run has one */
#define CREMA_KEYRING_LENT_EACH (1u << 14) /* of one owner's */

typedef struct crema_keyring crema_keyring_t;

CREMA_MUST_CHECK crema_err_t crema_keyring_new(const char *server_dir, crema_keyring_t **ret_self);
void crema_keyring_destroy(crema_keyring_t **self_p);

/* Reads the directory again if it has changed, or in any case. True if a key was admitted or
 * revoked since it was called last. */
bool crema_keyring_refresh(crema_keyring_t *self, bool in_any_case);

/* The principal with this public key; NULL: not admitted. Valid until the next change. Looks at the
 * directory if the key is unknown: a key is often used in the second in which it was made, and a
 * client that is refused does not dial again. */
const crema_principal_t *crema_keyring_find(crema_keyring_t *self, const uint8_t public_key[32]);
/* True if that principal is still admitted. Takes NULL. */
bool crema_keyring_admits(const crema_keyring_t *self, const crema_principal_t *principal);

/* 1 + uid of the user that the key with this fingerprint is bound to, 0: not bound. From agents
 * that serve all runs, a run that this key opened accepts only records in that user's files.
 * Takes NULL. */
uint32_t crema_keyring_user(const crema_keyring_t *self, const crema_id_t *key);

/* Whose budget the key with this fingerprint is used on: for a lent key its owner, else itself.
 * Takes NULL. */
crema_id_t crema_keyring_owner(const crema_keyring_t *self, const crema_id_t *key);

/* True if a key with this fingerprint is admitted. Takes NULL. */
bool crema_keyring_knows(const crema_keyring_t *self, const crema_id_t *key);

/* The principals whose keys were removed, each once, including lent keys; false: no more. Up to 256
 * are kept, keys in files before lent ones; a connection with any removed key is found by
 * crema_keyring_admits(). Takes NULL. */
bool crema_keyring_revoked(crema_keyring_t *self, crema_principal_t *ret_principal);

/* Admits the agents of a run as long as the key of its owner is admitted. CREMA_EBUSY: another
 * role, name or run has this public key; CREMA_ELIMIT: the owner, or all together, have no room.
 * Takes NULL. */
CREMA_MUST_CHECK crema_err_t crema_keyring_lend(crema_keyring_t *self, const crema_id_t *run_id,
                                                const crema_id_t *owner,
                                                const uint8_t public_key[32]);

/* Ends the keys of runs that are not known any more, reported by crema_keyring_revoked(). A key
 * that was lent since the last call stays until the next one: its run may be about to be known. */
void crema_keyring_take_back(crema_keyring_t *self,
                             bool (*is_known)(const void *context, const crema_id_t *run_id),
                             const void *context);

size_t crema_keyring_count(const crema_keyring_t *self);
size_t crema_keyring_unreadable(const crema_keyring_t *self); /* files, when it was read last */

#endif
