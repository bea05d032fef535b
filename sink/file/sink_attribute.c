#include "sink_attribute.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    char **owned; /* its text, if owned */
    char **names; /* its name, if owned */
    size_t n, room;
};

size_t
sink_attribute_contract(const sink_attribute_t **ret_attributes)
{
    *ret_attributes = s_contract;
    return N_CONTRACT;
}

static crema_err_t
s_make_room(sink_attributes_t *self, size_t room)
{
    sink_attribute_t *all = realloc(self->all, room * sizeof *all);
    if (all)
        self->all = all;
    char **owned = realloc(self->owned, room * sizeof *owned);
    if (owned)
        self->owned = owned;
    char **names = realloc(self->names, room * sizeof *names);
    if (names)
        self->names = names;
    if (!all || !owned || !names)
        return CREMA_ENOMEM;
    memset(owned + self->room, 0, (room - self->room) * sizeof *owned);
    memset(names + self->room, 0, (room - self->room) * sizeof *names);
    self->room = room;
    return CREMA_OK;
}

crema_err_t
sink_attributes_new(sink_attributes_t **ret_self)
{
    sink_attributes_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    if (s_make_room(self, 2 * N_CONTRACT) != CREMA_OK) {
        sink_attributes_destroy(&self);
        return CREMA_ENOMEM;
    }
    memcpy(self->all, s_contract, sizeof s_contract);
    self->n = N_CONTRACT;
    *ret_self = self;
    return CREMA_OK;
}

void
sink_attributes_destroy(sink_attributes_t **self_p)
{
    sink_attributes_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->n; i++) {
        free(self->owned[i]);
        free(self->names[i]);
    }
    free(self->all);
    free(self->owned);
    free(self->names);
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

static crema_err_t
s_set_text(sink_attributes_t *self, size_t i, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return CREMA_ENOMEM;
    free(self->owned[i]);
    self->owned[i] = copy;
    self->all[i].text = copy;
    return CREMA_OK;
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
    if (i < self->n)
        return s_set_text(self, i, text);
    if (!s_is_name(name))
        return CREMA_OK;
    if (self->n == self->room && s_make_room(self, 2 * self->room) != CREMA_OK)
        return CREMA_ENOMEM;
    if (!(self->names[i] = strdup(name)))
        return CREMA_ENOMEM;
    self->all[i] = (sink_attribute_t){self->names[i], SINK_ATTRIBUTE_TEXT, "", 0, 0};
    self->n++;
    return s_set_text(self, i, text);
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
