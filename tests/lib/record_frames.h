/* record_frames - record frames and scratch directories for tests of sink and aggregator. */
#ifndef RECORD_FRAMES_H
#define RECORD_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_record.h"
#include "crema_wire.h"

/* Frames one after the other, as they lie in a spool. */
typedef struct {
    uint8_t bytes[256 << 10];
    size_t size;
    uint32_t n;
} frames_t;

void frames_clear(frames_t *self);
/* Whatever record it is, as number `seq`. */
void frames_add(frames_t *self, const crema_record_t *record, uint64_t seq);
/* Small dictionary records as numbers first..last. */
void frames_add_dicts(frames_t *self, uint64_t first, uint64_t last);
void frames_add_loss(frames_t *self, uint64_t first, uint64_t last);
void frames_add_end(frames_t *self, uint64_t seq);

/* A PUT of all of them. */
Crema__Put frames_put(const frames_t *self, uint8_t stream, uint8_t run, uint64_t first_seq);

/* Sixteen times the same byte. */
crema_id_t frames_id(uint8_t byte);

/* "$TMPDIR/crema-<name>-XXXXXX", for mkdtemp() and mkstemp(). */
#define SCRATCH_BYTES 128
void scratch_template(const char *name, char path[SCRATCH_BYTES]);

/* A fresh directory below $TMPDIR, removed with all that is in it by scratch_remove. */
char *scratch_make(void);
void scratch_remove(char **dir);
/* The same in memory, where there is a place for that with so much room: what is written and
 * synced there takes no time. */
char *scratch_make_in_memory(size_t room_mib);
/* The same for everything that this program makes from now on. */
void scratch_prefer_memory(size_t room_mib);

/* A small file system on a directory, for tests of full disks. False: not allowed to (not root). */
bool scratch_mount(const char *dir, const char *size);
void scratch_unmount(const char *dir);
/* A file that takes all the room there is. */
void scratch_fill(const char *path);

#endif
