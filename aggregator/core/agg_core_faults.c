/* What agents could not read in their spools: kept until the next table, attributed to the runs
 * it may belong to, and named in their verdicts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agg_core_private.h"

#define CAUSE_BYTES 160

void
agg_client_take_faults(agg_client_t *client, size_t n, Crema__Reason **faults)
{
    crema_msg_destroy(&client->faults);
    client->faults_lost = false;
    n = n < CREMA_WIRE_FAULTS_MAX ? n : CREMA_WIRE_FAULTS_MAX;
    const crema_msg_t msg = {.type = CREMA_MSG_BYE, .bye = {.n_faults = n, .faults = faults}};
    uint64_t bytes = n > 0 ? crema_msg_bytes(&msg) : 0;
    agg_owner_keep_faults(client, 0);
    if (n == 0)
        return;
    if (!agg_owner_may_keep(client->payer, bytes) ||
        crema_msg_copy(&msg, &client->faults) != CREMA_OK)
        client->faults_lost = true;
    else
        agg_owner_keep_faults(client, bytes);
}

/* Parses "sp-<stream>-<first>", a name chosen by the agent. */
static bool
s_parse_stream(const char *file, crema_id_t *ret_id)
{
    char hex[CREMA_ID_HEX_CHARS + 1] = {0};
    if (strncmp(file, "sp-", 3) != 0 || strlen(file) < 3 + CREMA_ID_HEX_CHARS)
        return false;
    memcpy(hex, file + 3, CREMA_ID_HEX_CHARS);
    return crema_id_parse(hex, ret_id);
}

/* A known stream belongs to its run only; an unknown one may belong to any run with an
 * incomplete list of writers. */
static bool
s_file_concerns(const agg_core_t *self, const Crema__Reason *fault, const agg_entry_t *entry)
{
    crema_id_t id;
    if (!s_parse_stream(fault->subject, &id))
        return false;
    const agg_flow_t *flow = crema_map_find(self->flows, &id);
    return flow ? flow->entry == entry && !flow->tally.done
                : agg_writers_may_have(self, entry, &id);
}

static bool
s_concerns(const agg_core_t *self, const Crema__Reason *fault, const agg_entry_t *entry)
{
    if (strcmp(fault->code, CREMA_FAULT_FILE) == 0)
        return s_file_concerns(self, fault, entry);
    return strcmp(fault->code, CREMA_FAULT_SPOOL) == 0 ||
           strcmp(fault->code, CREMA_FAULT_MORE) == 0;
}

bool
agg_client_hides(const agg_core_t *self, const agg_client_t *client, const agg_entry_t *entry)
{
    bool hides = client->faults_lost;
    for (size_t i = 0; !hides && client->faults && i < client->faults->bye.n_faults; i++)
        hides = s_concerns(self, client->faults->bye.faults[i], entry);
    return hides && agg_client_may_have(client, entry);
}

static void
s_blame(agg_entry_t *entry, const agg_client_t *client, const Crema__Reason *fault)
{
    const char *host = agg_agent_name(client->agent);
    char cause[CAUSE_BYTES];
    if (strcmp(fault->code, CREMA_FAULT_FILE) == 0) {
        snprintf(cause, sizeof cause, "the agent on %s cannot read this file: %s", host,
                 fault->text);
        agg_run_blame(entry->run, CREMA_FAULT_FILE, fault->subject, 0, cause);
    } else if (strcmp(fault->code, CREMA_FAULT_SPOOL) == 0) {
        snprintf(cause, sizeof cause, "the agent cannot list its spool: %s", fault->text);
        agg_run_blame(entry->run, CREMA_FAULT_SPOOL, host, 0, cause);
    } else {
        agg_run_blame(entry->run, CREMA_FAULT_MORE, host, fault->count,
                      "the agent cannot read this many further files of its spool");
    }
}

void
agg_client_blame_faults(const agg_core_t *self, const agg_client_t *client, agg_entry_t *entry)
{
    if (client->faults_lost)
        agg_run_blame(entry->run, CREMA_FAULT_MORE, agg_agent_name(client->agent), 0,
                      "the agent cannot read files of its spool; their names did not fit here");
    for (size_t i = 0; client->faults && i < client->faults->bye.n_faults; i++)
        if (s_concerns(self, client->faults->bye.faults[i], entry))
            s_blame(entry, client, client->faults->bye.faults[i]);
}
