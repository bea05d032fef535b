#include "sink_syncs.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS_MAX 16 /* with more, 64 journals are hardly faster */
#define STACK_BYTES ((size_t)128 << 10)

struct sink_syncs {
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t work, done;
    crema_link_t waiting, ended;
    size_t n_waiting, n_begun, n_idle; /* begun: not returned yet; idle: threads without work */
    bool over, signalled;              /* signalled: the event is set */
    int event;
    pthread_t threads[THREADS_MAX];
    size_t n_threads;
};

crema_err_t
sink_syncs_new(sink_syncs_t **ret_self)
{
    sink_syncs_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->event < 0) {
        free(self);
        return CREMA_EIO;
    }
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->work, NULL);
    pthread_cond_init(&self->done, NULL);
    crema_list_init(&self->waiting);
    crema_list_init(&self->ended);
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
    close(self->event);
    free(self);
    *self_p = NULL;
}

/* Does one that waits. The lock is held before and afterwards. */
static void
s_sync_one(sink_syncs_t *self)
{
    sink_sync_t *sync = CREMA_LIST_FIRST(&self->waiting, sink_sync_t, link);
    crema_list_remove(&sync->link);
    self->n_waiting--;
    pthread_mutex_unlock(&self->lock);
    sync->fn(sync->context);
    pthread_mutex_lock(&self->lock);
    if (!self->signalled)
        self->signalled = eventfd_write(self->event, 1) == 0;
    crema_list_append(&self->ended, &sync->link);
    pthread_cond_signal(&self->done);
}

static void *
s_run(void *context)
{
    sink_syncs_t *self = context;
    pthread_mutex_lock(&self->lock);
    while (!self->over) {
        if (self->n_waiting > 0) {
            s_sync_one(self);
            continue;
        }
        self->n_idle++;
        pthread_cond_wait(&self->work, &self->lock);
        self->n_idle--;
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* Signals are the program's own, so no thread of ours takes one. */
static void
s_start_thread(sink_syncs_t *self)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (self->n_threads == THREADS_MAX || pthread_attr_init(&attributes) != 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
        pthread_create(&self->threads[self->n_threads], &attributes, s_run, self) == 0)
        self->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

void
sink_syncs_begin(sink_syncs_t *self, sink_sync_t *sync)
{
    pthread_mutex_lock(&self->lock);
    crema_list_append(&self->waiting, &sync->link);
    self->n_begun++;
    if (++self->n_waiting > self->n_idle)
        s_start_thread(self);
    if (self->n_threads == 0)
        s_sync_one(self);
    pthread_cond_signal(&self->work);
    pthread_mutex_unlock(&self->lock);
}

sink_sync_t *
sink_syncs_ended(sink_syncs_t *self, bool waits)
{
    eventfd_t ignored;
    pthread_mutex_lock(&self->lock);
    while (waits && self->n_begun > 0 && crema_list_is_empty(&self->ended))
        pthread_cond_wait(&self->done, &self->lock);
    sink_sync_t *sync = CREMA_LIST_FIRST(&self->ended, sink_sync_t, link);
    if (sync) {
        crema_list_remove(&sync->link);
        self->n_begun--;
        if (self->signalled && crema_list_is_empty(&self->ended))
            self->signalled = eventfd_read(self->event, &ignored) != 0;
    }
    pthread_mutex_unlock(&self->lock);
    return sync;
}

bool
sink_syncs_have_ended(sink_syncs_t *self)
{
    pthread_mutex_lock(&self->lock);
    const bool have = !crema_list_is_empty(&self->ended);
    pthread_mutex_unlock(&self->lock);
    return have;
}

int
sink_syncs_fd(const sink_syncs_t *self)
{
    return self->event;
}
