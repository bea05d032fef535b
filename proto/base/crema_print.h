/* crema_print - lines for people. What users name (labels, datasets, files) is in them, and can
 * neither begin another line nor steer a terminal. */
#ifndef CREMA_PRINT_H
#define CREMA_PRINT_H

#include <stdio.h>

/* Writes one line, as of printf() and with its end. Of its text, what crema_utf8_escape() names is
 * an escape, and a byte that is not UTF-8 is \xNN. An error of the file is in ferror(). */
__attribute__((format(printf, 2, 3))) void crema_print(FILE *file, const char *format, ...);

#endif
