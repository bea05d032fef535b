/* journal_sync - the three steps of a commit in one thread. */
#ifndef JOURNAL_SYNC_H
#define JOURNAL_SYNC_H

#include "sink_journal.h"

CREMA_MUST_CHECK static inline crema_err_t
journal_sync(sink_journal_t *journal)
{
    crema_err_t err = sink_journal_begin(journal, NULL);
    if (err != CREMA_OK)
        return err;
    sink_journal_work(journal);
    return sink_journal_end(journal);
}

#endif
