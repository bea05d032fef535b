/* crema_random - identities and jitter from the kernel's generator. */
#ifndef CREMA_RANDOM_H
#define CREMA_RANDOM_H

#include "crema_id.h"

crema_id_t crema_random_id(void);
uint64_t crema_random_u64(void);

/* A secret of this process for its hash tables; first thing in main(). */
void crema_random_maps(void);

#endif
