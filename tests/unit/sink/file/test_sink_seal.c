/* sink_seal: a journal becomes a file, again and again the same, or nothing and a reason. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "children.h"
#include "crema_id.h"
#include "journal_fixture.h"
#include "must.h"
#include "record_frames.h"
#include "row_cell.h"
#include "rows_fixture.h"
#include "sealed_files.h"
#include "sink_attempt.h"
#include "sink_h5.h"
#include "sink_payload.h"
#include "sink_seal.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9))

static const char *s_output;

static const char *
s_file(const char *name)
{
    return s_output = sealed_path(name);
}

/* Hidden files beside the output, of one that was being written; the last one's path in `path`. */
static int
s_hidden_files(char *path, size_t size)
{
    const char *name = strrchr(s_output, '/') + 1;
    int n = 0, dir_length = (int)(name - s_output);
    snprintf(path, size, "%.*s", dir_length, s_output);
    DIR *stream = opendir(path);
    assert_non_null(stream);
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (entry->d_name[0] == '.' && strncmp(entry->d_name + 1, name, strlen(name)) == 0) {
            snprintf(path, size, "%.*s%s", dir_length, s_output, entry->d_name);
            n++;
        }
    closedir(stream);
    return n;
}

static sink_seal_result_t s_result;

static void
s_seal(const char *dir, const char *output)
{
    s_result = sealed_make(dir, output);
}

static void
must_seal_files_that_are_sound(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = s_file("toy");
    fixture_toy(dir, 1);
    s_seal(dir, file);
    assert_string_equal(s_result.verdict, "PARTIAL");
    assert_non_null(strstr(s_result.reasons_json, "\"writer_killed\""));
    assert_string_equal(s_result.path, file);
    assert_int_equal(s_result.revision, 1);
    assert_int_equal(s_result.rows, 4 + 5 + 1); /* membership, chunks, what coffea reported */
    struct stat stat_of;
    assert_int_equal(stat(file, &stat_of), 0);
    assert_int_equal(s_result.file_bytes, stat_of.st_size);
    assert_int_equal(sealed_findings(file, NULL), 0);
    char temporary[600];
    assert_int_equal(s_hidden_files(temporary, sizeof temporary), 0);
    unlink(file);

    dir = scratch_dir("busy");
    fixture_busy(dir, 1, 4, 200);
    s_seal(dir, file);
    assert_int_equal(sealed_findings(file, NULL), 0);
    unlink(file);
}

/* Who may write to the output directory lays links to a file of the sink's in every place that can
 * be guessed. */
static void
must_not_follow_links_in_the_output(void **state)
{
    (void)state;
    char victim[600], temporary[600], bytes[16] = "";
    const char *dir = scratch_dir("toy-links"), *file = s_file("links");
    fixture_toy(dir, 1);
    snprintf(victim, sizeof victim, "%s.victim", s_output);
    snprintf(temporary, sizeof temporary, "%s.tmp", s_output);
    FILE *precious = fopen(victim, "w");
    assert_non_null(precious);
    fputs("precious", precious);
    fclose(precious);
    assert_int_equal(symlink(victim, file), 0);
    assert_int_equal(symlink(victim, temporary), 0);
    s_seal(dir, file);
    assert_int_equal(sealed_findings(file, NULL), 0);
    precious = fopen(victim, "r");
    assert_non_null(fgets(bytes, sizeof bytes, precious));
    fclose(precious);
    assert_string_equal(bytes, "precious");
    struct stat stat_of;
    assert_int_equal(lstat(file, &stat_of), 0);
    assert_true(S_ISREG(stat_of.st_mode));
    unlink(file);
    unlink(temporary);
    unlink(victim);
}

/* What a killed attempt left is removed by the next one. */
static void
must_take_over_what_a_killed_attempt_left(void **state)
{
    (void)state;
    char left[700], temporary[700];
    const char *dir = scratch_dir("toy-left"), *file = s_file("left");
    fixture_toy(dir, 1);
    const char *name = strrchr(s_output, '/') + 1;
    snprintf(left, sizeof left, "%.*s.%s.0123456789abcdef.tmp", (int)(name - s_output), s_output,
             name);
    close(open(left, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(s_hidden_files(temporary, sizeof temporary), 1);
    s_seal(dir, file);
    assert_int_equal(s_hidden_files(temporary, sizeof temporary), 0);
    unlink(file);
}

static void
must_give_the_same_file_again(void **state)
{
    (void)state;
    uint8_t first[32];
    char command[2048];
    const char *dir = scratch_dir("busy"), *file = s_file("same");
    char other[600];
    snprintf(other, sizeof other, "%s.again", s_output);
    fixture_busy(dir, 1, 4, 150);
    s_seal(dir, file);
    memcpy(first, s_result.sha256, sizeof first);
    s_seal(dir, other);
    assert_memory_equal(first, s_result.sha256, sizeof first);
    assert_int_equal(s_result.revision, 1);
    s_seal(dir, file); /* over itself: nothing is new */
    assert_memory_equal(first, s_result.sha256, sizeof first);
    assert_int_equal(s_result.revision, 1);
    /* Everything but the time it was made is equal, grid and attributes too. */
    snprintf(
        command, sizeof command,
        /* h5dump 1.14 prints where in its memory a dimension scale lies */
        "for f in '%s' '%s'; do h5dump \"$f\" | sed -E '1d; s/DATASET [0-9]+/DATASET/' | grep -v "
        "-A6 'ATTRIBUTE "
        "\"created_utc\"' | "
        "grep -v 'Z\"$' | sha256sum; done | uniq | wc -l | grep -qx 1",
        file, other);
    assert_int_equal(system(command), 0);
    unlink(file);
    unlink(other);
}

static void
s_late_run(const char *dir, bool late, const sink_seal_result_t *sealed)
{
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
    crema_id_t id = fixture_stream_id(2);
    char hex[CREMA_ID_HEX_CHARS + 1];
    Crema__Reason reasons[] = {
        crema_reason("stream_not_closed", crema_id_hex(&id, hex), "no end", 1)};
    fixture_seal(f, T(10), reasons, 1);
    if (sealed)
        fixture_sealed(f, sealed->revision, sealed->sha256);
    if (late) {
        fixture_late(f);
        fixture_end(w, CREMA_END_FINISHED, T(9), 0, 0);
    }
    fixture_close(&f);
}

static void
must_raise_the_revision_with_late_records(void **state)
{
    (void)state;
    const char *file = s_file("late");
    char sha[80], why[SINK_H5_WHY_BYTES], text[128];
    const char *dir = scratch_dir("late1");
    s_late_run(dir, false, NULL);
    s_seal(dir, file);
    assert_string_equal(s_result.verdict, "PARTIAL");
    sink_h5_t *h5;
    must(sink_h5_open(file, &h5, why));
    must(sink_h5_text(h5, "sha256_payload", sha, sizeof sha));
    must(sink_h5_text(h5, "prev_sha256_payload", text, sizeof text));
    assert_string_equal(text, "");
    must(sink_h5_close(&h5, NULL));

    dir = scratch_dir("late2");
    s_late_run(dir, true, NULL);
    s_seal(dir, file);
    assert_string_equal(s_result.verdict, "COMPLETE");
    assert_string_equal(s_result.reasons_json, "[]");
    assert_int_equal(s_result.revision, 2);
    must(sink_h5_open(file, &h5, why));
    must(sink_h5_text(h5, "prev_sha256_payload", text, sizeof text));
    assert_string_equal(text, sha);
    must(sink_h5_text(h5, "revision_reason", text, sizeof text));
    assert_string_equal(text, "late records");
    must(sink_h5_close(&h5, NULL));
    assert_int_equal(sealed_findings(file, NULL), 0);
    unlink(file);
}

/* It may have been moved, or be damaged. */
static void
must_know_the_revision_without_the_file(void **state)
{
    (void)state;
    const char *file = s_file("moved"), *dir = scratch_dir("moved1");
    char sha[2 * SINK_PAYLOAD_BYTES + 1], why[SINK_H5_WHY_BYTES], text[128];
    s_late_run(dir, false, NULL);
    s_seal(dir, file);
    const sink_seal_result_t first = s_result;
    unlink(file);

    dir = scratch_dir("moved2");
    s_late_run(dir, false, &first);
    s_seal(dir, file); /* the same content */
    assert_int_equal(s_result.revision, 1);
    assert_memory_equal(s_result.sha256, first.sha256, sizeof first.sha256);
    unlink(file);

    dir = scratch_dir("moved3");
    s_late_run(dir, true, &first);
    s_seal(dir, file);
    assert_int_equal(s_result.revision, 2);
    sink_h5_t *h5;
    must(sink_h5_open(file, &h5, why));
    must(sink_h5_text(h5, "prev_sha256_payload", text, sizeof text));
    sink_payload_hex(first.sha256, sha);
    assert_string_equal(text, sha);
    must(sink_h5_close(&h5, NULL));
    unlink(file);
}

static void
must_bring_times_onto_the_aggregators_clock(void **state)
{
    (void)state;
    const char *dir = scratch_dir("clock"), *file = s_file("clock");
    const crema_table_t *t = crema_table(CREMA_TABLE_CHUNKS);
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    for (uint8_t i = 0; i < 2; i++) { /* agent 7 is 2 s ahead, of agent 8 nothing is known */
        fixture_stream_t *w =
            fixture_stream(f, (uint8_t)(2 + i), (uint8_t)(7 + i), CREMA_STREAM_WORKER,
                           i ? "tcp://B" : "tcp://A", 1, T(2));
        fixture_row(w, CREMA_TABLE_CHUNKS);
        fixture_set(w, "t_start_ns", T(5 + i));
        fixture_set(w, "t_end_ns", T(6 + i));
        fixture_set(w, "chunk_id", 1 + i);
        fixture_set(w, "attempt_ref", 1);
        fixture_put(w, 0);
        fixture_end(w, CREMA_END_FINISHED, T(9), 0, 0);
    }
    /* The same process has another stream: its worker is corrected once all the same. */
    fixture_stream_t *again = fixture_stream(f, 4, 7, CREMA_STREAM_WORKER, "tcp://A", 1, T(3));
    fixture_end(again, CREMA_END_FINISHED, T(8), 0, 0);
    fixture_clock(f, 7, T(3), 2 * FIXTURE_S, 1000000);
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    s_seal(dir, file);
    sink_h5_t *h5;
    char why[SINK_H5_WHY_BYTES], text[64];
    uint8_t rows[2 * CREMA_ROW_BYTES_MAX];
    const crema_table_t *workers = crema_table(CREMA_TABLE_DICT_WORKER);
    must(sink_h5_open(file, &h5, why));
    must(sink_h5_read_rows(h5, t, 0, 2, rows));
    const uint8_t *second = rows + crema_table_row_bytes(t);
    assert_int_equal(cell_int(t, rows, "t_start_ns"), T(3));
    assert_int_equal(cell_int(t, rows, "t_end_ns"), T(4));
    assert_int_equal(cell_int(t, rows, "quality"), 0);
    assert_int_equal(cell_int(t, second, "t_start_ns"), T(6));
    assert_int_equal(cell_int(t, second, "quality"), SINK_QUALITY_CLOCK);
    must(sink_h5_text(h5, "clock_correction", text, sizeof text));
    assert_string_equal(text, "applied");
    must(sink_h5_read_rows(h5, workers, 0, 2, rows));
    second = rows + crema_table_row_bytes(workers);
    assert_int_equal(cell_int(workers, rows, "t_first_ns"), T(0));
    assert_int_equal(cell_int(workers, rows, "t_last_ns"), T(7));
    assert_int_equal(cell_int(workers, second, "t_first_ns"), T(2));
    assert_int_equal(cell_int(workers, second, "t_last_ns"), T(9));
    must(sink_h5_close(&h5, NULL));
    assert_int_equal(sealed_findings(file, NULL), 0);
    unlink(file);
}

static void
must_leave_what_was_there_when_it_fails(void **state)
{
    (void)state;
    char why[512] = "";
    const char *dir = scratch_dir("toy");
    fixture_toy(dir, 1);
    assert_int_equal(sink_seal_journal("/proc/0", "/tmp/x.h5", &s_result, why, sizeof why),
                     CREMA_ENOENT);
    assert_non_null(strstr(why, "/proc/0"));
    assert_int_not_equal(sink_seal_journal(dir, "/proc/0/x.h5", &s_result, why, sizeof why),
                         CREMA_OK);
    assert_true(strlen(why) > 10);

    /* A directory in the way of the renaming: the temporary file goes, the directory stays. */
    const char *file = s_file("way");
    char inside[600], temporary[600];
    snprintf(inside, sizeof inside, "%s/full", s_output);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_int_equal(mkdir(inside, 0700), 0);
    assert_int_not_equal(sink_seal_journal(dir, file, &s_result, why, sizeof why), CREMA_OK);
    assert_int_equal(s_hidden_files(temporary, sizeof temporary), 0);
    assert_int_equal(access(inside, F_OK), 0);
    rmdir(inside);
    rmdir(file);
}

/* ---- failures */

static void
must_explain(crema_err_t err, crema_err_t want, const char *why, const char *reason,
             const char *dir, const char *file)
{
    char command[1024];
    snprintf(command, sizeof command, "`crema-sink rebuild %s --output %s`", dir, file);
    if (err != want)
        fail_msg("%s: %s", crema_err_text(err), why);
    const char *const wanted[] = {"run 01112233-", reason, file, command};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(why, wanted[i]))
            fail_msg("no \"%s\" in: %s", wanted[i], why);
}

static bool s_without_privileges;

/* Root then has the rights of a file's owner only. */
static void
s_drop_privileges(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    if (syscall(SYS_capset, &head, none) != 0)
        abort();
}

/* Wherever the disk says no, the message has run, file, the system's reason, and what to do. */
/* As the sink does it, in a process of its own: HDF5 gives nothing back of a file that it could
 * not close. */
static crema_err_t
s_seal_apart(const char *journal, const char *file, char *ret_why, size_t size)
{
    struct {
        crema_err_t err;
        char why[1024];
    } answer = {.err = CREMA_EIO};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = must_fork();
    if (pid == 0) {
        sink_seal_result_t result;
        if (s_without_privileges)
            s_drop_privileges();
        answer.err = sink_seal_journal(journal, file, &result, answer.why, sizeof answer.why);
        _exit(write(ends[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &answer, sizeof answer), sizeof answer);
    close(ends[0]);
    must_exit(pid);
    snprintf(ret_why, size, "%s", answer.why);
    return answer.err;
}

static void
must_say_why_a_file_cannot_be_written(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy");
    char why[1024], journal[512], file[600];
    fixture_busy(dir, 1, 4, 400);
    snprintf(journal, sizeof journal, "%s", dir);
    snprintf(file, sizeof file, "%s", s_file("limited"));
    s_seal(journal, file);
    const uint64_t whole = s_result.file_bytes;
    unlink(file);
    struct rlimit limit, before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (int part = 0; part < 8; part++) {
        limit =
            (struct rlimit){.rlim_cur = whole * (unsigned)part / 8, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        crema_err_t err = s_seal_apart(journal, file, why, sizeof why);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        must_explain(err, CREMA_EIO, why, "File too large", journal, file);
        assert_int_equal(access(file, F_OK), -1);
    }
    snprintf(file, sizeof file, "/proc/0/x.h5");
    crema_err_t err = s_seal_apart(journal, file, why, sizeof why);
    must_explain(err, CREMA_ENOENT, why, "No such file or directory", journal, file);
}

static void
must_not_replace_what_is_no_file(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy");
    char why[1024], journal[512], place[600];
    struct stat st;
    fixture_busy(dir, 1, 4, 400);
    snprintf(journal, sizeof journal, "%s", dir);
    snprintf(place, sizeof place, "%s", s_file("fifo"));
    assert_int_equal(mkfifo(place, 0600), 0);
    crema_err_t err = s_seal_apart(journal, place, why, sizeof why);
    must_explain(err, CREMA_EINVAL, why, "is not a file", journal, place);
    assert_int_equal(lstat(place, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    unlink(place);
}

/* It may hold more than the journal, of which nothing is known while it cannot be read. */
static void
must_not_replace_a_file_that_cannot_be_read(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy");
    char why[1024], journal[512], file[600];
    fixture_busy(dir, 1, 4, 400);
    snprintf(journal, sizeof journal, "%s", dir);
    snprintf(file, sizeof file, "%s", s_file("unread"));
    s_seal(journal, file);
    assert_int_equal(chmod(file, 0), 0);
    s_without_privileges = true;
    crema_err_t err = s_seal_apart(journal, file, why, sizeof why);
    s_without_privileges = false;
    must_explain(err, CREMA_EIO, why, "Permission denied", journal, file);
    assert_int_equal(chmod(file, 0600), 0);
    assert_int_equal(sealed_findings(file, NULL), 0);
}

static void
must_say_that_the_disk_is_full(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy");
    char why[1024], file[600];
    char *disk = scratch_make();
    if (!scratch_mount(disk, "128k")) {
        scratch_remove(&disk);
        not_tested_here(MISSING_MOUNTS);
    }
    fixture_busy(dir, 1, 4, 400);
    snprintf(file, sizeof file, "%s/x.h5", disk);
    crema_err_t err = s_seal_apart(dir, file, why, sizeof why);
    must_explain(err, CREMA_ENOSPC, why, "No space left on device", dir, file);
    assert_non_null(strstr(why, "free some space"));
    scratch_unmount(disk);
    scratch_remove(&disk);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_seal_files_that_are_sound),
        cmocka_unit_test(must_not_follow_links_in_the_output),
        cmocka_unit_test(must_take_over_what_a_killed_attempt_left),
        cmocka_unit_test(must_give_the_same_file_again),
        cmocka_unit_test(must_raise_the_revision_with_late_records),
        cmocka_unit_test(must_know_the_revision_without_the_file),
        cmocka_unit_test(must_bring_times_onto_the_aggregators_clock),
        cmocka_unit_test(must_leave_what_was_there_when_it_fails),
        cmocka_unit_test_teardown(must_say_why_a_file_cannot_be_written, children_end),
        cmocka_unit_test_teardown(must_not_replace_what_is_no_file, children_end),
        cmocka_unit_test_teardown(must_not_replace_a_file_that_cannot_be_read, children_end),
        cmocka_unit_test_teardown(must_say_that_the_disk_is_full, children_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
