#include "sink_deaths.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MB 1e6
#define NAMED 2        /* chunks of a worker that are named one by one */
#define NEAR_LIMIT 0.8 /* of a memory limit: worth saying where the cause is not known */

/* A chunk that ended with its worker. */
typedef struct {
    int64_t chunk_id;
    size_t row;
    bool elsewhere; /* another attempt at it counts */
} lost_t;

struct sink_deaths {
    const sink_facts_t *facts;
    const sink_decoder_t *run;
    lost_t *lost; /* by chunk */
    size_t n_lost;
    size_t *deadly; /* first of the lost attempts at each chunk on which several workers ended */
    size_t n_deadly;
};

/* ---- the chunks */

static int
s_by_chunk(const void *a, const void *b)
{
    const lost_t *x = a, *y = b;
    if (x->chunk_id != y->chunk_id)
        return x->chunk_id < y->chunk_id ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int
s_is_of_chunk(const void *key, const void *item)
{
    int64_t id = *(const int64_t *)key, other = ((const lost_t *)item)->chunk_id;
    return id < other ? -1 : id > other;
}

static bool
s_same_chunk(const sink_deaths_t *self, size_t i, size_t j)
{
    return i < self->n_lost && j < self->n_lost && self->lost[i].chunk_id == self->lost[j].chunk_id;
}

static uint32_t
s_worker(const sink_deaths_t *self, size_t i)
{
    return self->facts->chunks[self->lost[i].row].worker;
}

/* Distinct workers on which the chunk of lost attempt `first` ended. */
static size_t
s_count_workers(const sink_deaths_t *self, size_t first)
{
    size_t n = 0;
    for (size_t i = first; s_same_chunk(self, first, i); i++) {
        bool seen = false;
        for (size_t j = first; j < i && !seen; j++)
            seen = s_worker(self, j) == s_worker(self, i);
        n += !seen;
    }
    return n;
}

static void
s_take_lost(sink_deaths_t *self)
{
    const sink_facts_t *facts = self->facts;
    for (size_t i = 0; i < facts->n_chunks && self->n_lost < SINK_DEATHS_CHUNKS; i++)
        if (facts->chunks[i].status == CREMA_CHUNK_LOST &&
            facts->chunks[i].worker < facts->n_workers)
            self->lost[self->n_lost++] = (lost_t){.chunk_id = facts->chunks[i].chunk_id, .row = i};
    qsort(self->lost, self->n_lost, sizeof *self->lost, s_by_chunk);
    for (size_t i = 0; self->n_lost > 0 && i < facts->n_chunks; i++) {
        const int64_t id = facts->chunks[i].chunk_id;
        lost_t *found = facts->chunks[i].counted ? bsearch(&id, self->lost, self->n_lost,
                                                           sizeof *self->lost, s_is_of_chunk)
                                                 : NULL;
        if (!found)
            continue;
        while (found > self->lost && found[-1].chunk_id == id)
            found--;
        for (; found < self->lost + self->n_lost && found->chunk_id == id; found++)
            found->elsewhere = true;
    }
    for (size_t i = 0; i < self->n_lost; i++)
        if ((i == 0 || !s_same_chunk(self, i - 1, i)) && s_count_workers(self, i) > 1)
            self->deadly[self->n_deadly++] = i;
}

crema_err_t
sink_deaths_new(const sink_facts_t *facts, const sink_decoder_t *run, sink_deaths_t **ret_self)
{
    sink_deaths_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->facts = facts;
    self->run = run;
    self->lost = calloc(SINK_DEATHS_CHUNKS, sizeof *self->lost);
    self->deadly = calloc(SINK_DEATHS_CHUNKS, sizeof *self->deadly);
    if (!self->lost || !self->deadly) {
        sink_deaths_destroy(&self);
        return CREMA_ENOMEM;
    }
    s_take_lost(self);
    *ret_self = self;
    return CREMA_OK;
}

void
sink_deaths_destroy(sink_deaths_t **self_p)
{
    sink_deaths_t *self = *self_p;
    if (!self)
        return;
    free(self->lost);
    free(self->deadly);
    free(self);
    *self_p = NULL;
}

/* ---- the sentences */

/* A text that is cut at its size. */
typedef struct {
    char *text;
    size_t size, used;
} line_t;

__attribute__((format(printf, 2, 3))) static void
s_say(line_t *line, const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    int n = vsnprintf(line->text + line->used, line->size - line->used, format, rest);
    va_end(rest);
    if (n > 0)
        line->used += (size_t)n < line->size - line->used ? (size_t)n : line->size - line->used - 1;
}

static const char *
s_signal_name(int32_t number)
{
    static const char *const names[] = {
        [1] = "SIGHUP",   [2] = "SIGINT",   [3] = "SIGQUIT", [4] = "SIGILL",   [6] = "SIGABRT",
        [7] = "SIGBUS",   [8] = "SIGFPE",   [9] = "SIGKILL", [11] = "SIGSEGV", [13] = "SIGPIPE",
        [15] = "SIGTERM", [24] = "SIGXCPU", [31] = "SIGSYS"};
    bool known = number > 0 && number < (int32_t)(sizeof names / sizeof *names) && names[number];
    return known ? names[number] : "unnamed";
}

/* The newest sample of a worker; NULL without one. */
static const sink_sample_t *
s_last_sample(const sink_facts_t *facts, uint32_t worker)
{
    const sink_sample_t *last = NULL;
    for (size_t i = 0; i < facts->n_samples; i++)
        if (facts->samples[i].worker == worker && facts->samples[i].rss_b > 0)
            last = &facts->samples[i];
    return last;
}

static void
s_say_memory(line_t *line, const sink_deaths_t *self, uint32_t w)
{
    const sink_sample_t *last = s_last_sample(self->facts, w);
    if (last && last->memory_limit_b > 0 &&
        (double)last->rss_b > NEAR_LIMIT * (double)last->memory_limit_b)
        s_say(line, "; when last seen it held %.0f of %.0f MB", (double)last->rss_b / MB,
              (double)last->memory_limit_b / MB);
}

static void
s_say_cause(line_t *line, const sink_deaths_t *self, uint32_t w)
{
    const sink_worker_t *worker = &self->facts->workers[w];
    if (worker->was_retired)
        s_say(line, "was retired, and then ");
    switch (worker->cause) {
    case CREMA_DEATH_EXITED:
        s_say(line, "exited with status %d", (int)worker->exit_status);
        break;
    case CREMA_DEATH_SIGNAL:
        s_say(line, "was killed by signal %d (%s)", (int)worker->signal,
              s_signal_name(worker->signal));
        s_say_memory(line, self, w);
        break;
    case CREMA_DEATH_TERMINATED:
        s_say(line, "was ended by SIGTERM: by hand, or by a batch system at the end of its time");
        break;
    case CREMA_DEATH_MEMORY_NANNY:
        s_say(line, "was killed; memory: %.0f of %.0f MB, ended by its nanny",
              (double)worker->death_rss_b / MB, (double)worker->death_limit_b / MB);
        break;
    case CREMA_DEATH_MEMORY_KERNEL:
        s_say(line, "was killed; memory: the kernel ended it, limit %.0f MiB of its cgroup",
              (double)worker->death_limit_b / (1 << 20));
        break;
    case CREMA_DEATH_TIMEOUT:
        s_say(line, "was removed by the scheduler, which had not heard of it for its time limit "
                    "(distributed.scheduler.worker-ttl)");
        break;
    default:
        s_say(line, "was killed; by whom is not known");
        s_say_memory(line, self, w);
    }
}

static void
s_say_chunk(line_t *line, const sink_deaths_t *self, const sink_chunk_t *chunk)
{
    const char *file = sink_dict_text(sink_decoder_dict(self->run), CREMA_DICT_FILE, chunk->file);
    const char *name = strrchr(file, '/');
    s_say(line, "events %lld to %lld of %s", (long long)chunk->entry_start,
          (long long)chunk->entry_start + (chunk->n_entries > 0 ? chunk->n_entries : 0),
          name      ? name + 1
          : file[0] ? file
                    : "an unknown file");
}

static void
s_say_chunks(line_t *line, const sink_deaths_t *self, uint32_t w)
{
    size_t n = 0, elsewhere = 0;
    for (size_t i = 0; i < self->n_lost; i++) {
        if (s_worker(self, i) != w)
            continue;
        elsewhere += self->lost[i].elsewhere;
        if (n++ < NAMED) {
            s_say(line, n == 1 ? "; it ran " : " and ");
            s_say_chunk(line, self, &self->facts->chunks[self->lost[i].row]);
        }
    }
    if (n > NAMED)
        s_say(line, " and %zu more chunks", n - NAMED);
    if (n > 0 && elsewhere == n)
        s_say(line, ", which %s elsewhere", n == 1 ? "counts" : "count");
    else if (n > 0)
        s_say(line, ", of which %zu of %zu count elsewhere", elsewhere, n);
}

void
sink_deaths_tell(const sink_deaths_t *self, uint32_t worker, const char *name, char *text,
                 size_t size)
{
    line_t line = {.size = size};
    line.text = text;
    s_say(&line, "%s ", name);
    if (worker < self->facts->n_workers) {
        s_say_cause(&line, self, worker);
        s_say_chunks(&line, self, worker);
    } else {
        s_say(&line, "was killed");
    }
    s_say(&line, "; what it did after its last record is not known");
}

bool
sink_deaths_killed_after(const sink_deaths_t *self, uint32_t w)
{
    const sink_worker_t *worker = &self->facts->workers[w];
    return !worker->killed && worker->has_stream && worker->signal > 0 && worker->has_left;
}

bool
sink_deaths_deadly(const sink_deaths_t *self, size_t i, const char **ret_file, size_t *ret_workers,
                   char *text, size_t size)
{
    if (i >= self->n_deadly)
        return false;
    const size_t first = self->deadly[i];
    const sink_chunk_t *chunk = &self->facts->chunks[self->lost[first].row];
    line_t line = {.size = size};
    line.text = text;
    *ret_workers = s_count_workers(self, first);
    *ret_file = sink_dict_text(sink_decoder_dict(self->run), CREMA_DICT_FILE, chunk->file);
    s_say(&line, "%zu workers ended while they ran ", *ret_workers);
    s_say_chunk(&line, self, chunk);
    bool all_memory = true;
    for (size_t j = first; s_same_chunk(self, first, j); j++) {
        crema_death_t cause = self->facts->workers[s_worker(self, j)].cause;
        all_memory =
            all_memory && (cause == CREMA_DEATH_MEMORY_NANNY || cause == CREMA_DEATH_MEMORY_KERNEL);
    }
    s_say(&line, all_memory ? ": memory" : ": look at this chunk first");
    return true;
}
