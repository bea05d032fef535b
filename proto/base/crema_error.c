#include "crema_error.h"

const char *
crema_err_text(crema_err_t err)
{
    switch (err) {
#define X(code, text)                                                                              \
    case code:                                                                                     \
        return text;
        CREMA_ERROR_TABLE(X)
#undef X
    }
    return "unknown error";
}
