/* sink_h5_impl - shared by the source files of sink_h5; private to them. HDF5 handles are
 * int64_t here. */
#ifndef SINK_H5_IMPL_H
#define SINK_H5_IMPL_H

#include "sink_h5.h"

#define SINK_H5_GRID_MAX 16

struct sink_h5 {
    char *path;
    int64_t file;
    bool live;
    int64_t tables[CREMA_TABLE_COUNT]; /* live: open datasets; -1 none */
    int64_t types[CREMA_TABLE_COUNT];  /* live: of their rows; -1 until some are written */
    uint64_t rows[CREMA_TABLE_COUNT];  /* live: rows in them */
    int64_t grid[SINK_H5_GRID_MAX];
    uint64_t grid_times;
    char why[SINK_H5_WHY_BYTES];
};

/* Call once before any other function of the library: disables error output and plugins from the
 * environment. */
void sink_h5_prepare(void);

/* Has HDF5 take no lock if the file system of an open file refuses them; where it has them, HDF5
 * keeps a file that somebody writes from being opened. False: HDF5 failed. */
bool sink_h5_set_locks(int64_t access, int fd);

CREMA_MUST_CHECK crema_err_t sink_h5_new(const char *path, sink_h5_t **ret_self);

/* Writes "could not <what> <which> in <file>: <reason>" to self->why. The reason is the system's
 * if it caused the failure, else HDF5's innermost one. Returns the system's error, or CREMA_EH5. */
crema_err_t sink_h5_fail(sink_h5_t *self, const char *what, const char *which);

/* Closes what failed; copies self->why to `ret_why` and returns `err`. */
crema_err_t sink_h5_give_up(sink_h5_t **self_p, crema_err_t err, char *ret_why);

/* The caller closes these handles; negative on failure. */
int64_t sink_h5_row_type(const crema_table_t *table);
/* The same, with the labels of a dataset's type: a file of a later 1.x may have more, and HDF5
 * does not convert them. */
int64_t sink_h5_row_type_of(const crema_table_t *table, int64_t file_type);
int64_t sink_h5_text_type(void);
int64_t sink_h5_column_type(const crema_column_t *column);
/* The type of a column in a dataset's type. */
int64_t sink_h5_member_type(int64_t file_type, const crema_column_t *column);

/* Creates one table with its attributes and any missing groups; in a final file with space for n
 * rows. */
CREMA_MUST_CHECK crema_err_t sink_h5_make_table(sink_h5_t *self, const crema_table_t *table,
                                                uint64_t n, const char *time_basis,
                                                int64_t *ret_dataset);

/* Writes the rows of an empty compressed table. */
CREMA_MUST_CHECK crema_err_t sink_h5_write_chunks(sink_h5_t *self, const crema_table_t *table,
                                                  int64_t dataset, const uint8_t *rows, uint64_t n);

/* Set attributes of an object; false on failure. */
bool sink_h5_put_text(int64_t object, const char *name, const char *text);
bool sink_h5_put_texts(int64_t object, const char *name, const char *const *texts, size_t n);
bool sink_h5_put_int(int64_t object, const char *name, int64_t value);

/* Opens an attribute of an object if it is a scalar text, integer or real; otherwise negative. */
int64_t sink_h5_open_attribute(int64_t object, const char *name, int type_class);

#endif
