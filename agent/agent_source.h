/* agent_source - one process with its descendants, sampled from /proc.
 *
 * The process is held by its directory in /proc, so a later process with the same number is never
 * mistaken for it. The files that each sample reads stay open. Values that the kernel does not
 * give, or not to this user, are -1. `proc` is "/proc" except in tests. */
#ifndef AGENT_SOURCE_H
#define AGENT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_labels.h"

/* Maximum number of processes in a tree: that of CREMA_LIMIT_AGENT_PROCESSES. */
#define AGENT_TREE_MAX 1024

typedef struct agent_source agent_source_t;

typedef struct {
    int64_t cpu_ns;      /* user and system time since its start; never decreases */
    int64_t rss_b;       /* of the tree, as `memory` says */
    int64_t disk_read_b; /* reads that reached the storage layer, cumulative; never decreases */
    int64_t disk_write_b;
    int64_t memory_limit_b; /* of its cgroup, read with each 16th sample */
    uint32_t processes;     /* it and its living descendants */
    crema_memory_t memory;
    bool cut; /* the tree has more processes than are followed */
} agent_sample_t;

/* True for a process that must not be counted into its ancestor's tree. */
typedef bool (*agent_source_skip_fn)(void *context, int32_t pid);

/* What its descendants did still counts after they are gone, if their parent waited for them.
 * CREMA_ENOENT: the process was not found. CREMA_ENOMEM, with errno: no descriptor or memory. */
CREMA_MUST_CHECK crema_err_t agent_source_new(const char *proc, int32_t pid,
                                              agent_source_t **ret_self);
void agent_source_destroy(agent_source_t **self_p);

/* Facts about a writer, from its stream and its file. */
typedef struct {
    const char *prefix; /* prefix of the names of its files */
    uint32_t owner;     /* user id that owns the file */
    int64_t began_ns;   /* when the stream began, CLOCK_BOOTTIME */
} agent_writer_t;

/* True if this process is that writer: it runs as the file's owner, existed when the stream
 * began, has that pid in its own view (the same number may occur in another PID namespace) and,
 * as far as visible, has such a file open. A pid in a file proves nothing, since a user can write
 * any number. False with an errno of agent_proc_is_short(): it could not be looked at. */
bool agent_source_is_writer(const agent_source_t *self, const agent_writer_t *writer);

/* True if the kernel does not show this user what the process has open, so that it cannot be known
 * as a writer. */
bool agent_source_is_hidden(const agent_source_t *self);

bool agent_source_is_alive(const agent_source_t *self);

/* CREMA_ENOENT: the process is gone, or a zombie. `skip` may be NULL. */
CREMA_MUST_CHECK crema_err_t agent_source_sample(agent_source_t *self, agent_source_skip_fn skip,
                                                 void *context, agent_sample_t *ret_sample);

int32_t agent_source_pid(const agent_source_t *self);

#endif
