/* table_by_path - the table of a path in the run file, as a page or a recorded file names it. */
#ifndef TABLE_BY_PATH_H
#define TABLE_BY_PATH_H

#include <string.h>

#include "crema_columns.h"

/* NULL if no table has that path. */
static inline const crema_table_t *
table_by_path(const char *path)
{
    for (int id = 0; id < CREMA_TABLE_COUNT; id++)
        if (strcmp(crema_table((crema_table_id_t)id)->path, path) == 0)
            return crema_table((crema_table_id_t)id);
    return NULL;
}

#endif
