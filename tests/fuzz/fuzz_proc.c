/* Any bytes as the files of /proc that an agent reads: NUL bytes divide them. A process, its child
 * and its network are sampled twice. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent_network.h"
#include "agent_source.h"
#include "fuzz.h"
#include "fuzz_files.h"

static const char *const c_dirs[] = {
    "proc",
    "proc/17",
    "proc/17/task",
    "proc/17/task/17",
    "proc/18",
    "proc/net",
    "proc/17/root",
    "proc/17/root/sys",
    "proc/17/root/sys/fs",
    "proc/17/root/sys/fs/cgroup",
    "proc/17/fd",
};
static const char *const c_files[] = {
    "proc/17/stat",
    "proc/17/statm",
    "proc/17/io",
    "proc/17/status",
    "proc/17/task/17/children",
    "proc/18/stat",
    "proc/18/io",
    "proc/net/dev",
    "proc/17/root/sys/fs/cgroup/memory.max",
    "proc/17/cgroup",
};
enum { FILES = sizeof c_files / sizeof *c_files };

static const char *
s_proc(void)
{
    static char proc[300];
    if (proc[0])
        return proc;
    for (size_t i = 0; i < sizeof c_dirs / sizeof *c_dirs; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", fuzz_dir(), c_dirs[i]);
        HOLDS(mkdir(path, 0700) == 0);
    }
    snprintf(proc, sizeof proc, "%s/proc", fuzz_dir());
    return proc;
}

static void
s_write_files(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < FILES; i++) {
        const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
        size_t length = end && i + 1 < FILES ? (size_t)(end - data) : size;
        (void)fuzz_write(fuzz_dir(), c_files[i], data, length);
        size_t taken = length < size ? length + 1 : size;
        data += taken;
        size -= taken;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *proc = s_proc();
    int64_t read_b, write_b, cpu_ns = -1;
    agent_source_t *source;
    s_write_files(data, size);
    HOLDS(agent_source_new(proc, 17, &source) == CREMA_OK);
    const agent_writer_t writer = {"sp-1", getuid(), 1000000000000};
    (void)agent_source_is_writer(source, &writer);
    for (int i = 0; i < 2; i++) {
        agent_sample_t sample;
        if (agent_source_sample(source, NULL, NULL, &sample) != CREMA_OK)
            break;
        HOLDS(agent_source_is_alive(source));
        HOLDS(sample.cpu_ns >= cpu_ns && sample.cpu_ns >= 0);
        HOLDS(sample.rss_b >= -1 && sample.memory_limit_b >= -1);
        cpu_ns = sample.cpu_ns;
    }
    agent_source_destroy(&source);
    agent_network_t *network;
    HOLDS(agent_network_new(proc, fuzz_dir(), &network) == CREMA_OK);
    agent_network_read(network, &read_b, &write_b);
    HOLDS(read_b >= -1 && write_b >= -1);
    agent_network_destroy(&network);
    return 0;
}
