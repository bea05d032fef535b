/* message_parts - parts of bodies that outlive the function that builds them. What is returned
 * stays valid for a few thousand further ids, and a few further tables and long lists. */
#ifndef MESSAGE_PARTS_H
#define MESSAGE_PARTS_H

#include "crema_wire.h"

/* A field with that id; empty for the zero id. */
ProtobufCBinaryData body_id(crema_id_t id);
/* NULL: no rows. */
Crema__StreamTable *body_table(size_t n, const crema_stream_row_t *rows);

/* Lists that borrow their rows, which become ready to be packed. */
Crema__Reason **body_reasons(size_t n, Crema__Reason *rows);
Crema__Writer **body_writers(size_t n, Crema__Writer *rows);
Crema__DictEntry **body_entries(size_t n, Crema__DictEntry *rows);

#endif
