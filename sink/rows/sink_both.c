#include "sink_both.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Stacks count as memory of the process: --seal-memory. */
#define STACK_BYTES ((size_t)256 << 10)

typedef struct {
    void (*run)(void *);
    void *context;
} part_t;

static void *
s_run(void *context)
{
    const part_t *part = context;
    part->run(part->context);
    return NULL;
}

void
sink_both(void (*one)(void *), void *of_one, void (*other)(void *), void *of_other)
{
    part_t part = {other, of_other};
    pthread_t thread;
    pthread_attr_t attributes;
    bool started = false;
    if (pthread_attr_init(&attributes) == 0) {
        started = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
                  pthread_create(&thread, &attributes, s_run, &part) == 0;
        pthread_attr_destroy(&attributes);
    }
    one(of_one);
    if (started)
        pthread_join(thread, NULL);
    else
        other(of_other);
}
