#include "crema_exposition.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "crema_utf8.h"

crema_exposition_t
crema_exposition_begin(char *text, size_t size)
{
    text[0] = '\0';
    return (crema_exposition_t){.text = text, .size = size, .last = -1};
}

/* Appends a whole line, or nothing. */
static void s_line(crema_exposition_t *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
s_line(crema_exposition_t *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = self->size - self->used;
    const int n = vsnprintf(self->text + self->used, room, format, arguments);
    va_end(arguments);
    if (n >= 0 && (size_t)n < room) {
        self->used += (size_t)n;
        return;
    }
    self->text[self->used] = '\0';
    self->cut = true;
}

static const crema_series_row_t *
s_head(crema_exposition_t *self, crema_series_t series)
{
    const crema_series_row_t *row = crema_series_row(series);
    if (self->last == (int)series)
        return row;
    self->last = (int)series;
    s_line(self, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
           crema_series_type_name(row->type));
    return row;
}

/* In quotes a backslash, a quote and the end of a line are escaped; what is not UTF-8 would make
 * the whole scrape invalid. */
static void
s_escape(const char *value, char out[2 * CREMA_EXPOSITION_LABEL_MAX + 1])
{
    char fit[CREMA_EXPOSITION_LABEL_MAX + 1] = "";
    (void)crema_utf8_fit(value ? value : "", fit, CREMA_EXPOSITION_LABEL_MAX);
    for (const char *at = fit; *at; at++) {
        if (*at == '\\' || *at == '"' || *at == '\n')
            *out++ = '\\';
        *out++ = *at;
        if (*at == '\n')
            out[-1] = 'n';
    }
    *out = '\0';
}

void
crema_expose(crema_exposition_t *self, crema_series_t series, double value)
{
    const crema_series_row_t *row = s_head(self, series);
    s_line(self, "%s %.15g\n", row->name, value);
}

void
crema_expose_one(crema_exposition_t *self, crema_series_t series, const char *first,
                 const char *second, double value)
{
    char one[2 * CREMA_EXPOSITION_LABEL_MAX + 1], two[2 * CREMA_EXPOSITION_LABEL_MAX + 1];
    const crema_series_row_t *row = s_head(self, series);
    s_escape(first, one);
    if (!row->labels[1]) {
        s_line(self, "%s{%s=\"%s\"} %.15g\n", row->name, row->labels[0], one, value);
        return;
    }
    s_escape(second, two);
    s_line(self, "%s{%s=\"%s\",%s=\"%s\"} %.15g\n", row->name, row->labels[0], one, row->labels[1],
           two, value);
}

void
crema_expose_histogram(crema_exposition_t *self, crema_series_t series,
                       const crema_histogram_t *histogram)
{
    const crema_series_row_t *row = s_head(self, series);
    uint64_t n = 0;
    for (size_t i = 0; i < CREMA_HISTOGRAM_BOUNDS; i++) {
        n += histogram->counts[i];
        s_line(self, "%s_bucket{le=\"%g\"} %llu\n", row->name, crema_histogram_bounds_s[i],
               (unsigned long long)n);
    }
    n += histogram->counts[CREMA_HISTOGRAM_BOUNDS];
    s_line(self, "%s_bucket{le=\"+Inf\"} %llu\n", row->name, (unsigned long long)n);
    s_line(self, "%s_sum %.15g\n%s_count %llu\n", row->name, histogram->sum_s, row->name,
           (unsigned long long)n);
}

void
crema_expose_tally(crema_exposition_t *self, crema_series_t series, const crema_tally_t *tally)
{
    for (size_t i = 0; i < tally->n; i++)
        crema_expose_one(self, series, tally->names[i], NULL, (double)tally->counts[i]);
}
