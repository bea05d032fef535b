#include "crema_tally.h"

#include <string.h>

static size_t
s_find(const crema_tally_t *self, const char *name)
{
    size_t i = 0;
    while (i < self->n && strcmp(self->names[i], name) != 0)
        i++;
    return i;
}

void
crema_tally_add(crema_tally_t *self, const char *name, uint64_t count)
{
    const char *kept = name && strlen(name) < CREMA_TALLY_NAME_BYTES ? name : "other";
    size_t i = s_find(self, kept);
    if (i == self->n && i >= CREMA_TALLY_MAX) { /* the place after them all is the others' */
        kept = "other";
        i = s_find(self, kept);
    }
    if (i == self->n) {
        strcpy(self->names[i], kept);
        self->n++;
    }
    self->counts[i] += count;
}
