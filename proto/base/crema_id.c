#include "crema_id.h"

#include <string.h>

static const char s_digits[] = "0123456789abcdef";

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
    char *at = text;
    for (size_t i = 0; i < CREMA_ID_BYTES; i++) {
        *at++ = s_digits[id->bytes[i] >> 4];
        *at++ = s_digits[id->bytes[i] & 15];
    }
    *at = '\0';
    return text;
}

/* Byte i of an id has a dash before it in the 8-4-4-4-12 form. */
static bool
s_dash_before(size_t i)
{
    return i == 4 || i == 6 || i == 8 || i == 10;
}

char *
crema_id_uuid(const crema_id_t *id, char text[37])
{
    char *at = text;
    for (size_t i = 0; i < CREMA_ID_BYTES; i++) {
        if (s_dash_before(i))
            *at++ = '-';
        *at++ = s_digits[id->bytes[i] >> 4];
        *at++ = s_digits[id->bytes[i] & 15];
    }
    *at = '\0';
    return text;
}

/* Value of a hex digit of either case, or -1. */
static int
s_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool
crema_id_parse(const char *text, crema_id_t *ret_id)
{
    size_t length = strnlen(text, 37);
    if (length != CREMA_ID_HEX_CHARS && length != 36)
        return false;
    crema_id_t id;
    for (size_t i = 0; i < CREMA_ID_BYTES; i++) {
        if (length == 36 && s_dash_before(i) && *text++ != '-')
            return false;
        int high = s_digit(text[0]);
        int low = high < 0 ? -1 : s_digit(text[1]);
        if (low < 0)
            return false;
        id.bytes[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    *ret_id = id;
    return true;
}
