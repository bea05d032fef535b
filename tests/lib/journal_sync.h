/* journal_sync - the three steps of a commit, and a renewal before it, in one thread. */
#ifndef JOURNAL_SYNC_H
#define JOURNAL_SYNC_H

#include "sink_journal.h"

CREMA_MUST_CHECK static inline crema_err_t
journal_renew(sink_journal_t *journal)
{
    if (sink_journal_is_renewed(journal))
        return CREMA_OK;
    sink_journal_work(journal);
    return sink_journal_end(journal);
}

CREMA_MUST_CHECK static inline crema_err_t
journal_sync(sink_journal_t *journal)
{
    crema_err_t err = journal_renew(journal);
    if (err == CREMA_OK)
        err = sink_journal_begin(journal, NULL);
    if (err != CREMA_OK)
        return err;
    sink_journal_work(journal);
    return sink_journal_end(journal);
}

#endif
