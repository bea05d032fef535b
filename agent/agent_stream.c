#include "agent_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "crema_clock.h"

void
agent_stream_boot_id(const char *proc, char out[AGENT_BOOT_ID_SIZE])
{
    char path[512];
    snprintf(path, sizeof path, "%s/sys/kernel/random/boot_id", proc);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(out, AGENT_BOOT_ID_SIZE, file))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (file)
        fclose(file);
}

crema_err_t
agent_stream_open(const agent_sampler_config_t *config, const char *boot_id,
                  const crema_id_t *stream_id, const crema_id_t *run_id, uint32_t owner,
                  crema_spool_writer_t **ret_writer)
{
    struct utsname machine = {0};
    (void)uname(&machine);
    char cpus[24], memory[24], sample[24], heartbeat[24];
    snprintf(cpus, sizeof cpus, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    snprintf(memory, sizeof memory, "%lld",
             (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    snprintf(sample, sizeof sample, "%g", config->sample_interval_s);
    snprintf(heartbeat, sizeof heartbeat, "%g", config->heartbeat_interval_s);
    char *keys[] = {"agent_version",       "kernel",        "machine",
                    "host_cpus",           "host_memory_b", "sample_interval_s",
                    "heartbeat_interval_s"};
    char *values[] = {
        (char *)config->version, machine.release, machine.machine, cpus, memory, sample, heartbeat};
    const Crema__StreamInfo info = {
        .run_id = crema_id_field(run_id),
        .agent_id = crema_id_field(&config->agent_id),
        .kind = CREMA_STREAM_AGENT,
        .host = (char *)config->host,
        .pid = (int32_t)getpid(),
        .memory_limit_b = -1,
        .t_real_ns = crema_clock_real_ns(),
        .t_mono_ns = crema_clock_mono_ns(),
        .boot_id = (char *)boot_id,
        .n_attribute_keys = sizeof keys / sizeof *keys,
        .attribute_keys = keys,
        .n_attribute_values = sizeof values / sizeof *values,
        .attribute_values = values,
    };
    return crema_spool_writer_open(config->dir, stream_id, &info, owner, ret_writer);
}

crema_err_t
agent_stream_name_worker(crema_spool_writer_t *writer, uint32_t number,
                         const Crema__StreamInfo *info)
{
    Crema__DictEntry entry = {
        .base = PROTOBUF_C_MESSAGE_INIT(&crema__dict_entry__descriptor),
        .kind = CREMA_DICT_WORKER,
        .id = number,
        .text = info->worker_name,
        .uuid = info->worker_uuid,
        .host = info->host,
        .pid = info->pid,
        .nthreads = (int32_t)info->nthreads,
        .memory_limit_b = info->memory_limit_b,
        .size_b = -1,
        .n_entries = -1,
    };
    Crema__DictEntry *entries[] = {&entry};
    crema_record_t record = {.type = CREMA_RECORD_DICT,
                             .dict = {.n_entries = 1, .entries = entries}};
    return crema_spool_writer_append(writer, &record, crema_clock_mono_ns());
}

/* Converts packed rows to columns, integers and reals separately. A column that exists only on the
 * wire is unknown. */
static void
s_fill_columns(const crema_table_t *table, const uint8_t *rows, uint32_t n, int64_t *ints,
               double *reals)
{
    const size_t stride = crema_table_row_bytes(table);
    const uint8_t *const end = rows + n * stride;
    for (size_t c = 0; c < table->n_columns; c++) {
        const crema_column_t *column = &table->columns[c];
        if (column->origin == CREMA_FROM_SINK)
            continue;
        if (column->type == CREMA_T_F64)
            for (const uint8_t *row = rows; row < end; row += stride)
                *reals++ = column->size ? crema_row_get_f64(table, row, c) : 0;
        else
            for (const uint8_t *row = rows; row < end; row += stride)
                *ints++ = column->size ? crema_row_get_i64(table, row, c) : 0;
    }
}

crema_err_t
agent_stream_write_rows(crema_spool_writer_t *writer, crema_table_id_t table, const void *rows,
                        uint32_t n, int64_t mono_ns)
{
    crema_record_t record = {.type = CREMA_RECORD_BATCH};
    crema_batch_t *batch = &record.batch;
    *batch = (crema_batch_t){.table = crema_table(table), .rows = n};
    crema_table_wire_columns(batch->table, &batch->n_int_columns, &batch->n_real_columns);
    int64_t *ints = malloc(n * (batch->n_int_columns + batch->n_real_columns) * sizeof *ints);
    if (!ints)
        return CREMA_ENOMEM;
    double *reals = (double *)(ints + n * batch->n_int_columns);
    s_fill_columns(batch->table, rows, n, ints, reals);
    batch->ints = ints;
    batch->reals = reals;
    crema_err_t err = crema_spool_writer_append(writer, &record, mono_ns);
    free(ints);
    return err;
}

crema_err_t
agent_stream_write_limit(crema_spool_writer_t *writer, crema_limit_id_t id, uint64_t n,
                         int64_t real_ns, int64_t mono_ns)
{
    char metric[64];
    snprintf(metric, sizeof metric, "%s%s", CREMA_LIMIT_METRIC, crema_limit(id)->name);
    Crema__DictEntry unit = CREMA__DICT_ENTRY__INIT, name = CREMA__DICT_ENTRY__INIT;
    unit.kind = CREMA_DICT_UNIT;
    unit.text = "count";
    name.kind = CREMA_DICT_METRIC;
    name.id = (uint32_t)id;
    name.text = metric;
    Crema__DictEntry *entries[] = {&unit, &name};
    for (size_t i = 0; i < 2; i++)
        entries[i]->memory_limit_b = entries[i]->size_b = entries[i]->n_entries = -1;
    const crema_record_t record = {.type = CREMA_RECORD_DICT,
                                   .dict = {.n_entries = 2, .entries = entries}};
    crema_err_t err = crema_spool_writer_append(writer, &record, mono_ns);
    crema_custom_row_t row;
    crema_row_clear(crema_table(CREMA_TABLE_CUSTOM), (uint8_t *)&row);
    row.t_ns = real_ns;
    row.value = (double)n;
    row.metric_id = id;
    row.unit_id = 0;
    row.kind = CREMA_METRIC_INCREMENT;
    return err == CREMA_OK ? agent_stream_write_rows(writer, CREMA_TABLE_CUSTOM, &row, 1, mono_ns)
                           : err;
}
