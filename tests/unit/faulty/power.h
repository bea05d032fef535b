/* power - a disk that forgets: what a directory may look like after a power cut at this moment.
 *
 * Linked under a test program by the linker's --wrap. It follows every call that changes files
 * below one directory. A sector that was written is on the disk for certain once the file was
 * synced, before that it may be or not, each for itself, so writes are torn and come out of order;
 * a file's new length may be there without its bytes, as zeros. A name is certain once its
 * directory was synced; before, the changes of one directory are there up to some point, in order.
 * A sync that fails forgets what it was to write: as on Linux, the next one succeeds without it. */
#ifndef POWER_H
#define POWER_H

#include <stdint.h>

/* Calls `fn` before every call that changes something below `dir` (and counts it); fn may look at
 * the disk and call power_cut(). */
void power_watch(const char *dir, void (*fn)(void *context), void *context);
/* Changes are still followed, but nobody is told. */
void power_ignore(void);
/* No longer followed. */
void power_forget(void);
/* The nth sync from now on fails; 0: none. */
void power_fail_sync(uint64_t nth);
/* Makes `target`, a directory that must not exist yet, into what the disk may hold now. */
void power_cut(uint64_t seed, const char *target);

#endif
