#include "agg_rollup.h"

#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"
#include "crema_map.h"
#include "crema_split.h"

#define UNIT_SECONDS "seconds"
/* What an entry of a map takes besides its value: slots of which three eighths are used, and what
 * malloc keeps. */
#define SLOT_BYTES 80

/* A name of the run. */
typedef struct {
    size_t size;
    char text[]; /* terminated */
} name_t;

/* Local names of a stream, of the kinds that the split needs: prefixes, activities, units. */
typedef enum { LOCAL_PREFIX, LOCAL_ACTIVITY, LOCAL_UNIT, LOCAL_COUNT } local_kind_t;

typedef struct {
    uint32_t id;
    const char *name; /* borrowed from the names; NULL: it found no room */
} local_t;

typedef struct {
    local_t *at; /* by id, which usually is the index */
    size_t n, room;
} locals_t;

typedef struct {
    uint32_t number;
    locals_t locals[LOCAL_COUNT];
} stream_t;

/* The key of a total, in the numbering of its stream. */
typedef struct {
    uint32_t stream, worker, span, prefix, activity;
} total_key_t;

typedef struct {
    total_key_t key;
    const char *prefix, *activity; /* borrowed from the names */
    crema_side_t marked;           /* by the hook */
    crema_side_t side;             /* according to the current prefixes */
    double base, total;            /* seconds at the start of the run, and in the last total */
} entry_t;

/* Columns of /activities, looked up once. */
typedef struct {
    size_t total, worker, span, prefix, activity, unit, context, side, baseline;
} columns_t;

struct agg_rollup {
    agg_rollup_limits_t limits;
    columns_t columns;
    crema_map_t *streams; /* stream_t * by stream id */
    crema_map_t *names;   /* name_t * by the hash of the text */
    crema_map_t *entries; /* entry_t * by the hash of the key */
    size_t n_prefixes;
    char **prefixes;
    uint64_t prefixes_b;
    double side_s[CREMA_SIDE_COUNT];
    uint64_t room_b; /* see agg_rollup_allow() */
    agg_rollup_stats_t stats;
};

/* ---- creation */

static size_t
s_column(const crema_table_t *table, const char *name)
{
    return (size_t)crema_table_column(table, name);
}

static columns_t
s_columns(void)
{
    const crema_table_t *table = crema_table(CREMA_TABLE_ACTIVITIES);
    return (columns_t){
        .total = s_column(table, "total"),
        .worker = s_column(table, "worker_id"),
        .span = s_column(table, "span_id"),
        .prefix = s_column(table, "task_prefix_id"),
        .activity = s_column(table, "activity_id"),
        .unit = s_column(table, "unit_id"),
        .context = s_column(table, "context"),
        .side = s_column(table, "side"),
        .baseline = s_column(table, "baseline"),
    };
}

crema_err_t
agg_rollup_new(agg_rollup_limits_t limits, agg_rollup_t **ret_self)
{
    agg_rollup_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->limits = limits;
    self->room_b = limits.bytes_max;
    self->columns = s_columns();
    crema_err_t err = crema_map_new(limits.streams_max, &self->streams);
    if (err == CREMA_OK)
        err = crema_map_new(limits.names_max, &self->names);
    if (err == CREMA_OK)
        err = crema_map_new(limits.keys_max, &self->entries);
    if (err != CREMA_OK) {
        agg_rollup_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

static void
s_free_stream(void *value)
{
    stream_t *stream = value;
    for (int kind = 0; kind < LOCAL_COUNT; kind++)
        free(stream->locals[kind].at);
    free(stream);
}

static void
s_free_prefixes(char **prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(prefixes[i]);
    free(prefixes);
}

void
agg_rollup_destroy(agg_rollup_t **self_p)
{
    agg_rollup_t *self = *self_p;
    if (self) {
        crema_map_destroy_all(&self->streams, s_free_stream);
        crema_map_destroy_all(&self->names, free);
        crema_map_destroy_all(&self->entries, free);
        s_free_prefixes(self->prefixes, self->n_prefixes);
        free(self);
    }
    *self_p = NULL;
}

/* ---- room */

void
agg_rollup_allow(agg_rollup_t *self, uint64_t more_b)
{
    const uint64_t left_b = self->limits.bytes_max - self->stats.bytes;
    self->room_b = more_b < left_b ? more_b : left_b;
}

static void
s_use(agg_rollup_t *self, uint64_t bytes)
{
    self->room_b -= bytes;
    self->stats.bytes += bytes;
}

/* A value of a map; NULL: no room, or no memory. */
static void *
s_make(agg_rollup_t *self, crema_map_t *map, const crema_id_t *key, size_t bytes)
{
    crema_err_t err;
    if (bytes + SLOT_BYTES > self->room_b)
        return NULL;
    void *value = crema_map_make(map, key, bytes, &err);
    if (value)
        s_use(self, bytes + SLOT_BYTES);
    return value;
}

/* ---- names */

/* The run's copy of a text; NULL at the limit. */
static const char *
s_name(agg_rollup_t *self, const char *text)
{
    size_t size = strnlen(text, CREMA_NAME_MAX);
    crema_id_t hash = crema_map_id(text, size);
    name_t *name = crema_map_find(self->names, &hash);
    if (name)
        return name->size == size && memcmp(name->text, text, size) == 0 ? name->text : NULL;
    name = s_make(self, self->names, &hash, sizeof *name + size + 1);
    if (!name)
        return NULL;
    name->size = size;
    memcpy(name->text, text, size);
    self->stats.names++;
    return name->text;
}

static stream_t *
s_stream(agg_rollup_t *self, const crema_id_t *stream_id)
{
    const uint32_t number = (uint32_t)crema_map_count(self->streams);
    stream_t *stream = crema_map_find(self->streams, stream_id);
    if (!stream && (stream = s_make(self, self->streams, stream_id, sizeof *stream)))
        stream->number = number;
    return stream;
}

static int
s_local_kind(crema_dict_t kind)
{
    switch (kind) {
    case CREMA_DICT_TASK_PREFIX:
        return LOCAL_PREFIX;
    case CREMA_DICT_ACTIVITY:
        return LOCAL_ACTIVITY;
    case CREMA_DICT_UNIT:
        return LOCAL_UNIT;
    default:
        return LOCAL_COUNT;
    }
}

/* The index of that id, or of the first one above it. */
static size_t
s_local(const locals_t *locals, uint64_t id)
{
    if (id < locals->n && locals->at[id].id == id)
        return (size_t)id;
    size_t low = 0, high = locals->n;
    if (high > 0 && locals->at[high - 1].id < id)
        return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (locals->at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: no room, or no memory. */
static local_t *
s_insert_local(agg_rollup_t *self, locals_t *locals, size_t i, uint32_t id)
{
    const size_t was = locals->room;
    if (locals->n == was && (was > 0 ? was : 16) * sizeof(local_t) > self->room_b)
        return NULL;
    local_t *grown = crema_grow(locals->at, locals->n, &locals->room, sizeof *grown);
    if (!grown)
        return NULL;
    s_use(self, (locals->room - was) * sizeof *grown);
    locals->at = grown;
    memmove(grown + i + 1, grown + i, (locals->n++ - i) * sizeof *grown);
    grown[i] = (local_t){.id = id};
    return &grown[i];
}

/* False at a limit. */
static bool
s_learn(agg_rollup_t *self, stream_t *stream, local_kind_t kind, uint32_t id, const char *text)
{
    locals_t *locals = &stream->locals[kind];
    if (id >= self->limits.locals_max)
        return false;
    const size_t i = s_local(locals, id);
    local_t *local = i < locals->n && locals->at[i].id == id ? &locals->at[i]
                                                             : s_insert_local(self, locals, i, id);
    if (!local)
        return false;
    local->name = s_name(self, text);
    return local->name != NULL;
}

static void
s_take_dict(agg_rollup_t *self, stream_t *stream, const crema_record_t *record)
{
    for (size_t i = 0; i < record->dict.n_entries; i++) {
        const Crema__DictEntry *entry = record->dict.entries[i];
        int kind = s_local_kind(entry->kind);
        if (kind != LOCAL_COUNT &&
            !s_learn(self, stream, (local_kind_t)kind, entry->id, entry->text))
            self->stats.not_taken++;
    }
}

/* ---- totals */

static const char *
s_look_up(const stream_t *stream, local_kind_t kind, int64_t id)
{
    const locals_t *locals = &stream->locals[kind];
    const size_t i = id < 0 ? locals->n : s_local(locals, (uint64_t)id);
    return i < locals->n && locals->at[i].id == (uint64_t)id ? locals->at[i].name : NULL;
}

static crema_side_t
s_side(const agg_rollup_t *self, const entry_t *entry)
{
    crema_split_rules_t rules = {self->n_prefixes, (const char *const *)self->prefixes};
    return crema_split_side(&rules, CREMA_CONTEXT_EXECUTE, entry->prefix, entry->activity,
                            entry->marked);
}

static bool
s_key_equal(const total_key_t *a, const total_key_t *b)
{
    return a->stream == b->stream && a->worker == b->worker && a->span == b->span &&
           a->prefix == b->prefix && a->activity == b->activity;
}

static entry_t *
s_entry(agg_rollup_t *self, const total_key_t *key)
{
    crema_id_t hash = crema_map_id(key, sizeof *key);
    entry_t *entry = crema_map_find(self->entries, &hash);
    if (entry)
        return s_key_equal(&entry->key, key) ? entry : NULL;
    entry = s_make(self, self->entries, &hash, sizeof *entry);
    if (!entry)
        return NULL;
    entry->key = *key;
    self->stats.keys++;
    return entry;
}

/* Moves sums from the old side to the one that the names and the mark now imply. */
static void
s_set_names(agg_rollup_t *self, entry_t *entry, const char *prefix, const char *activity,
            crema_side_t marked)
{
    if (entry->prefix == prefix && entry->activity == activity && entry->marked == marked)
        return;
    self->side_s[entry->side] -= entry->total - entry->base;
    entry->prefix = prefix;
    entry->activity = activity;
    entry->marked = marked;
    entry->side = s_side(self, entry);
    self->side_s[entry->side] += entry->total - entry->base;
}

static void
s_set_total(agg_rollup_t *self, entry_t *entry, double total, bool baseline)
{
    double was = entry->total - entry->base;
    if (baseline)
        entry->base = total;
    entry->total = total;
    self->side_s[entry->side] += entry->total - entry->base - was;
}

static void
s_take_row(agg_rollup_t *self, const stream_t *stream, const crema_batch_t *batch, uint32_t row)
{
    const columns_t *at = &self->columns;
    int64_t prefix = crema_batch_int(batch, row, at->prefix, -1);
    int64_t activity = crema_batch_int(batch, row, at->activity, -1);
    const char *unit = s_look_up(stream, LOCAL_UNIT, crema_batch_int(batch, row, at->unit, -1));
    if (crema_batch_int(batch, row, at->context, -1) != CREMA_CONTEXT_EXECUTE)
        return;
    const char *prefix_name = s_look_up(stream, LOCAL_PREFIX, prefix);
    const char *activity_name = s_look_up(stream, LOCAL_ACTIVITY, activity);
    if (!unit || !prefix_name || !activity_name) {
        self->stats.nameless++;
        return;
    }
    double total = crema_batch_real(batch, row, at->total, 0.0);
    if (strcmp(unit, UNIT_SECONDS) != 0 || !(total >= 0.0 && total < 1e12))
        return;
    total_key_t key = {
        .stream = stream->number,
        .worker = (uint32_t)crema_batch_int(batch, row, at->worker, -1),
        .span = (uint32_t)crema_batch_int(batch, row, at->span, -1),
        .prefix = (uint32_t)prefix,
        .activity = (uint32_t)activity,
    };
    entry_t *entry = s_entry(self, &key);
    if (!entry) {
        self->stats.not_taken++;
        return;
    }
    int64_t marked = crema_batch_int(batch, row, at->side, 0);
    if (marked < 0 || marked >= CREMA_SIDE_COUNT)
        marked = entry->marked;
    s_set_names(self, entry, prefix_name, activity_name, (crema_side_t)marked);
    s_set_total(self, entry, total, crema_batch_int(batch, row, at->baseline, 0) != 0);
}

void
agg_rollup_take(agg_rollup_t *self, const crema_id_t *stream_id, const crema_record_t *record)
{
    bool rows = record->type == CREMA_RECORD_BATCH &&
                record->batch.table == crema_table(CREMA_TABLE_ACTIVITIES);
    if (!rows && record->type != CREMA_RECORD_DICT)
        return;
    stream_t *stream = s_stream(self, stream_id);
    if (!stream) {
        self->stats.not_taken++;
        return;
    }
    if (record->type == CREMA_RECORD_DICT)
        s_take_dict(self, stream, record);
    for (uint32_t row = 0; rows && row < record->batch.rows; row++)
        s_take_row(self, stream, &record->batch, row);
}

/* ---- prefixes and sums */

crema_err_t
agg_rollup_set_prefixes(agg_rollup_t *self, size_t n, char *const *prefixes)
{
    uint64_t bytes = n * sizeof *prefixes;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(prefixes[i]) + 1;
    if (bytes > self->prefixes_b + self->room_b) {
        self->stats.not_taken++;
        return CREMA_ELIMIT;
    }
    char **copies = calloc(n + 1, sizeof *copies);
    if (!copies)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        copies[i] = strdup(prefixes[i]);
        if (!copies[i]) {
            s_free_prefixes(copies, i);
            return CREMA_ENOMEM;
        }
    }
    s_free_prefixes(self->prefixes, self->n_prefixes);
    s_use(self, bytes - self->prefixes_b);
    self->prefixes = copies;
    self->n_prefixes = n;
    self->prefixes_b = bytes;
    memset(self->side_s, 0, sizeof self->side_s);
    size_t cursor = 0;
    entry_t *entry;
    while ((entry = crema_map_next(self->entries, &cursor))) {
        entry->side = s_side(self, entry);
        self->side_s[entry->side] += entry->total - entry->base;
    }
    return CREMA_OK;
}

double
agg_rollup_side_s(const agg_rollup_t *self, crema_side_t side)
{
    return side < CREMA_SIDE_COUNT ? self->side_s[side] : 0.0;
}

double
agg_rollup_overhead_s(const agg_rollup_t *self)
{
    return self->side_s[CREMA_SIDE_RUNTIME] + self->side_s[CREMA_SIDE_PREPROCESS] +
           self->side_s[CREMA_SIDE_MERGE] + self->side_s[CREMA_SIDE_OVERHEAD];
}

agg_rollup_stats_t
agg_rollup_stats(const agg_rollup_t *self)
{
    return self->stats;
}

bool
agg_rollup_is_whole(const agg_rollup_t *self)
{
    return self->stats.not_taken == 0 && self->stats.nameless == 0;
}
