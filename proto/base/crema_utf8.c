#include "crema_utf8.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Well-formed byte sequences, Unicode 15 table 3-7: the lead byte fixes the length and the range
 * of the second byte; all further bytes are 80..BF. */
static const struct {
    unsigned char lead_from, lead_to;
    unsigned char second_from, second_to;
    size_t bytes;
} s_forms[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
    {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
    {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

size_t
crema_utf8_step(const char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)text;
    if (size == 0)
        return 0;
    if (at[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof s_forms / sizeof s_forms[0]; i++) {
        if (at[0] < s_forms[i].lead_from || at[0] > s_forms[i].lead_to)
            continue;
        if (size < s_forms[i].bytes || at[1] < s_forms[i].second_from ||
            at[1] > s_forms[i].second_to)
            return 0;
        for (size_t k = 2; k < s_forms[i].bytes; k++)
            if ((at[k] & 0xc0) != 0x80)
                return 0;
        return s_forms[i].bytes;
    }
    return 0;
}

bool
crema_utf8_valid(const char *text, size_t size)
{
    while (size > 0) {
        size_t step = crema_utf8_step(text, size);
        if (step == 0)
            return false;
        text += step;
        size -= step;
    }
    return true;
}

static uint32_t
s_code_point(const char *text, size_t step)
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t code = step == 1 ? at[0] : at[0] & (0x7fu >> step);
    for (size_t i = 1; i < step; i++)
        code = code << 6 | (at[i] & 0x3f);
    return code;
}

bool
crema_utf8_escape(const char *text, size_t step, char out[CREMA_UTF8_ESCAPE_BYTES])
{
    static const struct {
        uint32_t from, to;
    } obeyed[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    const uint32_t code = s_code_point(text, step);
    for (size_t i = 0; i < sizeof obeyed / sizeof *obeyed; i++)
        if (code >= obeyed[i].from && code <= obeyed[i].to) {
            memcpy(out, "\\u0000", CREMA_UTF8_ESCAPE_BYTES);
            for (size_t k = 0; k < 4; k++)
                out[5 - k] = "0123456789abcdef"[code >> 4 * k & 0xf];
            return true;
        }
    return false;
}

bool
crema_utf8_fit(const char *text, char *out, size_t out_size)
{
    size_t left = strlen(text);
    size_t used = 0;
    bool changed = false;
    while (left > 0) {
        size_t step = crema_utf8_step(text, left);
        size_t take = step ? step : 1;
        if (take > out_size - used) {
            changed = true;
            break;
        }
        if (step)
            memcpy(out + used, text, step);
        else
            out[used] = '?';
        changed |= step == 0;
        used += take;
        text += take;
        left -= take;
    }
    memset(out + used, 0, out_size - used);
    return changed;
}

/* FNV-1a, folded to 32 bits. */
static uint32_t
s_hash(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        hash = (hash ^ *at) * 0x100000001b3;
    return (uint32_t)(hash ^ hash >> 32);
}

bool
crema_utf8_fit_name(const char *name, char *out, size_t out_size)
{
    enum { DIGITS = 8, TAIL = 1 + DIGITS };
    assert(out_size >= CREMA_UTF8_NAME_MIN);
    if (!crema_utf8_fit(name, out, out_size))
        return false;
    (void)crema_utf8_fit(name, out, out_size - TAIL);
    const size_t used = strnlen(out, out_size - TAIL);
    memset(out + used, 0, out_size - used);
    out[used] = '~';
    uint32_t hash = s_hash(name);
    for (size_t i = DIGITS; i > 0; i--, hash >>= 4)
        out[used + i] = "0123456789abcdef"[hash & 0xf];
    return true;
}
