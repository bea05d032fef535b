#include "crema_value.h"

#include <string.h>

typedef struct {
    const char *suffix;
    int64_t factor;
} unit_t;

/* In descending order: formatting uses the first that divides the value. */
static const unit_t s_bytes[] = {
    {"Gi", INT64_C(1) << 30}, {"G", 1000000000}, {"Mi", 1 << 20}, {"M", 1000000},
    {"Ki", 1 << 10},          {"k", 1000},       {"", 1},
};

static const unit_t s_durations[] = {
    {"h", INT64_C(3600000000000)},
    {"m", INT64_C(60000000000)},
    {"s", 1000000000},
    {"ms", 1000000},
};

#define COUNT(units) (sizeof units / sizeof units[0])

static bool
s_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses digits and moves *text behind them; false if there are none or too many. */
static bool
s_take_digits(const char **text, int64_t *ret_value)
{
    int64_t value = 0;
    if (!s_is_digit(**text))
        return false;
    for (; s_is_digit(**text); ++*text)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, **text - '0', &value))
            return false;
    *ret_value = value;
    return true;
}

/* Factor of the unit whose suffix is text[0..length), 0 if there is none. */
static int64_t
s_factor(const unit_t *units, size_t n, const char *text, size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(units[i].suffix) == length && memcmp(units[i].suffix, text, length) == 0)
            return units[i].factor;
    return 0;
}

bool
crema_value_parse_int(const char *text, int64_t *ret_value)
{
    bool negative = *text == '-';
    int64_t value;
    text += negative;
    if (!s_take_digits(&text, &value) || *text)
        return false;
    *ret_value = negative ? -value : value;
    return true;
}

bool
crema_value_parse_bytes(const char *text, int64_t *ret_value)
{
    int64_t value;
    if (!s_take_digits(&text, &value))
        return false;
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == 'B')
        length--;
    int64_t factor = s_factor(s_bytes, COUNT(s_bytes), text, length);
    if (factor == 0 || __builtin_mul_overflow(value, factor, &value))
        return false;
    *ret_value = value;
    return true;
}

/* Parses ".25" of a unit, digit by digit. Digits below a nanosecond are ignored. */
static bool
s_take_fraction(const char **text, int64_t factor, int64_t *ret_value)
{
    int64_t value = 0;
    *ret_value = 0;
    if (**text != '.')
        return true;
    if (!s_is_digit(*++*text))
        return false;
    for (; s_is_digit(**text); ++*text) {
        factor /= 10;
        value += factor * (**text - '0');
    }
    *ret_value = value;
    return true;
}

bool
crema_value_parse_duration(const char *text, int64_t *ret_value)
{
    int64_t whole, fraction;
    if (!s_take_digits(&text, &whole))
        return false;
    const char *suffix = text + strspn(text, ".0123456789");
    const char *unit = *suffix ? suffix : "s";
    int64_t factor = s_factor(s_durations, COUNT(s_durations), unit, strlen(unit));
    if (factor == 0 || !s_take_fraction(&text, factor, &fraction) || text != suffix ||
        __builtin_mul_overflow(whole, factor, &whole) ||
        __builtin_add_overflow(whole, fraction, &whole))
        return false;
    *ret_value = whole;
    return true;
}

bool
crema_value_parse_flag(const char *text, bool *ret_value)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < COUNT(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_value = i % 2 == 1;
            return true;
        }
    }
    return false;
}

/* Writes a non-negative number; returns the end. */
static char *
s_put_digits(char *at, int64_t value)
{
    if (value > 9)
        at = s_put_digits(at, value / 10);
    *at++ = (char)('0' + value % 10);
    return at;
}

static char *
s_format(const unit_t *units, size_t n, int64_t value, char *text)
{
    size_t i = 0;
    while (i < n - 1 && (value == 0 || value % units[i].factor != 0))
        i++;
    strcpy(s_put_digits(text, value / units[i].factor), units[i].suffix);
    return text;
}

char *
crema_value_format_bytes(int64_t value, char text[CREMA_VALUE_TEXT])
{
    return s_format(s_bytes, COUNT(s_bytes), value, text);
}

char *
crema_value_format_duration(int64_t value_ns, char text[CREMA_VALUE_TEXT])
{
    return s_format(s_durations, COUNT(s_durations), value_ns, text);
}
