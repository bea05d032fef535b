/* crema_config - reads files in zconfig format, which CZMQ's certificates use too. CZMQ's own
 * zconfig_load() leaks memory for each file with a mistake and reads files of any size. */
#ifndef CREMA_CONFIG_H
#define CREMA_CONFIG_H

#define CREMA_CONFIG_BYTES_MAX (64 << 10)

typedef struct _zconfig_t zconfig_t;

/* The caller destroys the result. NULL: not readable, not a regular file, larger than
 * CREMA_CONFIG_BYTES_MAX, or malformed (CZMQ then names the line on standard error). */
zconfig_t *crema_config_read(const char *path);

#endif
