/* Compares what was written, by the collector's list of writers, with the streams in the
 * journal. */
#include <string.h>

#include "sink_bound.h"
#include "sink_verdict_writers.h"

typedef struct {
    sink_reasons_t *reasons;
    int64_t loss;    /* missing records */
    bool is_damaged; /* the journal */
} self_t;

bool
sink_verdict_is_by_list(const char *code)
{
    return strcmp(code, "records_missing") == 0 || strcmp(code, "writer_unknown") == 0;
}

bool
sink_verdict_names_all_writers(const sink_decoder_t *run)
{
    const crema_writers_t *list = sink_meta_list(sink_decoder_meta(run));
    crema_writers_cursor_t cursor = {0};
    const Crema__Writer *writer;
    while ((writer = crema_writers_next(list, &cursor)) != NULL)
        if (writer->stream_id.len == 0)
            return false;
    return crema_writers_is_whole(list);
}

static const char *
s_name(const Crema__Writer *writer)
{
    if (writer->name[0])
        return writer->name;
    return writer->kind == CREMA_STREAM_SCHEDULER ? "the scheduler" : "a writer";
}

/* It ended, but its END could not be written: the list provides what that would have said. */
static crema_err_t
s_take_unsaid(self_t *self, const Crema__Writer *writer)
{
    char uuid[37];
    crema_id_uuid(crema_id_of(writer->stream_id), uuid);
    self->loss = sink_bound_sum(self->loss, writer->dropped);
    return sink_reasons_add(self->reasons, "records_lost", uuid, writer->dropped,
                            "%s could not keep %llu records, nor write its last record",
                            s_name(writer), (unsigned long long)writer->dropped);
}

/* Checks a writer whose stream is known. Streams that are open or were ended by an agent have
 * their own reasons. */
static crema_err_t
s_take_stream(self_t *self, const sink_decoder_t *run, const Crema__Writer *writer)
{
    char uuid[37];
    const sink_stream_t *stream = sink_decoder_find_id(run, crema_id_of(writer->stream_id));
    uint64_t here = stream && stream->next_seq > 0 ? stream->next_seq - 1 : 0;
    uint64_t wrote = writer->last > 0 ? writer->last : 1; /* at least its StreamInfo */
    bool of_tasks = stream && (stream->kind == CREMA_STREAM_WORKER ||
                               stream->kind == CREMA_STREAM_SCHEDULER); /* writer_killed */
    bool lacks_end = here >= wrote && stream->closed && stream->end == CREMA_END_WRITER_GONE &&
                     writer->state == CREMA_WRITER_ENDED;
    if (lacks_end && (writer->dropped > 0 || !of_tasks))
        return s_take_unsaid(self, writer);
    if (here >= wrote)
        return CREMA_OK;
    self->loss = sink_bound_sum(self->loss, wrote - here);
    crema_id_uuid(crema_id_of(writer->stream_id), uuid);
    if (writer->last == 0)
        return sink_reasons_add(self->reasons, "records_missing", uuid, wrote - here,
                                "%s recorded, but none of its records arrived", s_name(writer));
    return sink_reasons_add(self->reasons, "records_missing", uuid, wrote - here,
                            "%s wrote %llu records; the last %llu of them are missing",
                            s_name(writer), (unsigned long long)wrote,
                            (unsigned long long)(wrote - here));
}

/* Checks a worker whose stream is unknown: one of that worker must be present. */
static crema_err_t
s_take_worker(self_t *self, const sink_decoder_t *run, const sink_facts_t *facts,
              const Crema__Writer *writer)
{
    uint32_t worker = sink_dict_find(sink_decoder_dict(run), CREMA_DICT_WORKER, writer->uuid);
    if (worker < facts->n_workers && facts->workers[worker].has_stream)
        return CREMA_OK;
    return sink_reasons_add(
        self->reasons, self->is_damaged ? "records_lost" : "worker_without_stream", s_name(writer),
        0, "%s left before the end of the run, and none of its records %s", s_name(writer),
        self->is_damaged ? "can be read in the damaged journal" : "arrived");
}

static crema_err_t
s_take(self_t *self, const sink_decoder_t *run, const sink_facts_t *facts,
       const Crema__Writer *writer)
{
    if (writer->stream_id.len > 0)
        return s_take_stream(self, run, writer);
    switch (writer->state) {
    case CREMA_WRITER_LEFT:
        return s_take_worker(self, run, facts, writer);
    case CREMA_WRITER_SILENT:
        return sink_reasons_add(self->reasons, "worker_without_stream", s_name(writer), 0,
                                "%s recorded nothing: %.400s", s_name(writer), writer->text);
    default:
        return sink_reasons_add(self->reasons, "writer_unknown", s_name(writer), 0,
                                "%s could not be asked what it recorded: %.400s", s_name(writer),
                                writer->text);
    }
}

crema_err_t
sink_verdict_take_writers(const sink_decoder_t *run, const sink_facts_t *facts, bool is_damaged,
                          sink_reasons_t *reasons, int64_t *loss)
{
    self_t self = {reasons, *loss, is_damaged};
    const crema_writers_t *list = sink_meta_list(sink_decoder_meta(run));
    crema_writers_cursor_t cursor = {0};
    const Crema__Writer *writer;
    crema_err_t err = CREMA_OK;
    while (err == CREMA_OK && (writer = crema_writers_next(list, &cursor)) != NULL)
        err = s_take(&self, run, facts, writer);
    uint32_t here = crema_writers_parts(list), parts = sink_meta_parts(sink_decoder_meta(run));
    if (err == CREMA_OK &&
        ((here > 0 && !crema_writers_is_whole(list)) || (parts > 0 && here != parts)))
        err = sink_reasons_add(self.reasons, "writer_unknown", "run", 0,
                               "a part of the list of writers is missing");
    *loss = self.loss;
    return err;
}
