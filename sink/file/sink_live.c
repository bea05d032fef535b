#include "sink_live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "sink_decoder.h"
#include "sink_h5.h"

/* The chunk of a table that is being filled. It is kept whole until it is full, since HDF5 takes
 * whole chunks as they are. */
typedef struct {
    uint8_t *rows;
    uint32_t n;
    uint32_t n_shown; /* in the file since a flush */
    uint64_t first;   /* the chunk's first row in the table */
} filling_t;

struct sink_live {
    char *path;
    crema_id_t run_id;
    sink_decoder_t *run;
    /* NULL until the first flush, so that it is created with the attributes known by then */
    sink_h5_t *file;
    bool broken;
    bool fresh; /* something came since the last flush */
    filling_t filling[CREMA_TABLE_COUNT];
};

static crema_err_t s_emit(void *context, crema_table_id_t id, const uint8_t *rows, size_t n);

crema_err_t
sink_live_new(const char *path, const crema_id_t *run_id, sink_live_t **ret_self)
{
    sink_live_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->run_id = *run_id;
    self->path = strdup(path);
    crema_err_t err = self->path ? sink_decoder_new(s_emit, self, &self->run) : CREMA_ENOMEM;
    if (err != CREMA_OK) {
        sink_live_close(&self);
        return err;
    }
    unlink(path); /* left from before a restart: this view starts over */
    self->fresh = true;
    *ret_self = self;
    return CREMA_OK;
}

static crema_err_t
s_describe(const sink_live_t *self, sink_attributes_t *attributes)
{
    char uuid[37];
    const sink_meta_t *meta = sink_decoder_meta(self->run);
    crema_err_t err = sink_attributes_texts(attributes, sink_meta_attributes(meta), true);
    if (err == CREMA_OK)
        err = sink_attributes_text(attributes, "run_id", crema_id_uuid(&self->run_id, uuid));
    if (err == CREMA_OK)
        err = sink_attributes_text(attributes, "state", "live");
    if (err == CREMA_OK)
        err = sink_attributes_text(attributes, "verdict", "OPEN");
    if (err == CREMA_OK)
        err = sink_attributes_text(attributes, "libhdf5_version", sink_h5_version());
    sink_attributes_int(attributes, "t_run_start_ns", sink_meta_start_ns(meta));
    return err;
}

static crema_err_t
s_create(sink_live_t *self)
{
    char why[SINK_H5_WHY_BYTES];
    sink_attributes_t *attributes = NULL;
    crema_err_t err = sink_attributes_new(&attributes);
    if (err == CREMA_OK)
        err = s_describe(self, attributes);
    crema_failpoint("live.before_create");
    if (err == CREMA_OK)
        err = sink_h5_create_live(self->path, attributes, &self->file, why);
    sink_attributes_destroy(&attributes);
    return err;
}

/* Closes the view for good; its content stays readable. */
static crema_err_t
s_break(sink_live_t *self, crema_err_t err)
{
    crema_err_t ignored = sink_h5_close(&self->file, NULL);
    (void)ignored;
    self->broken = true;
    for (int t = 0; t < CREMA_TABLE_COUNT; t++) {
        free(self->filling[t].rows);
        self->filling[t].rows = NULL;
    }
    return err;
}

/* ---- rows */

static crema_err_t
s_write(sink_live_t *self, crema_table_id_t id)
{
    filling_t *filling = &self->filling[id];
    const crema_table_t *table = crema_table(id);
    const bool is_full = filling->n == table->live_chunk_rows;
    const uint32_t from = is_full ? 0 : filling->n_shown, n = filling->n - from;
    if (n == 0)
        return CREMA_OK;
    if (!self->file) {
        crema_err_t err = s_create(self);
        if (err != CREMA_OK)
            return err;
    }
    crema_err_t err = sink_h5_put_rows(self->file, table, filling->first + from,
                                       filling->rows + from * crema_table_row_bytes(table), n);
    filling->n_shown = is_full ? 0 : filling->n;
    if (is_full) {
        filling->first += filling->n;
        filling->n = 0;
    }
    return err == CREMA_ELIMIT ? CREMA_OK : err; /* the table is full */
}

static crema_err_t
s_emit(void *context, crema_table_id_t id, const uint8_t *rows, size_t n)
{
    sink_live_t *self = context;
    filling_t *filling = &self->filling[id];
    const crema_table_t *table = crema_table(id);
    const size_t size = crema_table_row_bytes(table);
    if (!filling->rows && !(filling->rows = malloc(size * table->live_chunk_rows)))
        return CREMA_ENOMEM;
    crema_err_t err = CREMA_OK;
    for (size_t some; n > 0 && err == CREMA_OK; rows += some * size, n -= some) {
        const size_t room = table->live_chunk_rows - filling->n;
        some = n < room ? n : room;
        uint8_t *own = memcpy(filling->rows + filling->n * size, rows, some * size);
        for (size_t i = 0; id == CREMA_TABLE_CHUNKS && i < some; i++) {
            crema_chunks_row_t *row = (crema_chunks_row_t *)(own + i * size);
            row->attempt =
                UINT16_MAX; /* counted when the run is sealed: nothing is kept of each chunk */
        }
        filling->n += (uint32_t)some;
        if (some == room)
            err = s_write(self, id);
    }
    return err;
}

/* Writes names before the rows that use them. */
static crema_err_t
s_write_dictionaries(sink_live_t *self)
{
    sink_dict_t *dict = sink_decoder_dict(self->run);
    sink_decoder_settle(self->run);
    for (int t = CREMA_TABLE_DICT_STREAM; t <= CREMA_TABLE_DICT_STACK; t++) {
        crema_table_id_t id = (crema_table_id_t)t;
        uint32_t first, n;
        while (sink_dict_take(dict, id, &first, &n)) {
            crema_err_t err = sink_h5_put_rows(self->file, crema_table(id), first,
                                               sink_dict_row(dict, id, first), n);
            if (err != CREMA_OK && err != CREMA_ELIMIT) /* the table is full */
                return err;
        }
    }
    return CREMA_OK;
}

crema_err_t
sink_live_flush(sink_live_t *self)
{
    if (self->broken || !self->fresh)
        return CREMA_OK;
    self->fresh = false;
    crema_err_t err = self->file ? CREMA_OK : s_create(self);
    if (err == CREMA_OK)
        err = s_write_dictionaries(self);
    for (int t = 0; t < CREMA_TABLE_COUNT && err == CREMA_OK; t++)
        err = s_write(self, (crema_table_id_t)t);
    crema_failpoint("live.before_flush");
    if (err == CREMA_OK)
        err = sink_h5_flush(self->file);
    crema_failpoint("live.after_flush");
    return err == CREMA_OK ? err : s_break(self, err);
}

/* ---- input */

static crema_err_t
s_took(sink_live_t *self, crema_err_t err)
{
    self->fresh = true;
    return err == CREMA_OK ? err : s_break(self, err);
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    sink_live_t *self = context;
    return self->broken ? CREMA_OK : s_took(self, sink_decoder_put(self->run, put));
}

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    sink_live_t *self = context;
    return self->broken ? CREMA_OK : s_took(self, sink_decoder_msg(self->run, msg));
}

static crema_err_t
s_on_clock(void *context, const Crema__ClockSample *sample)
{
    sink_live_t *self = context;
    return self->broken ? CREMA_OK : s_took(self, sink_decoder_clock(self->run, sample));
}

sink_journal_visitor_t
sink_live_visitor(sink_live_t *self)
{
    return (sink_journal_visitor_t){
        .context = self, .put = s_on_put, .run = s_on_run, .clock = s_on_clock};
}

void
sink_live_close(sink_live_t **self_p)
{
    sink_live_t *self = *self_p;
    if (!self)
        return;
    if (self->run && !self->broken) {
        crema_err_t ignored = sink_live_flush(self);
        (void)ignored; /* the file is only a view: the journal has what it lacks */
    }
    crema_err_t ignored = sink_h5_close(&self->file, NULL);
    (void)ignored;
    for (int t = 0; t < CREMA_TABLE_COUNT; t++)
        free(self->filling[t].rows);
    sink_decoder_destroy(&self->run);
    free(self->path);
    free(self);
    *self_p = NULL;
}
