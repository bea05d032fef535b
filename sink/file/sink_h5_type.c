/* Types: a row of the table of columns as an HDF5 compound type. */
#include <hdf5.h>
#include <string.h>

#include "sink_h5_impl.h"

#define LABEL_BYTES_MAX 64

int64_t
sink_h5_text_type(void)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    if (type >= 0 &&
        (H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)) {
        H5Tclose(type);
        return -1;
    }
    return type;
}

static hid_t
s_fixed_text(size_t size)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    if (type >= 0 && (H5Tset_size(type, size) < 0 || H5Tset_strpad(type, H5T_STR_NULLPAD) < 0 ||
                      H5Tset_cset(type, H5T_CSET_UTF8) < 0)) {
        H5Tclose(type);
        return -1;
    }
    return type;
}

/* "ok,error,lost" becomes ok = 0, error = 1, lost = 2. */
static hid_t
s_enum(const char *labels)
{
    hid_t type = H5Tenum_create(H5T_STD_U8LE);
    uint8_t value = 0;
    for (const char *at = labels; type >= 0 && *at != '\0'; value++) {
        size_t n = strcspn(at, ",");
        char label[LABEL_BYTES_MAX];
        if (n >= sizeof label) {
            H5Tclose(type);
            return -1;
        }
        memcpy(label, at, n);
        label[n] = '\0';
        if (H5Tenum_insert(type, label, &value) < 0) {
            H5Tclose(type);
            return -1;
        }
        at += n + (at[n] == ',');
    }
    return type;
}

int64_t
sink_h5_column_type(const crema_column_t *column)
{
    switch (column->type) {
    case CREMA_T_I64:
        return H5Tcopy(H5T_STD_I64LE);
    case CREMA_T_F64:
        return H5Tcopy(H5T_IEEE_F64LE);
    case CREMA_T_I32:
        return H5Tcopy(H5T_STD_I32LE);
    case CREMA_T_U32:
        return H5Tcopy(H5T_STD_U32LE);
    case CREMA_T_U16:
        return H5Tcopy(H5T_STD_U16LE);
    case CREMA_T_U8:
        return H5Tcopy(H5T_STD_U8LE);
    case CREMA_T_ENUM:
        return s_enum(column->labels);
    case CREMA_T_STR:
        return s_fixed_text(column->size);
    }
    return -1;
}

int64_t
sink_h5_member_type(int64_t file_type, const crema_column_t *column)
{
    const int index = H5Tget_member_index(file_type, column->name);
    return index < 0 ? -1 : H5Tget_member_type(file_type, (unsigned)index);
}

int64_t
sink_h5_row_type(const crema_table_t *table)
{
    return sink_h5_row_type_of(table, -1);
}

int64_t
sink_h5_row_type_of(const crema_table_t *table, int64_t file_type)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, crema_table_row_bytes(table));
    for (size_t i = 0; type >= 0 && i < table->n_columns; i++) {
        if (table->columns[i].size == 0)
            continue;
        const crema_column_t *column = &table->columns[i];
        hid_t member = file_type >= 0 && column->type == CREMA_T_ENUM
                           ? sink_h5_member_type(file_type, column)
                           : sink_h5_column_type(column);
        herr_t inserted =
            member < 0 ? -1 : H5Tinsert(type, column->name, crema_table_offset(table, i), member);
        if (member >= 0)
            H5Tclose(member);
        if (inserted < 0) {
            H5Tclose(type);
            return -1;
        }
    }
    return type;
}
