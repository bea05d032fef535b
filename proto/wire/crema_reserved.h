/* crema_reserved - names of root attributes that only the sink may write, since they describe
 * the file itself. */
#ifndef CREMA_RESERVED_H
#define CREMA_RESERVED_H

#include <stdbool.h>
#include <stddef.h>

size_t crema_reserved_count(void);

/* `i` below the count. */
const char *crema_reserved_name(size_t i);

bool crema_reserved(const char *name);

#endif
