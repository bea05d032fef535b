#include "crema_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_repeat.h"
#include "crema_utf8.h"

/* Pipes take up to PIPE_BUF bytes at once, so that lines of several programs do not mix. Of a
 * longer line the last fields are left out; of a longer text, its end. */
#define LINE_BYTES 4096
#define VALUE_BYTES 1024
#define STEP_NS 1000000000 /* of the wall clock, worth a word */

/* The process has one standard error, so it has one log. */
static struct {
    const char *program;
    crema_log_level_t least;
    crema_log_format_t format;
    bool started;
    crema_repeat_t repeats;
} s_log = {.program = "crema", .least = CREMA_LOG_INFO};

static const char *const s_levels[] = {"info", "warn", "error"};

typedef struct {
    char text[LINE_BYTES];
    size_t used; /* at most LINE_BYTES - 2: a closing brace and the line end have their place */
    bool full;   /* something did not fit: the function that wrote it takes it back */
} line_t;

static void
s_add(line_t *line, const char *text, size_t size)
{
    if (line->full || size > sizeof line->text - 2 - line->used) {
        line->full = true;
        return;
    }
    memcpy(line->text + line->used, text, size);
    line->used += size;
}

static void
s_add_text(line_t *line, const char *text)
{
    s_add(line, text, strlen(text));
}

/* In double quotes, escaped as JSON wants it; what is not UTF-8 becomes '?'. */
static void
s_add_quoted(line_t *line, const char *text)
{
    const size_t start = line->used;
    size_t left = strlen(text);
    s_add(line, "\"", 1);
    while (left > 0 && line->used - start < VALUE_BYTES && !line->full) {
        size_t step = crema_utf8_step(text, left);
        char escape[CREMA_UTF8_ESCAPE_BYTES];
        if (step == 0)
            s_add(line, "?", 1);
        else if (*text == '"' || *text == '\\')
            s_add(line, (char[]){'\\', *text}, 2);
        else if (crema_utf8_escape(text, step, escape))
            s_add_text(line, escape);
        else
            s_add(line, text, step);
        text += step ? step : 1;
        left -= step ? step : 1;
    }
    s_add_text(line, left > 0 ? "...\"" : "\"");
}

/* A word that key=value lines can hold without quotes. */
static bool
s_is_plain(const char *text)
{
    if (*text == '\0' || strnlen(text, VALUE_BYTES) == VALUE_BYTES)
        return false;
    for (; *text; text++)
        if (*text <= ' ' || *text >= 0x7f || *text == '"' || *text == '=' || *text == '\\')
            return false;
    return true;
}

static void
s_add_real(line_t *line, double value, bool json)
{
    char number[32];
    snprintf(number, sizeof number, "%.9g", value);
    s_add_text(line, json && !isfinite(value) ? "null" : number);
}

static void
s_add_value(line_t *line, const crema_log_field_t *field, bool json)
{
    char text[64];
    switch (field->type) {
    case CREMA_FIELD_TEXT:
        if (!field->text)
            s_add_text(line, json ? "null" : "-");
        else if (!json && s_is_plain(field->text))
            s_add_text(line, field->text);
        else
            s_add_quoted(line, field->text);
        break;
    case CREMA_FIELD_INT:
        snprintf(text, sizeof text, "%" PRId64, field->integer);
        s_add_text(line, text);
        break;
    case CREMA_FIELD_REAL:
        s_add_real(line, field->real, json);
        break;
    case CREMA_FIELD_ID:
        if (field->id)
            crema_id_hex(field->id, text);
        else
            strcpy(text, "-");
        if (json)
            s_add_quoted(line, text);
        else
            s_add_text(line, text);
        break;
    }
}

static void
s_add_field(line_t *line, const crema_log_field_t *field)
{
    bool json = s_log.format == CREMA_LOG_JSON;
    const size_t start = line->used;
    s_add_text(line, json ? ",\"" : " ");
    s_add_text(line, field->key);
    s_add_text(line, json ? "\":" : "=");
    s_add_value(line, field, json);
    if (line->full)
        line->used = start;
}

/* 2026-03-01T12:00:00.123Z */
static void
s_add_time(line_t *line, int64_t real_ns)
{
    time_t seconds = (time_t)(real_ns / 1000000000);
    struct tm utc = {0};
    char text[64];
    gmtime_r(&seconds, &utc);
    size_t used = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + used, sizeof text - used, ".%03dZ", (int)(real_ns % 1000000000 / 1000000));
    s_add_text(line, text);
}

static void
s_write_line(crema_log_level_t level, const char *event, const crema_log_field_t *fields)
{
    bool json = s_log.format == CREMA_LOG_JSON;
    line_t line = {.used = 0};
    if (json)
        s_add_text(&line, "{\"time\":\"");
    s_add_time(&line, crema_clock_real_ns());
    if (json)
        s_add_text(&line, "\"");
    s_add_field(&line, &(crema_log_field_t)CREMA_TEXT("level", s_levels[level]));
    s_add_field(&line, &(crema_log_field_t)CREMA_TEXT("program", s_log.program));
    s_add_field(&line, &(crema_log_field_t)CREMA_TEXT("event", event));
    for (; fields->key; fields++)
        s_add_field(&line, fields);
    if (json)
        line.text[line.used++] = '}';
    line.text[line.used++] = '\n';
    /* A closed standard error cannot be reported anywhere, and nothing depends on it. */
    ssize_t written = write(STDERR_FILENO, line.text, line.used);
    (void)written;
}

static void
s_write_held(const crema_repeat_count_t *count)
{
    const crema_log_field_t fields[] = {CREMA_TEXT("held", count->event),
                                        CREMA_INT("count", count->held),
                                        CREMA_INT("period_s", CREMA_LOG_PERIOD_S),
                                        {0}};
    s_write_line(CREMA_LOG_WARN, "repeats_held_back", fields);
}

static void
s_write_due(int64_t now_ns)
{
    crema_repeat_count_t count;
    while (crema_repeat_due(&s_log.repeats, now_ns, &count))
        s_write_held(&count);
}

/* At the end of the process every period is over. */
static void
s_on_exit(void)
{
    s_write_due(INT64_MAX);
}

void
crema_log_start(const char *program, crema_log_level_t least, crema_log_format_t format)
{
    s_log.program = program;
    s_log.least = least;
    s_log.format = format;
    if (!s_log.started)
        s_log.started = atexit(s_on_exit) == 0;
}

static int
s_index(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return (int)i;
    return -1;
}

bool
crema_log_parse_level(const char *word, crema_log_level_t *ret_level)
{
    int index = s_index(word, s_levels, sizeof s_levels / sizeof s_levels[0]);
    if (index < 0)
        return false;
    *ret_level = (crema_log_level_t)index;
    return true;
}

bool
crema_log_parse_format(const char *word, crema_log_format_t *ret_format)
{
    static const char *const formats[] = {"text", "json"};
    int index = s_index(word, formats, sizeof formats / sizeof formats[0]);
    if (index < 0)
        return false;
    *ret_format = (crema_log_format_t)index;
    return true;
}

void
crema_log_write(crema_log_level_t level, const char *event, const crema_log_field_t *fields)
{
    if (level < s_log.least)
        return;
    int64_t now_ns = crema_clock_mono_ns();
    crema_repeat_count_t lost;
    bool may = crema_repeat_take(&s_log.repeats, event, now_ns, &lost);
    if (lost.event)
        s_write_held(&lost);
    s_write_due(now_ns);
    if (may)
        s_write_line(level, event, fields);
}

void
crema_log_clock_step(int64_t *ahead_ns)
{
    int64_t now_ahead_ns = crema_clock_real_ns() - crema_clock_mono_ns();
    int64_t step_ns = *ahead_ns ? now_ahead_ns - *ahead_ns : 0;
    if (step_ns >= STEP_NS || step_ns <= -STEP_NS)
        crema_log_warn("wall_clock_stepped", CREMA_INT("ms", step_ns / 1000000));
    *ahead_ns = now_ahead_ns;
}
