/* Any bytes as the small files of a store (a byte says which) and as the files of a key
 * directory. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_keys.h"
#include "crema_principal.h"
#include "fuzz.h"
#include "fuzz_files.h"
#include "sink_store.h"

static void
s_open_store(const char *dir)
{
    const sink_store_config_t config = {.dir = dir, .streams_max = 1000, .runs_max = 100};
    sink_store_t *store = NULL;
    char why[512] = "";
    if (sink_store_open(&config, why, sizeof why, &store) == CREMA_OK)
        sink_store_close(&store);
    else
        HOLDS(why[0] != '\0');
}

static void
s_load_keys(const char *dir, const uint8_t *data, size_t size)
{
    (void)fuzz_write(dir, "server.key", data, size);
    for (int as = CREMA_AS_AGGREGATOR; as < CREMA_AS_COUNT; as++) {
        char name[64];
        crema_keys_t *keys = NULL;
        const char *why = NULL;
        snprintf(name, sizeof name, "%s.key_secret", crema_as_name((crema_as_t)as));
        (void)chmod(fuzz_write(dir, name, data, size), 0600);
        if (crema_keys_load(dir, (crema_as_t)as, &keys, &why) == CREMA_OK)
            crema_keys_destroy(&keys);
        else
            HOLDS(why != NULL);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tombstones", "store", "generation", NULL, "refused"};
    char dir[128];
    if (size < 1)
        return 0;
    uint8_t which = data[0] % 5;
    bool keys = names[which] == NULL;
    uint8_t *bytes = malloc(size);
    HOLDS(bytes != NULL);
    memcpy(bytes, data + 1, size - 1);
    if (!keys && !(data[0] & 0x80))
        (void)fuzz_repair_frames(bytes, size - 1, 0);
    snprintf(dir, sizeof dir, "%s/store", fuzz_dir());
    (void)mkdir(dir, 0700);
    if (!keys) {
        (void)fuzz_write(dir, names[which], bytes, size - 1);
        s_open_store(dir);
    } else {
        s_load_keys(dir, bytes, size - 1);
        crema_principal_t principal;
        char text[256];
        snprintf(text, sizeof text, "%.*s", (int)(size < 250 ? size - 1 : 250),
                 (const char *)bytes);
        if (crema_principal_parse(text, &principal) == CREMA_OK)
            HOLDS(crema_principal_is_name(principal.name) || principal.as == CREMA_AS_ANY);
    }
    fuzz_clean(dir);
    free(bytes);
    return 0;
}
