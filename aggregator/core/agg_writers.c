#include <stdio.h>
#include <stdlib.h>

#include "agg_core_impl.h"
#include "crema_utf8.h"

/* States of a part. */
enum { WANT = 1, KEPT = 2 };

#define REASON_BYTES 192 /* maximum that a reason keeps */
#define FULL_BYTES 1024  /* the rest would be cut anyway */

void
agg_writers_discard(agg_core_t *core, agg_run_t *run, int64_t now_ns)
{
    agg_run_free_list(run);
    agg_writers_follow(core, run);
    for (crema_link_t *link = run->streams.next; link != &run->streams;) {
        agg_stream_t *stream = CREMA_LIST_ITEM(link, agg_stream_t, of_run);
        link = link->next;
        if (stream->is_listed)
            agg_stream_unlist(core, stream, now_ns);
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
s_has_room(agg_core_t *core, const agg_run_t *run, uint64_t bytes)
{
    while (!agg_owner_may_keep(run->owner, bytes))
        if (run->phase >= CREMA_RUN_VERDICT || !agg_runs_make_room(core, run->owner))
            return false;
    return true;
}

static crema_err_t
s_take(agg_core_t *core, agg_run_t *run, const Crema__RunWriters *msg)
{
    agg_list_t *list = &run->list;
    crema_err_t err = list->writers ? CREMA_OK : crema_writers_new(&list->writers);
    if (err != CREMA_OK)
        return err;
    const uint64_t bytes = s_bytes(msg);
    const uint64_t before = s_bytes(crema_writers_part(list->writers, msg->part));
    if (!s_has_room(core, run, bytes > before ? bytes - before : 0))
        return CREMA_ELIMIT;
    bool begins_anew = crema_writers_parts(list->writers) != msg->parts;
    err = crema_writers_take(list->writers, msg);
    if (err == CREMA_OK)
        agg_owner_keep(run, &list->kept_b, begins_anew ? bytes : list->kept_b - before + bytes);
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
s_names_all(const agg_core_t *core, const agg_run_t *run)
{
    size_t n_streams = 0;
    crema_writers_cursor_t cursor = {0};
    const Crema__Writer *writer;
    while ((writer = crema_writers_next(run->list.writers, &cursor))) {
        const crema_id_t *stream_id = crema_id_of(writer->stream_id);
        bool has_stream = !crema_id_is_zero(stream_id);
        n_streams += has_stream;
        if (has_stream ? !crema_map_find(core->streams, stream_id)
                       : writer->state != CREMA_WRITER_SILENT)
            return false;
    }
    return n_streams > 0;
}

bool
agg_writers_recorded_nothing(const agg_run_t *run)
{
    const crema_writers_t *writers = run->list.writers;
    crema_writers_cursor_t cursor = {0};
    const Crema__Writer *writer;
    if (!writers || !crema_writers_is_whole(writers) ||
        agg_run_writer_parts(run) != crema_writers_parts(writers))
        return false;
    while ((writer = crema_writers_next(writers, &cursor)))
        if (writer->state != CREMA_WRITER_SILENT)
            return false;
    return true;
}

void
agg_writers_follow(const agg_core_t *core, agg_run_t *run)
{
    const agg_list_t *list = &run->list;
    uint32_t parts = agg_run_writer_parts(run);
    bool is_here = list->n_parts == parts && list->n_kept == parts;
    agg_run_set_list_due(run, parts > 0 && !is_here);
    if (parts == 0 || !is_here)
        run->is_listed = false;
    else if (!run->is_listed)
        run->is_listed = s_names_all(core, run);
    if (agg_writers_recorded_nothing(run))
        agg_run_expect_no_stream(run);
}

/* The writer listed a stream: it belongs to the run, and the run is settled only when the sink
 * has it up to that number. */
static void
s_expect(agg_core_t *core, agg_run_t *run, const Crema__Writer *writer, size_t *room,
         int64_t now_ns)
{
    const crema_id_t *stream_id = crema_id_of(writer->stream_id);
    if (crema_id_is_zero(stream_id))
        return;
    agg_stream_t *stream = crema_map_find(core->streams, stream_id);
    if (!stream &&
        *room > 0) { /* without room only the sink checks the list, which it does in full */
        stream = agg_stream_make_listed(core, run, stream_id, now_ns);
        *room -= 1;
    }
    if (!stream || stream->run != run)
        return;
    const agg_position_t was = stream->at;
    stream->is_listed = true;
    if (writer->last > stream->listed_last)
        stream->listed_last = writer->last;
    agg_stream_announce(stream, writer->last, writer->last > 0, now_ns);
    agg_stream_follow(core, stream, &was, now_ns);
}

void
agg_writers_on_message(agg_core_t *core, agg_run_t *run, const Crema__RunWriters *msg,
                       int64_t now_ns)
{
    agg_list_t *list = &run->list;
    crema_err_t err = s_take(core, run, msg);
    if (err != CREMA_OK && err != CREMA_EREPEAT) {
        core->stats.refused++;
        list->refused |= err == CREMA_ELIMIT;
        list->refused_part = msg->part;
        return;
    }
    list->refused &= list->refused_part != msg->part;
    if (err == CREMA_OK) {
        size_t room = agg_owner_room_listed(core, run);
        s_set(list, msg->part, WANT);
        for (size_t i = 0; i < msg->n_writers; i++)
            s_expect(core, run, msg->writers[i], &room, now_ns);
    } else if (!(list->parts[msg->part] & KEPT)) {
        s_set(list, msg->part, WANT);
    }
    agg_writers_follow(core, run);
    agg_run_out(core, run);
}

void
agg_writers_on_listed(agg_core_t *core, const Crema__RunListed *msg)
{
    agg_run_t *run = crema_map_find(core->runs, crema_id_of(msg->run_id));
    if (!run || run->list.n_parts != msg->parts || msg->part >= msg->parts)
        return;
    /* The sink may have it from an aggregator before this one, which does not know what it
     * promises. */
    if (!crema_writers_part(run->list.writers, msg->part))
        return;
    s_set(&run->list, msg->part, KEPT);
    agg_writers_follow(core, run);
    run->want_state = run->has_watcher;
    agg_run_out(core, run);
}

void
agg_writers_on_sink_up(const agg_core_t *core, agg_run_t *run)
{
    agg_list_t *list = &run->list;
    for (uint32_t i = 0; i < list->n_parts; i++)
        if (crema_writers_part(list->writers, i))
            s_set(list, i, WANT);
    agg_writers_follow(core, run);
}

const Crema__RunWriters *
agg_writers_take(agg_run_t *run)
{
    agg_list_t *list = &run->list;
    for (uint32_t i = 0; list->n_want > 0 && i < list->n_parts; i++) {
        if (!(list->parts[i] & WANT))
            continue;
        s_set(list, i, list->parts[i] & KEPT);
        return crema_writers_part(list->writers, i);
    }
    return NULL;
}

uint32_t
agg_writers_kept(const agg_run_t *run)
{
    uint32_t kept = 0;
    while (kept < run->list.n_parts && run->list.parts[kept] & KEPT)
        kept++;
    return kept;
}

bool
agg_writers_may_have(const agg_core_t *core, const agg_run_t *run, const crema_id_t *stream_id)
{
    if (!run->list.writers || !crema_writers_is_whole(run->list.writers))
        return true;
    const agg_stream_t *stream = crema_map_find(core->streams, stream_id);
    return stream && stream->run == run && stream->is_listed;
}

/* The sink finds the same reasons and adds names. */
static void
s_add_writer_reason(agg_run_t *run, const Crema__Writer *writer)
{
    bool is_silent = writer->state == CREMA_WRITER_SILENT;
    if (writer->stream_id.len > 0 || writer->state == CREMA_WRITER_LEFT)
        return;
    char full[FULL_BYTES], text[REASON_BYTES] = {0};
    snprintf(full, sizeof full, "%s%s%s",
             is_silent ? "it recorded nothing" : "it could not be asked what it recorded",
             writer->text[0] ? ": " : "", writer->text);
    (void)crema_utf8_fit(full, text, sizeof text - 1);
    agg_run_add_final_reason(run, is_silent ? "worker_without_stream" : "writer_unknown",
                             writer->name, 0, text);
}

void
agg_writers_add_reasons(agg_run_t *run)
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    crema_writers_cursor_t cursor = {0};
    const Crema__Writer *writer;
    if (agg_run_writer_parts(run) == 0 && !run->abandoned)
        agg_run_add_final_reason(run, "writer_unknown", "run", 0,
                                 "its collector sent no list of writers");
    if (run->list_due && run->list.refused) {
        char text[REASON_BYTES];
        snprintf(text, sizeof text,
                 "part %u of the list of writers was refused: the aggregator keeps as much for the "
                 "run's key as it may",
                 run->list.refused_part);
        agg_run_add_reason(run, "writer_unknown", "run", 0, text);
    } else if (run->list_due) {
        agg_run_add_reason(run, "writer_unknown", "run", 0,
                           "the collector did not send the whole list of writers");
    }
    while (run->list.writers && (writer = crema_writers_next(run->list.writers, &cursor)))
        s_add_writer_reason(run, writer);
    for (crema_link_t *link = run->streams.next; link != &run->streams; link = link->next) {
        const agg_stream_t *stream = CREMA_LIST_ITEM(link, agg_stream_t, of_run);
        if (agg_stream_short(stream) > 0)
            agg_run_add_final_reason(run, "records_missing", crema_id_hex(&stream->stream_id, hex),
                                     agg_stream_short(stream),
                                     "its writer wrote more than can still arrive");
    }
}
