#include "sealed_files.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "must.h"
#include "rows_fixture.h"

const char *
sealed_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s.h5", scratch_dir(name));
    unlink(path);
    return path;
}

sink_seal_result_t
sealed_make(const char *dir, const char *output)
{
    sink_seal_result_t result;
    char why[512];
    if (sink_seal_journal(dir, output, &result, why, sizeof why) != CREMA_OK)
        fail_msg("%s", why);
    return result;
}

int
sealed_findings(const char *path, const char *want)
{
    char text[8192] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    int findings = -1;
    crema_err_t err = sink_check_file(path, out, &findings);
    fclose(out);
    if (err != CREMA_OK && findings == 0)
        fail_msg("%s without a finding", crema_err_text(err));
    if (want && !strstr(text, want))
        fail_msg("no \"%s\" in: %s", want, text);
    if (!want && findings > 0)
        fail_msg("%s", text);
    return findings;
}
