/* Any bytes as the records of a run: decoded, put in order, and summarised as for a file. The
 * first byte says how many streams there are. */
#include <string.h>

#include "fuzz.h"
#include "fuzz_files.h"
#include "sink_budget.h"
#include "sink_decoder.h"
#include "sink_facts.h"
#include "sink_model.h"
#include "sink_summary.h"
#include "sink_tables.h"
#include "sink_verdict.h"

static crema_err_t
s_on_decoded(void *context, crema_table_id_t table, const uint8_t *rows, size_t n)
{
    return sink_tables_append(context, table, rows, n);
}

static void
s_summarise(sink_tables_t *tables, sink_decoder_t *run)
{
    sink_facts_t *facts = NULL;
    sink_budget_t *budget = NULL;
    sink_model_t *model = NULL;
    sink_verdict_t *verdict = NULL;
    HOLDS(sink_tables_add_dict(tables, sink_decoder_dict(run)) == CREMA_OK);
    HOLDS(sink_tables_sort(tables) == CREMA_OK);
    HOLDS(sink_facts_begin(tables, run, &facts) == CREMA_OK);
    HOLDS(sink_facts_take_chunks(facts, tables, run) == CREMA_OK);
    HOLDS(sink_facts_finish(facts, tables) == CREMA_OK);
    HOLDS(sink_budget_new(facts, &budget) == CREMA_OK);
    HOLDS(sink_model_new(facts, 1, &model) == CREMA_OK);
    HOLDS(sink_verdict_new(run, facts, &(sink_damage_t){0}, &verdict) == CREMA_OK);
    const sink_summary_t summary = {
        .tables = tables, .run = run, .facts = facts, .budget = budget, .model = model};
    HOLDS(sink_summary_fill(&summary) == CREMA_OK);
    sink_verdict_destroy(&verdict);
    sink_model_destroy(&model);
    sink_budget_destroy(&budget);
    sink_facts_destroy(&facts);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t streams = data[0] % 4 + 1u, share = (size - 1) / streams;
    uint8_t *frames = malloc(size);
    HOLDS(frames != NULL);
    memcpy(frames, data + 1, size - 1);
    sink_tables_t *tables;
    sink_decoder_t *run;
    HOLDS(sink_tables_new(fuzz_dir(), &tables) == CREMA_OK);
    HOLDS(sink_decoder_new(s_on_decoded, tables, &run) == CREMA_OK);
    for (size_t i = 0; i < streams; i++) {
        uint8_t *part = frames + i * share;
        sink_journal_put_t put = {.stream_id = {{(uint8_t)(i + 1)}},
                                  .agent_id = {{0xa, (uint8_t)i}},
                                  .first_seq = 1,
                                  .n = fuzz_repair_frames(part, share, data[0] & 0x80 ? 0 : 1),
                                  .frames = part,
                                  .frames_bytes = share,
                                  .t_recv_ns = 1000000000};
        HOLDS(sink_decoder_put(run, &put) == CREMA_OK);
    }
    HOLDS(sink_decoder_finish(run) == CREMA_OK);
    s_summarise(tables, run);
    sink_decoder_destroy(&run);
    sink_tables_destroy(&tables);
    free(frames);
    return 0;
}
