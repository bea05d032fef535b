/* chain_writer - puts ROWS samples into a spool as fast as it goes, in columnar batches of BATCH
 * rows, and ends its stream.
 *
 *   chain_writer SPOOL RUN_ID ROWS BATCH [PAUSE_MS]
 *
 * With a pause, one batch after each: 64 rows and 1000 ms are 64 activities sampled at 1 Hz.
 *
 * A sample is a row of /custom: a time that moves on by about a millisecond and a value that
 * nobody can guess. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_random.h"
#include "crema_spool.h"
#include "message_parts.h"

typedef struct {
    crema_spool_writer_t *writer;
    size_t n_ints, n_reals;
    int64_t *ints; /* column by column */
    double *reals;
    int64_t t_ns;
} source_t;

static crema_err_t
s_append_names(crema_spool_writer_t *writer)
{
    Crema__DictEntry names[] = {
        {.kind = CREMA_DICT_METRIC, .text = "sample", .memory_limit_b = -1},
        {.kind = CREMA_DICT_UNIT, .text = "1", .memory_limit_b = -1},
        {.kind = CREMA_DICT_WORKER, .text = "chain", .uuid = "chain", .memory_limit_b = -1},
    };
    const crema_record_t record = {
        .type = CREMA_RECORD_DICT,
        .dict = {.n_entries = sizeof names / sizeof names[0],
                 .entries = body_entries(sizeof names / sizeof names[0], names)},
    };
    return crema_spool_writer_append(writer, &record, crema_clock_mono_ns());
}

static crema_err_t
s_append_batch(source_t *source, size_t rows)
{
    memset(source->ints, 0, source->n_ints * rows * sizeof *source->ints);
    for (size_t i = 0; i < rows; i++) {
        source->t_ns += 1000000 + random() % 1000;
        source->ints[i] = source->t_ns;
        source->reals[i] = (double)random() / 7;
    }
    const crema_record_t record = {
        .type = CREMA_RECORD_BATCH,
        .batch = {.table = crema_table(CREMA_TABLE_CUSTOM),
                  .rows = rows,
                  .n_int_columns = source->n_ints,
                  .n_real_columns = source->n_reals,
                  .ints = source->ints,
                  .reals = source->reals},
    };
    return crema_spool_writer_append(source->writer, &record, crema_clock_mono_ns());
}

static crema_err_t
s_open(const char *spool, const crema_id_t *run_id, crema_spool_writer_t **ret_writer)
{
    const crema_id_t stream_id = crema_random_id();
    const Crema__StreamInfo info = {
        .run_id = body_id(*run_id),
        .kind = CREMA_STREAM_WORKER,
        .host = "localhost",
        .pid = getpid(),
        .worker_uuid = "chain",
        .worker_name = "chain",
        .nthreads = 1,
        .memory_limit_b = -1,
        .t_real_ns = crema_clock_real_ns(),
        .t_mono_ns = crema_clock_mono_ns(),
        .boot_id = "",
    };
    crema_err_t err =
        crema_spool_writer_open(spool, &stream_id, &info, CREMA_SPOOL_SELF, ret_writer);
    return err == CREMA_OK ? s_append_names(*ret_writer) : err;
}

int
main(int argc, char **argv)
{
    crema_id_t run_id;
    bool enough = argc == 5 || argc == 6;
    long rows = enough ? strtol(argv[3], NULL, 10) : 0;
    long batch = enough ? strtol(argv[4], NULL, 10) : 0;
    long pause_ms = argc == 6 ? strtol(argv[5], NULL, 10) : 0;
    if (rows < 1 || batch < 1 || batch > CREMA_BATCH_ROWS_MAX ||
        !crema_id_parse(argv[2], &run_id)) {
        fprintf(stderr, "usage: chain_writer SPOOL RUN_ID ROWS BATCH [PAUSE_MS]\n");
        return 2;
    }
    source_t source = {.t_ns = crema_clock_real_ns()};
    crema_table_wire_columns(crema_table(CREMA_TABLE_CUSTOM), &source.n_ints, &source.n_reals);
    source.ints = calloc(source.n_ints * (size_t)batch, sizeof *source.ints);
    source.reals = calloc(source.n_reals * (size_t)batch, sizeof *source.reals);
    crema_err_t err = source.ints && source.reals ? CREMA_OK : CREMA_ENOMEM;
    if (err == CREMA_OK)
        err = s_open(argv[1], &run_id, &source.writer);
    for (; err == CREMA_OK && rows > 0; rows -= batch) {
        usleep((useconds_t)pause_ms * 1000);
        err = s_append_batch(&source, (size_t)(rows < batch ? rows : batch));
    }
    crema_spool_writer_close(&source.writer);
    free(source.ints);
    free(source.reals);
    if (err != CREMA_OK)
        fprintf(stderr, "chain_writer: %s\n", crema_err_text(err));
    return err == CREMA_OK ? 0 : 1;
}
