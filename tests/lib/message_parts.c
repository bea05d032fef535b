#include "message_parts.h"

#include <assert.h>
#include <stdlib.h>

enum { IDS = 8192, TABLES = 8, POINTERS = 1 << 16 };

ProtobufCBinaryData
body_id(crema_id_t id)
{
    static crema_id_t ids[IDS];
    static size_t n;
    crema_id_t *kept = &ids[n++ % IDS];
    *kept = id;
    return crema_id_field(kept);
}

Crema__StreamTable *
body_table(size_t n, const crema_stream_row_t *rows)
{
    static Crema__StreamTable *tables[TABLES];
    static size_t next;
    Crema__StreamTable **table = &tables[next++ % TABLES];
    free(*table);
    *table = NULL;
    crema_err_t err = crema_stream_table_new(n, table);
    assert(err == CREMA_OK);
    for (size_t i = 0; i < n; i++)
        crema_stream_table_add(*table, &rows[i]);
    return err == CREMA_OK ? crema_stream_table_sent(*table) : NULL;
}

static void *
s_list(size_t n, void *rows, size_t row_bytes, const ProtobufCMessageDescriptor *descriptor)
{
    static void *pointers[POINTERS];
    static size_t used;
    assert(n <= POINTERS);
    if (used + n > POINTERS)
        used = 0;
    void **list = pointers + used;
    used += n;
    for (size_t i = 0; i < n; i++) {
        ProtobufCMessage *row = (ProtobufCMessage *)((char *)rows + i * row_bytes);
        row->descriptor = descriptor;
        list[i] = row;
    }
    return list;
}

Crema__Reason **
body_reasons(size_t n, Crema__Reason *rows)
{
    return s_list(n, rows, sizeof *rows, &crema__reason__descriptor);
}

Crema__Writer **
body_writers(size_t n, Crema__Writer *rows)
{
    return s_list(n, rows, sizeof *rows, &crema__writer__descriptor);
}

Crema__DictEntry **
body_entries(size_t n, Crema__DictEntry *rows)
{
    return s_list(n, rows, sizeof *rows, &crema__dict_entry__descriptor);
}
