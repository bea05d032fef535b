#include "sink_syncs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 15 /* besides the caller; with more, 64 journals are hardly faster */
#define STACK_BYTES ((size_t)128 << 10)

struct sink_syncs {
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t work, done;
    sink_sync_t *syncs; /* of the round */
    size_t n, next, left;
    bool over;
    pthread_t threads[THREADS_MAX];
    size_t n_threads;
};

crema_err_t
sink_syncs_new(sink_syncs_t **ret_self)
{
    sink_syncs_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->work, NULL);
    pthread_cond_init(&self->done, NULL);
    *ret_self = self;
    return CREMA_OK;
}

void
sink_syncs_destroy(sink_syncs_t **self_p)
{
    sink_syncs_t *self = *self_p;
    if (!self)
        return;
    pthread_mutex_lock(&self->lock);
    self->over = true;
    pthread_cond_broadcast(&self->work);
    pthread_mutex_unlock(&self->lock);
    for (size_t i = 0; i < self->n_threads; i++)
        pthread_join(self->threads[i], NULL);
    pthread_cond_destroy(&self->done);
    pthread_cond_destroy(&self->work);
    pthread_mutex_destroy(&self->lock);
    free(self);
    *self_p = NULL;
}

static void
s_sync(sink_sync_t *sync)
{
    sync->error = fdatasync(sync->fd) == 0 ? 0 : errno;
}

/* Syncs files of the round until each has been taken. The lock is held. */
static void
s_take_part(sink_syncs_t *self)
{
    while (self->next < self->n) {
        sink_sync_t *sync = &self->syncs[self->next++];
        pthread_mutex_unlock(&self->lock);
        s_sync(sync);
        pthread_mutex_lock(&self->lock);
        if (--self->left == 0)
            pthread_cond_signal(&self->done);
    }
}

static void *
s_run(void *context)
{
    sink_syncs_t *self = context;
    pthread_mutex_lock(&self->lock);
    while (!self->over) {
        s_take_part(self);
        pthread_cond_wait(&self->work, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* Signals are the program's own, so no thread of ours takes one. */
static void
s_start_threads(sink_syncs_t *self, size_t wanted)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (wanted > THREADS_MAX)
        wanted = THREADS_MAX;
    if (self->n_threads >= wanted || pthread_attr_init(&attributes) != 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
        while (self->n_threads < wanted &&
               pthread_create(&self->threads[self->n_threads], &attributes, s_run, self) == 0)
            self->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

void
sink_syncs_run(sink_syncs_t *self, sink_sync_t *syncs, size_t n)
{
    if (n == 1)
        s_sync(syncs);
    if (n <= 1)
        return;
    s_start_threads(self, n - 1);
    pthread_mutex_lock(&self->lock);
    self->syncs = syncs;
    self->n = self->left = n;
    self->next = 0;
    for (size_t i = 1; i < n && i <= self->n_threads; i++)
        pthread_cond_signal(&self->work);
    s_take_part(self);
    while (self->left > 0)
        pthread_cond_wait(&self->done, &self->lock);
    pthread_mutex_unlock(&self->lock);
}
