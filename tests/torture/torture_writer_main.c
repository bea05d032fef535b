/* torture_writer - a worker's hook without a worker: records numbered values into a spool at a
 * steady rate until SIGTERM.
 *
 *   torture_writer SPOOL LEDGER_DIR RUN_ID RECORDS_PER_SECOND */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_random.h"
#include "crema_spool.h"
#include "message_parts.h"
#include "torture_ledger.h"

#define BURSTS_PER_SECOND 200

static volatile sig_atomic_t s_stop;

static void
s_on_term(int number)
{
    (void)number;
    s_stop = 1;
}

static crema_err_t
s_append_value(crema_spool_writer_t *writer, const crema_id_t *stream_id, uint64_t seq)
{
    const int64_t now_ns = crema_clock_real_ns();
    const crema_table_t *table = crema_table(CREMA_TABLE_CUSTOM);
    size_t n_ints = 0;
    size_t n_reals = 0;
    crema_table_wire_columns(table, &n_ints, &n_reals);
    int64_t ints[16] = {now_ns, (int64_t)seq}; /* t_ns, chunk_id, then ids of dictionary row 0 */
    double reals[1] = {torture_value(stream_id, seq)};
    const crema_record_t record = {
        .type = CREMA_RECORD_BATCH,
        .batch = {.table = table,
                  .rows = 1,
                  .n_int_columns = n_ints,
                  .n_real_columns = n_reals,
                  .ints = ints,
                  .reals = reals},
    };
    return crema_spool_writer_append(writer, &record, crema_clock_mono_ns());
}

static crema_err_t
s_append_names(crema_spool_writer_t *writer)
{
    Crema__DictEntry names[] = {
        {.kind = CREMA_DICT_METRIC, .text = "torture", .memory_limit_b = -1},
        {.kind = CREMA_DICT_UNIT, .text = "1", .memory_limit_b = -1},
        {.kind = CREMA_DICT_WORKER, .text = "torture", .uuid = "torture", .memory_limit_b = -1},
    };
    const crema_record_t record = {
        .type = CREMA_RECORD_DICT,
        .dict = {.n_entries = sizeof names / sizeof names[0],
                 .entries = body_entries(sizeof names / sizeof names[0], names)},
    };
    return crema_spool_writer_append(writer, &record, crema_clock_mono_ns());
}

static void
s_write_until_stopped(crema_spool_writer_t *writer, torture_ledger_t *ledger, long rate)
{
    const struct timespec pause = {.tv_nsec = 1000000000L / BURSTS_PER_SECOND};
    while (!s_stop) {
        for (long i = 0; i < rate / BURSTS_PER_SECOND && !s_stop; i++) {
            if (s_append_value(writer, &ledger->stream_id, ledger->recorded + 1) == CREMA_OK)
                ledger->recorded++;
            else
                ledger->dropped++;
        }
        nanosleep(&pause, NULL);
    }
}

int
main(int argc, char **argv)
{
    crema_id_t run_id;
    if (argc != 5 || !crema_id_parse(argv[3], &run_id)) {
        fprintf(stderr, "usage: torture_writer SPOOL LEDGER_DIR RUN_ID RECORDS_PER_SECOND\n");
        return 2;
    }
    struct sigaction action = {.sa_handler = s_on_term};
    sigaction(SIGTERM, &action, NULL);

    const crema_id_t stream_id = crema_random_id();
    char name[64];
    snprintf(name, sizeof name, "torture:%d", (int)getpid());
    const Crema__StreamInfo info = {
        .run_id = body_id(run_id),
        .kind = CREMA_STREAM_WORKER,
        .host = "localhost",
        .pid = getpid(),
        .worker_uuid = name,
        .worker_name = name,
        .nthreads = 1,
        .memory_limit_b = -1,
        .t_real_ns = crema_clock_real_ns(),
        .t_mono_ns = crema_clock_mono_ns(),
        .boot_id = "",
    };
    crema_spool_writer_t *writer = NULL;
    torture_ledger_t *ledger = NULL;
    crema_err_t err = torture_ledger_new(argv[2], &stream_id, &ledger);
    if (err == CREMA_OK)
        err = crema_spool_writer_open(argv[1], &stream_id, &info, CREMA_SPOOL_SELF, &writer);
    if (err == CREMA_OK) {
        ledger->recorded = 1; /* StreamInfo */
        err = s_append_names(writer);
    }
    if (err != CREMA_OK) {
        fprintf(stderr, "torture_writer: %s\n", crema_err_text(err));
        return 1;
    }
    ledger->recorded = 2; /* and the names */
    s_write_until_stopped(writer, ledger, strtol(argv[4], NULL, 10));
    crema_spool_writer_close(&writer);
    ledger->finished = 1;
    return 0;
}
