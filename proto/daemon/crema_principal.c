#include "crema_principal.h"

#include <string.h>

static const char *const c_roles[CREMA_AS_COUNT] = {
    [CREMA_AS_ANY] = "any",         [CREMA_AS_AGGREGATOR] = "aggregator",
    [CREMA_AS_AGENT] = "agent",     [CREMA_AS_CLIENT] = "client",
    [CREMA_AS_MONITOR] = "monitor", [CREMA_AS_SERVER] = "server",
};

const char *
crema_as_name(crema_as_t as)
{
    return (size_t)as < CREMA_AS_COUNT ? c_roles[as] : "?";
}

bool
crema_as_parse(const char *word, crema_as_t *ret_as)
{
    for (size_t i = 0; i < CREMA_AS_COUNT; i++)
        if (strcmp(word, c_roles[i]) == 0) {
            *ret_as = (crema_as_t)i;
            return true;
        }
    return false;
}

static bool
s_is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool
crema_principal_is_name(const char *name)
{
    size_t length = strnlen(name, CREMA_PRINCIPAL_NAME_MAX + 1);
    if (length < 1 || length > CREMA_PRINCIPAL_NAME_MAX || !s_is_alphanumeric(name[0]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!s_is_alphanumeric(name[i]) && !strchr("_-.@", name[i]))
            return false;
    return true;
}

crema_id_t
crema_principal_key(const uint8_t public_key[32])
{
    crema_id_t key;
    memcpy(key.bytes, public_key, sizeof key.bytes);
    return key;
}

static const char c_run[] = "run-";

crema_principal_t
crema_principal_of_run(const crema_id_t *run_id, const uint8_t public_key[32])
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    crema_principal_t self = {
        .as = CREMA_AS_AGENT, .key = crema_principal_key(public_key), .run_id = *run_id};
    strcpy(self.name, c_run);
    strcat(self.name, crema_id_hex(run_id, hex));
    return self;
}

char *
crema_principal_print(const crema_principal_t *self, char text[CREMA_PRINCIPAL_TEXT_MAX])
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    strcpy(text, crema_as_name(self->as));
    strcat(text, " ");
    strcat(text, self->name);
    strcat(text, " ");
    return strcat(text, crema_id_hex(&self->key, hex));
}

/* The word up to the next blank, which is skipped; false if it is longer than `size` allows or
 * there is no blank. */
static bool
s_word(const char **text_p, char *ret_word, size_t size)
{
    const char *blank = strchr(*text_p, ' ');
    size_t length = blank ? (size_t)(blank - *text_p) : size;
    if (length >= size)
        return false;
    memcpy(ret_word, *text_p, length);
    ret_word[length] = '\0';
    *text_p = blank + 1;
    return true;
}

crema_err_t
crema_principal_parse(const char *text, crema_principal_t *ret_self)
{
    char role[16];
    crema_principal_t self = {.as = CREMA_AS_ANY};
    if (!text || !*text) {
        *ret_self = self;
        return CREMA_OK;
    }
    if (!s_word(&text, role, sizeof role) || !s_word(&text, self.name, sizeof self.name) ||
        !crema_principal_is_name(self.name) || strlen(text) != CREMA_ID_HEX_CHARS ||
        !crema_id_parse(text, &self.key))
        return CREMA_EINVAL;
    if (!crema_as_parse(role, &self.as) || self.as == CREMA_AS_SERVER)
        return CREMA_EINVAL;
    if (self.as == CREMA_AS_AGENT && strncmp(self.name, c_run, sizeof c_run - 1) == 0)
        (void)crema_id_parse(self.name + sizeof c_run - 1, &self.run_id);
    *ret_self = self;
    return CREMA_OK;
}

/* Which role sends a message follows from its number: see the table of types in
 * docs/protocol.md. An aggregator also forwards collectors' messages about runs. */
bool
crema_principal_may_send(const crema_principal_t *self, crema_msg_type_t type)
{
    bool of_agents = type >= 1 && type < 16, of_aggregators = type >= 32 && type < 48,
         of_collectors = type >= 64 && type < 80;
    switch (self->as) {
    case CREMA_AS_ANY:
        return true;
    case CREMA_AS_AGENT:
        return of_agents;
    case CREMA_AS_CLIENT:
        return of_collectors;
    case CREMA_AS_AGGREGATOR:
        return of_aggregators || of_collectors;
    default:
        return false;
    }
}

bool
crema_principal_is_same(const crema_principal_t *a, const crema_principal_t *b)
{
    return crema_id_equal(&a->key, &b->key);
}
