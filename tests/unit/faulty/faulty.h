/* faulty - system calls that fail when they are told to: the nth, or so many in a hundred, on
 * files below one directory.
 *
 * One source, built twice: as libfaulty.so, which LD_PRELOAD puts under the real programs and the
 * environment steers (see faulty.c), and as an object that the linker's --wrap puts under a test
 * program, which steers it through the functions below. */
#ifndef FAULTY_H
#define FAULTY_H

#include <stdint.h>

/* Calls by name, separated by commas: open, write (and pwrite), sync (fsync and fdatasync),
 * truncate, rename, unlink, mkdir, read (and pread), list (readdir), lock (flock, preloaded only),
 * memory (malloc and its like); "disk" is all but these two. The nth of them from now on fails
 * with `error`, no other does; 0 only counts. */
void faulty_arm(const char *calls, const char *dir, uint64_t nth, int error);
/* From now on each pread() of the file that touches the 4 KiB from `at` on fails with EIO; `path`
 * NULL: none. */
void faulty_sector(const char *path, uint64_t at);
/* Nothing fails any more; returns how many calls there were. */
uint64_t faulty_disarm(void);
/* What a test itself does meanwhile neither fails nor counts. */
void faulty_pause(int paused);
/* Whether the call has come that was to fail. */
int faulty_has_failed(void);

#endif
