/* What a reader of a spool cannot read: it says so, and reads on as soon as it can. */
#include "must.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_random.h"
#include "crema_spool.h"
#include "crema_time.h"
#include "message_parts.h"
#include "record_frames.h"

typedef struct {
    char *dir;
    crema_id_t stream_id, run_id;
    crema_spool_writer_t *writer;
    crema_spool_t *spool;
} bench_t;

static const Crema__StreamInfo c_info = {.kind = CREMA_STREAM_WORKER,
                                         .host = "host",
                                         .pid = 42,
                                         .worker_uuid = "uuid",
                                         .worker_name = "tcp://w",
                                         .memory_limit_b = -1,
                                         .boot_id = "boot"};

static bench_t
s_bench(void)
{
    bench_t b = {.dir = scratch_make()};
    b.stream_id = crema_random_id();
    b.run_id = crema_random_id();
    Crema__StreamInfo info = c_info;
    info.run_id = body_id(b.run_id);
    must(crema_spool_writer_open(b.dir, &b.stream_id, &info, CREMA_SPOOL_SELF, &b.writer));
    must(crema_spool_open(b.dir, &b.spool));
    must(crema_spool_lock(b.spool));
    return b;
}

static void
s_end(bench_t *b)
{
    crema_spool_writer_close(&b->writer);
    crema_spool_close(&b->spool);
    scratch_remove(&b->dir);
}

static void
s_path(const bench_t *b, char path[PATH_MAX])
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    snprintf(path, PATH_MAX, "%s/sp-%s-%016x", b->dir, crema_id_hex(&b->stream_id, hex), 1);
}

static void
s_append(bench_t *b)
{
    Crema__DictEntry entry = {
        .kind = CREMA_DICT_ACTIVITY, .text = "x", .memory_limit_b = -1, .size_b = -1};
    crema_record_t record = {.type = CREMA_RECORD_DICT,
                             .dict = {.n_entries = 1, .entries = body_entries(1, &entry)}};
    must(crema_spool_writer_append(b->writer, &record, 2000));
}

static uint64_t
s_hi(const bench_t *b)
{
    const crema_spool_stream_t *stream = crema_spool_find(b->spool, &b->stream_id);
    return stream ? stream->hi : 0;
}

/* Takes all further descriptors away but `n`. */
static struct rlimit
s_leave_descriptors(unsigned n)
{
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    struct rlimit few = {.rlim_cur = (rlim_t)next + n, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    return old;
}

static void
test_without_descriptors_the_directory_and_its_streams_are_named(void **state)
{
    (void)state;
    bench_t b = s_bench();
    crema_spool_fault_t faults[4];
    must(crema_spool_scan(b.spool));
    crema_spool_close(&b.spool);
    must(crema_spool_open(b.dir, &b.spool));
    struct rlimit old = s_leave_descriptors(0);
    crema_err_t err = crema_spool_scan(b.spool);
    size_t n = crema_spool_faults(b.spool, faults, 4);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(err, CREMA_EIO);
    assert_int_equal(n, 1);
    assert_true(crema_id_is_zero(&faults[0].stream_id));
    assert_string_equal(faults[0].file, "");
    assert_int_equal(faults[0].why, EMFILE);

    must(crema_spool_scan(b.spool));
    assert_int_equal(crema_spool_faults(b.spool, faults, 4), 0);
    assert_int_equal(s_hi(&b), 1);
    s_end(&b);
}

/* A stream that is still open, in files of that user. */
static crema_spool_writer_t *
s_stream_of(const char *dir, const crema_id_t *id, const crema_id_t *run_id, uint32_t uid)
{
    crema_spool_writer_t *writer;
    crema_id_t run = *run_id;
    Crema__StreamInfo info = {.run_id = crema_id_field(&run),
                              .kind = CREMA_STREAM_WORKER,
                              .t_mono_ns = 1,
                              .t_real_ns = 1};
    must(crema_spool_writer_open(dir, id, &info, uid, &writer));
    return writer;
}

/* There is one descriptor: the first stream keeps it. */
static void
test_a_first_segment_that_cannot_be_opened_is_named_until_it_can(void **state)
{
    (void)state;
    bench_t b = s_bench();
    crema_spool_fault_t faults[4];
    char name[CREMA_SPOOL_NAME_CHARS + 1], hex[CREMA_ID_HEX_CHARS + 1];
    crema_id_t last;
    memset(&last, 0xff, sizeof last);
    crema_spool_writer_t *writer = s_stream_of(b.dir, &last, &b.run_id, CREMA_SPOOL_SELF);
    crema_spool_close(&b.spool);
    must(crema_spool_open(b.dir, &b.spool));
    struct rlimit old = s_leave_descriptors(1);
    crema_err_t err = crema_spool_scan(b.spool);
    size_t n = crema_spool_faults(b.spool, faults, 4), all = crema_spool_faults(b.spool, NULL, 0);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(err, CREMA_OK);
    assert_int_equal(n, 1);
    assert_int_equal(all, 1);
    assert_true(crema_id_equal(&faults[0].stream_id, &last));
    assert_true(crema_id_is_zero(&faults[0].run_id));
    snprintf(name, sizeof name, "sp-%s-%016x", crema_id_hex(&last, hex), 1);
    assert_string_equal(faults[0].file, name);
    assert_int_equal(faults[0].why, EMFILE);

    must(crema_spool_scan(b.spool));
    assert_int_equal(crema_spool_faults(b.spool, faults, 4), 0);
    assert_int_equal(crema_spool_find(b.spool, &last)->hi, 1);
    crema_spool_writer_close(&writer);
    s_end(&b);
}

static void
test_records_without_a_stream_info_are_named(void **state)
{
    (void)state;
    bench_t b = s_bench();
    crema_spool_fault_t fault;
    char path[PATH_MAX];
    s_append(&b);
    s_path(&b, path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "damage", 6, 40), 6);
    close(fd);
    must(crema_spool_scan(b.spool));
    assert_int_equal(crema_spool_faults(b.spool, &fault, 1), 1);
    assert_int_equal(fault.why, EBADMSG);
    s_end(&b);
}

/* A write that failed half-way leaves bytes; the writer cuts them, and the next record has the
 * same length. */
static void
test_a_tail_that_is_written_anew_at_the_same_length_is_read(void **state)
{
    (void)state;
    bench_t b = s_bench();
    char path[PATH_MAX];
    struct stat before, after;
    s_path(&b, path);
    assert_int_equal(stat(path, &before), 0);
    s_append(&b);
    assert_int_equal(stat(path, &after), 0);
    size_t n = (size_t)(after.st_size - before.st_size);
    uint8_t record[512], torn[512];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, record, n, before.st_size), n);
    memset(torn, 0x55, sizeof torn);
    assert_int_equal(pwrite(fd, torn, n, before.st_size), n);
    must(crema_spool_scan(b.spool));
    assert_int_equal(s_hi(&b), 1);
    assert_int_equal(ftruncate(fd, before.st_size), 0);
    assert_int_equal(pwrite(fd, record, n, before.st_size), n);
    close(fd);
    must(crema_spool_scan(b.spool));
    assert_int_equal(s_hi(&b), 2);
    s_end(&b);
}

static void
test_hostile_times_end_at_the_limits(void **state)
{
    (void)state;
    assert_true(crema_time_shift(300, 100, 1000) == 1200);
    assert_true(crema_time_shift(INT64_MAX, -1, 0) == INT64_MAX);
    assert_true(crema_time_shift(INT64_MIN, 1, 0) == INT64_MIN);
    assert_true(crema_time_shift(INT64_MAX, 0, 1) == INT64_MAX);
    assert_true(crema_time_shift(INT64_MIN, 0, -1) == INT64_MIN);
    assert_true(crema_time_sub(0, INT64_MIN) == INT64_MAX);
}

/* A LOSS is told the time of the record behind it, which whoever wrote that chose. */
static void
test_a_loss_beside_hostile_times_is_told(void **state)
{
    (void)state;
    char *dir = scratch_make();
    char hex[CREMA_ID_HEX_CHARS + 1], path[PATH_MAX];
    crema_id_t id = frames_id(3);
    crema_record_t info = {.type = CREMA_RECORD_STREAM, .stream = c_info};
    info.stream.run_id = body_id(frames_id(4));
    info.stream.t_mono_ns = INT64_MIN;
    info.stream.t_real_ns = INT64_MAX;
    static uint8_t bytes[1024];
    size_t n, more;
    must(crema_record_encode(&info, 1, 0, bytes, sizeof bytes, &n));
    crema_record_t end = {.type = CREMA_RECORD_END};
    must(crema_record_encode(&end, 5, INT64_MAX, bytes + n, sizeof bytes - n, &more));
    snprintf(path, sizeof path, "%s/sp-%s-%016x", dir, crema_id_hex(&id, hex), 1);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, n + more), n + more);
    close(fd);
    crema_spool_t *spool;
    must(crema_spool_open(dir, &spool));
    must(crema_spool_scan(spool));
    uint32_t frames;
    uint64_t last;
    must(crema_spool_read(spool, &id, 1, bytes, sizeof bytes, &n, &frames, &last));
    assert_int_equal(frames, 3);
    crema_frame_t frame;
    crema_record_t loss;
    crema_arena_t *arena;
    must(crema_arena_new(1 << 20, &arena));
    must(crema_frame_decode(bytes, n, &frame));
    size_t at = crema_frame_bytes(&frame);
    must(crema_frame_decode(bytes + at, n - at, &frame));
    must(crema_record_decode(&frame, arena, &loss));
    assert_int_equal(loss.type, CREMA_RECORD_LOSS);
    assert_true(loss.loss.t_real_ns == INT64_MAX);
    crema_arena_destroy(&arena);
    crema_spool_close(&spool);
    scratch_remove(&dir);
}

/* Bytes that this process has read so far. */
static long long
s_read_so_far(void)
{
    long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "rchar: %lld", &bytes), 1);
    fclose(file);
    return bytes;
}

/* A segment with this beginning, and zeros that take no room to a segment's full length. */
static void
must_write_sparse(const char *dir, unsigned number, const void *bytes, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/sp-%032x-%016x", dir, number, 1);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    assert_int_equal(ftruncate(fd, CREMA_SPOOL_SEGMENT_BYTES), 0);
    close(fd);
}

/* The zeros in 64 files are half a gibibyte to search. A sound stream waits for none of it, one
 * with damage for its turn. */
static void
test_many_foreign_segments_are_searched_a_part_at_a_time(void **state)
{
    (void)state;
    enum { FOREIGN = 64 };
    bench_t b = s_bench();
    const crema_id_t sound = crema_random_id();
    crema_spool_writer_t *writer;
    uint8_t bytes[512];
    char path[PATH_MAX];
    Crema__StreamInfo info = c_info;
    info.run_id = body_id(b.run_id);
    must(crema_spool_writer_open(b.dir, &sound, &info, CREMA_SPOOL_SELF, &writer));
    s_path(&b, path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ssize_t n = read(fd, bytes, sizeof bytes);
    assert_true(n > 0 && n < (ssize_t)sizeof bytes);
    for (unsigned i = 0; i < FOREIGN; i++) /* half of them begin as a stream does */
        must_write_sparse(b.dir, i, bytes, i % 2 ? (size_t)n : sizeof(uint32_t));
    s_append(&b);
    s_append(&b);
    assert_int_equal(pwrite(fd, "damage", 6, n + 8), 6);
    close(fd);

    long long before = s_read_so_far();
    must(crema_spool_scan(b.spool));
    assert_in_range(s_read_so_far() - before, 0,
                    72 << 20); /* windows overlap: each byte is read about twice */
    const crema_spool_stream_t *stream = crema_spool_find(b.spool, &sound);
    assert_int_equal(stream->hi, 1);
    assert_int_equal(crema_spool_stats(b.spool).io_errors, 0);
    assert_in_range(crema_spool_faults(b.spool, NULL, 0), FOREIGN / 2 - 3, FOREIGN / 2 + 1);
    for (int scans = 0; s_hi(&b) < 3 || crema_spool_faults(b.spool, NULL, 0) > 0; scans++) {
        assert_true(scans < 2 * FOREIGN);
        must(crema_spool_scan(b.spool));
    }
    crema_spool_writer_close(&writer);
    s_end(&b);
}

static void
must_touch(const char *dir, unsigned number)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/sp-%032x-%016x", dir, number, 1);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void
test_streams_that_find_no_room_are_named_and_counted(void **state)
{
    (void)state;
    const unsigned beyond = 40;
    needs_descriptors(CREMA_SPOOL_STREAMS_MAX + 100);
    char *dir = scratch_make_in_memory(64);
    crema_spool_t *spool;
    static crema_spool_fault_t faults[64];
    for (unsigned i = 1; i <= CREMA_SPOOL_STREAMS_MAX + beyond; i++)
        must_touch(dir, i);
    must(crema_spool_open(dir, &spool));
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_count(spool), CREMA_SPOOL_STREAMS_MAX);
    assert_int_equal(crema_spool_faults(spool, NULL, 0), beyond);
    assert_int_equal(crema_spool_faults(spool, faults, 64), beyond);
    for (unsigned i = 0; i < 64; i++) {
        bool is_named = strncmp(faults[i].file, "sp-", 3) == 0 && faults[i].why == EAGAIN;
        assert_int_equal(is_named, i < 32);
        assert_true(!is_named || !crema_spool_find(spool, &faults[i].stream_id));
    }
    for (unsigned i = 0; i < beyond; i++) { /* others leave */
        char path[PATH_MAX], hex[CREMA_ID_HEX_CHARS + 1];
        const crema_spool_stream_t *stream = crema_spool_stream(spool, i);
        snprintf(path, sizeof path, "%s/sp-%s-%016x", dir, crema_id_hex(&stream->stream_id, hex),
                 1);
        assert_int_equal(unlink(path), 0);
    }
    must(crema_spool_scan(spool)); /* sees that they have gone, which makes room */
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_faults(spool, faults, 64), 0);
    assert_int_equal(crema_spool_count(spool), CREMA_SPOOL_STREAMS_MAX);
    crema_spool_close(&spool);
    scratch_remove(&dir);
}

#define OTHER_UID 4711 /* of users who need not exist */

static void
test_a_user_who_fills_their_places_makes_only_their_own_streams_wait(void **state)
{
    (void)state;
    if (geteuid() != 0)
        not_tested_here(MISSING_OTHER_USERS);
    const unsigned beyond = 3;
    needs_descriptors(CREMA_SPOOL_STREAMS_OF_USER + 100);
    char *dir = scratch_make_in_memory(64);
    crema_id_t of_flooder = crema_random_id(), of_other = crema_random_id();
    crema_spool_t *spool;
    const crema_id_t ids[] = {crema_random_id(), crema_random_id(), crema_random_id(),
                              crema_random_id()};
    crema_spool_writer_t *first = s_stream_of(dir, &ids[0], &of_flooder, OTHER_UID);
    must(crema_spool_open(dir, &spool));
    must(crema_spool_scan(spool));
    for (unsigned i = 1; i < CREMA_SPOOL_STREAMS_OF_USER + beyond; i++) {
        char path[PATH_MAX];
        must_touch(dir, i);
        snprintf(path, sizeof path, "%s/sp-%032x-%016x", dir, i, 1);
        assert_int_equal(chown(path, OTHER_UID, (gid_t)-1), 0);
    }
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_count(spool), CREMA_SPOOL_STREAMS_OF_USER);
    assert_int_equal(crema_spool_stats(spool).waiting_files, beyond);
    crema_spool_writer_t *others = s_stream_of(dir, &ids[1], &of_other, OTHER_UID + 1);
    crema_spool_writer_t *own = s_stream_of(dir, &ids[2], &of_other, CREMA_SPOOL_SELF);
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_count(spool), CREMA_SPOOL_STREAMS_OF_USER + 2);
    assert_int_equal(crema_spool_stats(spool).waiting_files, beyond);
    /* What this process writes for that user has a place all the same. */
    must(crema_spool_expect(spool, &ids[3]));
    crema_spool_writer_t *sample = s_stream_of(dir, &ids[3], &of_flooder, OTHER_UID);
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_find(spool, &ids[3])->hi, 1);
    for (unsigned i = 1; i <= beyond + 1; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/sp-%032x-%016x", dir, i, 1);
        assert_int_equal(unlink(path), 0);
    }
    must(crema_spool_scan(spool));
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_stats(spool).waiting_files, 0);
    crema_spool_writer_close(&first);
    crema_spool_writer_close(&sample);
    crema_spool_writer_close(&others);
    crema_spool_writer_close(&own);
    crema_spool_close(&spool);
    scratch_remove(&dir);
}

/* Gives the directory a time of change long ago, however its names have changed. */
static void
must_age(const char *dir, time_t changed_s)
{
    const struct timespec times[2] = {{.tv_sec = changed_s}, {.tv_sec = changed_s}};
    assert_int_equal(utimensat(AT_FDCWD, dir, times, 0), 0);
}

/* The foreign file, of which the directory's time shows nothing, is only known by a listing. */
static void
test_streams_that_find_no_room_do_not_have_the_directory_listed_until_one_leaves(void **state)
{
    (void)state;
    needs_descriptors(CREMA_SPOOL_STREAMS_MAX + 100);
    char *dir = scratch_make_in_memory(64), path[PATH_MAX];
    crema_spool_t *spool;
    for (unsigned i = 1; i <= CREMA_SPOOL_STREAMS_MAX + 1; i++)
        must_touch(dir, i);
    must_age(dir, 1000);
    must(crema_spool_open(dir, &spool));
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_stats(spool).waiting_files, 1);
    const uint64_t foreign = crema_spool_stats(spool).foreign_files;
    snprintf(path, sizeof path, "%s/foreign", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    must_age(dir, 1000);
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_stats(spool).foreign_files, foreign);

    char hex[CREMA_ID_HEX_CHARS + 1];
    const crema_id_t leaves = crema_spool_stream(spool, 0)->stream_id;
    snprintf(path, sizeof path, "%s/sp-%s-%016x", dir, crema_id_hex(&leaves, hex), 1);
    assert_int_equal(unlink(path), 0);
    must_age(dir, 2000);
    must(crema_spool_scan(spool)); /* sees that it has gone, which makes room */
    must(crema_spool_scan(spool));
    assert_null(crema_spool_find(spool, &leaves));
    assert_int_equal(crema_spool_count(spool), CREMA_SPOOL_STREAMS_MAX);
    assert_int_equal(crema_spool_stats(spool).waiting_files, 0);
    crema_spool_close(&spool);
    scratch_remove(&dir);
}

/* A pipe, a directory and a link, named like segments. */
static void
test_names_of_segments_that_are_no_files_are_foreign(void **state)
{
    (void)state;
    char *dir = scratch_make_in_memory(1), path[3][PATH_MAX];
    crema_spool_t *spool;
    for (unsigned i = 0; i < 3; i++)
        snprintf(path[i], PATH_MAX, "%s/sp-%032x-%016x", dir, i + 1, 1);
    assert_int_equal(mkfifo(path[0], 0600), 0);
    assert_int_equal(mkdir(path[1], 0700), 0);
    assert_int_equal(symlink("/dev/zero", path[2]), 0);
    must(crema_spool_open(dir, &spool));
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_faults(spool, NULL, 0), 0);
    assert_int_equal(crema_spool_stats(spool).foreign_files, 3);
    assert_int_equal(crema_spool_stats(spool).io_errors, 0);
    crema_spool_close(&spool);
    scratch_remove(&dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_descriptors_the_directory_and_its_streams_are_named),
        cmocka_unit_test(test_a_first_segment_that_cannot_be_opened_is_named_until_it_can),
        cmocka_unit_test(test_records_without_a_stream_info_are_named),
        cmocka_unit_test(test_many_foreign_segments_are_searched_a_part_at_a_time),
        cmocka_unit_test(test_streams_that_find_no_room_are_named_and_counted),
        cmocka_unit_test(test_a_user_who_fills_their_places_makes_only_their_own_streams_wait),
        cmocka_unit_test(
            test_streams_that_find_no_room_do_not_have_the_directory_listed_until_one_leaves),
        cmocka_unit_test(test_names_of_segments_that_are_no_files_are_foreign),
        cmocka_unit_test(test_a_tail_that_is_written_anew_at_the_same_length_is_read),
        cmocka_unit_test(test_hostile_times_end_at_the_limits),
        cmocka_unit_test(test_a_loss_beside_hostile_times_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
