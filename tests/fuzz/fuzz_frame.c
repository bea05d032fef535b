/* Any bytes as a spool segment: walked as its readers do. */
#include "crema_frame.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        crema_frame_t frame;
        crema_err_t err = crema_frame_decode(data + at, size - at, &frame);
        if (err != CREMA_OK) {
            size_t next = crema_frame_find(data, size, at + 1);
            HOLDS(next > at && next <= size);
            at = next;
            continue;
        }
        HOLDS(crema_frame_bytes(&frame) <= size - at);
        HOLDS(frame.body == data + at + CREMA_FRAME_HEADER_BYTES);
        HOLDS(crema_frame_find(data, size, at) == at);
        at += crema_frame_bytes(&frame);
    }
    return 0;
}
