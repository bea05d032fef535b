/* crema_log - one line per event on stderr: UTC, key=value, or JSON with --log-format json. Not
 * CZMQ's zsys_log: it has no fields, and does not hold repeats back.
 *
 *   2026-03-01T12:00:00.123Z level=info program=crema-sink event=sealed run=0192… path=/data/x.h5
 *
 * Repeats are held back: the same event is written at most CREMA_LOG_BURST times in
 * CREMA_LOG_PERIOD_S, then a count of what was held back follows. */
#ifndef CREMA_LOG_H
#define CREMA_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_id.h"
#include "crema_repeat.h"

#define CREMA_LOG_BURST CREMA_REPEAT_BURST
#define CREMA_LOG_PERIOD_S (CREMA_REPEAT_PERIOD_NS / 1000000000)

typedef enum { CREMA_LOG_INFO, CREMA_LOG_WARN, CREMA_LOG_ERROR } crema_log_level_t;
typedef enum { CREMA_LOG_TEXT, CREMA_LOG_JSON } crema_log_format_t;

/* One key and its value. Built by the macros below; a list ends with {0}. */
typedef struct {
    const char *key;
    enum { CREMA_FIELD_TEXT, CREMA_FIELD_INT, CREMA_FIELD_REAL, CREMA_FIELD_ID } type;
    const char *text;
    int64_t integer;
    double real;
    const crema_id_t *id;
} crema_log_field_t;

#define CREMA_TEXT(k, v)                                                                           \
    {                                                                                              \
        .key = (k), .type = CREMA_FIELD_TEXT, .text = (v)                                          \
    }
#define CREMA_INT(k, v)                                                                            \
    {                                                                                              \
        .key = (k), .type = CREMA_FIELD_INT, .integer = (int64_t)(v)                               \
    }
#define CREMA_REAL(k, v)                                                                           \
    {                                                                                              \
        .key = (k), .type = CREMA_FIELD_REAL, .real = (v)                                          \
    }
#define CREMA_ID(k, v)                                                                             \
    {                                                                                              \
        .key = (k), .type = CREMA_FIELD_ID, .id = (v)                                              \
    }

/* Once, before the first line. `program` is borrowed for the life of the process. */
void crema_log_start(const char *program, crema_log_level_t least, crema_log_format_t format);

/* False for an unknown word; info, warn, error / text, json. */
bool crema_log_parse_level(const char *word, crema_log_level_t *ret_level);
bool crema_log_parse_format(const char *word, crema_log_format_t *ret_format);

/* `event` is a constant snake_case word, past tense or a state: "welcomed", "spool_full". */
void crema_log_write(crema_log_level_t level, const char *event, const crema_log_field_t *fields);

#define crema_log_info(event, ...)                                                                 \
    crema_log_write(CREMA_LOG_INFO, event,                                                         \
                    (const crema_log_field_t[]){__VA_ARGS__ __VA_OPT__(, ){0}})
#define crema_log_warn(event, ...)                                                                 \
    crema_log_write(CREMA_LOG_WARN, event,                                                         \
                    (const crema_log_field_t[]){__VA_ARGS__ __VA_OPT__(, ){0}})
#define crema_log_error(event, ...)                                                                \
    crema_log_write(CREMA_LOG_ERROR, event,                                                        \
                    (const crema_log_field_t[]){__VA_ARGS__ __VA_OPT__(, ){0}})

/* Says so when the wall clock stepped: by a second or more against the monotonic one since the
 * last call. *ahead_ns is the caller's and 0 before the first call. Nothing but times of day
 * depends on the wall clock. */
void crema_log_clock_step(int64_t *ahead_ns);

#endif
