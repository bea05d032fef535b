/* crema_id - 128-bit identities of streams, runs, agents and stores. Pure: comparison and text
 * forms; random ids come from crema_random.h. */
#ifndef CREMA_ID_H
#define CREMA_ID_H

#include <stdbool.h>
#include <stdint.h>

#define CREMA_ID_BYTES 16
#define CREMA_ID_HEX_CHARS 32 /* without the NUL */

typedef struct {
    uint8_t bytes[CREMA_ID_BYTES];
} crema_id_t;

bool crema_id_equal(const crema_id_t *a, const crema_id_t *b);
bool crema_id_is_zero(const crema_id_t *id);

/* memcmp order, for sorting. */
int crema_id_compare(const crema_id_t *a, const crema_id_t *b);

/* 64 bits to derive other numbers from, such as jitter. Not for hash tables: peers choose ids. */
uint64_t crema_id_hash(const crema_id_t *id);

/* 32 lower-case hex digits and a NUL into `text`, which is returned. */
char *crema_id_hex(const crema_id_t *id, char text[CREMA_ID_HEX_CHARS + 1]);

/* 8-4-4-4-12 form with NUL (37 bytes) into `text`, which is returned. */
char *crema_id_uuid(const crema_id_t *id, char text[37]);

/* Takes 32 hex digits or the 8-4-4-4-12 form; false leaves *ret_id untouched. */
bool crema_id_parse(const char *text, crema_id_t *ret_id);

#endif
