/* crema_parent - a program that ends with the process that started it. */
#ifndef CREMA_PARENT_H
#define CREMA_PARENT_H

#include <stdint.h>

/* From now on the kernel sends this process SIGTERM when the thread that started it ends, as prctl(2) PR_SET_PDEATHSIG says.
 * If its parent is not `pid` any more, the signal comes at once. 0: it does not end with anybody. */
void crema_parent_end_with(int64_t pid);

#endif
