/* crema_scrape - the address of `--metrics`, where a Prometheus reads over HTTP what a program
 * counts.
 *
 * libmicrohttpd is driven by the program's own loop: no thread, no lock, and the numbers are those
 * that the program has. What a client can cost is bounded: CREMA_SCRAPE_CONNECTIONS at a time, of
 * which the oldest is cut for a new one, each for CREMA_SCRAPE_PATIENCE_NS at most;
 * CREMA_SCRAPE_RATE new ones per second; one text, not older than CREMA_SCRAPE_FRESH_NS, for all
 * of them. */
#ifndef CREMA_SCRAPE_H
#define CREMA_SCRAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_exposition.h"

#define CREMA_SCRAPE_CONNECTIONS 16
#define CREMA_SCRAPE_RATE 50
#define CREMA_SCRAPE_PATIENCE_NS INT64_C(10000000000)
#define CREMA_SCRAPE_FRESH_NS INT64_C(250000000)
#define CREMA_SCRAPE_TEXT_MAX ((size_t)256 << 10)

typedef struct crema_scrape crema_scrape_t;
typedef struct _zloop_t zloop_t;

/* Writes the program's own series. */
typedef void (*crema_scrape_fn)(void *context, crema_exposition_t *out);

/* Why `--metrics address` cannot be, without touching anything: true and one sentence. NULL: none
 * was asked for, which is fine. */
bool crema_scrape_refuses(const char *address, char *ret_why, size_t why_size);

/* Listens at PORT, HOST:PORT or [HOST]:PORT, where HOST is an IP address and 127.0.0.1 if it is
 * left out, and port 0 is any free one; serves from `loop` from now on. `address` NULL: CREMA_OK
 * and *ret_self NULL. CREMA_ECONFIG, CREMA_EBUSY, CREMA_EIO with one sentence. */
CREMA_MUST_CHECK crema_err_t crema_scrape_new(const char *address, const char *program,
                                              zloop_t *loop, crema_scrape_fn fn, void *context,
                                              char *ret_why, size_t why_size,
                                              crema_scrape_t **ret_self);
/* Before the loop. Accepts NULL. */
void crema_scrape_destroy(crema_scrape_t **self_p);

/* "http://127.0.0.1:9101/metrics"; NULL for NULL. */
const char *crema_scrape_url(const crema_scrape_t *self);

#endif
