#include "fuzz_files.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "crema_wire.h"
#include "fuzz.h"

const char *
fuzz_dir(void)
{
    static char dir[64];
    if (dir[0])
        return dir;
    snprintf(dir, sizeof dir, "%s/crema-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    HOLDS(mkdtemp(dir) != NULL);
    return dir;
}

const char *
fuzz_write(const char *dir, const char *name, const uint8_t *data, size_t size)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    HOLDS(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    return path;
}

void
fuzz_clean(const char *dir)
{
    DIR *list = opendir(dir);
    const struct dirent *item;
    while (list && (item = readdir(list)))
        (void)unlinkat(dirfd(list), item->d_name, 0);
    if (list)
        closedir(list);
}

uint32_t
fuzz_repair_frames(uint8_t *data, size_t size, uint64_t seq)
{
    uint32_t n = 0;
    for (size_t at = 0; size - at >= CREMA_FRAME_HEADER_BYTES; n++) {
        uint32_t len = crema_get_u32(data + at + 4), most = (uint32_t)(size - at - 32);
        crema_frame_t frame = {
            .seq = seq ? seq + n : crema_get_u64(data + at + 8),
            .t_ns = (int64_t)crema_get_u64(data + at + 16),
            .type = crema_get_u16(data + at + 24),
            .flags = crema_get_u16(data + at + 26),
            .len = len > most ? most : len,
            .body = data + at + CREMA_FRAME_HEADER_BYTES,
        };
        crema_frame_encode(&frame, data + at);
        at += crema_frame_bytes(&frame);
    }
    return n;
}

void
fuzz_repair_message(uint8_t *data, size_t size)
{
    if (size < CREMA_WIRE_HEADER_BYTES)
        return;
    crema_put_u32(data, CREMA_WIRE_MAGIC);
    data[4] = CREMA_WIRE_VERSION;
    crema_put_u32(data + 8, (uint32_t)(size - CREMA_WIRE_HEADER_BYTES));
    uLong crc = crc32(crc32(0, data, 12), data + 16, (uInt)(size - 16));
    crema_put_u32(data + 12, (uint32_t)crc);
}
