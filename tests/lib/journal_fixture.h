/* journal_fixture - synthetic runs: streams, names and rows, written into a real journal. */
#ifndef JOURNAL_FIXTURE_H
#define JOURNAL_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_id.h"
#include "crema_record.h"
#include "sink_journal.h"

#define FIXTURE_S 1000000000LL
/* 2026-01-01T00:00:00Z: where synthetic runs begin. */
#define FIXTURE_T0 1767225600000000000LL

typedef struct fixture fixture_t;
typedef struct fixture_stream fixture_stream_t;

/* A journal in a directory that is made; the run's id follows from `number`. Failures end the test
 * program. */
fixture_t *fixture_new(const char *dir, uint8_t number);
/* Syncs and closes the journal. */
void fixture_close(fixture_t **self_p);
crema_id_t fixture_run_id(const fixture_t *self);

/* What the collector and the aggregator say; `keys` and `values` end with NULL, `prefix` may be
 * NULL. */
void fixture_open(fixture_t *self, int64_t t_start_ns, const char *const *keys,
                  const char *const *values, const char *prefix);
void fixture_seal(fixture_t *self, int64_t t_end_ns, Crema__Reason *reasons, size_t n);
/* That its file was made. */
void fixture_sealed(fixture_t *self, int64_t revision, const uint8_t sha256[32]);
/* The collector's announcement of the end; the list of writers has `parts` parts. */
void fixture_run_end(fixture_t *self, int64_t t_end_ns, uint32_t parts);
/* A part of the list of writers. */
void fixture_writers(fixture_t *self, uint32_t part, uint32_t parts, Crema__Writer *writers,
                     size_t n);
void fixture_clock(fixture_t *self, uint8_t agent, int64_t t_ns, int64_t offset_ns,
                   int64_t uncertainty_ns);

/* A stream whose first record is written. Ids of streams and agents follow from their numbers.
 * `name` is the worker's; its uuid is "uuid-<name>". */
fixture_stream_t *fixture_stream(fixture_t *self, uint32_t number, uint8_t agent,
                                 crema_stream_kind_t kind, const char *name, uint32_t nthreads,
                                 int64_t t_real_ns);
/* The same of a process outside Dask, which began at t_process_ns. */
fixture_stream_t *fixture_process(fixture_t *self, uint32_t number, uint8_t agent,
                                  crema_stream_kind_t kind, const char *name, uint32_t nthreads,
                                  int64_t t_real_ns, int64_t t_process_ns);
crema_id_t fixture_stream_id(uint32_t number);
/* The stream's number for a name; a worker's uuid is "uuid-<name>". A name is written the first
 * time. */
int64_t fixture_name(fixture_stream_t *stream, crema_dict_t kind, const char *text);
int64_t fixture_file(fixture_stream_t *stream, const char *name, const char *uuid, int64_t dataset);

/* Rows: begin, set what is known, then more rows or fixture_put. Time of the record is the last
 * row's first column. */
void fixture_row(fixture_stream_t *stream, crema_table_id_t table);
void fixture_set(fixture_stream_t *stream, const char *column, int64_t value);
void fixture_real(fixture_stream_t *stream, const char *column, double value);
void fixture_put(fixture_stream_t *stream, uint32_t flags);

void fixture_end(fixture_stream_t *stream, crema_end_reason_t reason, int64_t t_real_ns,
                 uint64_t torn_bytes, uint64_t dropped);
void fixture_write_end(fixture_stream_t *stream, const Crema__End *end, int64_t t_real_ns);
/* The next `n` numbers are lost. */
void fixture_lose(fixture_stream_t *stream, uint64_t n, crema_loss_reason_t reason,
                  int64_t t_real_ns);
/* A record whose checksum holds and whose body is nonsense. */
void fixture_nonsense(fixture_stream_t *stream);
/* The next n numbers are left out of the journal. */
void fixture_skip(fixture_stream_t *stream, uint64_t n);
/* The number of its last record. */
uint64_t fixture_last(const fixture_stream_t *stream);
/* The last record once more. */
void fixture_repeat(fixture_stream_t *stream);
/* What is put from here on came after the verdict. */
void fixture_late(fixture_t *self);

/* ---- whole runs */

/* The toy run of the formulas, worked out by hand: two workers of one thread, five attempts, one
 * lost. */
void fixture_toy(const char *dir, uint8_t number);

/* The same, whose key was revoked after four of its ten seconds. */
void fixture_revoked(const char *dir, uint8_t number);

/* A run of `workers` with two threads each and `chunks` chunks: every table has rows, some chunks
 * fail, one worker is killed, one dataset is slow. */
void fixture_busy(const char *dir, uint8_t number, unsigned workers, unsigned chunks);

/* A run of `workers` with `chunks` chunks of twelve rows each: three tasks, four totals, two
 * sections, a value, a sample. Names do not grow with it. */
void fixture_long(const char *dir, uint8_t number, unsigned workers, unsigned chunks);

/* `samples` rows of /activities, 24 bytes of news each, for measuring sizes. */
void fixture_plain(const char *dir, uint8_t number, unsigned samples);

#endif
