/* make_journal - synthetic runs for tests that are not in C.
 *
 *   make_journal KIND DIR [COUNT]         writes a journal, which `crema-sink rebuild` turns into a
 *                                         run file. KIND: the `toy` run; `revoked`, the same with
 *                                         its key revoked halfway; `busy`, COUNT chunks on four
 *                                         workers; `plain`, COUNT rows of /custom; `long`, COUNT
 *                                         chunks of twelve rows each on 64 workers
 *   make_journal live JOURNAL FILE STEP   writes the live file of a journal: for each line on
 *                                         standard input STEP more PUTs, a flush, and a line with
 *                                         the number of PUTs so far, "done" when there are no
 *                                         more; the file stays open until standard input ends */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal_fixture.h"
#include "sink_live.h"

typedef struct {
    sink_live_t *live;
    sink_journal_visitor_t shown; /* to it */
    unsigned long puts, step;
} feed_t;

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    const sink_journal_visitor_t *shown = &((feed_t *)context)->shown;
    return shown->run(shown->context, msg);
}

static crema_err_t
s_on_clock(void *context, const Crema__ClockSample *sample)
{
    const sink_journal_visitor_t *shown = &((feed_t *)context)->shown;
    return shown->clock(shown->context, sample);
}

/* Waits for a line, flushes, and says so. */
static crema_err_t
s_step(feed_t *feed)
{
    char line[64];
    if (!fgets(line, sizeof line, stdin))
        return CREMA_EAGAIN;
    crema_err_t err = sink_live_flush(feed->live);
    printf("%lu\n", feed->puts);
    fflush(stdout);
    return err;
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    feed_t *feed = context;
    crema_err_t err = feed->shown.put(feed->shown.context, put);
    return err == CREMA_OK && ++feed->puts % feed->step == 0 ? s_step(feed) : err;
}

static int
s_live(const char *journal, const char *file, unsigned long step)
{
    feed_t feed = {.step = step ? step : 1};
    const crema_id_t run = {{1}};
    sink_journal_report_t report;
    const sink_journal_visitor_t visitor = {
        .context = &feed, .put = s_on_put, .run = s_on_run, .clock = s_on_clock};
    crema_err_t err = sink_live_new(file, &run, &feed.live);
    if (err == CREMA_OK) {
        feed.shown = sink_live_visitor(feed.live);
        err = sink_journal_read(journal, &visitor, &report);
    }
    if (err == CREMA_OK)
        err = s_step(&feed);
    char line[64];
    while (err == CREMA_OK && fgets(line, sizeof line, stdin)) { /* the file stays open */
        puts("done");
        fflush(stdout);
    }
    sink_live_close(&feed.live);
    return err == CREMA_OK || err == CREMA_EAGAIN ? 0 : 1;
}

int
main(int argc, char **argv)
{
    unsigned count = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 200;
    if (argc == 5 && strcmp(argv[1], "live") == 0)
        return s_live(argv[2], argv[3], strtoul(argv[4], NULL, 10));
    if (argc >= 3 && strcmp(argv[1], "toy") == 0) {
        fixture_toy(argv[2], 1);
    } else if (argc >= 3 && strcmp(argv[1], "revoked") == 0) {
        fixture_revoked(argv[2], 1);
    } else if (argc >= 3 && strcmp(argv[1], "busy") == 0) {
        fixture_busy(argv[2], 2, 4, count);
    } else if (argc >= 3 && strcmp(argv[1], "plain") == 0) {
        fixture_plain(argv[2], 3, count);
    } else if (argc >= 3 && strcmp(argv[1], "long") == 0) {
        fixture_long(argv[2], 4, 64, count);
    } else {
        fputs("usage: make_journal toy|revoked|busy|plain|long DIR [COUNT] | live JOURNAL FILE "
              "STEP\n",
              stderr);
        return 2;
    }
    return 0;
}
