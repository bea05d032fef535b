/* fuzz_files - bytes as files, and frames and messages made right, so that what lies behind a
 * checksum is reached too. */
#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H

#include <stddef.h>
#include <stdint.h>

/* A directory of this process, made with the first call; in memory where there is a place for
 * that. */
const char *fuzz_dir(void);

/* `<directory>/<name>` with these bytes; the path lives until the next call. */
const char *fuzz_write(const char *dir, const char *name, const uint8_t *data, size_t size);

/* Removes all files of a directory. */
void fuzz_clean(const char *dir);

/* Record frames, one behind the other, whatever the bytes were: lengths within the bytes, numbers
 * dense from `seq` on unless that is 0, checksums right. Returns how many there are; what is left
 * at the end is no frame. */
uint32_t fuzz_repair_frames(uint8_t *data, size_t size, uint64_t seq);

/* A message with its length and checksum right. */
void fuzz_repair_message(uint8_t *data, size_t size);

#endif
