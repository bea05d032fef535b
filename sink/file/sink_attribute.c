#include "sink_attribute.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"
#include "crema_reserved.h"

#define T(name, text)                                                                              \
    {                                                                                              \
        name, SINK_ATTRIBUTE_TEXT, text, 0, 0                                                      \
    }
#define I(name)                                                                                    \
    {                                                                                              \
        name, SINK_ATTRIBUTE_INT, NULL, -1, 0                                                      \
    }
#define I0(name)                                                                                   \
    {                                                                                              \
        name, SINK_ATTRIBUTE_INT, NULL, 0, 0                                                       \
    } /* time: 0 is unknown */
#define R(name)                                                                                    \
    {                                                                                              \
        name, SINK_ATTRIBUTE_REAL, NULL, 0, NAN                                                    \
    }

static const sink_attribute_t s_contract[] = {
    T("format", SINK_FORMAT),
    T("format_version", SINK_FORMAT_VERSION),
    T("Conventions", "CF-1.10"),
    T("timebase", "unix-utc-ns"),
    T("clock_correction", "none"),

    T("run_id", ""),
    T("run_label", ""),
    T("experiment_id", ""),
    T("scaling_series_id", ""),
    I("repeat_index"),

    T("state", ""),
    T("verdict", ""),
    T("verdict_reasons", "[]"),
    T("verdict_notes", "[]"),
    {"complete", SINK_ATTRIBUTE_U8, NULL, 0, 0},
    I("loss_total"),
    I("n_streams"),
    I("n_streams_open"),

    I("revision"),
    T("revision_reason", ""),
    T("sha256_payload", ""),
    T("prev_sha256_payload", ""),
    T("sha256_grid", ""),
    T("sha256_attributes", ""),
    T("created_utc", ""),

    I0("t_run_start_ns"),
    I0("t_run_end_ns"),
    I0("t_first_task_ns"),
    I0("t_last_task_end_ns"),

    T("processor_name", ""),
    T("processor_prefixes", "[]"),
    T("overhead_rule", ""),
    T("diagnosis_rules", ""),

    T("executor", ""),
    T("backend", ""),
    T("facility", ""),
    T("site", ""),
    T("host_sink", ""),
    T("user", ""),
    T("container_image", ""),
    T("slurm_job_id", ""),

    T("cmdline", ""),
    T("git_commit", ""),
    T("config_json", ""),
    T("python_version", ""),
    T("dask_version", ""),
    T("distributed_version", ""),
    T("coffea_version", ""),
    T("uproot_version", ""),
    T("awkward_version", ""),
    T("agent_version", ""),
    T("sink_version", ""),
    T("libhdf5_version", ""),
    T("zmq_version", ""),

    I("requested_workers"),
    R("cores_per_worker"),
    I("chunksize"),
    I("n_files"),
    I("n_datasets"),
    I("input_bytes"),
    T("data_source", ""),
    R("io_file_percent"),
    R("sample_interval_s"),
    R("heartbeat_interval_s"),
};

#define N_CONTRACT (sizeof s_contract / sizeof *s_contract)

struct sink_attributes {
    sink_attribute_t *all;
    size_t n, room;
    char **texts; /* to which they point, besides constants */
    size_t n_texts, texts_room;
};

size_t
sink_attribute_contract(const sink_attribute_t **ret_attributes)
{
    *ret_attributes = s_contract;
    return N_CONTRACT;
}

crema_err_t
sink_attributes_new(sink_attributes_t **ret_self)
{
    sink_attributes_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->all = malloc(sizeof s_contract);
    if (!self->all) {
        sink_attributes_destroy(&self);
        return CREMA_ENOMEM;
    }
    memcpy(self->all, s_contract, sizeof s_contract);
    self->n = self->room = N_CONTRACT;
    *ret_self = self;
    return CREMA_OK;
}

void
sink_attributes_destroy(sink_attributes_t **self_p)
{
    sink_attributes_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->n_texts; i++)
        free(self->texts[i]);
    free(self->texts);
    free(self->all);
    free(self);
    *self_p = NULL;
}

static size_t
s_find(const sink_attributes_t *self, const char *name)
{
    size_t i = 0;
    while (i < self->n && strcmp(self->all[i].name, name) != 0)
        i++;
    return i;
}

static bool
s_is_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return n > 0 && n <= 64 && name[n] == '\0';
}

/* A copy of the text that lasts as long as the attributes; NULL: no memory. */
static const char *
s_keep(sink_attributes_t *self, const char *text)
{
    char **texts = crema_grow(self->texts, self->n_texts, &self->texts_room, sizeof(char *));
    if (!texts)
        return NULL;
    self->texts = texts;
    char *copy = strdup(text);
    if (copy)
        texts[self->n_texts++] = copy;
    return copy;
}

static void
s_set_number(sink_attribute_t *attribute, const char *text)
{
    char *end;
    double real = strtod(text, &end);
    if (end == text || *end != '\0')
        return;
    if (attribute->type == SINK_ATTRIBUTE_REAL) {
        attribute->real = real;
        return;
    }
    int64_t integer = strtoll(text, &end, 10);
    if (*end == '\0')
        attribute->integer = integer;
    else if (fabs(real) < 9e15) /* "1e6", "4.0" */
        attribute->integer = (int64_t)real;
}

crema_err_t
sink_attributes_text(sink_attributes_t *self, const char *name, const char *text)
{
    size_t i = s_find(self, name);
    if (i < self->n && self->all[i].type != SINK_ATTRIBUTE_TEXT) {
        s_set_number(&self->all[i], text);
        return CREMA_OK;
    }
    if (i == self->n && !s_is_name(name))
        return CREMA_OK;
    sink_attribute_t *all = crema_grow(self->all, self->n, &self->room, sizeof *all);
    if (!all)
        return CREMA_ENOMEM;
    self->all = all;
    const sink_attribute_t attribute = {i < self->n ? all[i].name : s_keep(self, name),
                                        SINK_ATTRIBUTE_TEXT, s_keep(self, text), 0, 0};
    if (!attribute.name || !attribute.text)
        return CREMA_ENOMEM;
    all[i] = attribute;
    self->n += i == self->n;
    return CREMA_OK;
}

void
sink_attributes_int(sink_attributes_t *self, const char *name, int64_t value)
{
    size_t i = s_find(self, name);
    assert(i < self->n && self->all[i].type != SINK_ATTRIBUTE_TEXT);
    self->all[i].integer = value;
}

static bool
s_is_unknown(const sink_attribute_t *attribute)
{
    switch (attribute->type) {
    case SINK_ATTRIBUTE_TEXT:
        return attribute->text[0] == '\0' || strcmp(attribute->text, "[]") == 0;
    case SINK_ATTRIBUTE_REAL:
        return isnan(attribute->real);
    default:
        return attribute->integer <= 0;
    }
}

crema_err_t
sink_attributes_texts(sink_attributes_t *self, const sink_texts_t *texts, bool replace)
{
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < sink_texts_count(texts) && err == CREMA_OK; i++) {
        const char *name = sink_texts_name(texts, i), *value = sink_texts_value(texts, i);
        size_t known = s_find(self, name);
        if (value[0] == '\0' || crema_reserved(name))
            continue;
        if (!replace && known < self->n && !s_is_unknown(&self->all[known]))
            continue;
        err = sink_attributes_text(self, name, value);
    }
    return err;
}

size_t
sink_attributes_all(const sink_attributes_t *self, const sink_attribute_t **ret_attributes)
{
    *ret_attributes = self->all;
    return self->n;
}
