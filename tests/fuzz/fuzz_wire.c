/* Any bytes as a message: as they are, and with length and checksum made right. */
#include <string.h>
#include <zlib.h>

#include "crema_bytes.h"
#include "crema_wire.h"
#include "fuzz.h"

static void
s_repair(uint8_t *bytes, size_t size)
{
    crema_put_u32(bytes, CREMA_WIRE_MAGIC);
    bytes[4] = CREMA_WIRE_VERSION;
    crema_put_u32(bytes + 8, (uint32_t)(size - CREMA_WIRE_HEADER_BYTES));
    uLong crc = crc32(crc32(0, bytes, 12), bytes + 16, (uInt)(size - 16));
    crema_put_u32(bytes + 12, (uint32_t)crc);
}

static void
s_look_again(const crema_msg_t *msg, crema_arena_t *arena)
{
    uint8_t *bytes;
    size_t size;
    crema_msg_t again;
    if (crema_wire_encode(msg, &bytes, &size) != CREMA_OK)
        return;
    HOLDS(crema_wire_decode(bytes, size, arena, &again) == CREMA_OK);
    HOLDS(again.type == msg->type && again.session == msg->session);
    free(bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static crema_arena_t *arena, *second;
    crema_msg_t msg;
    if (!arena)
        HOLDS(crema_arena_new(CREMA_WIRE_ARENA_BYTES, &arena) == CREMA_OK &&
              crema_arena_new(CREMA_WIRE_ARENA_BYTES, &second) == CREMA_OK);
    if (crema_wire_decode(data, size, arena, &msg) == CREMA_OK)
        s_look_again(&msg, second);
    if (size < CREMA_WIRE_HEADER_BYTES)
        return 0;
    uint8_t *repaired = malloc(size);
    HOLDS(repaired != NULL);
    memcpy(repaired, data, size);
    s_repair(repaired, size);
    crema_err_t err = crema_wire_decode(repaired, size, arena, &msg);
    HOLDS(err == CREMA_OK || err == CREMA_EPROTO || err == CREMA_ELIMIT);
    if (err == CREMA_OK)
        s_look_again(&msg, second);
    free(repaired);
    return 0;
}
