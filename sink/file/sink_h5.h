/* sink_h5 - run files in HDF5. Only sink_h5*.c include the HDF5 header; file types follow from
 * the table of columns.
 *
 * There are two kinds of file. LIVE: for SWMR readers while it grows; uncompressed, with all
 * tables created before the first row. FINAL: written once and compressed. HDF5's own error
 * output is silenced; sink_h5_why() returns one sentence about the last failure. */
#ifndef SINK_H5_H
#define SINK_H5_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_metrics.h"
#include "sink_attribute.h"
#include "sink_payload.h"

#define SINK_H5_WHY_BYTES 1024

/* HDF5 chunks per live table; the index of a larger table may be torn when its writer is killed. */
#define SINK_H5_LIVE_CHUNKS_MAX 8000

#define SINK_H5_GRID_SUM "sha256_grid"
#define SINK_H5_ATTRIBUTES_SUM "sha256_attributes"

typedef struct sink_h5 sink_h5_t;

/* Version of the HDF5 library, as text. */
const char *sink_h5_version(void);

/* ---- writing */

/* Replaces the file: creates all live tables, writes the attributes and enables SWMR readers. */
CREMA_MUST_CHECK crema_err_t sink_h5_create_live(const char *path,
                                                 const sink_attributes_t *attributes,
                                                 sink_h5_t **ret_self, char *ret_why);

/* Writes rows from `first` on: after the end they are appended, before it they overwrite.
 * Visible after the next flush. CREMA_ELIMIT: the table is full. */
CREMA_MUST_CHECK crema_err_t sink_h5_put_rows(sink_h5_t *self, const crema_table_t *table,
                                              uint64_t first, const uint8_t *rows, uint64_t n);
CREMA_MUST_CHECK crema_err_t sink_h5_flush(sink_h5_t *self);

CREMA_MUST_CHECK crema_err_t sink_h5_create_final(const char *path, sink_h5_t **ret_self,
                                                  char *ret_why);

/* Creates and fills one table with `n` packed rows, on two cores. `time_basis` becomes an
 * attribute; `n_rows_lost` is 0. */
CREMA_MUST_CHECK crema_err_t sink_h5_write_table(sink_h5_t *self, const crema_table_t *table,
                                                 uint64_t n, const uint8_t *rows,
                                                 const char *time_basis);

/* Replaces the table's `n_rows_lost`. */
CREMA_MUST_CHECK crema_err_t sink_h5_set_lost(sink_h5_t *self, const crema_table_t *table,
                                              int64_t n_rows_lost);

CREMA_MUST_CHECK crema_err_t sink_h5_write_attributes(sink_h5_t *self,
                                                      const sink_attributes_t *attributes);

/* The last step: writes the checksums of the grid and of all attributes. */
CREMA_MUST_CHECK crema_err_t sink_h5_write_sums(sink_h5_t *self);

/* ---- the grid: /grid, which xarray loads */

CREMA_MUST_CHECK crema_err_t sink_h5_grid_begin(sink_h5_t *self, const int64_t *times,
                                                uint64_t n_times, const char *const *workers,
                                                uint64_t n_workers,
                                                const crema_grid_variable_t *variables,
                                                size_t n_variables);
/* Writes rows first..first+n of a per-worker variable, or the whole of any other variable (first
 * 0, n 1). */
CREMA_MUST_CHECK crema_err_t sink_h5_grid_put(sink_h5_t *self, size_t variable, uint64_t first,
                                              uint64_t n, const double *values);

/* ---- reading */

/* CREMA_EMAGIC: not an HDF5 file. */
CREMA_MUST_CHECK crema_err_t sink_h5_open(const char *path, sink_h5_t **ret_self, char *ret_why);
/* The same for a file in the output directory, where others may write, too: a link, or anything
 * else that is not a regular file, is not opened but CREMA_EMAGIC. */
CREMA_MUST_CHECK crema_err_t sink_h5_open_regular(const char *path, sink_h5_t **ret_self,
                                                  char *ret_why);

/* CREMA_ENOENT: missing or of another type. The text is cut to out[size]. */
CREMA_MUST_CHECK crema_err_t sink_h5_text(sink_h5_t *self, const char *attribute, char *out,
                                          size_t size);
/* The same without a limit; the caller frees the text. */
CREMA_MUST_CHECK crema_err_t sink_h5_whole_text(sink_h5_t *self, const char *attribute,
                                                char **ret_text);
CREMA_MUST_CHECK crema_err_t sink_h5_int(sink_h5_t *self, const char *attribute,
                                         int64_t *ret_value);
CREMA_MUST_CHECK crema_err_t sink_h5_real(sink_h5_t *self, const char *attribute,
                                          double *ret_value);

/* Number of rows. CREMA_ENOENT: the table was not found; CREMA_EPROTO: a column is missing or has
 * another type (`ret_why` names it). */
CREMA_MUST_CHECK crema_err_t sink_h5_table(sink_h5_t *self, const crema_table_t *table,
                                           uint64_t *ret_rows, char *ret_why);
/* Checks that the attributes every table has are there and match the table of columns. */
CREMA_MUST_CHECK crema_err_t sink_h5_table_attributes(sink_h5_t *self, const crema_table_t *table,
                                                      char *ret_why);
/* Reads columns by name into packed rows of the table. */
CREMA_MUST_CHECK crema_err_t sink_h5_read_rows(sink_h5_t *self, const crema_table_t *table,
                                               uint64_t first, uint64_t n, uint8_t *rows);

/* Reads the stored chunks of a compressed table of an open final file, on two cores: true if they
 * hold exactly these `n` rows; `rows` NULL: not asked. `ret_sum` is the CRC-32 of the chunks as
 * they are stored. */
CREMA_MUST_CHECK crema_err_t sink_h5_compare_chunks(sink_h5_t *self, const crema_table_t *table,
                                                    const uint8_t *rows, uint64_t n,
                                                    bool *ret_equal, uint32_t *ret_sum);

/* Checksum of the rows of all tables in the file, including tables that a newer version wrote. */
CREMA_MUST_CHECK crema_err_t sink_h5_payload(sink_h5_t *self, uint8_t sha256[SINK_PAYLOAD_BYTES]);

/* The same of the values of all other datasets, which are those of /grid. */
CREMA_MUST_CHECK crema_err_t sink_h5_grid_sum(sink_h5_t *self, uint8_t sha256[SINK_PAYLOAD_BYTES]);

/* Checksum of the attributes of all groups and datasets, but for itself and created_utc: equal
 * content has an equal one. Path, name and value of each text and number, in the order of paths
 * and names. */
CREMA_MUST_CHECK crema_err_t sink_h5_attributes_sum(sink_h5_t *self,
                                                    uint8_t sha256[SINK_PAYLOAD_BYTES]);

/* ---- both */

const char *sink_h5_why(const sink_h5_t *self);

/* Closes and frees in any case and sets *self_p to NULL. A full disk may only show here.
 * `ret_why` may be NULL. */
CREMA_MUST_CHECK crema_err_t sink_h5_close(sink_h5_t **self_p, char *ret_why);

#endif
