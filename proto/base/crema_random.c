#include "crema_random.h"

#include <sodium.h>
#include <stdlib.h>

#include "crema_map.h"

/* Uses the kernel's generator through libsodium: getrandom(), or /dev/urandom on older systems.
 * The process ends if neither works, since two streams with one identity would lose records. */
static void
s_fill(void *bytes, size_t size)
{
    if (sodium_init() < 0)
        abort();
    randombytes_buf(bytes, size);
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

void
crema_random_maps(void)
{
    crema_id_t secret = crema_random_id();
    _Static_assert(sizeof secret.bytes == CREMA_MAP_SECRET_BYTES, "an id is as long");
    crema_map_keep_secret(secret.bytes);
}
