/* agent_source - one process, or it and its descendants, sampled from /proc.
 *
 * The process is held by its directory in /proc, so another one that gets its number later is never mistaken for it. What the kernel
 * does not tell, or does not tell this user, is -1. `proc` is "/proc" but in tests. */
#ifndef AGENT_SOURCE_H
#define AGENT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"

#define AGENT_TREE_MAX 1024 /* processes of a tree that are followed */

typedef struct agent_source agent_source_t;

typedef struct {
    int64_t cpu_ns;      /* user and system time since its start; grows only */
    int64_t rss_b;       /* resident; pages shared within a tree count in each process */
    int64_t disk_read_b; /* that reached the storage layer, cumulative; grows only */
    int64_t disk_write_b;
    int64_t memory_limit_b; /* of its cgroup */
} agent_sample_t;

/* True for a process that must not be counted into its ancestor's tree. */
typedef bool (*agent_source_skip_fn)(void *context, int32_t pid);

/* `tree`: its descendants are part of it, and what they did stays counted when they are gone. CREMA_ENOENT: no such process. */
CREMA_MUST_CHECK crema_err_t agent_source_new(const char *proc, int32_t pid, bool tree,
                                              agent_source_t **ret_self);
void agent_source_destroy(agent_source_t **self_p);

/* Whether this process is the one that knows itself as that pid and, as far as may be seen, has a file open whose name begins with
 * `prefix`. False for a process of another PID namespace that has the number by chance. */
bool agent_source_is_writer(const agent_source_t *self, const char *prefix);

bool agent_source_is_alive(const agent_source_t *self);

/* CREMA_ENOENT: it is gone, or a zombie. `skip` may be NULL. */
CREMA_MUST_CHECK crema_err_t agent_source_sample(agent_source_t *self, agent_source_skip_fn skip,
                                                 void *context, agent_sample_t *ret_sample);

int32_t agent_source_pid(const agent_source_t *self);

/* Bytes through the host's network devices, cumulative: those backed by hardware, or where none is (a container) all but the loopback. */
void agent_source_network(const char *proc, const char *sys, int64_t *ret_read_b,
                          int64_t *ret_write_b);

#endif
