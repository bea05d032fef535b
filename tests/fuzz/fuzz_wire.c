/* Any bytes as a message: as they are, and with length and checksum made right. */
#include <string.h>

#include "crema_wire.h"
#include "fuzz.h"
#include "fuzz_files.h"

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
    fuzz_repair_message(repaired, size);
    crema_err_t err = crema_wire_decode(repaired, size, arena, &msg);
    HOLDS(err == CREMA_OK || err == CREMA_EPROTO || err == CREMA_ELIMIT);
    if (err == CREMA_OK)
        s_look_again(&msg, second);
    free(repaired);
    return 0;
}
