/* crema_random - identities and random numbers from the kernel's generator. */
#ifndef CREMA_RANDOM_H
#define CREMA_RANDOM_H

#include "crema_id.h"

crema_id_t crema_random_id(void);
uint64_t crema_random_u64(void);

/* Sets the secret of this process's hash tables; call it first in main(). */
void crema_random_maps(void);

#endif
