/* crema_scrape_address - the socket that `--metrics` names. */
#ifndef CREMA_SCRAPE_ADDRESS_H
#define CREMA_SCRAPE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"

#define CREMA_SCRAPE_URL_BYTES 96

/* Whether it is PORT, HOST:PORT or [HOST]:PORT; see crema_scrape_new(). */
bool crema_scrape_address_is_sound(const char *address);

/* A listening socket, non-blocking, and its URL. CREMA_EINVAL: not an address; CREMA_EBUSY: the
 * port is taken; CREMA_EIO: errno says why. */
CREMA_MUST_CHECK crema_err_t crema_scrape_listen(const char *address, int *ret_fd,
                                                 char ret_url[CREMA_SCRAPE_URL_BYTES]);

#endif
