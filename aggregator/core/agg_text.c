#include "agg_text.h"

#include <stdlib.h>
#include <string.h>

/* Position of the next text in the block, whose size was measured before. */
typedef struct {
    char *at;
} writer_t;

static size_t
s_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 1;
}

static const char *
s_put(writer_t *writer, const char *text)
{
    size_t bytes = s_bytes(text);
    char *at = writer->at;
    if (text)
        memcpy(at, text, bytes);
    else
        *at = '\0';
    writer->at += bytes;
    return at;
}

static size_t
s_list_bytes(const char *const *texts, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += sizeof *texts + s_bytes(texts[i]);
    return bytes;
}

static const char *const *
s_put_list(writer_t *writer, const char **list, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        list[i] = s_put(writer, texts[i]);
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
    writer_t writer = {(char *)(lists + 2 * msg->n_attributes + msg->n_prefixes)};
    copy->keys = s_put_list(&writer, lists, msg->keys, msg->n_attributes);
    lists += msg->n_attributes;
    copy->values = s_put_list(&writer, lists, msg->values, msg->n_attributes);
    lists += msg->n_attributes;
    copy->processor_prefixes = s_put_list(&writer, lists, msg->processor_prefixes, msg->n_prefixes);
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
        bytes += sizeof *reasons + s_bytes(reasons[i].code) + s_bytes(reasons[i].subject) +
                 s_bytes(reasons[i].text);
    return bytes;
}

static const crema_reason_t *
s_put_reasons(writer_t *writer, crema_reason_t *list, const crema_reason_t *reasons, size_t n)
{
    for (size_t i = 0; i < n; i++)
        list[i] = (crema_reason_t){
            .code = s_put(writer, reasons[i].code),
            .subject = s_put(writer, reasons[i].subject),
            .text = s_put(writer, reasons[i].text),
            .count = reasons[i].count,
        };
    return list;
}

crema_err_t
agg_text_copy_sealed(const crema_sealed_t *msg, crema_sealed_t **ret_copy)
{
    size_t bytes = s_bytes(msg->path) + s_bytes(msg->verdict) + s_bytes(msg->error) +
                   s_reasons_bytes(msg->reasons, msg->n_reasons);
    crema_sealed_t *copy = malloc(sizeof *copy + bytes);
    if (!copy)
        return CREMA_ENOMEM;
    *copy = *msg;
    crema_reason_t *reasons = (crema_reason_t *)(copy + 1);
    writer_t writer = {(char *)(reasons + msg->n_reasons)};
    copy->reasons = s_put_reasons(&writer, reasons, msg->reasons, msg->n_reasons);
    copy->path = s_put(&writer, msg->path);
    copy->verdict = s_put(&writer, msg->verdict);
    copy->error = s_put(&writer, msg->error);
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
    writer_t writer = {(char *)(rows + n)};
    *copy = (crema_faults_t){n, s_put_reasons(&writer, rows, faults->rows, n)};
    *ret_copy = copy;
    return CREMA_OK;
}
