#include "agent_limit.h"

#include <stdio.h>

#include "agent_rows.h"

static crema_err_t
s_write_names(crema_spool_writer_t *writer, crema_limit_id_t id, int64_t mono_ns)
{
    char metric[64];
    snprintf(metric, sizeof metric, "%s%s", CREMA_LIMIT_METRIC, crema_limit(id)->name);
    crema_dict_entry_t entries[] = {
        {.kind = CREMA_DICT_UNIT, .text = "count"},
        {.kind = CREMA_DICT_METRIC, .id = (uint32_t)id, .text = metric},
    };
    for (size_t i = 0; i < 2; i++) {
        entries[i].uuid = entries[i].host = "";
        entries[i].memory_limit_b = entries[i].size_b = entries[i].n_entries = -1;
    }
    const crema_record_t record = {.type = CREMA_RECORD_DICT, .dict = {.n = 2, .entries = entries}};
    return crema_spool_writer_append(writer, &record, mono_ns);
}

crema_err_t
agent_limit_write(crema_spool_writer_t *writer, crema_limit_id_t id, uint64_t n, int64_t real_ns,
                  int64_t mono_ns)
{
    agent_rows_t *rows = NULL;
    crema_err_t err = agent_rows_new(CREMA_TABLE_CUSTOM, &rows);
    if (err == CREMA_OK)
        err = s_write_names(writer, id, mono_ns);
    if (err == CREMA_OK) {
        crema_custom_row_t *row = agent_rows_add(rows);
        row->t_ns = real_ns;
        row->value = (double)n;
        row->metric_id = id;
        row->unit_id = 0;
        row->kind = CREMA_METRIC_INCREMENT;
        err = agent_rows_write(rows, writer, mono_ns);
    }
    agent_rows_destroy(&rows);
    return err;
}
