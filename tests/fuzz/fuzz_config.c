/* Any bytes as what an operator may write: a configuration file, the environment and the command
 * line (NUL bytes divide these), and a public key in the keyring of a server. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "crema_keyring.h"
#include "crema_option.h"
#include "fuzz.h"
#include "fuzz_files.h"

enum { WORDS_MAX = 12 };

static const char *s_text;
static int64_t s_ns, s_b, s_n;
static bool s_flag;

static const crema_option_t c_options[] = {
    {"text", CREMA_OPTION_TEXT, "a", 0, 0, "TEXT", "a text", &s_text},
    {"time", CREMA_OPTION_DURATION, "1s", 200000000, 60000000000, "TIME", "a time", &s_ns},
    {"bytes", CREMA_OPTION_BYTES, "1Gi", 0, 0, "BYTES", "a size", &s_b},
    {"number", CREMA_OPTION_INT, "3", -10, 10, "N", "a number", &s_n},
    {"flag", CREMA_OPTION_FLAG, "true", 0, 0, NULL, "a flag", &s_flag},
    {0},
};

static void
s_parse(int argc, char **argv)
{
    static const crema_usage_t usage = {"crema-fuzz", "[options]", "Reads anything.", NULL};
    int rest = 0;
    if (crema_option_parse(&usage, c_options, argc, argv, &rest) != CREMA_OPTION_RUN)
        return;
    HOLDS(rest >= 1 && rest <= argc);
    HOLDS(s_text && s_ns >= 200000000 && s_ns <= 60000000000 && s_n >= -10 && s_n <= 10);
}

/* The first word is the environment's, the others are arguments. */
static void
s_parse_words(uint8_t *bytes, size_t size)
{
    static const char *const variables[] = {"CREMA_TIME", "CREMA_BYTES", "CREMA_NUMBER",
                                            "CREMA_FLAG"};
    char *argv[WORDS_MAX + 1] = {(char *)"crema-fuzz"};
    int argc = 1;
    bytes[size] = '\0';
    const char *variable = variables[size % 4];
    HOLDS(setenv(variable, (const char *)bytes, 1) == 0);
    for (size_t at = strlen((char *)bytes) + 1; at < size && argc < WORDS_MAX;
         at += strlen((char *)bytes + at) + 1)
        argv[argc++] = (char *)bytes + at;
    s_parse(argc, argv);
    HOLDS(unsetenv(variable) == 0);
}

static void
s_parse_file(const char *dir, const uint8_t *data, size_t size)
{
    char option[600];
    snprintf(option, sizeof option, "--config=%s", fuzz_write(dir, "crema.cfg", data, size));
    char *argv[] = {(char *)"crema-fuzz", option, NULL};
    s_parse(2, argv);
}

static void
s_read_keyring(const char *dir, const uint8_t *data, size_t size)
{
    crema_keyring_t *keyring;
    (void)fuzz_write(dir, "client.jane.key", data, size);
    (void)fuzz_write(dir, "agent.any.key", data, size / 2);
    HOLDS(crema_keyring_new(dir, &keyring) == CREMA_OK);
    HOLDS(crema_keyring_count(keyring) + crema_keyring_unreadable(keyring) <= 2);
    crema_keyring_destroy(&keyring);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[128];
    uint8_t *copy = malloc(size + 1);
    HOLDS(copy != NULL);
    memcpy(copy, data, size);
    snprintf(dir, sizeof dir, "%s/config", fuzz_dir());
    (void)mkdir(dir, 0700);
    s_parse_words(copy, size);
    s_parse_file(dir, data, size);
    s_read_keyring(dir, data, size);
    fuzz_clean(dir);
    free(copy);
    return 0;
}
