#include "must.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent_sampler.h"
#include "agent_source.h"
#include "agent_stream.h"
#include "children.h"
#include "crema_clock.h"
#include "crema_random.h"
#include "message_parts.h"
#include "record_frames.h"

/* A spool with workers of one run; the workers are this process, unless told otherwise. */
typedef struct {
    char dir[SCRATCH_BYTES];
    crema_spool_t *spool;
    agent_sampler_t *sampler;
    crema_id_t run_id, agent_id;
    crema_arena_t *arena;
} bench_t;

static bench_t *
bench_new_for(const crema_id_t *only_run)
{
    bench_t *b = calloc(1, sizeof *b);
    scratch_template("sampler", b->dir);
    assert_non_null(mkdtemp(b->dir));
    b->run_id = only_run ? *only_run : crema_random_id();
    b->agent_id = crema_random_id();
    must(crema_arena_new(1 << 21, &b->arena));
    must(crema_spool_open(b->dir, &b->spool));
    must(crema_spool_lock(b->spool));
    agent_sampler_config_t config = {.dir = b->dir,
                                     .proc = "/proc",
                                     .sys = "/sys",
                                     .host = "here",
                                     .version = "1.2.3",
                                     .agent_id = b->agent_id,
                                     .sample_interval_s = 1,
                                     .heartbeat_interval_s = 0.5};
    if (only_run)
        config.run_id = *only_run;
    must(agent_sampler_new(&config, &b->sampler));
    return b;
}

static bench_t *
bench_new(void)
{
    return bench_new_for(NULL);
}

static void
bench_destroy(bench_t *b)
{
    agent_sampler_destroy(&b->sampler);
    crema_spool_close(&b->spool);
    crema_arena_destroy(&b->arena);
    DIR *dir = opendir(b->dir);
    const struct dirent *item;
    while ((item = readdir(dir)))
        (void)unlinkat(dirfd(dir), item->d_name, 0);
    closedir(dir);
    assert_int_equal(rmdir(b->dir), 0);
    free(b);
}

static crema_spool_writer_t *
must_start_worker(bench_t *b, const crema_id_t *run_id, int32_t pid, int64_t limit_b)
{
    crema_spool_writer_t *writer;
    crema_id_t stream_id = crema_random_id();
    Crema__StreamInfo info = {.run_id = body_id(*run_id),
                              .kind = CREMA_STREAM_WORKER,
                              .host = "there",
                              .pid = pid,
                              .worker_uuid = "Worker-1",
                              .worker_name = "tcp://1.2.3.4:5",
                              .nthreads = 4,
                              .memory_limit_b = limit_b,
                              .t_mono_ns = crema_clock_mono_ns(),
                              .boot_id = ""};
    must(crema_spool_writer_open(b->dir, &stream_id, &info, CREMA_SPOOL_SELF, &writer));
    return writer;
}

static bool
must_follow(bench_t *b)
{
    must(crema_spool_scan(b->spool));
    bool changed = agent_sampler_follow(b->sampler, b->spool);
    if (changed)
        must(crema_spool_scan(b->spool));
    return changed;
}

/* The agent's streams of a run, oldest first unknown; NULL if there is no i-th. */
static const crema_spool_stream_t *
own_stream(const bench_t *b, const crema_id_t *run_id, size_t skip)
{
    for (size_t i = 0; i < crema_spool_count(b->spool); i++) {
        const crema_spool_stream_t *stream = crema_spool_stream(b->spool, i);
        if (stream->info.kind == CREMA_STREAM_AGENT && crema_id_equal(&stream->run_id, run_id) &&
            skip-- == 0)
            return stream;
    }
    return NULL;
}

/* Record `seq` of a stream. */
static crema_record_t
must_read(bench_t *b, const crema_spool_stream_t *stream, uint64_t seq)
{
    static uint8_t buf[1 << 17];
    size_t bytes;
    uint32_t n;
    uint64_t last;
    must(crema_spool_read(b->spool, &stream->stream_id, seq, buf, sizeof buf, &bytes, &n, &last));
    assert_true(n > 0);
    crema_frame_t frame;
    crema_record_t record;
    must(crema_frame_decode(buf, bytes, &frame));
    must(crema_record_decode(&frame, b->arena, &record));
    return record;
}

static int64_t
int_of(const crema_record_t *record, uint32_t row, const char *column)
{
    return crema_batch_int(&record->batch, row,
                           (size_t)crema_table_column(record->batch.table, column), -99);
}

static double
real_of(const crema_record_t *record, uint32_t row, const char *column)
{
    return crema_batch_real(&record->batch, row,
                            (size_t)crema_table_column(record->batch.table, column), -99);
}

static void
test_a_run_with_a_worker_gets_a_stream_and_rows(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    assert_false(must_follow(b));
    assert_false(agent_sampler_sample(b->sampler));
    crema_spool_writer_t *worker = must_start_worker(b, &b->run_id, getpid(), 1 << 20);
    assert_true(must_follow(b));
    assert_false(must_follow(b));
    assert_int_equal(agent_sampler_workers(b->sampler), 1);
    assert_true(agent_sampler_sample(b->sampler));
    for (volatile long i = 0; i < 300000000; i++)
        ;
    agent_sampler_note_sent(b->sampler, 3, 900);
    assert_true(agent_sampler_sample(b->sampler));
    must(crema_spool_scan(b->spool));

    const crema_spool_stream_t *stream = own_stream(b, &b->run_id, 0);
    assert_non_null(stream);
    crema_record_t record = must_read(b, stream, 1);
    assert_int_equal(record.type, CREMA_RECORD_STREAM);
    assert_true(crema_id_equal(crema_id_of(record.stream.agent_id), &b->agent_id));
    assert_string_equal(record.stream.host, "here");
    assert_int_equal(record.stream.pid, getpid());
    assert_true(record.stream.t_real_ns > 0 && record.stream.t_mono_ns > 0);
    assert_int_equal(strlen(record.stream.boot_id), 36);
    assert_string_equal(record.stream.attribute_keys[0], "agent_version");
    assert_string_equal(record.stream.attribute_values[0], "1.2.3");

    record = must_read(b, stream, 2);
    assert_int_equal(record.type, CREMA_RECORD_DICT);
    assert_int_equal(record.dict.n_entries, 1);
    assert_int_equal(record.dict.entries[0]->kind, CREMA_DICT_WORKER);
    assert_int_equal(record.dict.entries[0]->id, 0);
    assert_string_equal(record.dict.entries[0]->text, "tcp://1.2.3.4:5");
    assert_string_equal(record.dict.entries[0]->uuid, "Worker-1");
    assert_string_equal(record.dict.entries[0]->host, "there");
    assert_int_equal(record.dict.entries[0]->pid, getpid());
    assert_int_equal(record.dict.entries[0]->nthreads, 4);

    record = must_read(b, stream, 3);
    assert_int_equal(record.type, CREMA_RECORD_BATCH);
    assert_int_equal(record.batch.table->id, CREMA_TABLE_WORKER_SAMPLES);
    assert_int_equal(record.batch.rows, 1);
    assert_true(isnan(real_of(&record, 0, "cpu_pct"))); /* no interval yet */
    assert_true(int_of(&record, 0, "t_ns") > 1000000000);
    assert_true(int_of(&record, 0, "rss_b") > 1 << 20);
    assert_int_equal(int_of(&record, 0, "memory_limit_b"), 1 << 20);
    assert_int_equal(int_of(&record, 0, "managed_b"), -1);
    assert_int_equal(int_of(&record, 0, "worker_id"), 0);
    assert_int_equal(int_of(&record, 0, "nthreads"), 4);
    assert_int_equal(int_of(&record, 0, "executing"), UINT16_MAX);
    assert_int_equal(int_of(&record, 0, "source"), 0); /* agent */
    assert_true(int_of(&record, 0, "net_read_b") >= -1);
    assert_true(isnan(real_of(&record, 0, "occupancy_s")));

    record = must_read(b, stream, 4);
    assert_int_equal(record.batch.table->id, CREMA_TABLE_HEARTBEATS); /* of the agent itself */
    double cost_s = real_of(&record, 0, "cost_s");
    assert_true(cost_s > 0);
    assert_int_equal(int_of(&record, 0, "sent"), 0);

    record = must_read(b, stream, 5);
    double cpu_pct = real_of(&record, 0, "cpu_pct");
    assert_true(cpu_pct > 1 && cpu_pct < 1000);
    record = must_read(b, stream, 6);
    assert_true(real_of(&record, 0, "cost_s") > cost_s);
    assert_int_equal(int_of(&record, 0, "sent"), 3);
    assert_int_equal(int_of(&record, 0, "written_b"), 900);
    crema_spool_writer_close(&worker);
    bench_destroy(b);
}

/* Four workers in one process are 1x its memory in all. */
static void
test_workers_in_one_process_share_what_it_uses(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    crema_spool_writer_t *workers[4];
    int64_t rss_b = 0;
    for (int i = 0; i < 4; i++)
        workers[i] = must_start_worker(b, &b->run_id, getpid(), 1 << 20);
    must_follow(b);
    assert_true(agent_sampler_sample(b->sampler));
    must(crema_spool_scan(b->spool));
    crema_record_t record = must_read(b, own_stream(b, &b->run_id, 0), 6);
    assert_int_equal(record.batch.rows, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(int_of(&record, i, "process_workers"), 4);
        rss_b += int_of(&record, i, "rss_b");
    }
    agent_source_t *source;
    agent_sample_t whole;
    must(agent_source_new("/proc", getpid(), &source));
    must(agent_source_sample(source, NULL, NULL, &whole));
    agent_source_destroy(&source);
    assert_true(rss_b > whole.rss_b / 2 && rss_b < whole.rss_b * 2);

    for (int i = 1; i < 4; i++)
        crema_spool_writer_close(&workers[i]);
    must_follow(b);
    assert_true(agent_sampler_sample(b->sampler));
    must(crema_spool_scan(b->spool));
    record = must_read(b, own_stream(b, &b->run_id, 0), 8);
    assert_int_equal(record.batch.rows, 1);
    assert_int_equal(int_of(&record, 0, "process_workers"), 1);
    crema_spool_writer_close(&workers[0]);
    bench_destroy(b);
}

static void
test_the_stream_ends_with_the_last_worker(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    crema_spool_writer_t *one = must_start_worker(b, &b->run_id, getpid(), -1);
    crema_spool_writer_t *two = must_start_worker(b, &b->run_id, getpid(), -1);
    must_follow(b);
    crema_spool_writer_close(&one);
    assert_false(must_follow(b));
    assert_int_equal(agent_sampler_workers(b->sampler), 1);
    assert_false(own_stream(b, &b->run_id, 0)->closed);
    crema_spool_writer_close(&two);
    assert_true(must_follow(b));
    assert_true(own_stream(b, &b->run_id, 0)->closed);
    assert_int_equal(agent_sampler_workers(b->sampler), 0);
    /* Another worker of the same run: another stream. */
    one = must_start_worker(b, &b->run_id, getpid(), -1);
    assert_true(must_follow(b));
    assert_non_null(own_stream(b, &b->run_id, 1));
    crema_spool_writer_close(&one);
    bench_destroy(b);
}

static void
test_a_killed_worker_is_let_go(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = must_fork();
    if (pid == 0) {
        (void)must_start_worker(b, &b->run_id, getpid(), -1);
        (void)!write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    must_follow(b);
    assert_int_equal(agent_sampler_workers(b->sampler), 1);
    must_kill(pid);
    assert_false(agent_sampler_sample(b->sampler)); /* gone, though its stream is not closed yet */
    assert_true(must_follow(b));
    assert_true(own_stream(b, &b->run_id, 0)->closed);
    close(ready[0]);
    close(ready[1]);
    bench_destroy(b);
}

static void
test_processes_that_cannot_be_seen_are_passed_over(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    crema_spool_writer_t *none = must_start_worker(b, &b->run_id, INT32_MAX, -1);
    crema_spool_writer_t *other = must_start_worker(b, &b->run_id, 1, -1); /* not its writer */
    for (int i = 0; i < 3; i++)
        assert_false(must_follow(b));
    assert_int_equal(agent_sampler_workers(b->sampler), 0);
    assert_null(own_stream(b, &b->run_id, 0));
    crema_spool_writer_close(&none);
    crema_spool_writer_close(&other);
    bench_destroy(b);
}

/* Whoever may write into the spool may write any number into a file: it is no leave to look at
 * that process. */
static void
test_a_process_is_sampled_only_for_its_own_stream(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uid_t owner;
        int64_t t_mono_ns; /* 0: now */
        const char *boot_id;
        size_t sampled;
    } cases[] = {
        {"its own", 0, 0, "", 1},
        {"a file of another user", 12345, 0, "", 0},
        {"a stream that began before the process", 0, 1, "", 0},
        {"a stream of another boot", 0, 0, "00000000-0000-0000-0000-000000000000", 0},
    };
    if (geteuid() != 0)
        not_tested_here(MISSING_OTHER_USERS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench_t *b = bench_new();
        crema_spool_writer_t *writer;
        crema_id_t stream_id = crema_random_id();
        Crema__StreamInfo info = {.run_id = body_id(b->run_id),
                                  .kind = CREMA_STREAM_WORKER,
                                  .host = "there",
                                  .pid = getpid(),
                                  .worker_uuid = "Worker-1",
                                  .worker_name = "tcp://1.2.3.4:5",
                                  .memory_limit_b = -1,
                                  .t_mono_ns = cases[i].t_mono_ns ? cases[i].t_mono_ns
                                                                  : crema_clock_mono_ns(),
                                  .boot_id = (char *)cases[i].boot_id};
        must(crema_spool_writer_open(b->dir, &stream_id, &info, CREMA_SPOOL_SELF, &writer));
        char path[PATH_MAX], hex[CREMA_ID_HEX_CHARS + 1];
        snprintf(path, sizeof path, "%s/sp-%s-%016x", b->dir, crema_id_hex(&stream_id, hex), 1);
        assert_int_equal(chown(path, cases[i].owner, 0), 0);
        must_follow(b);
        if (agent_sampler_workers(b->sampler) != cases[i].sampled)
            fail_msg("%s: %zu sampled", cases[i].what, agent_sampler_workers(b->sampler));
        crema_spool_writer_close(&writer);
        bench_destroy(b);
    }
}

static void
test_runs_have_streams_of_their_own_and_end_on_their_own(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    crema_id_t second = crema_random_id();
    crema_spool_writer_t *one = must_start_worker(b, &b->run_id, getpid(), -1);
    crema_spool_writer_t *two = must_start_worker(b, &second, getpid(), -1);
    must_follow(b);
    assert_non_null(own_stream(b, &b->run_id, 0));
    assert_non_null(own_stream(b, &second, 0));
    uint64_t before = own_stream(b, &b->run_id, 0)->hi;
    assert_true(agent_sampler_end_run(b->sampler, &b->run_id));
    assert_false(agent_sampler_end_run(b->sampler, &b->run_id));
    for (int i = 0; i < 2; i++)
        assert_false(must_follow(b)); /* its worker still writes; the run does not begin again */
    must(crema_spool_scan(b->spool));
    assert_true(own_stream(b, &b->run_id, 0)->closed);
    assert_int_equal(own_stream(b, &b->run_id, 0)->hi,
                     before + 3); /* a last sample, its own cost, END */
    assert_null(own_stream(b, &b->run_id, 1));
    assert_false(own_stream(b, &second, 0)->closed);
    crema_spool_writer_close(&one);
    crema_spool_writer_close(&two);
    bench_destroy(b);
}

static bool
has_capability(unsigned capability)
{
    char line[256];
    unsigned long long bits = 0;
    FILE *status = fopen("/proc/self/status", "r");
    assert_non_null(status);
    while (fgets(line, sizeof line, status))
        (void)sscanf(line, "CapEff: %llx", &bits);
    fclose(status);
    return (bits >> capability & 1) != 0;
}

static void
drop_capability(unsigned capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[capability / 32].effective &= ~(1u << capability % 32);
    data[capability / 32].permitted &= ~(1u << capability % 32);
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
    assert_false(has_capability(capability));
}

/* A process of that user that records for the run until it is killed. */
static pid_t
must_start_worker_of(bench_t *b, uint32_t uid)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = must_fork();
    if (pid == 0) {
        assert_int_equal(setuid(uid), 0);
        assert_int_equal(prctl(PR_SET_PDEATHSIG, SIGKILL),
                         0); /* which another user's does not keep */
        (void)must_start_worker(b, &b->run_id, getpid(), -1);
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* Whose a stream is decides which runs it may be brought to, so the samples of two users'
 * processes are no one stream. */
static void
test_samples_belong_to_the_user_whose_processes_they_are_of(void **state)
{
    (void)state;
    if (!has_capability(CAP_SETUID) || !has_capability(CAP_CHOWN))
        not_tested_here(MISSING_OTHER_USERS);
    if (!has_capability(CAP_SYS_PTRACE))
        not_tested_here(MISSING_OTHERS_PROCESSES);
    bench_t *b = bench_new();
    assert_int_equal(chmod(b->dir, 01777), 0);
    pid_t workers[] = {must_start_worker_of(b, 1001), must_start_worker_of(b, 1002)};
    assert_true(must_follow(b));
    assert_int_equal(agent_sampler_workers(b->sampler), 2);
    const crema_spool_stream_t *first = own_stream(b, &b->run_id, 0),
                               *second = own_stream(b, &b->run_id, 1);
    assert_true(first && second && !own_stream(b, &b->run_id, 2));
    assert_int_equal(first->owner + second->owner, 1001 + 1002);
    assert_true(agent_sampler_end_run(b->sampler, &b->run_id));
    must(crema_spool_scan(b->spool));
    assert_true(own_stream(b, &b->run_id, 0)->closed && own_stream(b, &b->run_id, 1)->closed);
    assert_int_equal(agent_sampler_hidden(b->sampler), 0);
    for (size_t i = 0; i < 2; i++)
        must_kill(workers[i]);
    bench_destroy(b);
}

/* As a container's root has it. */
static void
test_processes_of_others_are_hidden_without_the_right_to_see_them(void **state)
{
    (void)state;
    if (!has_capability(CAP_SETUID))
        not_tested_here(MISSING_OTHER_USERS);
    bench_t *b = bench_new();
    assert_int_equal(chmod(b->dir, 01777), 0);
    pid_t worker = must_start_worker_of(b, 1001);
    pid_t agent = must_fork(); /* a capability that was dropped is not had again */
    if (agent == 0) {
        drop_capability(CAP_SYS_PTRACE);
        crema_spool_writer_t *own = must_start_worker(b, &b->run_id, getpid(), -1);
        assert_true(must_follow(b));
        assert_int_equal(agent_sampler_workers(b->sampler), 1); /* its own */
        assert_int_equal(agent_sampler_hidden(b->sampler), 1);
        (void)must_follow(b);
        assert_int_equal(agent_sampler_hidden(b->sampler), 1);
        crema_spool_writer_close(&own);
        agent_sampler_stop(b->sampler);
        _exit(0);
    }
    must_exit(agent);
    must_kill(worker);
    bench_destroy(b);
}

/* Whichever descriptor it is that is not to be had: this says nothing about a worker, and is over
 * some time. */
static void
test_a_worker_is_taken_up_once_there_are_descriptors(void **state)
{
    (void)state;
    unsigned failed = 0;
    for (rlim_t more = 0; more < 8; more++) {
        bench_t *b = bench_new();
        crema_spool_writer_t *worker = must_start_worker(b, &b->run_id, getpid(), -1);
        must(crema_spool_scan(b->spool));
        struct rlimit old, few;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
        int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
        close(next);
        few = (struct rlimit){.rlim_cur = (rlim_t)next + more, .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        (void)agent_sampler_follow(b->sampler, b->spool);
        failed += agent_sampler_workers(b->sampler) == 0;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        (void)must_follow(b);
        assert_int_equal(agent_sampler_workers(b->sampler), 1);
        assert_int_equal(agent_sampler_hidden(b->sampler), 0);
        crema_spool_writer_close(&worker);
        bench_destroy(b);
    }
    assert_in_range(failed, 3, 7);
}

static void
test_an_agent_of_one_run_leaves_others_alone(void **state)
{
    (void)state;
    crema_id_t ours = crema_random_id(), theirs = crema_random_id();
    bench_t *b = bench_new_for(&ours);
    crema_spool_writer_t *worker = must_start_worker(b, &theirs, getpid(), -1);
    assert_false(must_follow(b));
    crema_spool_writer_t *own = must_start_worker(b, &ours, getpid(), -1);
    assert_true(must_follow(b));
    assert_int_equal(agent_sampler_workers(b->sampler), 1);
    crema_spool_writer_close(&worker);
    crema_spool_writer_close(&own);
    bench_destroy(b);
}

static void
test_stopped_it_stays_stopped(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    crema_spool_writer_t *worker = must_start_worker(b, &b->run_id, getpid(), -1);
    must_follow(b);
    agent_sampler_stop(b->sampler);
    assert_false(must_follow(b));
    must(crema_spool_scan(b->spool));
    assert_true(own_stream(b, &b->run_id, 0)->closed);
    assert_false(agent_sampler_sample(b->sampler));
    crema_spool_writer_close(&worker);
    bench_destroy(b);
}

static void
test_many_workers_fill_several_records(void **state)
{
    (void)state;
    enum { N = 300 };
    needs_descriptors(5 * N);
    bench_t *b = bench_new();
    crema_spool_writer_t *workers[N];
    for (int i = 0; i < N; i++)
        workers[i] = must_start_worker(b, &b->run_id, getpid(), -1);
    must_follow(b);
    agent_sampler_sample(b->sampler);
    must(crema_spool_scan(b->spool));
    const crema_spool_stream_t *stream = own_stream(b, &b->run_id, 0);
    bool seen[N] = {false};
    uint32_t rows = 0;
    for (uint64_t seq = N + 2; seq <= stream->hi; seq++) {
        crema_record_t record = must_read(b, stream, seq);
        assert_int_equal(record.type, CREMA_RECORD_BATCH);
        if (record.batch.table->id != CREMA_TABLE_WORKER_SAMPLES)
            continue;
        rows += record.batch.rows;
        for (uint32_t r = 0; r < record.batch.rows; r++)
            seen[int_of(&record, r, "worker_id")] = true;
    }
    assert_int_equal(rows, N);
    for (int i = 0; i < N; i++)
        assert_true(seen[i]);
    for (int i = 0; i < N; i++)
        crema_spool_writer_close(&workers[i]);
    bench_destroy(b);
}

static void
test_every_run_is_sampled_however_many_there_are(void **state)
{
    (void)state;
    enum { RUNS = 100 };
    bench_t *b = bench_new();
    crema_spool_writer_t *writers[RUNS];
    for (int i = 0; i < RUNS; i++) {
        const crema_id_t run_id = {{7, (uint8_t)i}};
        writers[i] = must_start_worker(b, &run_id, getpid(), -1);
    }
    assert_true(must_follow(b));
    for (int i = 0; i < RUNS; i++) {
        const crema_id_t run_id = {{7, (uint8_t)i}};
        assert_non_null(own_stream(b, &run_id, 0));
        crema_spool_writer_close(&writers[i]);
    }
    bench_destroy(b);
}

/* As the sink wants to be told: a metric of that name, and by how much it grew. */
static void
test_a_limit_of_the_agent_is_a_record(void **state)
{
    (void)state;
    bench_t *b = bench_new();
    crema_spool_writer_t *writer = must_start_worker(b, &b->run_id, getpid(), -1);
    must(agent_stream_write_limit(writer, CREMA_LIMIT_AGENT_PROCESSES, 3, 77, 5));
    must(crema_spool_scan(b->spool));
    const crema_spool_stream_t *stream = crema_spool_stream(b->spool, 0);
    crema_record_t names = must_read(b, stream, 2);
    assert_int_equal(names.dict.n_entries, 2);
    assert_string_equal(names.dict.entries[0]->text, "count");
    assert_string_equal(names.dict.entries[1]->text, "crema.limit.agent_processes");
    int64_t metric = names.dict.entries[1]->id;
    crema_record_t rows = must_read(b, stream, 3);
    assert_int_equal(rows.batch.table->id, CREMA_TABLE_CUSTOM);
    assert_int_equal(int_of(&rows, 0, "t_ns"), 77);
    assert_int_equal(int_of(&rows, 0, "metric_id"), metric);
    assert_int_equal(int_of(&rows, 0, "kind"), 1);
    assert_true(real_of(&rows, 0, "value") == 3);
    crema_spool_writer_close(&writer);
    bench_destroy(b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_with_a_worker_gets_a_stream_and_rows),
        cmocka_unit_test(test_workers_in_one_process_share_what_it_uses),
        cmocka_unit_test(test_the_stream_ends_with_the_last_worker),
        cmocka_unit_test_teardown(test_a_killed_worker_is_let_go, children_end),
        cmocka_unit_test(test_processes_that_cannot_be_seen_are_passed_over),
        cmocka_unit_test(test_a_process_is_sampled_only_for_its_own_stream),
        cmocka_unit_test(test_runs_have_streams_of_their_own_and_end_on_their_own),
        cmocka_unit_test_teardown(test_samples_belong_to_the_user_whose_processes_they_are_of,
                                  children_end),
        cmocka_unit_test_teardown(test_processes_of_others_are_hidden_without_the_right_to_see_them,
                                  children_end),
        cmocka_unit_test(test_a_worker_is_taken_up_once_there_are_descriptors),
        cmocka_unit_test(test_an_agent_of_one_run_leaves_others_alone),
        cmocka_unit_test(test_stopped_it_stays_stopped),
        cmocka_unit_test(test_many_workers_fill_several_records),
        cmocka_unit_test(test_every_run_is_sampled_however_many_there_are),
        cmocka_unit_test(test_a_limit_of_the_agent_is_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
