/* sink_h5: types and attributes as HDF5 itself reads them; live files under a reader; what goes
 * wrong is one sentence. */
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "must.h"
#include "record_frames.h"
#include "row_cell.h"
#include "rows_fixture.h"
#include "sink_h5.h"

static const char *
s_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s.h5", scratch_dir(name));
    unlink(path);
    return path;
}

static sink_attributes_t *
s_attributes(void)
{
    sink_attributes_t *attributes;
    must(sink_attributes_new(&attributes));
    must(sink_attributes_text(attributes, "run_label", "ü"));
    sink_attributes_int(attributes, "complete", 1);
    return attributes;
}

/* ---- the final file */

static void
must_write_the_types_of_the_table_of_columns(void **state)
{
    (void)state;
    const char *path = s_path("types");
    sink_h5_t *file;
    char why[SINK_H5_WHY_BYTES];
    must(sink_h5_create_final(path, &file, why));
    for (int i = 0; i < CREMA_TABLE_COUNT; i++)
        must(sink_h5_write_table(file, crema_table((crema_table_id_t)i), 0, NULL, "source"));
    must(sink_h5_close(&file, why));
    assert_null(file);
    hid_t id = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    for (int i = 0; i < CREMA_TABLE_COUNT; i++) {
        const crema_table_t *t = crema_table((crema_table_id_t)i);
        hid_t dataset = H5Dopen2(id, t->path, H5P_DEFAULT);
        hid_t type = H5Dget_type(dataset), create = H5Dget_create_plist(dataset);
        assert_int_equal(H5Tget_class(type), H5T_COMPOUND);
        assert_int_equal(H5Tget_size(type), crema_table_row_bytes(t)); /* packed */
        int members = 0;
        for (size_t c = 0; c < t->n_columns; c++) {
            if (t->columns[c].size == 0)
                continue;
            hid_t member = H5Tget_member_type(type, (unsigned)members);
            char *name = H5Tget_member_name(type, (unsigned)members);
            assert_string_equal(name, t->columns[c].name);
            assert_int_equal(H5Tget_member_offset(type, (unsigned)members),
                             crema_table_offset(t, c));
            assert_int_equal(H5Tget_size(member), t->columns[c].size);
            if (t->columns[c].type == CREMA_T_STR) {
                assert_int_equal(H5Tget_cset(member), H5T_CSET_UTF8);
                assert_int_equal(H5Tget_strpad(member), H5T_STR_NULLPAD);
            } else if (t->columns[c].type == CREMA_T_ENUM) {
                assert_int_equal(H5Tget_class(member), H5T_ENUM);
            } else {
                assert_int_equal(H5Tget_order(member), H5T_ORDER_LE);
            }
            H5free_memory(name);
            H5Tclose(member);
            members++;
        }
        assert_int_equal(H5Tget_nmembers(type), members);
        hsize_t chunk = 0;
        if (t->final_chunk_rows == 0) {
            assert_int_equal(H5Pget_layout(create), H5D_CONTIGUOUS);
        } else {
            assert_int_equal(H5Pget_chunk(create, 1, &chunk), 1);
            assert_int_equal(chunk, t->final_chunk_rows);
            assert_true(chunk * crema_table_row_bytes(t) <= 512 * 1024);
            assert_int_equal(H5Pget_nfilters(create), 2);
        }
        H5Pclose(create);
        H5Tclose(type);
        H5Dclose(dataset);
    }
    H5Fclose(id);
    unlink(path);
}

static void
must_label_enums_in_the_order_listed(void **state)
{
    (void)state;
    const char *path = s_path("enums");
    sink_h5_t *file;
    char why[SINK_H5_WHY_BYTES];
    must(sink_h5_create_final(path, &file, why));
    must(sink_h5_write_table(file, crema_table(CREMA_TABLE_CHUNKS), 0, NULL, "source"));
    must(sink_h5_close(&file, why));
    hid_t id = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t dataset = H5Dopen2(id, "chunks", H5P_DEFAULT), type = H5Dget_type(dataset);
    hid_t status = H5Tget_member_type(type, (unsigned)H5Tget_member_index(type, "status"));
    const char *want[] = {"ok", "error", "cancelled", "lost", "partial"};
    assert_int_equal(H5Tget_nmembers(status), 5);
    for (uint8_t i = 0; i < 5; i++) {
        char name[32];
        assert_true(H5Tenum_nameof(status, &i, name, sizeof name) >= 0);
        assert_string_equal(name, want[i]);
    }
    H5Tclose(status);
    H5Tclose(type);
    H5Dclose(dataset);
    H5Fclose(id);
    unlink(path);
}

static void
must_read_back_rows_and_attributes(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_GAPS);
    const char *path = s_path("back");
    uint8_t rows[3 * CREMA_ROW_BYTES_MAX], back[3 * CREMA_ROW_BYTES_MAX];
    size_t size = crema_table_row_bytes(t);
    for (size_t i = 0; i < 3; i++) {
        crema_row_clear(t, rows + i * size);
        cell_set(t, rows + i * size, "n_lost", (int64_t)(40 + i));
    }
    sink_h5_t *file;
    char why[SINK_H5_WHY_BYTES], text[64];
    sink_attributes_t *attributes = s_attributes();
    must(sink_h5_create_final(path, &file, why));
    must(sink_h5_write_table(file, t, 3, rows, "corrected"));
    must(sink_h5_write_attributes(file, attributes));
    must(sink_h5_close(&file, why));
    sink_attributes_destroy(&attributes);
    must(sink_h5_open(path, &file, why));
    uint64_t n;
    must(sink_h5_table(file, t, &n, why));
    assert_int_equal(n, 3);
    must(sink_h5_table_attributes(file, t, why));
    must(sink_h5_read_rows(file, t, 0, 3, back));
    assert_memory_equal(rows, back, 3 * size);
    must(sink_h5_read_rows(file, t, 2, 1, back));
    assert_int_equal(cell_int(t, back, "n_lost"), 42);
    must(sink_h5_text(file, "run_label", text, sizeof text));
    assert_string_equal(text, "ü");
    int64_t complete;
    must(sink_h5_int(file, "complete", &complete));
    assert_int_equal(complete, 1);
    double real;
    must(sink_h5_real(file, "io_file_percent", &real));
    assert_true(isnan(real));
    assert_int_equal(sink_h5_int(file, "run_label", &complete), CREMA_ENOENT);
    assert_int_equal(sink_h5_text(file, "no_such", text, sizeof text), CREMA_ENOENT);
    assert_int_equal(sink_h5_table(file, crema_table(CREMA_TABLE_CHUNKS), &n, why), CREMA_ENOENT);
    assert_string_equal(why, "/chunks is missing");
    must(sink_h5_close(&file, NULL));
    unlink(path);
}

/* Most of a file is chunks. */
static void
s_damage_middle(const char *path)
{
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_int_equal(fseek(file, ftell(file) / 2, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

/* A last chunk that is not full, bytes that do not compress, and rows whose length is no multiple
 * of eight. */
static void
must_compress_so_that_hdf5_reads_it(void **state)
{
    (void)state;
    const crema_table_id_t tables[] = {CREMA_TABLE_GAPS, CREMA_TABLE_ACTIVITIES,
                                       CREMA_TABLE_CHUNKS};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        const crema_table_t *t = crema_table(tables[k]);
        const size_t n = 13 * (size_t)t->final_chunk_rows + 101,
                     bytes = n * crema_table_row_bytes(t);
        uint8_t *rows = malloc(bytes), *back = calloc(1, bytes);
        const char *path = s_path("packed");
        sink_h5_t *file;
        char why[SINK_H5_WHY_BYTES];
        bool equal;
        uint32_t sum, stored;
        assert_non_null(rows);
        assert_non_null(back);
        uint32_t random = 1;
        for (size_t i = 0; i < bytes; i++)
            rows[i] =
                (uint8_t)((random = random * 1664525 + 1013904223) >> (i < bytes / 2 ? 24 : 31));
        must(sink_h5_create_final(path, &file, why));
        must(sink_h5_write_table(file, t, n, rows, "source"));
        must(sink_h5_compare_chunks(file, t, rows, n, &equal,
                                    &stored)); /* also while it is written */
        assert_true(equal);
        must(sink_h5_close(&file, why));
        must(sink_h5_open(path, &file, why));
        must(sink_h5_read_rows(file, t, 0, n, back));
        assert_memory_equal(rows, back, bytes);
        must(sink_h5_compare_chunks(file, t, rows, n, &equal, &sum));
        assert_true(equal);
        rows[bytes - 1] ^= 1;
        must(sink_h5_compare_chunks(file, t, rows, n, &equal, &sum));
        assert_false(equal);
        must(sink_h5_compare_chunks(file, t, NULL, n, &equal, &sum));
        assert_int_equal(sum, stored);
        must(sink_h5_close(&file, NULL));
        s_damage_middle(path);
        must(sink_h5_open(path, &file, why));
        must(sink_h5_compare_chunks(file, t, NULL, n, &equal, &sum));
        assert_int_not_equal(sum, stored);
        must(sink_h5_close(&file, NULL));
        unlink(path);
        free(rows);
        free(back);
    }
}

/* SHA-256 of the rows' bytes, tables in the order of their paths. */
static void
must_take_the_checksum_of_rows_alone(void **state)
{
    (void)state;
    const crema_table_t *gaps = crema_table(CREMA_TABLE_GAPS);
    uint8_t rows[3 * CREMA_ROW_BYTES_MAX], sha[3][SINK_PAYLOAD_BYTES];
    memset(rows, 0, sizeof rows);
    for (int k = 0; k < 3; k++) {
        const char *path = s_path("sha");
        sink_h5_t *file;
        char why[SINK_H5_WHY_BYTES];
        rows[0] = k == 2;
        must(sink_h5_create_final(path, &file, why));
        must(sink_h5_write_table(file, gaps, 3, rows, k ? "source" : "corrected"));
        must(sink_h5_set_lost(file, gaps, k));
        must(sink_h5_payload(file, sha[k]));
        must(sink_h5_close(&file, why));
        unlink(path);
    }
    /* sha256 of 3 rows of zeros, as sha256sum has it. */
    const uint8_t want[4] = {0xb5, 0x7c, 0xce, 0xac};
    assert_memory_equal(sha[0], want, 4);
    assert_memory_equal(sha[0], sha[1], sizeof sha[0]); /* attributes are not in it */
    assert_memory_not_equal(sha[0], sha[2], sizeof sha[0]);
}

/* ---- the live file */

static void
must_show_flushed_rows_to_swmr_readers(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_GAPS), *d = crema_table(CREMA_TABLE_DICT_UNIT);
    const char *path = s_path("live");
    sink_h5_t *file;
    char why[SINK_H5_WHY_BYTES];
    uint8_t rows[3 * CREMA_ROW_BYTES_MAX] = {0};
    sink_attributes_t *attributes = s_attributes();
    must(sink_h5_create_live(path, attributes, &file, why));
    sink_attributes_destroy(&attributes);
    hid_t reader = H5Fopen(path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, H5P_DEFAULT);
    assert_true(reader >= 0);
    hid_t dataset = H5Dopen2(reader, "gaps", H5P_DEFAULT),
          units = H5Dopen2(reader, "dict/unit", H5P_DEFAULT);
    for (uint64_t round = 1; round <= 5; round++) {
        must(sink_h5_put_rows(file, t, (round - 1) * 3, rows, 3));
        crema_row_clear(d, rows);
        cell_set(d, rows, "id", 0);
        cell_set_real(d, rows, "si_factor", (double)round);
        must(sink_h5_put_rows(file, d, 0, rows, 1)); /* the same row again: it is replaced */
        must(sink_h5_flush(file));
        hsize_t n = 0;
        H5Drefresh(dataset);
        H5Drefresh(units);
        hid_t space = H5Dget_space(dataset);
        H5Sget_simple_extent_dims(space, &n, NULL);
        H5Sclose(space);
        assert_int_equal(n, 3 * round);
        space = H5Dget_space(units);
        H5Sget_simple_extent_dims(space, &n, NULL);
        H5Sclose(space);
        assert_int_equal(n, 1);
    }
    H5Dclose(units);
    H5Dclose(dataset);
    H5Fclose(reader);
    must(sink_h5_close(&file, why));
    unlink(path);
}

static void
must_stop_a_live_table_before_its_index_tears(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_GAPS);
    const char *path = s_path("full");
    sink_h5_t *file;
    char why[SINK_H5_WHY_BYTES];
    uint8_t row[CREMA_ROW_BYTES_MAX] = {0};
    sink_attributes_t *attributes = s_attributes();
    must(sink_h5_create_live(path, attributes, &file, why));
    uint64_t most = (uint64_t)SINK_H5_LIVE_CHUNKS_MAX * t->live_chunk_rows;
    must(sink_h5_put_rows(file, t, most - 1, row, 1));
    assert_int_equal(sink_h5_put_rows(file, t, most, row, 1), CREMA_ELIMIT);
    must(sink_h5_close(&file, why));
    sink_attributes_destroy(&attributes);
    unlink(path);
}

/* ---- failures */

static void
must_say_in_a_sentence_what_went_wrong(void **state)
{
    (void)state;
    sink_h5_t *file = NULL;
    char why[SINK_H5_WHY_BYTES];
    assert_int_equal(sink_h5_create_final("/proc/0/x.h5", &file, why), CREMA_ENOENT);
    assert_null(file);
    assert_string_equal(why, "could not make /proc/0/x.h5: No such file or directory");
    assert_int_equal(sink_h5_open("/proc/self/cmdline", &file, why), CREMA_EMAGIC);
    assert_non_null(strstr(why, "is not an HDF5 file"));
    assert_int_equal(sink_h5_open("/proc/0", &file, why), CREMA_EMAGIC);
    assert_string_equal(why, "could not open /proc/0: No such file or directory");
    assert_null(file);
    must(sink_h5_close(&file, NULL));
}

/* Whatever has the name of a file that is to be made: it is replaced, neither followed nor written
 * to. */
static void
test_a_link_in_the_place_of_a_file_is_not_followed(void **state)
{
    (void)state;
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 16], victim[SCRATCH_BYTES + 16],
        why[SINK_H5_WHY_BYTES];
    struct stat st;
    scratch_template("h5", dir);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/run.live.h5", dir);
    snprintf(victim, sizeof victim, "%s/victim", dir);
    for (int live = 0; live <= 1; live++) {
        sink_h5_t *file = NULL;
        sink_attributes_t *attributes = NULL;
        must(sink_attributes_new(&attributes));
        close(open(victim, O_CREAT | O_WRONLY, 0600));
        (void)unlink(path);
        assert_int_equal(symlink(victim, path), 0);
        must(live ? sink_h5_create_live(path, attributes, &file, why)
                  : sink_h5_create_final(path, &file, why));
        must(sink_h5_close(&file, why));
        assert_int_equal(stat(victim, &st), 0);
        assert_int_equal(st.st_size, 0);
        assert_int_equal(lstat(path, &st), 0);
        assert_true(S_ISREG(st.st_mode) && st.st_size > 0);
        sink_attributes_destroy(&attributes);
    }
    unlink(victim);
    unlink(path);
    rmdir(dir);
}

static void
test_a_file_has_its_whole_name_however_long(void **state)
{
    (void)state;
    char dir[SCRATCH_BYTES], part[201], deep[SCRATCH_BYTES + 202], path[SCRATCH_BYTES + 500],
        why[SINK_H5_WHY_BYTES];
    sink_h5_t *file;
    scratch_template("h5", dir);
    assert_non_null(mkdtemp(dir));
    memset(part, 'd', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    snprintf(deep, sizeof deep, "%s/%s", dir, part);
    assert_int_equal(mkdir(deep, 0700), 0);
    snprintf(path, sizeof path, "%s/%s.h5", deep, part);
    must(sink_h5_create_final(path, &file, why));
    must(sink_h5_close(&file, why));
    must(sink_h5_open(path, &file, why));
    must(sink_h5_close(&file, why));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(deep), 0);
    rmdir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_in_the_place_of_a_file_is_not_followed),
        cmocka_unit_test(test_a_file_has_its_whole_name_however_long),
        cmocka_unit_test(must_write_the_types_of_the_table_of_columns),
        cmocka_unit_test(must_label_enums_in_the_order_listed),
        cmocka_unit_test(must_read_back_rows_and_attributes),
        cmocka_unit_test(must_compress_so_that_hdf5_reads_it),
        cmocka_unit_test(must_take_the_checksum_of_rows_alone),
        cmocka_unit_test(must_show_flushed_rows_to_swmr_readers),
        cmocka_unit_test(must_stop_a_live_table_before_its_index_tears),
        cmocka_unit_test(must_say_in_a_sentence_what_went_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
