/* agent_proc - small files of a process in /proc. Anything but a regular file counts as one that
 * cannot be read: a user's mounts may put anything there. */
#ifndef AGENT_PROC_H
#define AGENT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Descriptor of the directory of a process; -1 if there is none. */
int agent_proc_open_process(const char *proc, int32_t pid);

/* True for an errno that says nothing about the file: there was no descriptor or no memory. */
bool agent_proc_is_short(int why);

/* Reads a small file and appends a NUL; -1 if it cannot be read. */
ssize_t agent_proc_read(int dir, const char *name, char *text, size_t size);

/* The same for a file that the kernel makes in one piece, of fewer bytes than `size`, and that
 * stays open in *kept. */
ssize_t agent_proc_read_again(int *kept, int dir, const char *name, char *text, size_t size);

#endif
