/* Attributes: variable-length UTF-8 texts and numbers as scalars; lists of texts on tables. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink_h5_impl.h"

/* For example the column names of one table. */
#define TEXTS_MAX 64

static bool
s_put(hid_t object, const char *name, hid_t type, hid_t space, const void *value)
{
    hid_t attribute = -1;
    if (type >= 0 && space >= 0)
        attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool good = attribute >= 0 && H5Awrite(attribute, type, value) >= 0;
    if (attribute >= 0)
        good = H5Aclose(attribute) >= 0 && good;
    if (space >= 0)
        H5Sclose(space);
    return good;
}

bool
sink_h5_put_text(int64_t object, const char *name, const char *text)
{
    hid_t type = sink_h5_text_type();
    bool good = s_put(object, name, type, H5Screate(H5S_SCALAR), &text);
    H5Tclose(type);
    return good;
}

bool
sink_h5_put_texts(int64_t object, const char *name, const char *const *texts, size_t n)
{
    hsize_t size = n;
    hid_t type = sink_h5_text_type();
    bool good = s_put(object, name, type, H5Screate_simple(1, &size, NULL), texts);
    H5Tclose(type);
    return good;
}

bool
sink_h5_put_int(int64_t object, const char *name, int64_t value)
{
    return s_put(object, name, H5T_STD_I64LE, H5Screate(H5S_SCALAR), &value);
}

static bool
s_put_attribute(hid_t object, const sink_attribute_t *attribute)
{
    uint8_t small = (uint8_t)attribute->integer;
    switch (attribute->type) {
    case SINK_ATTRIBUTE_TEXT:
        return sink_h5_put_text(object, attribute->name, attribute->text);
    case SINK_ATTRIBUTE_INT:
        return sink_h5_put_int(object, attribute->name, attribute->integer);
    case SINK_ATTRIBUTE_REAL:
        return s_put(object, attribute->name, H5T_IEEE_F64LE, H5Screate(H5S_SCALAR),
                     &attribute->real);
    case SINK_ATTRIBUTE_U8:
        return s_put(object, attribute->name, H5T_STD_U8LE, H5Screate(H5S_SCALAR), &small);
    }
    return false;
}

crema_err_t
sink_h5_write_attributes(sink_h5_t *self, const sink_attributes_t *attributes)
{
    const sink_attribute_t *all;
    size_t n = sink_attributes_all(attributes, &all);
    for (size_t i = 0; i < n; i++)
        if (!s_put_attribute(self->file, &all[i]))
            return sink_h5_fail(self, "write attribute", all[i].name);
    return CREMA_OK;
}

/* ---- reading */

int64_t
sink_h5_open_attribute(int64_t object, const char *name, int type_class)
{
    if (H5Aexists(object, name) <= 0)
        return -1;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    if (attribute < 0)
        return -1;
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    bool fits = H5Tget_class(type) == (H5T_class_t)type_class &&
                H5Sget_simple_extent_npoints(space) == 1 &&
                (type_class != H5T_STRING || H5Tis_variable_str(type) > 0);
    H5Tclose(type);
    H5Sclose(space);
    if (!fits) {
        H5Aclose(attribute);
        return -1;
    }
    return attribute;
}

crema_err_t
sink_h5_whole_text(sink_h5_t *self, const char *attribute, char **ret_text)
{
    hid_t id = sink_h5_open_attribute(self->file, attribute, H5T_STRING);
    if (id < 0)
        return CREMA_ENOENT;
    hid_t type = sink_h5_text_type();
    char *text = NULL;
    herr_t read = H5Aread(id, type, &text);
    H5Tclose(type);
    H5Aclose(id);
    if (read < 0)
        return sink_h5_fail(self, "read attribute", attribute);
    *ret_text = strdup(text ? text : "");
    H5free_memory(text);
    return *ret_text ? CREMA_OK : CREMA_ENOMEM;
}

crema_err_t
sink_h5_text(sink_h5_t *self, const char *attribute, char *out, size_t size)
{
    char *text;
    crema_err_t err = sink_h5_whole_text(self, attribute, &text);
    if (err != CREMA_OK)
        return err;
    snprintf(out, size, "%s", text);
    free(text);
    return CREMA_OK;
}

crema_err_t
sink_h5_int(sink_h5_t *self, const char *attribute, int64_t *ret_value)
{
    hid_t id = sink_h5_open_attribute(self->file, attribute, H5T_INTEGER);
    if (id < 0)
        return CREMA_ENOENT;
    herr_t read = H5Aread(id, H5T_NATIVE_INT64, ret_value);
    H5Aclose(id);
    return read < 0 ? sink_h5_fail(self, "read attribute", attribute) : CREMA_OK;
}

crema_err_t
sink_h5_real(sink_h5_t *self, const char *attribute, double *ret_value)
{
    hid_t id = sink_h5_open_attribute(self->file, attribute, H5T_FLOAT);
    if (id < 0)
        return CREMA_ENOENT;
    herr_t read = H5Aread(id, H5T_NATIVE_DOUBLE, ret_value);
    H5Aclose(id);
    return read < 0 ? sink_h5_fail(self, "read attribute", attribute) : CREMA_OK;
}
