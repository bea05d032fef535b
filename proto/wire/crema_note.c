#include "crema_note.h"

#include <string.h>

static const char *const s_codes[] = {CREMA_NOTE_INPUT_DROPPED, CREMA_NOTE_ATTRIBUTE_REFUSED,
                                      CREMA_NOTE_JOURNAL_DAMAGED, CREMA_NOTE_COLUMNS_UNAVAILABLE,
                                      CREMA_NOTE_MORE};

size_t
crema_note_count(void)
{
    return sizeof s_codes / sizeof *s_codes;
}

const char *
crema_note_code(size_t i)
{
    return s_codes[i];
}

bool
crema_note(const char *code)
{
    for (size_t i = 0; i < crema_note_count(); i++)
        if (strcmp(s_codes[i], code) == 0)
            return true;
    return false;
}
