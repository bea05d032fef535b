/* sink_seal and sink_check: a journal becomes a file, again and again the same; and a file that was tampered with is found. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hdf5.h>

#include "crema_id.h"
#include "frames.h"
#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_attempt.h"
#include "sink_cell.h"
#include "sink_h5.h"
#include "sink_seal.h"
#include "table_by_path.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9))

static char s_output[512];

static const char *
s_file(const char *name)
{
    snprintf(s_output, sizeof s_output, "%s.h5", scratch_dir(name));
    unlink(s_output);
    return s_output;
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
    char why[512];
    crema_err_t err = sink_seal_journal(dir, output, &s_result, why, sizeof why);
    if (err != CREMA_OK)
        fail_msg("%s", why);
}

static int
s_findings(const char *path, const char *want)
{
    char text[8192] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    int findings = -1;
    crema_err_t err = sink_check_file(path, out, &findings);
    fclose(out);
    if (err != CREMA_OK && findings == 0)
        fail_msg("%s without a finding", crema_err_text(err));
    if (want && !strstr(text, want))
        fail_msg("no \"%s\" in: %s", want, text);
    if (!want && findings > 0)
        fail_msg("%s", text);
    return findings;
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
    assert_int_equal(s_findings(file, NULL), 0);
    char temporary[600];
    assert_int_equal(s_hidden_files(temporary, sizeof temporary), 0);
    unlink(file);

    dir = scratch_dir("busy");
    fixture_busy(dir, 1, 4, 200);
    s_seal(dir, file);
    assert_int_equal(s_findings(file, NULL), 0);
    unlink(file);
}

/* Who may write to the output directory lays links to a file of the sink's in every place that can be guessed. */
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
    assert_int_equal(s_findings(file, NULL), 0);
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
    snprintf(command, sizeof command,
             "for f in '%s' '%s'; do h5dump \"$f\" | sed '1d' | grep -v -A6 'ATTRIBUTE "
             "\"created_utc\"' | "
             "grep -v 'Z\"$' | sha256sum; done | uniq | wc -l | grep -qx 1",
             file, other);
    assert_int_equal(system(command), 0);
    unlink(file);
    unlink(other);
}

static void
s_late_run(const char *dir, bool late)
{
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
    crema_id_t id = fixture_stream_id(2);
    char hex[CREMA_ID_HEX_CHARS + 1];
    const crema_reason_t reasons[] = {{"stream_not_closed", crema_id_hex(&id, hex), "no end", 1}};
    fixture_seal(f, T(10), reasons, 1);
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
    s_late_run(dir, false);
    s_seal(dir, file);
    assert_string_equal(s_result.verdict, "PARTIAL");
    sink_h5_t *h5;
    must(sink_h5_open(file, &h5, why));
    must(sink_h5_text(h5, "sha256_payload", sha, sizeof sha));
    must(sink_h5_text(h5, "prev_sha256_payload", text, sizeof text));
    assert_string_equal(text, "");
    must(sink_h5_close(&h5, NULL));

    dir = scratch_dir("late2");
    s_late_run(dir, true);
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
    assert_int_equal(s_findings(file, NULL), 0);
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
    uint8_t rows[2 * SINK_ROW_BYTES_MAX];
    const crema_table_t *workers = crema_table(CREMA_TABLE_DICT_WORKER);
    must(sink_h5_open(file, &h5, why));
    must(sink_h5_read_rows(h5, t, 0, 2, rows));
    const uint8_t *second = rows + crema_table_row_bytes(t);
    assert_int_equal(sink_cell_int(t, rows, "t_start_ns"), T(3));
    assert_int_equal(sink_cell_int(t, rows, "t_end_ns"), T(4));
    assert_int_equal(sink_cell_int(t, rows, "quality"), 0);
    assert_int_equal(sink_cell_int(t, second, "t_start_ns"), T(6));
    assert_int_equal(sink_cell_int(t, second, "quality"), SINK_QUALITY_CLOCK);
    must(sink_h5_text(h5, "clock_correction", text, sizeof text));
    assert_string_equal(text, "applied");
    must(sink_h5_read_rows(h5, workers, 0, 2, rows));
    second = rows + crema_table_row_bytes(workers);
    assert_int_equal(sink_cell_int(workers, rows, "t_first_ns"), T(0));
    assert_int_equal(sink_cell_int(workers, rows, "t_last_ns"), T(7));
    assert_int_equal(sink_cell_int(workers, second, "t_first_ns"), T(2));
    assert_int_equal(sink_cell_int(workers, second, "t_last_ns"), T(9));
    must(sink_h5_close(&h5, NULL));
    assert_int_equal(s_findings(file, NULL), 0);
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

/* ---- checking */

static void
s_poke(const char *path, const char *table, const char *column, int64_t value)
{
    const crema_table_t *t = table_by_path(table);
    uint8_t row[SINK_ROW_BYTES_MAX];
    hsize_t start = 0, one = 1;
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t dataset = H5Dopen2(file, table, H5P_DEFAULT), type = H5Dget_type(dataset);
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &one, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &one, NULL);
    assert_true(H5Dread(dataset, type, memory, space, H5P_DEFAULT, row) >= 0);
    sink_cell_set(t, row, column, value);
    assert_true(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, row) >= 0);
    H5Sclose(memory);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    H5Fclose(file);
}

static void
s_poke_attribute(const char *path, const char *name, int64_t value)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, H5T_NATIVE_INT64, &value) >= 0);
    H5Aclose(attribute);
    H5Fclose(file);
}

static void
s_delete(const char *path, const char *what, bool attribute)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true((attribute ? H5Adelete(file, what) : H5Ldelete(file, what, H5P_DEFAULT)) >= 0);
    H5Fclose(file);
}

static void
s_poke_text(const char *path, const char *name, const char *text)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT), type = H5Aget_type(attribute);
    assert_true(H5Tis_variable_str(type) > 0);
    assert_true(H5Awrite(attribute, type, &text) >= 0);
    H5Tclose(type);
    H5Aclose(attribute);
    H5Fclose(file);
}

/* A file of 1.0 has none of what 1.1 added, and is as sound as it was. */
static void
must_not_miss_in_older_files_what_was_added_since(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = s_file("older");
    fixture_toy(dir, 1);
    s_seal(dir, file);
    s_delete(file, "verdict_notes", true);
    assert_int_not_equal(s_findings(file, "verdict_notes"), 0);
    s_poke_text(file, "format_version", "1.0.0");
    assert_int_equal(s_findings(file, NULL), 0);
    unlink(file);
}

static void
must_find_what_is_wrong_with_a_file(void **state)
{
    (void)state;
    const struct {
        const char *table, *column; /* table NULL: attribute `column`; column NULL: delete it */
        int64_t value;
        const char *want;
    } damages[] = {
        {"chunks", "n_events", 301, "sha256_payload"},
        {"chunks", "status", 77, "/chunks row 0: status has no label for 77"},
        {"chunks", "worker_id", 99, "/chunks row 0: worker_id 99 is not a row of /dict/worker"},
        {"chunks", "t_start_ns", INT64_MAX, "/chunks row 1 is out of order"},
        {"dict/worker", "id", 5, "/dict/worker row 0 has id 5"},
        {"dict/stream", "closed", 0, "n_streams_open is 0 and /dict/stream says 1"},
        {NULL, "loss_total", 3, "loss_total is 3 and /gaps says 0"},
        {NULL, "complete", 1, "complete does not follow"},
        {NULL, "chunksize", 7, "the attributes do not match sha256_attributes"},
        {"sections", NULL, 0, "/sections is missing"},
        {NULL, NULL, 0, "attribute facility is missing"},
    };
    const char *dir = scratch_dir("toy"), *file = s_file("damage");
    fixture_toy(dir, 1);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        unlink(file);
        s_seal(dir, file);
        if (damages[i].table && damages[i].column)
            s_poke(file, damages[i].table, damages[i].column, damages[i].value);
        else if (damages[i].column)
            s_poke_attribute(file, damages[i].column, damages[i].value);
        else if (damages[i].table)
            s_delete(file, damages[i].table, false);
        else
            s_delete(file, "facility", true);
        assert_true(s_findings(file, damages[i].want) > 0);
    }
    unlink(file);
}

/* Neither changes a number of a table. */
static void
must_find_texts_that_were_changed(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = s_file("texts");
    const char *text = "Something else.";
    fixture_toy(dir, 1);
    s_seal(dir, file);
    s_poke_text(file, "host_sink", "elsewhere");
    assert_int_equal(s_findings(file, "the attributes do not match sha256_attributes"), 1);
    unlink(file);
    s_seal(dir, file);
    hid_t id = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
    hid_t dataset = H5Dopen2(id, "chunks", H5P_DEFAULT);
    hid_t attribute = H5Aopen(dataset, "description", H5P_DEFAULT), type = H5Aget_type(attribute);
    H5Aclose(attribute);
    assert_true(H5Adelete(dataset, "description") >= 0);
    attribute = H5Acreate2(dataset, "description", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, type, &text) >= 0);
    H5Tclose(type);
    H5Sclose(space);
    H5Aclose(attribute);
    H5Dclose(dataset);
    H5Fclose(id);
    assert_int_equal(s_findings(file, "the attributes do not match sha256_attributes"), 1);
    unlink(file);
}

/* Changes a byte in the middle of what is stored of a dataset. */
static void
s_damage(const char *file, const char *path)
{
    hid_t id = H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t dataset = H5Dopen2(id, path, H5P_DEFAULT), space = H5Dget_space(dataset);
    haddr_t at;
    hsize_t bytes, offset[2];
    unsigned filters;
    assert_true(H5Dget_chunk_info(dataset, space, 0, offset, &filters, &at, &bytes) >= 0);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(id);
    FILE *stored = fopen(file, "r+");
    assert_int_equal(fseek(stored, (long)(at + bytes / 2), SEEK_SET), 0);
    const int byte = fgetc(stored);
    assert_int_equal(fseek(stored, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, stored), byte ^ 1);
    fclose(stored);
}

static void
must_find_damage_where_there_are_no_tables(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy"), *file = s_file("grid");
    fixture_busy(dir, 1, 3, 60);
    s_seal(dir, file);
    assert_int_equal(s_findings(file, NULL), 0);
    s_damage(file, "grid/busy_threads");
    assert_true(s_findings(file, "grid/busy_threads") > 0);
    unlink(file);
    s_seal(dir, file);
    hid_t id = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
    hid_t type = H5Tcopy(H5T_C_S1);
    const char *text = "\xff";
    H5Tset_size(type, H5T_VARIABLE);
    H5Adelete(id, "host_sink");
    hid_t attribute = H5Acreate2(id, "host_sink", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, type, &text) >= 0);
    H5Aclose(attribute);
    H5Tclose(type);
    H5Sclose(space);
    H5Fclose(id);
    assert_true(s_findings(file, "host_sink is not UTF-8") > 0);
    unlink(file);
}

static void
must_say_what_is_no_run_file(void **state)
{
    (void)state;
    const char *file = s_file("foreign");
    int findings;
    FILE *null = fopen("/dev/null", "w");
    FILE *text = fopen(file, "w");
    fputs("no HDF5", text);
    fclose(text);
    assert_int_equal(sink_check_file(file, null, &findings), CREMA_EMAGIC);
    assert_int_equal(s_findings(file, "is not an HDF5 file"), 1);
    hid_t h5 = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(h5);
    assert_int_equal(sink_check_file(file, null, &findings), CREMA_EMAGIC);
    assert_int_equal(s_findings(file, "not a run file of crema"), 1);
    assert_int_equal(s_findings("/nonexistent.h5", "No such file"), 1);
    sink_attributes_t *attributes;
    sink_h5_t *live;
    char why[SINK_H5_WHY_BYTES];
    must(sink_attributes_new(&attributes));
    must(sink_attributes_text(attributes, "state", "live"));
    must(sink_h5_create_live(file, attributes, &live, why));
    must(sink_h5_close(&live, why));
    sink_attributes_destroy(&attributes);
    assert_int_equal(s_findings(file, "state is \"live\""), 1);
    fclose(null);
    unlink(file);
}

/* Any answer will do: whoever asks lives on. */
static void
s_check_damaged(const char *file, off_t at)
{
    int fd = open(file, O_RDWR), findings;
    uint8_t byte;
    FILE *null = fopen("/dev/null", "w");
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x41;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    crema_err_t err = sink_check_apart(file, null, &findings);
    assert_true(err != CREMA_OK || findings >= 0);
    byte ^= 0x41;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    fclose(null);
    close(fd);
}

/* Where an answer is printed to. In the child it raises a signal, as a damaged number may in the HDF5 library. */
typedef struct {
    pid_t caller;
    int number;
    char text[512];
} answer_t;

static ssize_t
s_on_print(void *context, const char *bytes, size_t n)
{
    answer_t *answer = context;
    if (getpid() != answer->caller)
        raise(answer->number);
    size_t used = strlen(answer->text);
    snprintf(answer->text + used, sizeof answer->text - used, "%.*s", (int)n, bytes);
    return (ssize_t)n;
}

static void
s_on_signal(int number)
{
    (void)number;
    _exit(0); /* as if nothing had been */
}

/* Whoever asks may have handlers of its own, as this test's library does: they are not for the child. */
static void
must_take_every_crash_for_a_finding(void **state)
{
    (void)state;
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
    const char *file = s_file("crash");
    FILE *bad = fopen(file, "w");
    fputs("no HDF5", bad);
    fclose(bad);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        answer_t answer = {.caller = getpid(), .number = crashes[i]};
        char want[32];
        int findings;
        FILE *out = fopencookie(&answer, "w", (cookie_io_functions_t){.write = s_on_print});
        assert_non_null(out);
        void (*before)(int) = signal(crashes[i], s_on_signal);
        must(sink_check_apart(file, out, &findings));
        signal(crashes[i], before);
        fclose(out);
        snprintf(want, sizeof want, "(signal %d)", crashes[i]);
        assert_int_equal(findings, 1);
        assert_non_null(strstr(answer.text, want));
    }
    unlink(file);
}

static void
must_survive_flipped_bytes(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = s_file("flip");
    fixture_toy(dir, 1);
    s_seal(dir, file);
    for (off_t at = 17; at < (off_t)s_result.file_bytes; at += (off_t)s_result.file_bytes / 97)
        s_check_damaged(file, at);
    assert_int_equal(s_findings(file, NULL), 0);
    unlink(file);
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

/* Wherever the disk says no, the message has run, file, the system's reason, and what to do. */
/* As the sink does it, in a process of its own: HDF5 gives nothing back of a file that it could not close. */
static crema_err_t
s_seal_apart(const char *journal, const char *file, char *ret_why, size_t size)
{
    struct {
        crema_err_t err;
        char why[1024];
    } answer = {.err = CREMA_EIO};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        sink_seal_result_t result;
        answer.err = sink_seal_journal(journal, file, &result, answer.why, sizeof answer.why);
        _exit(write(ends[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &answer, sizeof answer), sizeof answer);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
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

static void
must_say_that_the_disk_is_full(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy");
    char why[1024], file[600];
    char *disk = scratch_make();
    if (!scratch_mount(disk, "128k")) {
        scratch_remove(&disk);
        skip();
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
        cmocka_unit_test(must_bring_times_onto_the_aggregators_clock),
        cmocka_unit_test(must_leave_what_was_there_when_it_fails),
        cmocka_unit_test(must_not_miss_in_older_files_what_was_added_since),
        cmocka_unit_test(must_find_what_is_wrong_with_a_file),
        cmocka_unit_test(must_find_texts_that_were_changed),
        cmocka_unit_test(must_find_damage_where_there_are_no_tables),
        cmocka_unit_test(must_say_what_is_no_run_file),
        cmocka_unit_test(must_take_every_crash_for_a_finding),
        cmocka_unit_test(must_survive_flipped_bytes),
        cmocka_unit_test(must_say_why_a_file_cannot_be_written),
        cmocka_unit_test(must_not_replace_what_is_no_file),
        cmocka_unit_test(must_say_that_the_disk_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
