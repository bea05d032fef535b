#include "crema_series.h"

#include <stddef.h>

#define NONE                                                                                       \
    {                                                                                              \
        NULL                                                                                       \
    }
#define ONE(label)                                                                                 \
    {                                                                                              \
        label                                                                                      \
    }
#define TWO(first, second)                                                                         \
    {                                                                                              \
        first, second                                                                              \
    }

static const crema_series_row_t c_rows[CREMA_SERIES_N] = {
#define X(id, type, name, labels, help) {name, CREMA_SERIES_##type, labels, help},
    CREMA_SERIES_LIST(X)
#undef X
};

const crema_series_row_t *
crema_series_row(crema_series_t series)
{
    return &c_rows[series];
}

const char *
crema_series_type_name(crema_series_type_t type)
{
    static const char *const c_names[] = {"counter", "gauge", "histogram"};
    return c_names[type];
}
