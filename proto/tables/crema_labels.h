/* crema_labels - the values of the enum columns: one list each, from which the C enumerators and
 * the labels in the file are made. Pure: constants.
 *
 * The order of a list is part of the file format, and of the wire where writers send it: append
 * only. */
#ifndef CREMA_LABELS_H
#define CREMA_LABELS_H

/* X(prefix, ENUMERATOR, label) */
#define CREMA_LABELS_ACTIVITY(X)                                                                   \
    X(CREMA_ACTIVITY, CPU, cpu)                                                                    \
    X(CREMA_ACTIVITY, NONCPU, noncpu)                                                              \
    X(CREMA_ACTIVITY, IO, io)                                                                      \
    X(CREMA_ACTIVITY, SERIALIZATION, serialization)                                                \
    X(CREMA_ACTIVITY, COMPRESSION, compression)                                                    \
    X(CREMA_ACTIVITY, SPILL, spill)                                                                \
    X(CREMA_ACTIVITY, RUNTIME, runtime)                                                            \
    X(CREMA_ACTIVITY, IDLE, idle)                                                                  \
    X(CREMA_ACTIVITY, FAILED, failed)                                                              \
    X(CREMA_ACTIVITY, USER, user)
/* PARTIAL: process() returned, having seen fewer events than the entry range has. */
#define CREMA_LABELS_CHUNK(X)                                                                      \
    X(CREMA_CHUNK, OK, ok)                                                                         \
    X(CREMA_CHUNK, ERROR, error)                                                                   \
    X(CREMA_CHUNK, CANCELLED, cancelled)                                                           \
    X(CREMA_CHUNK, LOST, lost)                                                                     \
    X(CREMA_CHUNK, PARTIAL, partial)
#define CREMA_LABELS_CLOCK(X)                                                                      \
    X(CREMA_CLOCK, NONE, none)                                                                     \
    X(CREMA_CLOCK, RTT_MIN, rtt_min)                                                               \
    X(CREMA_CLOCK, NTP_STATE, ntp_state)                                                           \
    X(CREMA_CLOCK, CAUSALITY_BOUND, causality_bound)
#define CREMA_LABELS_CONTEXT(X)                                                                    \
    X(CREMA_CONTEXT, EXECUTE, execute)                                                             \
    X(CREMA_CONTEXT, GATHER_DEP, gather_dep)                                                       \
    X(CREMA_CONTEXT, GET_DATA, get_data)                                                           \
    X(CREMA_CONTEXT, MEMORY_MONITOR, memory_monitor)                                               \
    X(CREMA_CONTEXT, P2P, p2p)                                                                     \
    X(CREMA_CONTEXT, OTHER, other)                                                                 \
    X(CREMA_CONTEXT, BUSY, busy)
/* Why a worker went. EXITED, SIGNAL, TERMINATED (by SIGTERM): its process, by its nanny. */
#define CREMA_LABELS_DEATH(X)                                                                      \
    X(CREMA_DEATH, UNKNOWN, unknown)                                                               \
    X(CREMA_DEATH, EXITED, exited)                                                                 \
    X(CREMA_DEATH, SIGNAL, signal)                                                                 \
    X(CREMA_DEATH, MEMORY_NANNY, memory_nanny)                                                     \
    X(CREMA_DEATH, MEMORY_KERNEL, memory_kernel)                                                   \
    X(CREMA_DEATH, TERMINATED, terminated)                                                         \
    X(CREMA_DEATH, TIMEOUT, timeout)                                                               \
    X(CREMA_DEATH, RETIRED, retired)                                                               \
    X(CREMA_DEATH, CLOSED, closed)
#define CREMA_LABELS_EVIDENCE(X)                                                                   \
    X(CREMA_EVIDENCE, EXPLICIT, explicit)                                                          \
    X(CREMA_EVIDENCE, HEARTBEAT_TIMEOUT, heartbeat_timeout)                                        \
    X(CREMA_EVIDENCE, SCHEDULER_DIFF, scheduler_diff)                                              \
    X(CREMA_EVIDENCE, RUN_BOUNDARY, run_boundary)
#define CREMA_LABELS_GAP(X)                                                                        \
    X(CREMA_GAP, UNKNOWN, unknown)                                                                 \
    X(CREMA_GAP, DISK_FULL, disk_full)                                                             \
    X(CREMA_GAP, SPOOL_LIMIT, spool_limit)                                                         \
    X(CREMA_GAP, TORN, torn)                                                                       \
    X(CREMA_GAP, CORRUPT, corrupt)                                                                 \
    X(CREMA_GAP, AGENT_LOST, agent_lost)                                                           \
    X(CREMA_GAP, DECODE_ERROR, decode_error)                                                       \
    X(CREMA_GAP, STORE_REGRESSED, store_regressed)
#define CREMA_LABELS_FRAME_OWNER(X)                                                                \
    X(CREMA_FRAME, USER, user)                                                                     \
    X(CREMA_FRAME, LIBRARY, library)                                                               \
    X(CREMA_FRAME, STANDARD, standard)                                                             \
    X(CREMA_FRAME, CREMA, crema)
#define CREMA_LABELS_LOOK_PHASE(X)                                                                 \
    X(CREMA_LOOK_PHASE, OTHER, other)                                                              \
    X(CREMA_LOOK_PHASE, OPENING, opening)                                                          \
    X(CREMA_LOOK_PHASE, PROCESS, process)
/* CORE: ready to run and without a core. The states after it are what a blocked thread waited
 * for. */
#define CREMA_LABELS_LOOK_STATE(X)                                                                 \
    X(CREMA_LOOK, UNKNOWN, unknown)                                                                \
    X(CREMA_LOOK, CPU, cpu)                                                                        \
    X(CREMA_LOOK, CORE, core)                                                                      \
    X(CREMA_LOOK, GIL, gil)                                                                        \
    X(CREMA_LOOK, INPUT, input)                                                                    \
    X(CREMA_LOOK, SERVICE, service)                                                                \
    X(CREMA_LOOK, FILE, file)                                                                      \
    X(CREMA_LOOK, LOCK, lock)                                                                      \
    X(CREMA_LOOK, SLEEP, sleep)                                                                    \
    X(CREMA_LOOK, NATIVE, native)                                                                  \
    X(CREMA_LOOK, CHILD, child)                                                                    \
    X(CREMA_LOOK, PAGE_FAULT, page_fault)
#define CREMA_LABELS_MEMBER(X)                                                                     \
    X(CREMA_MEMBER, JOIN, join)                                                                    \
    X(CREMA_MEMBER, LEAVE, leave)                                                                  \
    X(CREMA_MEMBER, LOST, lost)                                                                    \
    X(CREMA_MEMBER, RETIRE, retire)                                                                \
    X(CREMA_MEMBER, PAUSE, pause)                                                                  \
    X(CREMA_MEMBER, RESUME, resume)
/* PSS: proportional set size of several processes; a page that k processes map counts 1/k in
 * each. */
#define CREMA_LABELS_MEMORY(X)                                                                     \
    X(CREMA_MEMORY, RSS, rss)                                                                      \
    X(CREMA_MEMORY, PSS, pss)
#define CREMA_LABELS_METRIC(X)                                                                     \
    X(CREMA_METRIC, GAUGE, gauge)                                                                  \
    X(CREMA_METRIC, INCREMENT, increment)                                                          \
    X(CREMA_METRIC, TOTAL, total)
#define CREMA_LABELS_SECTION(X)                                                                    \
    X(CREMA_SECTION, TIME, time)                                                                   \
    X(CREMA_SECTION, MEMORY, memory)                                                               \
    X(CREMA_SECTION, BYTES, bytes)
/* Sides of the time budget. FOREIGN: tasks of other runs and clients, on the slots of the same
 * workers. */
#define CREMA_LABELS_SIDE(X)                                                                       \
    X(CREMA_SIDE, UNATTRIBUTED, unattributed)                                                      \
    X(CREMA_SIDE, PROCESSOR, processor)                                                            \
    X(CREMA_SIDE, RUNTIME, runtime)                                                                \
    X(CREMA_SIDE, PREPROCESS, preprocess)                                                          \
    X(CREMA_SIDE, MERGE, merge)                                                                    \
    X(CREMA_SIDE, OVERHEAD, overhead)                                                              \
    X(CREMA_SIDE, TRANSFER, transfer)                                                              \
    X(CREMA_SIDE, WASTED, wasted)                                                                  \
    X(CREMA_SIDE, FOREIGN, foreign)
#define CREMA_LABELS_SOURCE(X)                                                                     \
    X(CREMA_SOURCE, AGENT, agent)                                                                  \
    X(CREMA_SOURCE, SCHEDULER, scheduler)                                                          \
    X(CREMA_SOURCE, WORKER, worker)
#define CREMA_LABELS_STATUS(X)                                                                     \
    X(CREMA_STATUS, OK, ok)                                                                        \
    X(CREMA_STATUS, ESTIMATED, estimated)                                                          \
    X(CREMA_STATUS, INCOMPLETE, incomplete)                                                        \
    X(CREMA_STATUS, UNAVAILABLE, unavailable)
/* Of a cause; those above, and one more. */
#define CREMA_LABELS_CAUSE(X)                                                                      \
    CREMA_LABELS_STATUS(X)                                                                         \
    X(CREMA_STATUS, AMBIGUOUS, ambiguous)
#define CREMA_LABELS_STREAM(X)                                                                     \
    X(CREMA_STREAM, WORKER, worker)                                                                \
    X(CREMA_STREAM, AGENT, agent)                                                                  \
    X(CREMA_STREAM, SCHEDULER, scheduler)                                                          \
    X(CREMA_STREAM, CLIENT, client)
#define CREMA_LABELS_TASK(X)                                                                       \
    X(CREMA_TASK, OK, ok)                                                                          \
    X(CREMA_TASK, ERROR, error)                                                                    \
    X(CREMA_TASK, CANCELLED, cancelled)                                                            \
    X(CREMA_TASK, LOST, lost)
#define CREMA_LABELS_TASK_ACTION(X)                                                                \
    X(CREMA_TASK_ACTION, COMPUTE, compute)                                                         \
    X(CREMA_TASK_ACTION, TRANSFER, transfer)                                                       \
    X(CREMA_TASK_ACTION, DISK_READ, disk_read)                                                     \
    X(CREMA_TASK_ACTION, DISK_WRITE, disk_write)                                                   \
    X(CREMA_TASK_ACTION, DESERIALIZE, deserialize)
#define CREMA_LABELS_WASTED(X)                                                                     \
    X(CREMA_WASTED, ERROR, error)                                                                  \
    X(CREMA_WASTED, CANCELLED, cancelled)                                                          \
    X(CREMA_WASTED, LOST, lost)                                                                    \
    X(CREMA_WASTED, SUPERSEDED, superseded)
#define CREMA_LABELS_WASTED_WHAT(X)                                                                \
    X(CREMA_WASTED_WHAT, CHUNK, chunk)                                                             \
    X(CREMA_WASTED_WHAT, TASK, task)
#define CREMA_LABELS_WORKER(X)                                                                     \
    X(CREMA_WORKER, RUNNING, running)                                                              \
    X(CREMA_WORKER, PAUSED, paused)                                                                \
    X(CREMA_WORKER, CLOSING, closing)                                                              \
    X(CREMA_WORKER, LOST, lost)

#define CREMA_ENUMERATOR(prefix, name, label) prefix##_##name,
#define CREMA_LABEL(prefix, name, label) "," #label
/* "ok,error,...": the labels of a list, joined by commas. */
#define CREMA_LABELS(LIST) (&("" CREMA_LABELS_##LIST(CREMA_LABEL))[1])

typedef enum { CREMA_LABELS_ACTIVITY(CREMA_ENUMERATOR) } crema_activity_kind_t;
typedef enum { CREMA_LABELS_CHUNK(CREMA_ENUMERATOR) } crema_chunk_status_t;
typedef enum { CREMA_LABELS_CLOCK(CREMA_ENUMERATOR) } crema_clock_method_t;
typedef enum { CREMA_LABELS_CONTEXT(CREMA_ENUMERATOR) } crema_context_t;
typedef enum { CREMA_LABELS_DEATH(CREMA_ENUMERATOR) } crema_death_t;
typedef enum { CREMA_LABELS_EVIDENCE(CREMA_ENUMERATOR) } crema_evidence_t;
typedef enum { CREMA_LABELS_GAP(CREMA_ENUMERATOR) } crema_gap_cause_t;
typedef enum { CREMA_LABELS_FRAME_OWNER(CREMA_ENUMERATOR) } crema_frame_owner_t;
typedef enum {
    CREMA_LABELS_LOOK_PHASE(CREMA_ENUMERATOR) CREMA_LOOK_PHASE_COUNT
} crema_look_phase_t;
typedef enum { CREMA_LABELS_LOOK_STATE(CREMA_ENUMERATOR) CREMA_LOOK_COUNT } crema_look_state_t;
typedef enum { CREMA_LABELS_MEMBER(CREMA_ENUMERATOR) } crema_member_event_t;
typedef enum { CREMA_LABELS_MEMORY(CREMA_ENUMERATOR) } crema_memory_t;
typedef enum { CREMA_LABELS_METRIC(CREMA_ENUMERATOR) } crema_metric_kind_t;
typedef enum { CREMA_LABELS_SIDE(CREMA_ENUMERATOR) CREMA_SIDE_COUNT } crema_side_t;
typedef enum { CREMA_LABELS_SOURCE(CREMA_ENUMERATOR) } crema_source_t;
typedef enum { CREMA_LABELS_CAUSE(CREMA_ENUMERATOR) } crema_status_t;
typedef enum { CREMA_LABELS_STREAM(CREMA_ENUMERATOR) } crema_stream_kind_t;
typedef enum { CREMA_LABELS_TASK(CREMA_ENUMERATOR) } crema_task_status_t;
typedef enum { CREMA_LABELS_TASK_ACTION(CREMA_ENUMERATOR) } crema_task_action_t;
typedef enum { CREMA_LABELS_WASTED(CREMA_ENUMERATOR) CREMA_WASTED_COUNT } crema_wasted_reason_t;
typedef enum {
    CREMA_LABELS_WASTED_WHAT(CREMA_ENUMERATOR) CREMA_WASTED_WHAT_COUNT
} crema_wasted_what_t;

#endif
