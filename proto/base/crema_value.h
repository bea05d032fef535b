/* crema_value - numbers with units as written in options. Pure: converts text to numbers, and
 * back for help and messages. */
#ifndef CREMA_VALUE_H
#define CREMA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CREMA_VALUE_TEXT 32 /* bytes that any formatted value fits in */

/* These parse the whole text; false leaves *ret_value untouched. */

/* "-5", "7". */
bool crema_value_parse_int(const char *text, int64_t *ret_value);

/* "4096", "512Mi", "1Gi" (powers of 1024), "64k", "1M", "2G" (powers of 1000), each optionally
 * followed by B. Not negative. */
bool crema_value_parse_bytes(const char *text, int64_t *ret_value);

/* "500ms", "1.5s", "2m", "1h"; a bare number is seconds. Nanoseconds, not negative. */
bool crema_value_parse_duration(const char *text, int64_t *ret_value);

/* true, yes, on, 1 / false, no, off, 0. */
bool crema_value_parse_flag(const char *text, bool *ret_value);

/* The shortest equal form with a unit ("512Mi", "200ms") into `text`, which is returned. */
char *crema_value_format_bytes(int64_t value, char text[CREMA_VALUE_TEXT]);
char *crema_value_format_duration(int64_t value_ns, char text[CREMA_VALUE_TEXT]);

#endif
