/* sink_check: a file that is damaged or was changed is found, whatever that does to the HDF5
 * library. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hdf5.h>

#include "journal_fixture.h"
#include "must.h"
#include "record_frames.h"
#include "row_cell.h"
#include "rows_fixture.h"
#include "sealed_files.h"
#include "sink_h5.h"
#include "sink_seal.h"
#include "table_by_path.h"

/* Reads the first value of a dataset, or replaces it. */
static void
s_first(const char *path, const char *name, void *read, const void *write)
{
    hsize_t start[2] = {0}, one[2] = {1, 1};
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), type = H5Dget_type(dataset);
    hid_t space = H5Dget_space(dataset), memory = H5Screate(H5S_SCALAR);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, one, NULL);
    assert_true((write ? H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, write)
                       : H5Dread(dataset, type, memory, space, H5P_DEFAULT, read)) >= 0);
    H5Sclose(memory);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    H5Fclose(file);
}

static void
s_poke(const char *path, const char *table, const char *column, int64_t value)
{
    uint8_t row[CREMA_ROW_BYTES_MAX];
    s_first(path, table, row, NULL);
    cell_set(table_by_path(table), row, column, value);
    s_first(path, table, NULL, row);
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

/* Written anew: HDF5 1.10 cannot change a text of variable length that is stored densely. */
static void
s_poke_text(const char *path, const char *object, const char *name, const char *text)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
    hid_t owner = H5Oopen(file, object, H5P_DEFAULT);
    hid_t attribute = H5Aopen(owner, name, H5P_DEFAULT), type = H5Aget_type(attribute);
    assert_true(H5Tis_variable_str(type) > 0);
    H5Aclose(attribute);
    assert_true(H5Adelete(owner, name) >= 0);
    attribute = H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, type, &text) >= 0);
    H5Aclose(attribute);
    H5Tclose(type);
    H5Oclose(owner);
    H5Sclose(space);
    H5Fclose(file);
}

static void
must_find_values_of_the_grid_that_were_changed(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = sealed_path("grid");
    fixture_toy(dir, 1);
    for (int k = 0; k < 3; k++) {
        const char *paths[] = {"grid/cpu_pct", "grid/time", "grid/worker"};
        const double real = 0.25;
        const int64_t time_ns = 1;
        const char *worker = "somebody else";
        const void *values[] = {&real, &time_ns, &worker};
        unlink(file);
        sealed_make(dir, file);
        s_first(file, paths[k], NULL, values[k]);
        assert_int_equal(sealed_findings(file, "the values of /grid do not match sha256_grid"), 1);
    }
    unlink(file);
}

/* A file of 1.0 has none of what 1.1 added, and is as sound as it was. */
static void
must_not_miss_in_older_files_what_was_added_since(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = sealed_path("older");
    fixture_toy(dir, 1);
    sealed_make(dir, file);
    s_delete(file, "verdict_notes", true);
    assert_int_not_equal(sealed_findings(file, "verdict_notes"), 0);
    s_poke_text(file, "/", "format_version", "1.0.0");
    assert_int_equal(sealed_findings(file, NULL), 0);
    unlink(file);
}

/* A label that a later 1.x added has no number here. */
static void
must_not_find_labels_of_later_files(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = sealed_path("newer");
    fixture_toy(dir, 1);
    sealed_make(dir, file);
    s_poke_text(file, "/", "format_version", "1.99.0");
    s_poke(file, "chunks", "status", 77);
    assert_int_equal(sealed_findings(file, "sha256_payload"), 2); /* and sha256_attributes */
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
        {"chunks", "n_events", -5, "/chunks row 0: n_events is -5"},
        {"chunks", "t_end_ns", -1, "/chunks row 0: t_end_ns is -1"},
        {"chunks", "n_branches", -2, "/chunks row 0: n_branches is -2"},
        {"dict/worker", "pid", -7, "/dict/worker row 0: pid is -7"},
        {"chunks", "status", 3, "num_chunks is 4 and /chunks says 3"},
        {"chunks", "n_events", 301, "total_events is 1100 and /chunks says 1101"},
        {"dict/file", "dataset_id", 9,
         "/dict/file row 0: dataset_id 9 is not a row of /dict/dataset"},
        {"summary/per_worker", "worker_id", 9, "worker_id 9 is not a row of /dict/worker"},
        {"summary/chunk_model", "n", -2, "/summary/chunk_model row 0: n is -2"},
        {"dict/worker", "id", 5, "/dict/worker row 0 has id 5"},
        {"dict/stream", "closed", 0, "n_streams_open is 0 and /dict/stream says 1"},
        {NULL, "loss_total", 3, "loss_total is 3 and /gaps says 0"},
        {NULL, "complete", 1, "complete does not follow"},
        {NULL, "t_run_end_ns", 1, "to t_run_end_ns 1"},
        {NULL, "chunksize", 7, "the attributes do not match sha256_attributes"},
        {"sections", NULL, 0, "/sections is missing"},
        {NULL, NULL, 0, "attribute facility is missing"},
    };
    const char *dir = scratch_dir("toy"), *file = sealed_path("damage");
    fixture_toy(dir, 1);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        unlink(file);
        sealed_make(dir, file);
        if (damages[i].table && damages[i].column)
            s_poke(file, damages[i].table, damages[i].column, damages[i].value);
        else if (damages[i].column)
            s_poke_attribute(file, damages[i].column, damages[i].value);
        else if (damages[i].table)
            s_delete(file, damages[i].table, false);
        else
            s_delete(file, "facility", true);
        assert_true(sealed_findings(file, damages[i].want) > 0);
    }
    unlink(file);
}

static void
s_poke_real(const char *path, const char *table, const char *column, double value)
{
    uint8_t row[CREMA_ROW_BYTES_MAX];
    s_first(path, table, row, NULL);
    cell_set_real(table_by_path(table), row, column, value);
    s_first(path, table, NULL, row);
}

static void
must_find_reals_that_cannot_be(void **state)
{
    (void)state;
    const struct {
        const char *table, *column;
        double value;
        const char *want; /* NULL: it can be */
    } cases[] = {
        {"chunks", "wall_s", -1, "/chunks row 0: wall_s is -1"},
        {"chunks", "cpu_s", 1e300, "/chunks row 0: cpu_s is 1.0000000000000001e+300"},
        {"chunks", "open_s", (double)INFINITY, "/chunks row 0: open_s is inf"},
        {"chunks", "gc_s", (double)NAN, NULL},
        {"activities", "total", -3, NULL},
        {"activities", "value", -(double)INFINITY, "/activities row 0: value is -inf"},
        {"custom", "value", (double)INFINITY, NULL},
        {"summary/per_worker", "present_s", (double)INFINITY,
         "/summary/per_worker row 0: present_s is inf"},
        {"summary/per_worker", "noncpu_s", -0.5, NULL},
    };
    const char *dir = scratch_dir("busy"), *file = sealed_path("reals");
    fixture_busy(dir, 1, 3, 60);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unlink(file);
        sealed_make(dir, file);
        s_poke_real(file, cases[i].table, cases[i].column, cases[i].value);
        /* Only the checksum shows what can be. */
        if (cases[i].want)
            assert_true(sealed_findings(file, cases[i].want) > 1);
        else
            assert_true(sealed_findings(file, "") <= 1);
    }
    unlink(file);
}

static void
s_poke_name(const char *path, const char *table, const char *column, const char *text)
{
    const crema_table_t *t = table_by_path(table);
    uint8_t row[CREMA_ROW_BYTES_MAX];
    s_first(path, table, row, NULL);
    assert_false(cell_set_text(t, row, column, text));
    s_first(path, table, NULL, row);
}

static void
must_find_names_that_are_missing_or_there_twice(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy"), *file = sealed_path("names");
    fixture_busy(dir, 1, 3, 60);
    sealed_make(dir, file);
    s_poke_name(file, "dict/dataset", "name", "");
    assert_true(sealed_findings(file, "/dict/dataset row 0 has no name") > 0);
    unlink(file);
    sealed_make(dir, file);
    s_poke_name(file, "dict/stream", "uuid", "");
    assert_true(sealed_findings(file, "/dict/stream row 0 has no name") > 0);
    unlink(file);
    sealed_make(dir, file);
    s_poke_name(file, "dict/activity", "name", "thread-noncpu");
    assert_true(sealed_findings(file, "/dict/activity row 1 has the name of another row") > 0);
    unlink(file);
}

/* What a verdict promises must be in the tables. */
static void
must_find_a_verdict_that_the_records_do_not_support(void **state)
{
    (void)state;
    const char *dir = scratch_dir("plain"), *file = sealed_path("verdict");
    fixture_plain(dir, 1, 20);
    sealed_make(dir, file);
    assert_int_equal(sealed_findings(file, NULL), 0);
    s_poke(file, "summary/completeness", "expected", 1000);
    assert_true(sealed_findings(file, "COMPLETE and /summary/completeness lacks") > 0);
    unlink(file);
}

/* Rows of one instant are sorted by their stream, then by their number in it. */
static void
must_find_rows_of_one_instant_that_are_out_of_order(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy"), *file = sealed_path("order");
    fixture_busy(dir, 1, 3, 60);
    sealed_make(dir, file);
    s_poke(file, "chunks", "seq", 1000000);
    assert_true(sealed_findings(file, "/chunks row 1 is out of order") > 0);
    unlink(file);
}

static void
must_find_units_that_were_changed(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = sealed_path("units");
    char *units[64];
    fixture_toy(dir, 1);
    sealed_make(dir, file);
    hid_t id = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t dataset = H5Dopen2(id, "chunks", H5P_DEFAULT);
    hid_t attribute = H5Aopen(dataset, "column_units", H5P_DEFAULT);
    hid_t space = H5Aget_space(attribute), type = H5Aget_type(attribute);
    assert_in_range(H5Sget_simple_extent_npoints(space), 3, 64);
    assert_true(H5Aread(attribute, type, units) >= 0);
    char *first = units[2]; /* of wall_s */
    units[2] = "ms";
    H5Aclose(attribute);
    assert_true(H5Adelete(dataset, "column_units") >= 0);
    attribute = H5Acreate2(dataset, "column_units", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, type, units) >= 0);
    units[2] = first;
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, units);
    H5Aclose(attribute);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(id);
    assert_true(sealed_findings(file, "/chunks: attribute column_units is missing or wrong") > 0);
    unlink(file);
}

/* Neither changes a number of a table. */
static void
must_find_texts_that_were_changed(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = sealed_path("texts");
    fixture_toy(dir, 1);
    sealed_make(dir, file);
    s_poke_text(file, "/", "host_sink", "elsewhere");
    assert_int_equal(sealed_findings(file, "the attributes do not match sha256_attributes"), 1);
    unlink(file);
    sealed_make(dir, file);
    s_poke_text(file, "chunks", "description", "Something else.");
    assert_int_equal(sealed_findings(file, "the attributes do not match sha256_attributes"), 1);
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
    const char *dir = scratch_dir("busy"), *file = sealed_path("grid");
    fixture_busy(dir, 1, 3, 60);
    sealed_make(dir, file);
    assert_int_equal(sealed_findings(file, NULL), 0);
    s_damage(file, "grid/busy_threads");
    assert_true(sealed_findings(file, "grid/busy_threads") > 0);
    unlink(file);
    sealed_make(dir, file);
    s_poke_text(file, "/", "host_sink", "\xff");
    assert_true(sealed_findings(file, "host_sink is not UTF-8") > 0);
    unlink(file);
}

static void
must_say_what_is_no_run_file(void **state)
{
    (void)state;
    const char *file = sealed_path("foreign");
    int findings;
    FILE *null = fopen("/dev/null", "w");
    FILE *text = fopen(file, "w");
    fputs("no HDF5", text);
    fclose(text);
    assert_int_equal(sink_check_file(file, null, &findings), CREMA_EMAGIC);
    assert_int_equal(sealed_findings(file, "is not an HDF5 file"), 1);
    hid_t h5 = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(h5);
    assert_int_equal(sink_check_file(file, null, &findings), CREMA_EMAGIC);
    assert_int_equal(sealed_findings(file, "not a run file of crema"), 1);
    assert_int_equal(sealed_findings("/nonexistent.h5", "No such file"), 1);
    sink_attributes_t *attributes;
    sink_h5_t *live;
    char why[SINK_H5_WHY_BYTES];
    must(sink_attributes_new(&attributes));
    must(sink_attributes_text(attributes, "state", "live"));
    must(sink_h5_create_live(file, attributes, &live, why));
    must(sink_h5_close(&live, why));
    sink_attributes_destroy(&attributes);
    assert_int_equal(sealed_findings(file, "state is \"live\""), 1);
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

/* Where an answer is printed to. In the child it raises a signal, as a damaged number may in the
 * HDF5 library. */
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

/* Whoever asks may have handlers of its own, as this test's library does: they are not for the
 * child. */
static void
must_take_every_crash_for_a_finding(void **state)
{
    (void)state;
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
    const char *file = sealed_path("crash");
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

/* Writes zeros over the first texts of each global heap, as a page that never reached the disk
 * has. */
static int
s_blank_heaps(const char *file)
{
    static const uint8_t zeros[64];
    int fd = open(file, O_RDWR), n = 0;
    const off_t size = lseek(fd, 0, SEEK_END);
    uint8_t *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
    for (off_t at = 0; at + 80 <= size; at++)
        if (memcmp(bytes + at, "GCOL", 4) == 0) {
            assert_int_equal(pwrite(fd, zeros, sizeof zeros, at + 16), sizeof zeros);
            n++;
        }
    free(bytes);
    close(fd);
    return n;
}

static void
must_come_to_an_end_where_hdf5_does_not(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = sealed_path("heap");
    char text[512] = "";
    int findings = 0;
    fixture_toy(dir, 1);
    (void)sealed_make(dir, file);
    assert_true(s_blank_heaps(file) > 0);
    FILE *out = fmemopen(text, sizeof text, "w");
    must(sink_check_apart(file, out, &findings));
    fclose(out);
    unlink(file);
    assert_int_equal(findings, 1);
    assert_non_null(strstr(text, "came to no end"));
}

static void
must_survive_flipped_bytes(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy"), *file = sealed_path("flip");
    fixture_toy(dir, 1);
    const off_t size = (off_t)sealed_make(dir, file).file_bytes;
    for (off_t at = 17; at < size; at += size / 97)
        s_check_damaged(file, at);
    assert_int_equal(sealed_findings(file, NULL), 0);
    unlink(file);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_not_miss_in_older_files_what_was_added_since),
        cmocka_unit_test(must_not_find_labels_of_later_files),
        cmocka_unit_test(must_find_what_is_wrong_with_a_file),
        cmocka_unit_test(must_find_reals_that_cannot_be),
        cmocka_unit_test(must_find_names_that_are_missing_or_there_twice),
        cmocka_unit_test(must_find_a_verdict_that_the_records_do_not_support),
        cmocka_unit_test(must_find_rows_of_one_instant_that_are_out_of_order),
        cmocka_unit_test(must_find_units_that_were_changed),
        cmocka_unit_test(must_find_texts_that_were_changed),
        cmocka_unit_test(must_find_values_of_the_grid_that_were_changed),
        cmocka_unit_test(must_find_damage_where_there_are_no_tables),
        cmocka_unit_test(must_say_what_is_no_run_file),
        cmocka_unit_test(must_take_every_crash_for_a_finding),
        cmocka_unit_test(must_come_to_an_end_where_hdf5_does_not),
        cmocka_unit_test(must_survive_flipped_bytes),
    };
    scratch_prefer_memory(32); /* many small journals, of which none need survive a power cut */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
