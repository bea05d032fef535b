/* In place of crema_scrape.c where libmicrohttpd was not there to build with: --metrics is
 * refused, all else is as ever. */
#include <stdio.h>

#include "crema_scrape.h"
#include "crema_server.h"

#define WHY "--metrics: this program was built without libmicrohttpd and cannot serve metrics"

bool
crema_scrape_refuses(const char *address, char *ret_why, size_t why_size)
{
    if (address)
        snprintf(ret_why, why_size, "%s", WHY);
    return address != NULL;
}

crema_err_t
crema_scrape_new(const char *address, const char *program, zloop_t *loop, crema_scrape_fn fn,
                 void *context, char *ret_why, size_t why_size, crema_scrape_t **ret_self)
{
    (void)program, (void)loop, (void)fn, (void)context;
    *ret_self = NULL;
    return address ? crema_server_fail(CREMA_ECONFIG, ret_why, why_size, "%s", WHY) : CREMA_OK;
}

void
crema_scrape_destroy(crema_scrape_t **self_p)
{
    *self_p = NULL;
}

const char *
crema_scrape_url(const crema_scrape_t *self)
{
    (void)self;
    return NULL;
}
