/* proto_samples - one fixed example of every record and every message, for tests of the codec.
 *
 * Their bytes are kept in tests/golden/: a change here, or of the bytes they encode to, is a
 * change of the protocol. */
#ifndef PROTO_SAMPLES_H
#define PROTO_SAMPLES_H

#include "crema_record.h"
#include "crema_wire.h"

#define SAMPLE_RECORDS 6
#define SAMPLE_MESSAGES 24

#define SAMPLE_SEQ 7u
#define SAMPLE_T_NS 1234567890123

/* Ids that are easy to see in a dump: sixteen times the same byte. */
crema_id_t sample_id(uint8_t byte);

/* i < SAMPLE_RECORDS; *ret_name is the golden file's name. */
crema_record_t sample_record(size_t i, const char **ret_name);

/* i < SAMPLE_MESSAGES, one of every type. */
crema_msg_t sample_message(size_t i);

#endif
