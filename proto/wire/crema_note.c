#include "crema_note.h"

#include "crema_text.h"

const char *const crema_note_codes[] = {CREMA_NOTE_INPUT_DROPPED,
                                        CREMA_NOTE_RESULT_REUSED,
                                        CREMA_NOTE_ATTRIBUTE_REFUSED,
                                        CREMA_NOTE_JOURNAL_DAMAGED,
                                        CREMA_NOTE_COLUMNS_UNAVAILABLE,
                                        CREMA_NOTE_BUDGET_OPEN,
                                        CREMA_NOTE_KILLED_AFTER_RETIREMENT,
                                        CREMA_NOTE_CHUNK_ENDED_WORKERS,
                                        CREMA_NOTE_MORE,
                                        NULL};

bool
crema_note(const char *code)
{
    return crema_text_is_in(code, crema_note_codes);
}
