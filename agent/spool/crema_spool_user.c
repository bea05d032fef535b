/* What each user has of a spool that several share: places for streams, and bytes. A user who fills
 * theirs makes only their own streams wait. */
#include <unistd.h>

#include "crema_grow.h"
#include "crema_spool_private.h"

static crema_spool_user_t *
s_find(const crema_spool_t *self, uid_t uid)
{
    for (size_t i = 0; i < self->n_users; i++)
        if (self->users[i].uid == uid)
            return &self->users[i];
    return NULL;
}

crema_spool_user_t *
crema_spool_user(crema_spool_t *self, uid_t uid)
{
    crema_spool_user_t *user = s_find(self, uid);
    if (user)
        return user;
    crema_spool_user_t *users =
        crema_grow(self->users, self->n_users, &self->users_size, sizeof *users);
    if (!users)
        return NULL;
    self->users = users;
    users[self->n_users] = (crema_spool_user_t){.uid = uid};
    return &users[self->n_users++];
}

crema_err_t
crema_spool_count_users(crema_spool_t *self)
{
    self->n_users = 0;
    for (size_t i = 0; i < self->n_entries; i++) {
        const crema_spool_entry_t *entry = self->entries[i];
        if (entry->n_segments == 0) /* it is expected */
            continue;
        crema_spool_user_t *user = crema_spool_user(self, entry->segments[0].owner);
        if (!user)
            return CREMA_ENOMEM;
        user->streams++;
    }
    return CREMA_OK;
}

bool
crema_spool_has_room(const crema_spool_t *self, const crema_spool_user_t *user)
{
    return self->n_entries < CREMA_SPOOL_STREAMS_MAX &&
           (user->uid == geteuid() || user->streams < CREMA_SPOOL_STREAMS_OF_USER);
}
