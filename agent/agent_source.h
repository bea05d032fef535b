/* agent_source - one process, or it and its descendants, sampled from /proc.
 *
 * The process is held by its directory in /proc, so another one that gets its number later is never mistaken for it. What the kernel
 * does not tell, or does not tell this user, is -1. `proc` is "/proc" but in tests. */
#ifndef AGENT_SOURCE_H
#define AGENT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"

/* Processes of a tree that are followed: that of CREMA_LIMIT_AGENT_PROCESSES. */
#define AGENT_TREE_MAX 1024

typedef struct agent_source agent_source_t;

typedef struct {
    int64_t cpu_ns;      /* user and system time since its start; grows only */
    int64_t rss_b;       /* resident; pages shared within a tree count in each process */
    int64_t disk_read_b; /* that reached the storage layer, cumulative; grows only */
    int64_t disk_write_b;
    int64_t memory_limit_b; /* of its cgroup */
    bool cut;               /* the tree has more processes than are followed */
} agent_sample_t;

/* True for a process that must not be counted into its ancestor's tree. */
typedef bool (*agent_source_skip_fn)(void *context, int32_t pid);

/* `tree`: its descendants are part of it, and what they did stays counted when they are gone. CREMA_ENOENT: no such process. */
CREMA_MUST_CHECK crema_err_t agent_source_new(const char *proc, int32_t pid, bool tree,
                                              agent_source_t **ret_self);
void agent_source_destroy(agent_source_t **self_p);

/* What a stream says of its writer, and what its file does. */
typedef struct {
    const char *prefix; /* of the names of its files */
    uint32_t owner;     /* of the file: user id */
    int64_t began_ns;   /* when the stream began, CLOCK_BOOTTIME */
} agent_writer_t;

/* Whether this process is that writer: it runs as the file's owner, was there when the stream began, knows itself by that pid (another PID
 * namespace may have the number by chance) and, as far as may be seen, has such a file open. A number in a file is no proof: whoever wrote it
 * may have chosen somebody else's. */
bool agent_source_is_writer(const agent_source_t *self, const agent_writer_t *writer);

bool agent_source_is_alive(const agent_source_t *self);

/* CREMA_ENOENT: it is gone, or a zombie. `skip` may be NULL. */
CREMA_MUST_CHECK crema_err_t agent_source_sample(agent_source_t *self, agent_source_skip_fn skip,
                                                 void *context, agent_sample_t *ret_sample);

int32_t agent_source_pid(const agent_source_t *self);

/* Bytes through the host's network devices, cumulative: those backed by hardware, or where none is (a container) all but the loopback. */
void agent_source_network(const char *proc, const char *sys, int64_t *ret_read_b,
                          int64_t *ret_write_b);

#endif
