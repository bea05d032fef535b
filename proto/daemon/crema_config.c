#include "crema_config.h"

#include <czmq.h>
#include <sys/stat.h>

zconfig_t *
crema_config_read(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > CREMA_CONFIG_BYTES_MAX)
        return NULL;
    zchunk_t *chunk = zchunk_slurp(path, CREMA_CONFIG_BYTES_MAX);
    zconfig_t *config = chunk ? zconfig_chunk_load(chunk) : NULL;
    zchunk_destroy(&chunk);
    return config;
}
