#include "sink_server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sink_grouped.h"
#include "sink_scratch.h"

#define NONE UINT32_MAX

typedef enum { PER_REQUEST, PER_BYTE, UNITS } unit_t;

typedef struct {
    const sink_facts_t *facts;
    const sink_tables_t *tables;
    uint8_t *is_input;       /* by place: some input was waited for there */
    uint32_t *server;        /* by file: its place, or NONE */
    sink_grouped_t *members; /* counted chunks with a server, by server */
    size_t n;
    double *values; /* scratch */
} search_t;

static const sink_rows_t *
s_places(const search_t *self)
{
    return sink_tables_rows(self->tables, CREMA_TABLE_DICT_PLACE);
}

/* Host and port of a URL, without user and password; false for a path. */
static bool
s_host(const char *name, const char **ret_host, size_t *ret_length)
{
    const char *begin = name;
    for (const char *at = name; (at = strstr(at, "::")); at += 2)
        begin = strstr(at, "://") ? at + 2 : begin; /* of fsspec's chains the last */
    const char *host = strstr(begin, "://");
    if (!host)
        return false;
    host += 3;
    size_t length = strcspn(host, "/?#");
    for (size_t i = 0; i < length; i++)
        if (host[i] == '@') {
            host += i + 1;
            length -= i + 1;
            i = 0;
        }
    *ret_host = host;
    *ret_length = length;
    return true;
}

static bool
s_is_below(const char *path, const char *place, size_t length)
{
    bool begins = strncmp(path, place, length) == 0;
    return begins && (length == 1 || path[length] == '/' || path[length] == '\0');
}

/* The place where a file's input was waited for: its host, or the longest mount point. */
static uint32_t
s_server(const search_t *self, const char *name)
{
    const sink_rows_t *places = s_places(self);
    const char *host;
    size_t length, longest = 0;
    uint32_t found = NONE;
    bool is_url = s_host(name, &host, &length);
    for (size_t i = 0; i < sink_rows_count(places); i++) {
        const crema_dict_place_row_t *place = sink_rows_at(places, i);
        size_t n = strnlen(place->name, sizeof place->name);
        if (!self->is_input[i])
            continue;
        if (is_url && n == length && memcmp(place->name, host, n) == 0)
            return (uint32_t)i;
        if (!is_url && n > longest && place->name[0] == '/' && s_is_below(name, place->name, n)) {
            longest = n;
            found = (uint32_t)i;
        }
    }
    return found;
}

/* NaN: not known. */
static double
s_wait_s(const sink_chunk_t *chunk)
{
    double open_s = chunk->open_s - chunk->open_cpu_s - chunk->open_cpu_wait_s - chunk->open_gil_s;
    return fmax(open_s, 0) + chunk->wait_s[CREMA_LOOK_INPUT] - chunk->open_input_s;
}

static double
s_value(const search_t *self, size_t row, unit_t unit)
{
    const sink_chunk_t *chunk = &self->facts->chunks[row];
    int64_t n = unit == PER_REQUEST ? chunk->n_requests : chunk->bytes_read_b;
    return n > 0 ? s_wait_s(chunk) / (double)n : NAN;
}

/* Median over the members from `begin` to `end`, or over all others. */
static double
s_median(const search_t *self, size_t begin, size_t end, bool others, unit_t unit, size_t *ret_n)
{
    size_t n = 0;
    for (size_t i = 0; i < self->n; i++)
        if ((i >= begin && i < end) != others) {
            double value = s_value(self, self->members[i].row, unit);
            if (!isnan(value))
                self->values[n++] = value;
        }
    *ret_n = n;
    return sink_stats_median(self->values, n);
}

static bool
s_has_two_files(const search_t *self, size_t begin, size_t end)
{
    for (size_t i = begin + 1; i < end; i++)
        if (self->facts->chunks[self->members[i].row].file !=
            self->facts->chunks[self->members[begin].row].file)
            return true;
    return false;
}

/* How many times as long its chunks wait, by the unit that says less; 0: not slow. */
static double
s_slowness(const search_t *self, size_t begin, size_t end)
{
    double least = INFINITY;
    for (unit_t unit = PER_REQUEST; unit < UNITS; unit++) {
        size_t n, n_others;
        double median = s_median(self, begin, end, true, unit, &n_others), above = 0;
        double own = s_median(self, begin, end, false, unit, &n);
        if (n < SINK_SERVER_CHUNKS || n_others < SINK_SERVER_CHUNKS)
            continue;
        for (size_t i = 0; i < n; i++)
            above += self->values[i] > median;
        if ((2 * above / (double)n - 1) * sqrt((double)n) < SINK_SERVER_SCORE)
            return 0;
        least = fmin(least, median > 0 ? own / median : 1e3);
    }
    return least >= SINK_SERVER_RATIO && isfinite(least) ? least : 0;
}

/* What preprocessing waited for it. */
static double
s_preprocess_s(const search_t *self, uint32_t place)
{
    const sink_rows_t *prefixes = sink_tables_rows(self->tables, CREMA_TABLE_DICT_TASK_PREFIX);
    double sum = 0;
    for (size_t i = 0; i < self->facts->n_looks; i++) {
        const sink_look_t *look = &self->facts->looks[i];
        if (look->place == place && look->state == CREMA_LOOK_INPUT &&
            look->phase == CREMA_LOOK_PHASE_OTHER && look->prefix < sink_rows_count(prefixes) &&
            ((const crema_dict_task_prefix_row_t *)sink_rows_at(prefixes, look->prefix))->side ==
                CREMA_SIDE_PREPROCESS)
            sum += look->seconds;
    }
    return sum;
}

static void
s_judge(const search_t *self, uint8_t *of_slow, uint8_t mark, sink_slow_t *slow)
{
    double worst_s = 0;
    for (size_t begin = 0, end; begin < self->n; begin = end) {
        end = sink_grouped_end(self->members, self->n, begin);
        double ratio = s_has_two_files(self, begin, end) ? s_slowness(self, begin, end) : 0;
        if (!(ratio > 0))
            continue;
        const uint32_t place = self->members[begin].group;
        double excess = 1 - 1 / ratio, sum = 0;
        for (size_t i = begin; i < end; i++) {
            double wait_s = s_wait_s(&self->facts->chunks[self->members[i].row]);
            sum += isnan(wait_s) ? 0 : excess * wait_s;
            of_slow[self->members[i].row] = mark;
        }
        slow->n++;
        slow->noncpu_s += sum;
        slow->preprocess_s += excess * s_preprocess_s(self, place);
        if (sum > worst_s) {
            worst_s = sum;
            slow->worst = place;
            slow->ratio = ratio;
        }
    }
}

static void
s_gather(search_t *self, const uint8_t *of_slow)
{
    const sink_facts_t *facts = self->facts;
    const sink_rows_t *files = sink_tables_rows(self->tables, CREMA_TABLE_DICT_FILE);
    for (size_t i = 0; i < facts->n_looks; i++)
        if (facts->looks[i].state == CREMA_LOOK_INPUT &&
            facts->looks[i].place < sink_rows_count(s_places(self)))
            self->is_input[facts->looks[i].place] = 1;
    for (size_t i = 0; i < sink_rows_count(files); i++)
        self->server[i] = s_server(self, ((crema_dict_file_row_t *)sink_rows_at(files, i))->name);
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        bool has_server = chunk->file < sink_rows_count(files) && self->server[chunk->file] != NONE;
        if (chunk->counted && has_server && of_slow[i] == 0)
            self->members[self->n++] = (sink_grouped_t){self->server[chunk->file], i};
    }
    sink_grouped_sort(self->members, self->n);
}

crema_err_t
sink_server_find(const sink_facts_t *facts, const sink_tables_t *tables, uint8_t *of_slow,
                 uint8_t mark, sink_slow_t *ret_slow)
{
    *ret_slow = (sink_slow_t){0};
    if (facts->n_looks == 0)
        return CREMA_OK;
    size_t n = facts->n_chunks + 1;
    size_t n_files = sink_rows_count(sink_tables_rows(tables, CREMA_TABLE_DICT_FILE));
    size_t n_places = sink_rows_count(sink_tables_rows(tables, CREMA_TABLE_DICT_PLACE));
    crema_err_t err = CREMA_OK;
    search_t self = {.facts = facts,
                     .tables = tables,
                     .is_input = sink_scratch(facts->dir, n_places + 1, 1, &err),
                     .server = sink_scratch(facts->dir, n_files + 1, sizeof *self.server, &err),
                     .members = sink_scratch(facts->dir, n, sizeof *self.members, &err),
                     .values = sink_scratch(facts->dir, n, sizeof *self.values, &err)};
    if (err == CREMA_OK) {
        s_gather(&self, of_slow);
        s_judge(&self, of_slow, mark, ret_slow);
    }
    sink_scratch_free(self.is_input);
    sink_scratch_free(self.server);
    sink_scratch_free(self.members);
    sink_scratch_free(self.values);
    return err;
}
