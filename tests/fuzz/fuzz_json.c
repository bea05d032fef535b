/* Any text as a line of JSON: every value of it is looked at, and it is read as a sealing
 * process's report. */
#include <string.h>

#include "crema_json.h"
#include "fuzz.h"
#include "sink_report.h"

enum { DEPTH_MAX = 8, LOOKS_MAX = 2000 };

static void
s_look(const char *value, const char *text, size_t size, int depth, int *looks)
{
    char out[32];
    int64_t number;
    HOLDS(value >= text && value <= text + size);
    if (depth == DEPTH_MAX || ++*looks > LOOKS_MAX)
        return;
    if (crema_json_get_text(value, out, sizeof out) == CREMA_OK)
        HOLDS(strlen(out) < sizeof out);
    if (crema_json_get_int(value, &number) == CREMA_OK)
        HOLDS(*value == '-' || (*value >= '0' && *value <= '9'));
    static const char *const keys[] = {"a", "reasons", "code", ""};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *found = crema_json_find(value, keys[i]);
        if (found)
            s_look(found, text, size, depth + 1, looks);
    }
    for (const char *at = crema_json_first(value); at; at = crema_json_after(at))
        s_look(at, text, size, depth + 1, looks);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    HOLDS(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    int looks = 0;
    s_look(text, text, strlen(text), 0, &looks);
    sink_report_t *report;
    if (sink_report_parse(text, &report) == CREMA_OK) {
        const crema_id_t run = {{1}};
        Crema__Sealed sealed = sink_report_sealed(report, &run);
        HOLDS(sealed.n_reasons <= SINK_REPORT_REASONS_MAX);
        HOLDS(sealed.error[0] != '\0' || (sealed.path[0] && sealed.verdict[0]));
        sink_report_destroy(&report);
    }
    free(text);
    return 0;
}
