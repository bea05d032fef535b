/* crema_limit - every limit that can cost a run file something, and how often each was met. Pure:
 * constant data and counters.
 *
 * What grows has a limit from birth. What does not fit is dropped and counted here, and the rest
 * goes on: a limit never keeps a run from being sealed. One that was met is a reason of the
 * verdict (`limit_met`), and every limit is a row of /summary/limits. A process that writes
 * records reports a limit of its own as an increment of the metric `crema.limit.<name>` in
 * /custom. Limits of live views and of connections are not here: they cost the file nothing. */
#ifndef CREMA_LIMIT_H
#define CREMA_LIMIT_H

#include <stdint.h>

/* id, name, the part that has it, unit of the limit, limit, what is lost beyond it. Names are part
 * of the file format. */
#define CREMA_LIMITS(X)                                                                            \
    X(WRITER_NAMES, "writer_names", "writer", "B", (uint64_t)64 << 20,                             \
      "names beyond it are __overflow__ in the rows of that process")                              \
    X(WRITER_ARRIVALS, "writer_arrivals", "writer", "tasks", (uint64_t)1 << 20,                    \
      "when tasks beyond it arrived and were ready is unknown")                                    \
    X(WRITER_STACKS, "writer_stacks", "writer", "frames", (uint64_t)1 << 13,                       \
      "stacks beyond it are their outer frames in /looks")                                         \
    X(AGENT_PROCESSES, "agent_processes", "agent", "processes", 1024,                              \
      "processes of a worker beyond it are missing in its samples")                                \
    X(NAMES, "names", "sink", "B", (uint64_t)1 << 30,                                              \
      "names beyond it are unknown in the rows that use them")                                     \
    X(NAME_NUMBERS, "name_numbers", "sink", "B", (uint64_t)256 << 20,                              \
      "names of a process beyond it are unknown in its rows")                                      \
    X(STREAMS, "streams", "sink", "streams", (uint64_t)1 << 20,                                    \
      "records of streams beyond it are lost")                                                     \
    X(AGENTS, "agents", "sink", "agents", (uint64_t)1 << 20,                                       \
      "clocks of agents beyond it are not corrected")                                              \
    X(CLOCK_SAMPLES, "clock_samples", "sink", "samples", (uint64_t)1 << 20,                        \
      "samples beyond it, of agents without a stream yet, do not name the stream")                 \
    X(ACTIVITY_KEYS, "activity_keys", "sink", "keys", (uint64_t)1 << 23,                           \
      "totals of keys beyond it have an unknown increment")                                        \
    X(OPEN_ATTEMPTS, "open_attempts", "sink", "attempts", (uint64_t)1 << 26,                       \
      "attempts beyond it that were never finished have no row")                                   \
    X(CHUNK_TASKS, "chunk_tasks", "sink", "tasks", (uint64_t)1 << 26,                              \
      "the side of chunks' tasks beyond it is decided by name")                                    \
    X(PREFIXES, "processor_prefixes", "sink", "prefixes", 4096,                                    \
      "tasks of prefixes beyond it do not count as the processor's")                               \
    X(ATTRIBUTES, "attributes", "sink", "attributes", 4096, "attributes beyond it are left out")

#define CREMA_LIMIT_ID(id, name, part, unit, limit, lost) CREMA_LIMIT_##id,
typedef enum { CREMA_LIMITS(CREMA_LIMIT_ID) CREMA_LIMIT_COUNT } crema_limit_id_t;
#undef CREMA_LIMIT_ID

/* A metric of this prefix and a limit's name, in /custom: met so many times more. */
#define CREMA_LIMIT_METRIC "crema.limit."

typedef struct {
    const char *name, *part, *unit, *lost;
    uint64_t limit;
} crema_limit_t;

/* The limits of one run, and how often each was met. */
typedef struct {
    uint64_t limit[CREMA_LIMIT_COUNT];
    uint64_t met[CREMA_LIMIT_COUNT];
} crema_limits_t;

/* The table's limits, none of them met. */
crema_limits_t crema_limits(void);

/* id < CREMA_LIMIT_COUNT. */
const crema_limit_t *crema_limit(crema_limit_id_t id);

/* The limit of that name, as the metric names it; CREMA_LIMIT_COUNT if there is none. */
crema_limit_id_t crema_limit_find(const char *name);

/* A count that would overflow stays at the highest. */
void crema_limits_met(crema_limits_t *self, crema_limit_id_t id, uint64_t n);

#endif
