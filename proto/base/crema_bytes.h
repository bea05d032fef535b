/* crema_bytes - little-endian integers at any address. Pure: compilers reduce each of these to a
 * single move on a little-endian machine. */
#ifndef CREMA_BYTES_H
#define CREMA_BYTES_H

#include <stdint.h>

static inline void
crema_put_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline void
crema_put_u32(uint8_t *at, uint32_t value)
{
    crema_put_u16(at, (uint16_t)value);
    crema_put_u16(at + 2, (uint16_t)(value >> 16));
}

static inline void
crema_put_u64(uint8_t *at, uint64_t value)
{
    crema_put_u32(at, (uint32_t)value);
    crema_put_u32(at + 4, (uint32_t)(value >> 32));
}

static inline uint16_t
crema_get_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t
crema_get_u32(const uint8_t *at)
{
    return (uint32_t)crema_get_u16(at) | (uint32_t)crema_get_u16(at + 2) << 16;
}

static inline uint64_t
crema_get_u64(const uint8_t *at)
{
    return (uint64_t)crema_get_u32(at) | (uint64_t)crema_get_u32(at + 4) << 32;
}

#endif
