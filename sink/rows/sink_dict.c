#include "sink_dict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_split.h"
#include "crema_utf8.h"
#include "sink_intern.h"

#define N_DICTS (CREMA_DICT_COUNT + 1) /* with the streams */
#define NAME_COLUMN 1                  /* after the id; of a stream its uuid */
#define ENTRY_BYTES 96 /* memory per name besides its row and text: hashes, numbers, a flag */

/* What the rows of all dictionaries end with. */
typedef struct __attribute__((packed, may_alias)) {
    uint8_t truncated;
    int64_t hash;
} tail_t;

typedef struct {
    sink_dict_t *run; /* the owner of this dictionary */
    const crema_table_t *table;
    sink_intern_t *keys; /* identity -> row */
    uint8_t *rows;
    char **texts;   /* whole text where the row's was cut; else NULL */
    uint8_t *dirty; /* 1: changed since taken */
    uint32_t n, room;
    uint32_t first_dirty; /* no row before it is dirty */
} dict_t;

struct sink_dict {
    dict_t dicts[N_DICTS];
    sink_intern_t *worker_names; /* each with a uint32_t, the newest worker of that name */
    crema_limits_t *limits;
    uint64_t bytes; /* of all names; streams have their own limit */
};

static dict_t *
s_dict_of(const sink_dict_t *self, crema_table_id_t table)
{
    return (dict_t *)&self
        ->dicts[table == CREMA_TABLE_DICT_STREAM ? CREMA_DICT_STREAM
                                                 : (int)(table - CREMA_TABLE_DICT_WORKER)];
}

crema_err_t
sink_dict_new(crema_limits_t *limits, sink_dict_t **ret_self)
{
    sink_dict_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->limits = limits;
    crema_err_t err = sink_intern_new_with(sizeof(uint32_t), &self->worker_names);
    for (int i = 0; i < N_DICTS && err == CREMA_OK; i++) {
        self->dicts[i].run = self;
        self->dicts[i].table = crema_table(crema_dict_table((crema_dict_t)i));
        err = sink_intern_new(SINK_INTERN_ANY, &self->dicts[i].keys);
    }
    if (err != CREMA_OK)
        sink_dict_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_dict_destroy(sink_dict_t **self_p)
{
    sink_dict_t *self = *self_p;
    if (!self)
        return;
    for (int i = 0; i < N_DICTS; i++) {
        dict_t *dict = &self->dicts[i];
        for (uint32_t r = 0; r < dict->n; r++)
            free(dict->texts[r]);
        sink_intern_destroy(&dict->keys);
        free(dict->rows);
        free(dict->texts);
        free(dict->dirty);
    }
    sink_intern_destroy(&self->worker_names);
    free(self);
    *self_p = NULL;
}

/* ---- rows */

static void *
s_row(const dict_t *dict, uint32_t id)
{
    return dict->rows + (size_t)id * crema_table_row_bytes(dict->table);
}

static tail_t *
s_tail(const dict_t *dict, uint32_t id)
{
    return (tail_t *)s_row(dict, id + 1) - 1;
}

static void
s_mark(dict_t *dict, uint32_t id)
{
    dict->dirty[id] = 1;
    if (id < dict->first_dirty)
        dict->first_dirty = id;
}

static crema_err_t
s_make_room(dict_t *dict)
{
    if (dict->n < dict->room)
        return CREMA_OK;
    uint32_t room = dict->room ? dict->room * 2 : 16;
    uint8_t *rows = realloc(dict->rows, room * crema_table_row_bytes(dict->table));
    if (rows)
        dict->rows = rows;
    char **texts = realloc(dict->texts, room * sizeof *texts);
    if (texts)
        dict->texts = texts;
    uint8_t *dirty = realloc(dict->dirty, room);
    if (dirty)
        dict->dirty = dirty;
    if (!rows || !texts || !dirty)
        return CREMA_ENOMEM;
    dict->room = room;
    return CREMA_OK;
}

/* Appends a blank row. */
static crema_err_t
s_append(dict_t *dict)
{
    crema_err_t err = s_make_room(dict);
    if (err != CREMA_OK)
        return err;
    uint32_t id = dict->n++;
    dict->texts[id] = NULL;
    crema_row_clear(dict->table, s_row(dict, id));
    crema_row_set_i64(dict->table, s_row(dict, id), 0, id);
    s_mark(dict, id);
    return CREMA_OK;
}

/* Sets a field of a row, and flags a cut; a text that is not known leaves it as it is. */
static void
s_set_text(dict_t *dict, uint32_t id, const char *text, char *field, size_t size)
{
    if (text && text[0])
        s_tail(dict, id)->truncated |= crema_utf8_fit_name(text, field, size);
}

/* A name that fills its column or more is also kept whole. */
static crema_err_t
s_set_name(dict_t *dict, uint32_t id, const char *name)
{
    char *field = (char *)s_row(dict, id) + crema_table_offset(dict->table, NAME_COLUMN);
    const size_t size = dict->table->columns[NAME_COLUMN].size;
    s_set_text(dict, id, name, field, size);
    return strlen(name) < size || (dict->texts[id] = strdup(name)) ? CREMA_OK : CREMA_ENOMEM;
}

/* ---- identity */

/* Of a stack: its rows. */
static size_t
s_identity_of_stack(const Crema__DictEntry *entry, uint32_t parent, char *out)
{
    const uint32_t key[] = {parent, entry->frame};
    memcpy(out, key, sizeof key);
    return sizeof key;
}

/* The key: "name NUL uuid" for files and frames, these with their line, the uuid for workers and
 * spans that have one, else the text. */
static size_t
s_identity(const Crema__DictEntry *entry, char *out, size_t size)
{
    const char *text = entry->text ? entry->text : "", *uuid = entry->uuid ? entry->uuid : "";
    bool by_uuid =
        (entry->kind == CREMA_DICT_WORKER || entry->kind == CREMA_DICT_SPAN) && uuid[0] != '\0';
    const char *first = by_uuid ? uuid : text;
    const char *second = by_uuid ? "" : uuid;
    size_t n = strnlen(first, size / 2 - 8), m = strnlen(second, size / 2 - 8);
    memcpy(out, first, n);
    if (entry->kind != CREMA_DICT_FILE && entry->kind != CREMA_DICT_FRAME)
        return n;
    out[n++] = '\0';
    memcpy(out + n, second, m);
    n += m;
    if (entry->kind == CREMA_DICT_FRAME) {
        memcpy(out + n, &entry->line, sizeof entry->line);
        n += sizeof entry->line;
    }
    return n;
}

/* A worker named without a uuid is the newest one of that name. */
static uint32_t
s_by_name(const sink_dict_t *self, const char *name)
{
    uint32_t number = sink_intern_find(self->worker_names, name, strlen(name));
    return number == SINK_INTERN_NONE ? SINK_DICT_NONE
                                      : *(uint32_t *)sink_intern_value(self->worker_names, number);
}

/* False, and counted: the key is new and `bytes` more exceed the limit. */
static bool
s_has_room(const sink_dict_t *self, const sink_intern_t *keys, const void *key, size_t size,
           uint64_t bytes)
{
    if (self->bytes + bytes <= self->limits->limit[CREMA_LIMIT_NAMES] ||
        sink_intern_find(keys, key, size) != SINK_INTERN_NONE)
        return true;
    crema_limits_met(self->limits, CREMA_LIMIT_NAMES, 1);
    return false;
}

static crema_err_t
s_remember_worker(sink_dict_t *self, const char *name, uint32_t id)
{
    uint32_t number;
    bool fresh;
    size_t size = strlen(name);
    if (!s_has_room(self, self->worker_names, name, size, size + ENTRY_BYTES))
        return CREMA_OK;
    crema_err_t err = sink_intern_add(self->worker_names, name, size, &number, &fresh);
    if (err != CREMA_OK)
        return err;
    if (fresh)
        self->bytes += size + ENTRY_BYTES;
    *(uint32_t *)sink_intern_value(self->worker_names, number) = id;
    return CREMA_OK;
}

static uint64_t
s_hash(const Crema__DictEntry *entry)
{
    const char *texts[] = {entry->text, entry->uuid, entry->host};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = texts[i] ? texts[i] : "";
        hash = sink_hash(hash, text, strlen(text) + 1);
    }
    return hash;
}

/* ---- filling the columns of each kind */

static double
s_si_factor(const char *unit)
{
    static const struct {
        const char *name;
        double factor;
    } known[] = {
        {"seconds", 1}, {"s", 1},         {"ms", 1e-3},        {"us", 1e-6}, {"ns", 1e-9},
        {"bytes", 1},   {"B", 1},         {"kB", 1e3},         {"MB", 1e6},  {"GB", 1e9},
        {"KiB", 1024},  {"MiB", 1048576}, {"GiB", 1073741824}, {"count", 1}, {"1", 1},
        {"Hz", 1},      {"1/s", 1},       {"%", 1e-2},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, unit) == 0)
            return known[i].factor;
    return NAN;
}

static crema_err_t
s_fill_worker(dict_t *dict, uint32_t id, const Crema__DictEntry *entry)
{
    crema_dict_worker_row_t *row = s_row(dict, id);
    s_set_text(dict, id, entry->uuid, row->uuid, sizeof row->uuid);
    s_set_text(dict, id, entry->host, row->host, sizeof row->host);
    if (entry->pid > 0)
        row->pid = entry->pid;
    if (entry->nthreads > 0)
        row->nthreads = entry->nthreads < UINT16_MAX ? (uint16_t)entry->nthreads : UINT16_MAX;
    if (entry->memory_limit_b > 0)
        row->memory_limit_b = entry->memory_limit_b;
    s_set_text(dict, id, entry->cpu_model, row->cpu_model, sizeof row->cpu_model);
    if (entry->host_memory_b > 0)
        row->host_memory_b = entry->host_memory_b;
    return entry->text && entry->text[0] ? s_remember_worker(dict->run, entry->text, id) : CREMA_OK;
}

static void
s_fill_file(dict_t *dict, uint32_t id, const Crema__DictEntry *entry, uint32_t dataset)
{
    crema_dict_file_row_t *row = s_row(dict, id);
    row->dataset_id = dataset;
    if (entry->size_b > 0)
        row->size_b = entry->size_b;
    if (entry->n_entries > 0)
        row->n_entries = entry->n_entries;
    if (entry->tree_b > 0)
        row->tree_b = entry->tree_b;
    if (entry->n_branches > 0)
        row->n_branches = entry->n_branches;
    s_set_text(dict, id, entry->uuid, row->uuid, sizeof row->uuid);
}

static void
s_fill_span(dict_t *dict, uint32_t id, const Crema__DictEntry *entry)
{
    crema_dict_span_row_t *row = s_row(dict, id);
    s_set_text(dict, id, entry->uuid, row->uuid, sizeof row->uuid);
}

static void
s_fill_frame(dict_t *dict, uint32_t id, const Crema__DictEntry *entry)
{
    crema_dict_frame_row_t *row = s_row(dict, id);
    s_set_text(dict, id, entry->uuid, row->function, sizeof row->function);
    row->line = entry->line;
    row->owner = (uint8_t)(entry->owner <= CREMA_FRAME_CREMA ? entry->owner : CREMA_FRAME_LIBRARY);
}

static void
s_fill_stack(dict_t *dict, uint32_t id, const Crema__DictEntry *entry, uint32_t parent)
{
    crema_dict_stack_row_t *row = s_row(dict, id);
    row->parent_id = parent;
    row->frame_id = entry->frame;
    row->depth = 0;
    if (parent < id) { /* callers come first */
        const uint16_t depth = ((crema_dict_stack_row_t *)s_row(dict, parent))->depth;
        row->depth = depth < UINT16_MAX ? (uint16_t)(depth + 1) : depth;
    }
}

static crema_err_t
s_fill(dict_t *dict, uint32_t id, const Crema__DictEntry *entry, uint32_t parent)
{
    const char *text = entry->text ? entry->text : "";
    switch (entry->kind) {
    case CREMA_DICT_WORKER:
        return s_fill_worker(dict, id, entry);
    case CREMA_DICT_SPAN:
        s_fill_span(dict, id, entry);
        break;
    case CREMA_DICT_ACTIVITY:
        ((crema_dict_activity_row_t *)s_row(dict, id))->kind =
            (uint8_t)crema_split_activity_kind(text);
        break;
    case CREMA_DICT_UNIT:
        ((crema_dict_unit_row_t *)s_row(dict, id))->si_factor = s_si_factor(text);
        break;
    case CREMA_DICT_METRIC:
        ((crema_dict_metric_row_t *)s_row(dict, id))->unit_id = parent;
        break;
    case CREMA_DICT_FILE:
        s_fill_file(dict, id, entry, parent);
        break;
    case CREMA_DICT_FRAME:
        s_fill_frame(dict, id, entry);
        break;
    case CREMA_DICT_STACK:
        s_fill_stack(dict, id, entry, parent);
        break;
    default:
        break;
    }
    return CREMA_OK;
}

crema_err_t
sink_dict_entry(sink_dict_t *self, const Crema__DictEntry *entry, uint32_t parent, uint32_t *ret_id)
{
    *ret_id = SINK_DICT_NONE;
    if (entry->kind >= CREMA_DICT_COUNT)
        return CREMA_EINVAL;
    dict_t *dict = &self->dicts[entry->kind];
    char identity[2048];
    size_t size = entry->kind == CREMA_DICT_STACK ? s_identity_of_stack(entry, parent, identity)
                                                  : s_identity(entry, identity, sizeof identity);
    const char *text = entry->text && entry->kind != CREMA_DICT_STACK ? entry->text : "";
    bool nameless = !entry->uuid || entry->uuid[0] == '\0';
    if (entry->kind == CREMA_DICT_WORKER && nameless) {
        uint32_t known = s_by_name(self, text);
        if (known != SINK_DICT_NONE) {
            *ret_id = known;
            s_mark(dict, known);
            return s_fill(dict, known, entry, parent);
        }
    }
    bool fresh;
    uint32_t id;
    uint64_t bytes = crema_table_row_bytes(dict->table) + size + strlen(text) + ENTRY_BYTES;
    if (!s_has_room(self, dict->keys, identity, size, bytes))
        return CREMA_OK;
    crema_err_t err = sink_intern_add(dict->keys, identity, size, &id, &fresh);
    if (err == CREMA_OK && fresh) {
        self->bytes += bytes;
        err = s_append(dict);
        if (err == CREMA_OK)
            err = s_set_name(dict, id, text);
        if (err == CREMA_OK)
            s_tail(dict, id)->hash = (int64_t)s_hash(entry);
    }
    if (err != CREMA_OK)
        return err;
    s_mark(dict, id);
    *ret_id = id;
    return s_fill(dict, id, entry, parent);
}

crema_err_t
sink_dict_stream(sink_dict_t *self, const crema_id_t *stream_id, uint32_t *ret_id)
{
    *ret_id = SINK_DICT_NONE;
    dict_t *dict = &self->dicts[CREMA_DICT_STREAM];
    bool fresh;
    uint32_t id;
    if (dict->n >= self->limits->limit[CREMA_LIMIT_STREAMS] &&
        sink_dict_find_stream(self, stream_id) == SINK_DICT_NONE)
        return CREMA_ELIMIT;
    crema_err_t err = sink_intern_add(dict->keys, stream_id, sizeof *stream_id, &id, &fresh);
    if (err == CREMA_OK && fresh)
        err = s_append(dict);
    if (err != CREMA_OK)
        return err;
    *ret_id = id;
    if (!fresh)
        return CREMA_OK;
    char uuid[37];
    crema_id_uuid(stream_id, uuid);
    s_tail(dict, id)->hash = (int64_t)sink_hash(0, uuid, strlen(uuid));
    return s_set_name(dict, id, uuid);
}

uint32_t
sink_dict_find_stream(const sink_dict_t *self, const crema_id_t *stream_id)
{
    uint32_t id =
        sink_intern_find(self->dicts[CREMA_DICT_STREAM].keys, stream_id, sizeof *stream_id);
    return id == SINK_INTERN_NONE ? SINK_DICT_NONE : id;
}

/* ---- lookups */

size_t
sink_dict_count(const sink_dict_t *self, crema_table_id_t table)
{
    return s_dict_of(self, table)->n;
}

const void *
sink_dict_row(const sink_dict_t *self, crema_table_id_t table, uint32_t id)
{
    return s_row(s_dict_of(self, table), id);
}

void *
sink_dict_change(sink_dict_t *self, crema_table_id_t table, uint32_t id)
{
    dict_t *dict = s_dict_of(self, table);
    s_mark(dict, id);
    return s_row(dict, id);
}

const char *
sink_dict_text(const sink_dict_t *self, crema_dict_t kind, uint32_t id)
{
    const dict_t *dict = &self->dicts[kind];
    if (id >= dict->n)
        return "";
    if (dict->texts[id])
        return dict->texts[id];
    if (kind != CREMA_DICT_WORKER && kind != CREMA_DICT_SPAN)
        return sink_intern_key(dict->keys, id, NULL);
    return (const char *)s_row(dict, id) + crema_table_offset(dict->table, NAME_COLUMN);
}

uint32_t
sink_dict_find(const sink_dict_t *self, crema_dict_t kind, const char *text)
{
    const dict_t *dict = &self->dicts[kind];
    uint32_t id = sink_intern_find(dict->keys, text, strlen(text));
    return id == SINK_INTERN_NONE ? SINK_DICT_NONE : id;
}

bool
sink_dict_take(sink_dict_t *self, crema_table_id_t table, uint32_t *ret_first, uint32_t *ret_n)
{
    dict_t *dict = s_dict_of(self, table);
    uint32_t first = dict->first_dirty;
    while (first < dict->n && !dict->dirty[first])
        first++;
    uint32_t end = first;
    while (end < dict->n && dict->dirty[end])
        dict->dirty[end++] = 0;
    dict->first_dirty = end;
    *ret_first = first;
    *ret_n = end - first;
    return end > first;
}
