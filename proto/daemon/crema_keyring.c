#include "crema_keyring.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <czmq.h>

#include "crema_clock.h"
#include "crema_config.h"
#include "crema_map.h"

/* A directory that changed this recently may change again with the same time stamp. */
#define FRESH_NS (2 * INT64_C(1000000000))

#define REVOKED_MAX 256 /* reported one by one; see crema_keyring_revoked() */

typedef struct {
    crema_principal_t principal;
    uint8_t public_key[32];
    crema_id_t owner; /* of a lent key */
    bool was_known;   /* at the last crema_keyring_take_back(), or lent since */
    uint32_t user;    /* 1 + uid that a client's key is bound to; 0: none */
} entry_t;

struct crema_keyring {
    char *dir;
    crema_map_t *files; /* entry_t by fingerprint */
    crema_map_t *lent;  /* the same, for keys of runs */
    entry_t **queue;    /* lent keys, in any order */
    size_t n_lent;
    int64_t changed_ns; /* of the directory when it was read; real time */
    int64_t read_ns;    /* real time */
    size_t unreadable;
    bool changed; /* since crema_keyring_refresh() was called */
    crema_principal_t revoked[REVOKED_MAX];
    size_t n_revoked;
};

void
crema_keyring_destroy(crema_keyring_t **self_p)
{
    crema_keyring_t *self = *self_p;
    if (self) {
        crema_map_destroy_all(&self->files, free);
        crema_map_destroy_all(&self->lent, free);
        free(self->queue);
        free(self->dir);
        free(self);
    }
    *self_p = NULL;
}

/* ---- files */

/* "ROLE.NAME.key" */
static bool
s_parse_name(const char *file, crema_principal_t *ret_principal)
{
    char word[NAME_MAX + 1];
    crema_principal_t principal = {0};
    size_t length = strlen(file);
    const char *dot = strchr(file, '.');
    if (!dot || length < 5 || strcmp(file + length - 4, ".key") != 0 || dot == file + length - 4)
        return false;
    snprintf(word, sizeof word, "%.*s", (int)(dot - file), file);
    if (!crema_as_parse(word, &principal.as) || principal.as == CREMA_AS_ANY ||
        principal.as == CREMA_AS_SERVER)
        return false;
    snprintf(word, sizeof word, "%.*s", (int)(file + length - 4 - (dot + 1)), dot + 1);
    if (!crema_principal_is_name(word))
        return false;
    strcpy(principal.name, word);
    *ret_principal = principal;
    return true;
}

/* 1 + uid; `text` NULL: not bound. */
static bool
s_read_user(const char *text, uint32_t *ret_user)
{
    char *end = NULL;
    *ret_user = 0;
    if (!text)
        return true;
    if (*text < '0' || *text > '9') /* strtoull() takes blanks and signs */
        return false;
    errno = 0;
    unsigned long long uid = strtoull(text, &end, 10);
    *ret_user = (uint32_t)(uid + 1);
    return errno == 0 && *end == '\0' && uid < UINT32_MAX;
}

static bool
s_read_key(const char *dir, const char *file, uint8_t ret_key[32], uint32_t *ret_user)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", dir, file);
    zconfig_t *config = n > 0 && (size_t)n < sizeof path ? crema_config_read(path) : NULL;
    const char *text = config ? zconfig_get(config, "curve/public-key", NULL) : NULL;
    bool done = text && strlen(text) == 40 && zmq_z85_decode(ret_key, text) != NULL &&
                s_read_user(zconfig_get(config, "metadata/uid", NULL), ret_user);
    zconfig_destroy(&config);
    return done;
}

/* If two files have the same public key the first one read counts: neither is admitted as the
 * other. */
static bool
s_add_file(crema_map_t *files, const char *dir, const char *file)
{
    crema_err_t err;
    entry_t read = {0};
    if (!s_parse_name(file, &read.principal) || !s_read_key(dir, file, read.public_key, &read.user))
        return false;
    read.principal.key = crema_principal_key(read.public_key);
    entry_t *entry = crema_map_make(files, &read.principal.key, sizeof *entry, &err);
    if (entry)
        *entry = read;
    return entry != NULL;
}

static crema_map_t *
s_read_files(const char *dir, size_t *ret_unreadable)
{
    crema_map_t *files;
    crema_principal_t principal;
    size_t unreadable = 0;
    DIR *stream = opendir(dir);
    if (!stream)
        return NULL;
    if (crema_map_new(CREMA_KEYRING_MAX, &files) != CREMA_OK) {
        closedir(stream);
        return NULL;
    }
    for (const struct dirent *found; (found = readdir(stream)) != NULL;)
        if (s_parse_name(found->d_name, &principal))
            unreadable += !s_add_file(files, dir, found->d_name);
    closedir(stream);
    *ret_unreadable = unreadable;
    return files;
}

static bool
s_is_same(const crema_map_t *a, const crema_map_t *b)
{
    size_t cursor = 0;
    if (!a || crema_map_count(a) != crema_map_count(b))
        return false;
    for (const entry_t *entry; (entry = crema_map_next(a, &cursor)) != NULL;) {
        const entry_t *other = crema_map_find(b, &entry->principal.key);
        if (!other || other->principal.as != entry->principal.as || other->user != entry->user ||
            strcmp(other->principal.name, entry->principal.name) != 0 ||
            memcmp(other->public_key, entry->public_key, sizeof entry->public_key) != 0)
            return false;
    }
    return true;
}

static bool
s_is_lent(const crema_principal_t *principal)
{
    return !crema_id_is_zero(&principal->run_id);
}

/* One in a file takes the place of a lent one. */
static void
s_note_revoked(crema_keyring_t *self, const crema_principal_t *principal)
{
    size_t at = self->n_revoked;
    if (at == REVOKED_MAX && !s_is_lent(principal))
        for (at = 0; at < REVOKED_MAX && !s_is_lent(&self->revoked[at]); at++)
            ;
    if (at == REVOKED_MAX)
        return;
    self->revoked[at] = *principal;
    if (at == self->n_revoked)
        self->n_revoked++;
}

static void
s_note_gone(crema_keyring_t *self, const crema_map_t *before)
{
    size_t cursor = 0;
    for (const entry_t *entry; before && (entry = crema_map_next(before, &cursor)) != NULL;)
        if (!crema_keyring_admits(self, &entry->principal))
            s_note_revoked(self, &entry->principal);
}

bool
crema_keyring_revoked(crema_keyring_t *self, crema_principal_t *ret_principal)
{
    if (!self || self->n_revoked == 0)
        return false;
    *ret_principal = self->revoked[--self->n_revoked];
    return true;
}

static bool
s_has_owner(const void *context, const entry_t *entry)
{
    const crema_keyring_t *self = context;
    return crema_map_find(self->files, &entry->owner) != NULL;
}

/* Removes the lent keys that are not to stay. */
static void
s_take_back(crema_keyring_t *self, bool (*stays)(const void *context, const entry_t *entry),
            const void *context)
{
    size_t kept = 0;
    for (size_t i = 0; i < self->n_lent; i++) {
        entry_t *entry = self->queue[i];
        if (stays(context, entry)) {
            self->queue[kept++] = entry;
            continue;
        }
        crema_map_take(self->lent, &entry->principal.key);
        s_note_revoked(self, &entry->principal);
        free(entry);
    }
    self->n_lent = kept;
}

/* A directory that can no longer be read changes nothing: a full table of descriptors must not
 * lock everybody out. */
static void
s_look(crema_keyring_t *self, bool in_any_case)
{
    struct stat st;
    if (stat(self->dir, &st) != 0)
        return;
    int64_t changed_ns = crema_clock_ns(st.st_mtim);
    int64_t now_ns = crema_clock_real_ns();
    bool is_fresh = self->read_ns - changed_ns < FRESH_NS;
    /* After a clock was set back it stays fresh: each unknown key would have all files read. */
    if (changed_ns - self->read_ns > FRESH_NS && now_ns >= self->read_ns)
        is_fresh = now_ns - self->read_ns >= FRESH_NS;
    if (!in_any_case && !is_fresh && changed_ns == self->changed_ns)
        return;
    crema_map_t *files = s_read_files(self->dir, &self->unreadable);
    if (!files)
        return;
    self->changed_ns = changed_ns;
    self->read_ns = now_ns;
    crema_map_t *before = self->files;
    self->files = files;
    if (!s_is_same(before, files)) {
        self->changed = true;
        s_take_back(self, s_has_owner, self);
        s_note_gone(self, before);
    }
    crema_map_destroy_all(&before, free);
}

bool
crema_keyring_refresh(crema_keyring_t *self, bool in_any_case)
{
    s_look(self, in_any_case);
    bool changed = self->changed;
    self->changed = false;
    return changed;
}

crema_err_t
crema_keyring_new(const char *server_dir, crema_keyring_t **ret_self)
{
    crema_keyring_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->dir = strdup(server_dir);
    self->queue = calloc(CREMA_KEYRING_LENT_MAX, sizeof(entry_t *));
    crema_err_t err = self->dir && self->queue ? crema_map_new(CREMA_KEYRING_LENT_MAX, &self->lent)
                                               : CREMA_ENOMEM;
    if (err == CREMA_OK) {
        (void)crema_keyring_refresh(self, true);
        err = self->files ? CREMA_OK : CREMA_EIO;
    }
    if (err != CREMA_OK)
        crema_keyring_destroy(&self);
    else
        *ret_self = self;
    return err;
}

/* ---- queries */

static const entry_t *
s_find(const crema_keyring_t *self, const crema_id_t *key)
{
    const entry_t *entry = crema_map_find(self->files, key);
    return entry ? entry : crema_map_find(self->lent, key);
}

static const crema_principal_t *
s_known(const crema_keyring_t *self, const uint8_t public_key[32])
{
    crema_id_t key = crema_principal_key(public_key);
    const entry_t *entry = s_find(self, &key);
    return entry && memcmp(entry->public_key, public_key, 32) == 0 ? &entry->principal : NULL;
}

const crema_principal_t *
crema_keyring_find(crema_keyring_t *self, const uint8_t public_key[32])
{
    const crema_principal_t *known = s_known(self, public_key);
    if (known)
        return known;
    s_look(self, false);
    return s_known(self, public_key);
}

bool
crema_keyring_admits(const crema_keyring_t *self, const crema_principal_t *principal)
{
    if (!self)
        return true;
    const entry_t *entry = s_find(self, &principal->key);
    return entry && entry->principal.as == principal->as &&
           strcmp(entry->principal.name, principal->name) == 0;
}

/* Runs of one owner must not cost another owner's agents their key. */
static bool
s_has_room(const crema_keyring_t *self, const crema_id_t *owner)
{
    size_t n = 0;
    for (size_t i = 0; self->n_lent >= CREMA_KEYRING_LENT_EACH && i < self->n_lent; i++)
        n += crema_id_equal(&self->queue[i]->owner, owner);
    return n < CREMA_KEYRING_LENT_EACH;
}

typedef struct {
    bool (*is_known)(const void *context, const crema_id_t *run_id);
    const void *context;
} asked_t;

static bool
s_is_of_a_known_run(const void *context, const entry_t *entry)
{
    const asked_t *asked = context;
    return entry->was_known || asked->is_known(asked->context, &entry->principal.run_id);
}

void
crema_keyring_take_back(crema_keyring_t *self,
                        bool (*is_known)(const void *context, const crema_id_t *run_id),
                        const void *context)
{
    if (!self)
        return;
    const asked_t asked = {is_known, context};
    s_take_back(self, s_is_of_a_known_run, &asked);
    for (size_t i = 0; i < self->n_lent; i++)
        self->queue[i]->was_known = is_known(context, &self->queue[i]->principal.run_id);
}

uint32_t
crema_keyring_user(const crema_keyring_t *self, const crema_id_t *key)
{
    const entry_t *entry = self ? crema_map_find(self->files, key) : NULL;
    return entry ? entry->user : 0;
}

crema_id_t
crema_keyring_owner(const crema_keyring_t *self, const crema_id_t *key)
{
    const entry_t *lent = self ? crema_map_find(self->lent, key) : NULL;
    return lent ? lent->owner : *key;
}

bool
crema_keyring_knows(const crema_keyring_t *self, const crema_id_t *key)
{
    return !self || s_find(self, key) != NULL;
}

crema_err_t
crema_keyring_lend(crema_keyring_t *self, const crema_id_t *run_id, const crema_id_t *owner,
                   const uint8_t public_key[32])
{
    if (!self)
        return CREMA_OK;
    crema_id_t key = crema_principal_key(public_key);
    const entry_t *known = s_find(self, &key);
    if (known)
        return memcmp(known->public_key, public_key, 32) == 0 &&
                       crema_id_equal(&known->principal.run_id, run_id)
                   ? CREMA_OK
                   : CREMA_EBUSY;
    crema_err_t err;
    if (!s_has_room(self, owner))
        return CREMA_ELIMIT;
    entry_t *entry = crema_map_make(self->lent, &key, sizeof *entry, &err);
    if (!entry)
        return err;
    entry->principal = crema_principal_of_run(run_id, public_key);
    entry->owner = *owner;
    entry->was_known = true;
    memcpy(entry->public_key, public_key, 32);
    self->queue[self->n_lent++] = entry;
    return CREMA_OK;
}

size_t
crema_keyring_count(const crema_keyring_t *self)
{
    return crema_map_count(self->files) + self->n_lent;
}

size_t
crema_keyring_unreadable(const crema_keyring_t *self)
{
    return self->unreadable;
}
