/* crema_numbers - prints the tables and the numbers of the wire as a Python module, so that Python
 * does not duplicate them. */
#ifndef CREMA_NUMBERS_H
#define CREMA_NUMBERS_H

#include <stdio.h>

void crema_numbers_print_python(FILE *file);

#endif
