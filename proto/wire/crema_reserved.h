/* crema_reserved - names of root attributes that only the sink may write, since they describe
 * the file itself. */
#ifndef CREMA_RESERVED_H
#define CREMA_RESERVED_H

#include <stdbool.h>

extern const char *const crema_reserved_names[]; /* ends with NULL */

bool crema_reserved(const char *name);

#endif
