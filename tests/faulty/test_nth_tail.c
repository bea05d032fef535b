/* A journal's reader without memory: made, or refused and nothing left of it. */
#include "must.h"

#include <errno.h>

#include "faulty.h"
#include "sink_journal.h"

static void
must_be_made_or_refused(void **state)
{
    (void)state;
    const sink_journal_visitor_t visitor = {0};
    for (uint64_t n = 1; n <= 3; n++) {
        sink_journal_tail_t *self = NULL;
        faulty_arm("memory", "", n, ENOMEM);
        crema_err_t err = sink_journal_tail_new("/nowhere", &visitor, &self);
        faulty_disarm();
        assert_int_equal(err, n <= 2 ? CREMA_ENOMEM : CREMA_OK);
        sink_journal_tail_destroy(&self);
        assert_null(self);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_be_made_or_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
