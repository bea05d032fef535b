/* What was said of a run: the messages that its journal holds, by their checksums, and its state
 * after them. */
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "crema_frame.h"
#include "sink_store_private.h"

static uint32_t
s_checksum(const crema_msg_t *msg)
{
    uint8_t *bytes;
    size_t size;
    if (crema_wire_encode(msg, &bytes, &size) != CREMA_OK)
        return 1;
    uint32_t crc =
        libdeflate_crc32(0, bytes + CREMA_WIRE_HEADER_BYTES, size - CREMA_WIRE_HEADER_BYTES);
    free(bytes);
    return crc ? crc : 1;
}

uint32_t
sink_store_fingerprint(const crema_msg_t *msg)
{
    crema_msg_t plain = *msg;
    size_t n = plain.run_open.n_keys;
    if (msg->type == CREMA_MSG_RUN_SEAL)
        plain.run_seal.t_verdict_ns = 0;
    while (n > 0 && crema_cost_is_key(plain.run_open.keys[n - 1]))
        n--; /* they are the last attributes */
    plain.run_open.n_keys = plain.run_open.n_values = n;
    return s_checksum(&plain);
}

static size_t
s_length(const char *text)
{
    return text ? strlen(text) : 0;
}

/* Approximate size of the part in a journal. */
static uint64_t
s_writers_bytes(const Crema__RunWriters *msg)
{
    uint64_t bytes = CREMA_WIRE_HEADER_BYTES + 2 * CREMA_FRAME_HEADER_BYTES;
    for (size_t i = 0; i < msg->n_writers; i++)
        bytes += 32 + s_length(msg->writers[i]->name) + s_length(msg->writers[i]->uuid) +
                 s_length(msg->writers[i]->text);
    return bytes;
}

static uint32_t
s_writers_fingerprint(const Crema__RunWriters *msg)
{
    return s_checksum(&(crema_msg_t){.type = CREMA_MSG_RUN_WRITERS, .run_writers = *msg});
}

static bool
s_changes_list(const sink_store_run_t *run, const Crema__RunWriters *msg, uint32_t crc)
{
    if (run->n_said_writers != msg->parts)
        return run->n_said_writers > 0;
    return run->said_writers[msg->part] != 0 && run->said_writers[msg->part] != crc;
}

uint64_t
sink_store_list_change(const sink_store_run_t *run, const Crema__RunWriters *msg)
{
    return s_changes_list(run, msg, s_writers_fingerprint(msg)) ? s_writers_bytes(msg) : 0;
}

crema_err_t
sink_store_note_writers(sink_store_run_t *run, const Crema__RunWriters *msg, bool *ret_new)
{
    uint32_t crc = s_writers_fingerprint(msg);
    run->list_changed_b += sink_store_list_change(run, msg);
    if (msg->parts != run->n_said_writers) {
        uint32_t *said = calloc(msg->parts, sizeof *said);
        if (!said)
            return CREMA_ENOMEM;
        free(run->said_writers);
        run->said_writers = said;
        run->n_said_writers = msg->parts;
    }
    *ret_new = run->said_writers[msg->part] != crc;
    run->said_writers[msg->part] = crc;
    return CREMA_OK;
}

uint32_t *
sink_store_said(sink_store_run_t *run, crema_msg_type_t type)
{
    switch (type) {
    case CREMA_MSG_RUN_OPEN:
        return &run->shown.state.said_open;
    case CREMA_MSG_RUN_END:
        return &run->shown.state.said_end;
    case CREMA_MSG_RUN_SEAL:
        return &run->shown.state.said_seal;
    default:
        return NULL;
    }
}

void
sink_store_note_life(sink_store_run_t *run, crema_life_event_t event)
{
    /* Events that this state does not allow are ignored: a journal may hold any sequence. */
    crema_err_t err = crema_life_step(run->shown.state.life, event, &run->shown.state.life);
    (void)err;
}

static void
s_note_key(sink_store_run_t *run, ProtobufCBinaryData key)
{
    memset(run->shown.state.agent_key, 0, CREMA_WIRE_KEY_BYTES);
    if (key.len > 0)
        memcpy(run->shown.state.agent_key, key.data, CREMA_WIRE_KEY_BYTES);
}

void
sink_store_note_message(sink_store_run_t *run, const crema_msg_t *msg, uint32_t fingerprint)
{
    const bool had_ended =
        run->shown.state.life == CREMA_LIFE_ENDED || run->shown.state.life == CREMA_LIFE_SEALED;
    const crema_id_t *owner = crema_id_of(msg->run_open.owner);
    *sink_store_said(run, msg->type) = fingerprint;
    if (crema_id_is_zero(&run->shown.state.owner))
        run->shown.state.owner = *owner;
    if (msg->type == CREMA_MSG_RUN_OPEN && crema_id_equal(owner, &run->shown.state.owner))
        s_note_key(run, msg->run_open.agent_key);
    sink_store_note_life(run, crema_life_event(msg));
    if (msg->type == CREMA_MSG_RUN_END && !had_ended) {
        run->shown.state.seal_asked = false; /* another verdict follows */
        run->shown.state.said_seal = 0;      /* so that an identical RUN_SEAL is taken too */
    }
    if (msg->type != CREMA_MSG_RUN_SEAL)
        return;
    run->shown.state.seal_asked = true;
    run->shown.state.late = run->shown.state.revision > 0;
}
