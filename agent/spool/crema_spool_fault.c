/* What cannot be read now, and why. Without it a reader would report a spool as read to its end
 * that is not. */
#include <errno.h>

#include "crema_spool_private.h"

void
crema_spool_blame(crema_spool_t *self, crema_spool_blame_t *fault, uint64_t first_seq, int why)
{
    if (why == ENOENT) { /* removed since it was listed: the next listing shows it */
        self->list_again = true;
        return;
    }
    *fault = (crema_spool_blame_t){.why = why ? why : EIO, .first_seq = first_seq};
}

/* There are records, but no StreamInfo identifies them. */
static crema_spool_blame_t
s_nameless(const crema_spool_entry_t *entry)
{
    bool nameless = entry->head_bytes == 0 && entry->public.hi > 0;
    return (crema_spool_blame_t){.why = nameless ? EBADMSG : 0,
                                 .first_seq = nameless ? entry->segments[0].first_seq : 0};
}

static void
s_describe(const crema_spool_entry_t *entry, const crema_spool_blame_t *blame,
           crema_spool_fault_t *ret_fault)
{
    ret_fault->stream_id = entry->public.stream_id;
    ret_fault->run_id = entry->public.run_id;
    ret_fault->why = blame->why;
    crema_spool_name(&entry->public.stream_id, blame->first_seq, ret_fault->file);
}

/* Adds segments for which there is no room yet after the first `at` faults, with names as far as
 * they were kept. Returns their number. */
static size_t
s_waiting(const crema_spool_t *self, crema_spool_fault_t *faults, size_t at, size_t max)
{
    const size_t n = (size_t)self->stats.waiting_files;
    for (size_t i = 0; i < n && i < CREMA_SPOOL_WAITING_NAMES && at + i < max; i++) {
        const crema_spool_waiting_t *waiting = &self->waiting[i];
        crema_spool_fault_t *fault = &faults[at + i];
        *fault = (crema_spool_fault_t){.stream_id = waiting->stream_id, .why = EAGAIN};
        crema_spool_name(&waiting->stream_id, waiting->first_seq, fault->file);
    }
    return n;
}

size_t
crema_spool_faults(const crema_spool_t *self, crema_spool_fault_t *faults, size_t max)
{
    size_t n = 0;
    if (self->list_fault) {
        if (n < max)
            faults[n] = (crema_spool_fault_t){.why = self->list_fault};
        n++;
    }
    for (size_t i = 0; i < self->n_entries; i++) {
        const crema_spool_entry_t *entry = self->entries[i];
        crema_spool_blame_t blame = entry->scan_fault.why   ? entry->scan_fault
                                    : entry->read_fault.why ? entry->read_fault
                                                            : s_nameless(entry);
        if (!blame.why)
            continue;
        if (n < max)
            s_describe(entry, &blame, &faults[n]);
        n++;
    }
    return n + s_waiting(self, faults, n, max);
}
