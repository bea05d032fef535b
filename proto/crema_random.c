#include "crema_random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

/* Up to 256 bytes come whole once the kernel's generator is seeded, and getrandom() waits for that. A kernel that cannot
 * give random bytes cannot give identities: two streams with one identity would lose records, so the process ends. */
static void
s_fill(void *bytes, size_t size)
{
    ssize_t n;
    do {
        n = getrandom(bytes, size, 0);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)size)
        abort();
}

crema_id_t
crema_random_id(void)
{
    crema_id_t id;
    s_fill(id.bytes, sizeof id.bytes);
    return id;
}

uint64_t
crema_random_u64(void)
{
    uint64_t value;
    s_fill(&value, sizeof value);
    return value;
}
