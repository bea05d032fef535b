/* crema_error - one table of error codes with names and texts. Pure: modules return errors,
 * reactors decide, only main programs print. */
#ifndef CREMA_ERROR_H
#define CREMA_ERROR_H

#define CREMA_MUST_CHECK __attribute__((warn_unused_result))

/* code, text */
#define CREMA_ERROR_TABLE(X)                                                                       \
    X(CREMA_OK, "no error")                                                                        \
    X(CREMA_EINVAL, "invalid argument")                                                            \
    X(CREMA_ENOMEM, "out of memory")                                                               \
    X(CREMA_EIO, "input/output error")                                                             \
    X(CREMA_ENOSPC, "no space left")                                                               \
    X(CREMA_ENOENT, "not found")                                                                   \
    X(CREMA_EBUSY, "held by another process")                                                      \
    X(CREMA_EAGAIN, "not now, try again")                                                          \
    X(CREMA_EMORE, "more bytes are needed")                                                        \
    X(CREMA_EMAGIC, "not a crema record")                                                          \
    X(CREMA_ECRC, "checksum does not match")                                                       \
    X(CREMA_EPROTO, "malformed message")                                                           \
    X(CREMA_EVERSION, "protocol version not supported")                                            \
    X(CREMA_ELIMIT, "limit exceeded")                                                              \
    X(CREMA_EREPEAT, "already taken")                                                              \
    X(CREMA_EGAP, "earlier records are missing")                                                   \
    X(CREMA_ECONFIG, "bad configuration")                                                          \
    X(CREMA_ENET, "network error")                                                                 \
    X(CREMA_EH5, "HDF5 error")                                                                     \
    X(CREMA_EDENIED, "belongs to another key")

typedef enum {
#define X(code, text) code,
    CREMA_ERROR_TABLE(X)
#undef X
} crema_err_t;

/* One lower-case phrase, no full stop. */
const char *crema_err_text(crema_err_t err);

#endif
