#include "crema_cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const s_words[CREMA_COST_ATTRIBUTES] = {"cpu_s", "bytes", "records", "shared"};

void
crema_cost_describe(const crema_cost_t *self, const char *part, crema_cost_attributes_t *ret_words)
{
    for (size_t i = 0; i < CREMA_COST_ATTRIBUTES; i++) {
        char(*text)[48] = ret_words->texts[i];
        snprintf(text[0], sizeof text[0], CREMA_COST_PREFIX "%s.%s", part, s_words[i]);
        ret_words->keys[i] = text[0];
        ret_words->values[i] = text[1];
    }
    snprintf(ret_words->texts[0][1], sizeof ret_words->texts[0][1], "%.6f", self->cpu_s);
    snprintf(ret_words->texts[1][1], sizeof ret_words->texts[1][1], "%lld", (long long)self->bytes);
    snprintf(ret_words->texts[2][1], sizeof ret_words->texts[2][1], "%lld",
             (long long)self->records);
    snprintf(ret_words->texts[3][1], sizeof ret_words->texts[3][1], "%d", self->shared);
}

bool
crema_cost_read(const char *part, const char *(*find)(const void *context, const char *key),
                const void *context, crema_cost_t *ret_cost)
{
    const char *values[CREMA_COST_ATTRIBUTES];
    for (size_t i = 0; i < CREMA_COST_ATTRIBUTES; i++) {
        char key[48];
        snprintf(key, sizeof key, CREMA_COST_PREFIX "%s.%s", part, s_words[i]);
        values[i] = find(context, key);
    }
    if (!values[0])
        return false;
    *ret_cost = (crema_cost_t){
        .cpu_s = strtod(values[0], NULL),
        .bytes = values[1] ? strtoll(values[1], NULL, 10) : -1,
        .records = values[2] ? strtoll(values[2], NULL, 10) : -1,
        .shared = values[3] && strcmp(values[3], "0") != 0,
    };
    return true;
}

bool
crema_cost_is_key(const char *key)
{
    static const char *const parts[] = {"aggregator.", "sink."};
    if (strncmp(key, CREMA_COST_PREFIX, strlen(CREMA_COST_PREFIX)) != 0)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strncmp(key + strlen(CREMA_COST_PREFIX), parts[i], strlen(parts[i])) == 0)
            return true;
    return false;
}
