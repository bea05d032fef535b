#include "sink_viewing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sink_fs.h"

char *
sink_viewing_line(const sink_viewing_t *viewing, char out[SINK_VIEWING_BYTES])
{
    char name[37];
    crema_id_uuid(&viewing->run_id, name);
    if (viewing->ended)
        snprintf(out, SINK_VIEWING_BYTES, "ended %s\n", name);
    else
        snprintf(out, SINK_VIEWING_BYTES, "grown %s %" PRIu32 " %" PRIu64 "\n", name,
                 viewing->position.segment, viewing->position.bytes);
    return out;
}

bool
sink_viewing_parse(const char *line, sink_viewing_t *ret_viewing)
{
    char word[6], name[37];
    sink_viewing_t viewing = {0};
    int n = sscanf(line, "%5s %36s %" SCNu32 " %" SCNu64, word, name, &viewing.position.segment,
                   &viewing.position.bytes);
    viewing.ended = n == 2 && strcmp(word, "ended") == 0;
    bool grown = n == 4 && strcmp(word, "grown") == 0;
    if ((!viewing.ended && !grown) || !crema_id_parse(name, &viewing.run_id))
        return false;
    *ret_viewing = viewing;
    return true;
}

char *
sink_viewing_path(const char *output_dir, const crema_id_t *run_id, char ret_path[PATH_MAX])
{
    char name[64], uuid[37];
    snprintf(name, sizeof name, "%s.live.h5", crema_id_uuid(run_id, uuid));
    return sink_fs_path(output_dir, name, ret_path);
}
