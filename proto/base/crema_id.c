#include "crema_id.h"

#include <sodium.h>
#include <string.h>

bool
crema_id_equal(const crema_id_t *a, const crema_id_t *b)
{
    return memcmp(a->bytes, b->bytes, CREMA_ID_BYTES) == 0;
}

bool
crema_id_is_zero(const crema_id_t *id)
{
    static const crema_id_t zero;
    return crema_id_equal(id, &zero);
}

int
crema_id_compare(const crema_id_t *a, const crema_id_t *b)
{
    return memcmp(a->bytes, b->bytes, CREMA_ID_BYTES);
}

uint64_t
crema_id_hash(const crema_id_t *id)
{
    uint64_t hash;
    memcpy(&hash, id->bytes, sizeof hash);
    return hash;
}

char *
crema_id_hex(const crema_id_t *id, char text[CREMA_ID_HEX_CHARS + 1])
{
    return sodium_bin2hex(text, CREMA_ID_HEX_CHARS + 1, id->bytes, CREMA_ID_BYTES);
}

/* Where the 8-4-4-4-12 form has its dashes. */
static bool
s_is_dash(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

char *
crema_id_uuid(const crema_id_t *id, char text[37])
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    const char *next = crema_id_hex(id, hex);
    for (size_t at = 0; at < 36; at++)
        text[at] = s_is_dash(at) ? '-' : *next++;
    text[36] = '\0';
    return text;
}

bool
crema_id_parse(const char *text, crema_id_t *ret_id)
{
    char hex[CREMA_ID_HEX_CHARS];
    size_t length = strnlen(text, 37), n = 0;
    if (length != CREMA_ID_HEX_CHARS && length != 36)
        return false;
    for (size_t at = 0; at < length; at++)
        if (length != 36 || !s_is_dash(at))
            hex[n++] = text[at];
        else if (text[at] != '-')
            return false;
    crema_id_t id;
    if (sodium_hex2bin(id.bytes, sizeof id.bytes, hex, n, NULL, NULL, NULL) != 0)
        return false;
    *ret_id = id;
    return true;
}
