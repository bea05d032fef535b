#include <stdio.h>
#include <stdlib.h>

#include "agg_core_private.h"
#include "crema_utf8.h"

/* States of a part. */
enum { WANT = 1, KEPT = 2 };

#define BLAME_BYTES 192 /* maximum that a reason keeps */
#define SAID_BYTES 1024 /* the rest would be cut anyway */

void
agg_writers_discard(agg_core_t *self, agg_entry_t *entry, int64_t now_ns)
{
    agg_entry_free_list(entry);
    agg_writers_follow(self, entry);
    for (crema_link_t *link = entry->flows.next; link != &entry->flows;) {
        agg_flow_t *flow = CREMA_LIST_ITEM(link, agg_flow_t, of_entry);
        link = link->next;
        if (flow->is_listed)
            agg_flow_unlist(self, flow, now_ns);
    }
}

static void
s_set(agg_list_t *list, uint32_t part, uint8_t flags)
{
    uint8_t was = list->parts[part];
    list->n_want += (flags & WANT ? 1u : 0u) - (was & WANT ? 1u : 0u);
    list->n_kept += (flags & KEPT ? 1u : 0u) - (was & KEPT ? 1u : 0u);
    list->parts[part] = flags;
}

static uint64_t
s_bytes(const Crema__RunWriters *part)
{
    return part ? crema_msg_bytes(
                      &(crema_msg_t){.type = CREMA_MSG_RUN_WRITERS, .run_writers = *part})
                : 0;
}

/* Finished runs of the owner give way. */
static bool
s_has_room(agg_core_t *self, const agg_entry_t *entry, uint64_t bytes)
{
    while (!agg_owner_may_keep(entry->owner, bytes))
        if (entry->run->phase >= CREMA_RUN_VERDICT || !agg_entry_make_room(self, entry->owner))
            return false;
    return true;
}

static crema_err_t
s_take(agg_core_t *self, agg_entry_t *entry, const Crema__RunWriters *msg)
{
    agg_list_t *list = &entry->list;
    crema_err_t err = list->writers ? CREMA_OK : crema_writers_new(&list->writers);
    if (err != CREMA_OK)
        return err;
    const uint64_t bytes = s_bytes(msg);
    const uint64_t before = s_bytes(crema_writers_part(list->writers, msg->part));
    if (!s_has_room(self, entry, bytes > before ? bytes - before : 0))
        return CREMA_ELIMIT;
    bool begins_anew = crema_writers_parts(list->writers) != msg->parts;
    err = crema_writers_take(list->writers, msg);
    if (err == CREMA_OK)
        agg_owner_keep(entry, &list->kept_b, begins_anew ? bytes : list->kept_b - before + bytes);
    if (err != CREMA_OK || list->n_parts == msg->parts)
        return err;
    uint8_t *parts = calloc(msg->parts, sizeof *parts);
    if (!parts) {
        crema_writers_destroy(&list->writers);
        return CREMA_ENOMEM;
    }
    free(list->parts);
    list->parts = parts;
    list->n_parts = msg->parts;
    list->n_kept = list->n_want = 0;
    return CREMA_OK;
}

/* True if the list names streams, and no stream of the run can be missing among those known
 * here. */
static bool
s_names_all(const agg_core_t *self, const agg_entry_t *entry)
{
    size_t n_streams = 0;
    crema_writers_cursor_t cursor = {0};
    const Crema__Writer *writer;
    while ((writer = crema_writers_next(entry->list.writers, &cursor))) {
        const crema_id_t *stream_id = crema_id_of(writer->stream_id);
        bool has_stream = !crema_id_is_zero(stream_id);
        n_streams += has_stream;
        if (has_stream ? !crema_map_find(self->flows, stream_id)
                       : writer->state != CREMA_WRITER_SILENT)
            return false;
    }
    return n_streams > 0;
}

bool
agg_writers_recorded_nothing(const agg_entry_t *entry)
{
    const crema_writers_t *writers = entry->list.writers;
    crema_writers_cursor_t cursor = {0};
    const Crema__Writer *writer;
    if (!writers || !crema_writers_is_whole(writers) ||
        agg_run_writer_parts(entry->run) != crema_writers_parts(writers))
        return false;
    while ((writer = crema_writers_next(writers, &cursor)))
        if (writer->state != CREMA_WRITER_SILENT)
            return false;
    return true;
}

void
agg_writers_follow(const agg_core_t *self, agg_entry_t *entry)
{
    const agg_list_t *list = &entry->list;
    uint32_t parts = agg_run_writer_parts(entry->run);
    bool is_here = list->n_parts == parts && list->n_kept == parts;
    agg_run_set_list_due(entry->run, parts > 0 && !is_here);
    if (parts == 0 || !is_here)
        agg_run_set_listed(entry->run, false);
    else if (!entry->run->is_listed)
        agg_run_set_listed(entry->run, s_names_all(self, entry));
    if (agg_writers_recorded_nothing(entry))
        agg_run_expect_no_stream(entry->run);
}

/* The writer listed a stream: it belongs to the run, and the run is settled only when the sink
 * has it up to that number. */
static void
s_expect(agg_core_t *self, agg_entry_t *entry, const Crema__Writer *writer, size_t *room,
         int64_t now_ns)
{
    const crema_id_t *stream_id = crema_id_of(writer->stream_id);
    if (crema_id_is_zero(stream_id))
        return;
    agg_flow_t *flow = crema_map_find(self->flows, stream_id);
    if (!flow &&
        *room > 0) { /* without room only the sink checks the list, which it does in full */
        flow = agg_flow_make_listed(self, entry, stream_id, now_ns);
        *room -= 1;
    }
    if (!flow || flow->entry != entry)
        return;
    flow->is_listed = true;
    if (writer->last > flow->promised)
        flow->promised = writer->last;
    crema_stream_announce(flow->line, writer->last, writer->last > 0, now_ns);
    agg_flow_follow(self, flow, now_ns);
}

void
agg_writers_on_message(agg_core_t *self, agg_entry_t *entry, const Crema__RunWriters *msg,
                       int64_t now_ns)
{
    agg_list_t *list = &entry->list;
    crema_err_t err = s_take(self, entry, msg);
    if (err != CREMA_OK && err != CREMA_EREPEAT) {
        self->stats.refused++;
        list->refused |= err == CREMA_ELIMIT;
        list->refused_part = msg->part;
        return;
    }
    list->refused &= list->refused_part != msg->part;
    if (err == CREMA_OK) {
        size_t room = agg_owner_room_listed(self, entry);
        s_set(list, msg->part, WANT);
        for (size_t i = 0; i < msg->n_writers; i++)
            s_expect(self, entry, msg->writers[i], &room, now_ns);
    } else if (!(list->parts[msg->part] & KEPT)) {
        s_set(list, msg->part, WANT);
    }
    agg_writers_follow(self, entry);
    agg_entry_out(self, entry);
}

void
agg_writers_on_listed(agg_core_t *self, const Crema__RunListed *msg)
{
    agg_entry_t *entry = crema_map_find(self->entries, crema_id_of(msg->run_id));
    if (!entry || entry->list.n_parts != msg->parts || msg->part >= msg->parts)
        return;
    /* The sink may have it from an aggregator before this one, which does not know what it
     * promises. */
    if (!crema_writers_part(entry->list.writers, msg->part))
        return;
    s_set(&entry->list, msg->part, KEPT);
    agg_writers_follow(self, entry);
    entry->want_state = entry->has_watcher;
    agg_entry_out(self, entry);
}

void
agg_writers_on_sink_up(const agg_core_t *self, agg_entry_t *entry)
{
    agg_list_t *list = &entry->list;
    for (uint32_t i = 0; i < list->n_parts; i++)
        if (crema_writers_part(list->writers, i))
            s_set(list, i, WANT);
    agg_writers_follow(self, entry);
}

const Crema__RunWriters *
agg_writers_take(agg_entry_t *entry)
{
    agg_list_t *list = &entry->list;
    for (uint32_t i = 0; list->n_want > 0 && i < list->n_parts; i++) {
        if (!(list->parts[i] & WANT))
            continue;
        s_set(list, i, list->parts[i] & KEPT);
        return crema_writers_part(list->writers, i);
    }
    return NULL;
}

uint32_t
agg_writers_kept(const agg_entry_t *entry)
{
    uint32_t kept = 0;
    while (kept < entry->list.n_parts && entry->list.parts[kept] & KEPT)
        kept++;
    return kept;
}

bool
agg_writers_may_have(const agg_core_t *self, const agg_entry_t *entry, const crema_id_t *stream_id)
{
    if (!entry->list.writers || !crema_writers_is_whole(entry->list.writers))
        return true;
    const agg_flow_t *flow = crema_map_find(self->flows, stream_id);
    return flow && flow->entry == entry && flow->is_listed;
}

/* The sink finds the same reasons and adds names. */
static void
s_blame_writer(agg_entry_t *entry, const Crema__Writer *writer)
{
    bool is_silent = writer->state == CREMA_WRITER_SILENT;
    if (writer->stream_id.len > 0 || writer->state == CREMA_WRITER_LEFT)
        return;
    char said[SAID_BYTES], text[BLAME_BYTES] = {0};
    snprintf(said, sizeof said, "%s%s%s",
             is_silent ? "it recorded nothing" : "it could not be asked what it recorded",
             writer->text[0] ? ": " : "", writer->text);
    (void)crema_utf8_fit(said, text, sizeof text - 1);
    agg_run_blame_for_good(entry->run, is_silent ? "worker_without_stream" : "writer_unknown",
                           writer->name, 0, text);
}

void
agg_writers_blame(agg_entry_t *entry)
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    crema_writers_cursor_t cursor = {0};
    const Crema__Writer *writer;
    if (agg_run_writer_parts(entry->run) == 0 && !entry->run->abandoned)
        agg_run_blame_for_good(entry->run, "writer_unknown", "run", 0,
                               "its collector sent no list of writers");
    if (entry->run->list_due && entry->list.refused) {
        char text[BLAME_BYTES];
        snprintf(text, sizeof text,
                 "part %u of the list of writers was refused: the aggregator keeps as much for the "
                 "run's key as it may",
                 entry->list.refused_part);
        agg_run_blame(entry->run, "writer_unknown", "run", 0, text);
    } else if (entry->run->list_due) {
        agg_run_blame(entry->run, "writer_unknown", "run", 0,
                      "the collector did not send the whole list of writers");
    }
    while (entry->list.writers && (writer = crema_writers_next(entry->list.writers, &cursor)))
        s_blame_writer(entry, writer);
    for (crema_link_t *link = entry->flows.next; link != &entry->flows; link = link->next) {
        const agg_flow_t *flow = CREMA_LIST_ITEM(link, agg_flow_t, of_entry);
        if (agg_flow_short(flow) > 0)
            agg_run_blame_for_good(entry->run, "records_missing",
                                   crema_id_hex(&flow->row.stream_id, hex), agg_flow_short(flow),
                                   "its writer wrote more than can still arrive");
    }
}
