/* crema_utf8 - validates and cuts UTF-8. Pure: a single invalid text makes pandas reject a whole
 * table, so none may reach the file. The C library's mbrtowc() follows the locale. */
#ifndef CREMA_UTF8_H
#define CREMA_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the code point at the start of text[0..size): 1 to 4. 0 if size is 0 or no
 * well-formed code point starts there (over-long forms, surrogates and numbers above U+10FFFF
 * are malformed). */
size_t crema_utf8_step(const char *text, size_t size);

/* True if text[0..size) is a sequence of whole well-formed code points. */
bool crema_utf8_valid(const char *text, size_t size);

#define CREMA_UTF8_ESCAPE_BYTES 7 /* with a NUL */

/* True for a code point, text[0..step), that a terminal or a log would obey instead of showing it:
 * control characters, separators of lines, marks that change the direction of writing. *out is
 * then its escape, as of JSON: \uXXXX. */
bool crema_utf8_escape(const char *text, size_t step, char out[CREMA_UTF8_ESCAPE_BYTES]);

/* Copies `text` into out[0..out_size), NUL-padded but not NUL-terminated: as many whole code
 * points as fit, '?' for each byte that is not UTF-8. True if the copy differs from the text. */
bool crema_utf8_fit(const char *text, char *out, size_t out_size);

/* Shortest field in which a cut name keeps some of its own characters. */
#define CREMA_UTF8_NAME_MIN 16

/* The same for a name, by which things are told apart: a copy that differs from it ends with '~'
 * and eight hexadecimal digits of a hash of the whole name, so that different names stay
 * different. `out_size` is at least CREMA_UTF8_NAME_MIN. */
bool crema_utf8_fit_name(const char *name, char *out, size_t out_size);

#endif
