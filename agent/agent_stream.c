#include "agent_stream.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_random.h"

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
                  const crema_id_t *run_id, uint32_t owner, crema_spool_writer_t **ret_writer)
{
    struct utsname machine = {0};
    (void)uname(&machine);
    char cpus[24], memory[24], sample[24], heartbeat[24];
    snprintf(cpus, sizeof cpus, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    snprintf(memory, sizeof memory, "%lld",
             (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    snprintf(sample, sizeof sample, "%g", config->sample_interval_s);
    snprintf(heartbeat, sizeof heartbeat, "%g", config->heartbeat_interval_s);
    const char *const keys[] = {"agent_version",       "kernel",        "machine",
                                "host_cpus",           "host_memory_b", "sample_interval_s",
                                "heartbeat_interval_s"};
    const char *const values[] = {config->version, machine.release, machine.machine, cpus,
                                  memory,          sample,          heartbeat};
    crema_stream_info_t info = {
        .run_id = *run_id,
        .agent_id = config->agent_id,
        .kind = CREMA_STREAM_AGENT,
        .host = config->host,
        .pid = (int32_t)getpid(),
        .worker_uuid = "",
        .worker_name = "",
        .memory_limit_b = -1,
        .t_real_ns = crema_clock_real_ns(),
        .t_mono_ns = crema_clock_mono_ns(),
        .boot_id = boot_id,
        .n_attributes = sizeof keys / sizeof *keys,
        .attribute_keys = keys,
        .attribute_values = values,
    };
    crema_id_t stream_id = crema_random_id();
    return crema_spool_writer_open(config->dir, &stream_id, &info, owner, ret_writer);
}

crema_err_t
agent_stream_name_worker(crema_spool_writer_t *writer, uint32_t number,
                         const crema_stream_info_t *info)
{
    crema_dict_entry_t entry = {
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
    crema_record_t record = {.type = CREMA_RECORD_DICT, .dict = {.n = 1, .entries = &entry}};
    return crema_spool_writer_append(writer, &record, crema_clock_mono_ns());
}
