#include "agg_text.h"

#include <stdlib.h>

#include "crema_text.h"

static size_t
s_list_bytes(const char *const *texts, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += sizeof *texts + crema_text_bytes(texts[i]);
    return bytes;
}

static const char *const *
s_put_list(char **at, const char **list, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        list[i] = crema_text_put(at, texts[i]);
    return list;
}

crema_err_t
agg_text_copy_run(const crema_run_msg_t *msg, crema_run_msg_t **ret_copy)
{
    crema_run_msg_t *copy = malloc(sizeof *copy + s_list_bytes(msg->keys, msg->n_attributes) +
                                   s_list_bytes(msg->values, msg->n_attributes) +
                                   s_list_bytes(msg->processor_prefixes, msg->n_prefixes));
    if (!copy)
        return CREMA_ENOMEM;
    *copy = *msg;
    const char **lists = (const char **)(copy + 1);
    char *at = (char *)(lists + 2 * msg->n_attributes + msg->n_prefixes);
    copy->keys = s_put_list(&at, lists, msg->keys, msg->n_attributes);
    lists += msg->n_attributes;
    copy->values = s_put_list(&at, lists, msg->values, msg->n_attributes);
    lists += msg->n_attributes;
    copy->processor_prefixes = s_put_list(&at, lists, msg->processor_prefixes, msg->n_prefixes);
    copy->n_reasons = 0;
    copy->reasons = NULL;
    *ret_copy = copy;
    return CREMA_OK;
}

static size_t
s_reasons_bytes(const crema_reason_t *reasons, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += sizeof *reasons + crema_text_bytes(reasons[i].code) +
                 crema_text_bytes(reasons[i].subject) + crema_text_bytes(reasons[i].text);
    return bytes;
}

static const crema_reason_t *
s_put_reasons(char **at, crema_reason_t *list, const crema_reason_t *reasons, size_t n)
{
    for (size_t i = 0; i < n; i++)
        list[i] = (crema_reason_t){
            .code = crema_text_put(at, reasons[i].code),
            .subject = crema_text_put(at, reasons[i].subject),
            .text = crema_text_put(at, reasons[i].text),
            .count = reasons[i].count,
        };
    return list;
}

crema_err_t
agg_text_copy_sealed(const crema_sealed_t *msg, crema_sealed_t **ret_copy)
{
    size_t bytes = crema_text_bytes(msg->path) + crema_text_bytes(msg->verdict) +
                   crema_text_bytes(msg->error) + s_reasons_bytes(msg->reasons, msg->n_reasons);
    crema_sealed_t *copy = malloc(sizeof *copy + bytes);
    if (!copy)
        return CREMA_ENOMEM;
    *copy = *msg;
    crema_reason_t *reasons = (crema_reason_t *)(copy + 1);
    char *at = (char *)(reasons + msg->n_reasons);
    copy->reasons = s_put_reasons(&at, reasons, msg->reasons, msg->n_reasons);
    copy->path = crema_text_put(&at, msg->path);
    copy->verdict = crema_text_put(&at, msg->verdict);
    copy->error = crema_text_put(&at, msg->error);
    *ret_copy = copy;
    return CREMA_OK;
}

crema_err_t
agg_text_copy_faults(const crema_faults_t *faults, crema_faults_t **ret_copy)
{
    size_t n = faults->n < CREMA_WIRE_FAULTS_MAX ? faults->n : CREMA_WIRE_FAULTS_MAX;
    crema_faults_t *copy = malloc(sizeof *copy + s_reasons_bytes(faults->rows, n));
    if (!copy)
        return CREMA_ENOMEM;
    crema_reason_t *rows = (crema_reason_t *)(copy + 1);
    char *at = (char *)(rows + n);
    *copy = (crema_faults_t){n, s_put_reasons(&at, rows, faults->rows, n)};
    *ret_copy = copy;
    return CREMA_OK;
}
