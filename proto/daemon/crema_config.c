#include "crema_config.h"

#include <czmq.h>
#include <sys/stat.h>

/* Without the mark that some editors put at the beginning of UTF-8. */
static zconfig_t *
s_load(zchunk_t *chunk)
{
    static const char c_mark[] = "\xef\xbb\xbf";
    const size_t n = sizeof c_mark - 1;
    if (zchunk_size(chunk) < n || memcmp(zchunk_data(chunk), c_mark, n) != 0)
        return zconfig_chunk_load(chunk);
    zchunk_t *rest = zchunk_new(zchunk_data(chunk) + n, zchunk_size(chunk) - n);
    zconfig_t *config = rest ? zconfig_chunk_load(rest) : NULL;
    zchunk_destroy(&rest);
    return config;
}

zconfig_t *
crema_config_read(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > CREMA_CONFIG_BYTES_MAX)
        return NULL;
    zchunk_t *chunk = zchunk_slurp(path, CREMA_CONFIG_BYTES_MAX);
    zconfig_t *config = chunk ? s_load(chunk) : NULL;
    zchunk_destroy(&chunk);
    return config;
}
