#include <stdlib.h>

#include "agg_core_private.h"

#define ACK_PATIENCE_NS (40 * AGG_MS) /* for a commit that is answered together with a heartbeat */

static const crema_id_t s_no_agent;

agg_flow_t *
agg_flow_get(agg_core_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
             int64_t now_ns)
{
    agg_flow_t *flow = crema_map_find(self->flows, stream_id);
    if (!flow && !crema_id_is_zero(run_id))
        flow = agg_flow_make(self, stream_id, run_id, now_ns);
    self->stats.refused += !flow;
    self->stats.no_room += !flow;
    return flow;
}

agg_flow_t *
agg_flow_bring(agg_core_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
               int64_t now_ns)
{
    agg_flow_t *flow = crema_map_find(self->flows, stream_id);
    if (flow)
        return flow;
    agg_entry_t *entry = crema_map_find(self->entries, run_id);
    agg_owner_t *owner = entry && entry->owner ? entry->owner : agg_owner_of_sender(self);
    bool has_room =
        agg_owner_may_have_stream(self, owner) && (entry || agg_owner_may_have_run(self, owner));
    if (has_room)
        flow = agg_flow_get(self, stream_id, run_id, now_ns);
    else
        self->stats.refused++, self->stats.no_room++;
    if (flow)
        agg_owner_adopt(self, flow->entry);
    return flow;
}

agg_flow_t *
agg_flow_make_listed(agg_core_t *self, agg_entry_t *entry, const crema_id_t *stream_id,
                     int64_t now_ns)
{
    agg_flow_t *flow = NULL;
    if (self->n_only_listed < self->config.streams_max / 2)
        flow = agg_flow_make(self, stream_id, &entry->run->run_id, now_ns);
    self->stats.refused += !flow;
    if (flow) {
        flow->only_listed = true;
        self->n_only_listed++;
        agg_owner_list(entry, 1);
    }
    return flow;
}

void
agg_flow_attach(agg_core_t *self, agg_flow_t *flow, agg_client_t *client, int64_t now_ns)
{
    if (flow->client == client)
        return;
    agg_member_t *member = flow->member;
    const crema_id_t *id = client ? agg_agent_id(client->agent) : &s_no_agent;
    if (client && agg_run_member(flow->entry->run, id, &member) != CREMA_OK)
        self->stats.refused++; /* left as it is: the verdict will name the stream */
    if (flow->client)
        agg_credit_release(self->credit, &flow->client->account, flow->held_b);
    flow->held_b = 0;
    crema_list_remove(&flow->of_client);
    crema_list_remove(&flow->ack);
    flow->client = client;
    if (client)
        agg_flow_unmark_listed(self, flow);
    if (client)
        crema_list_append(&client->flows, &flow->of_client);
    if (client && member != flow->member) {
        agg_run_tally(flow->entry->run, flow->member, &flow->tally, NULL, now_ns);
        flow->member = member;
        agg_run_tally(flow->entry->run, flow->member, NULL, &flow->tally, now_ns);
    }
}

static void
s_follow_credit(agg_core_t *self, agg_flow_t *flow)
{
    uint64_t held_b = crema_stream_uncommitted_b(flow->line);
    if (held_b < flow->held_b && flow->client)
        agg_credit_release(self->credit, &flow->client->account, flow->held_b - held_b);
    flow->held_b = held_b;
}

static void
s_follow_tally(agg_flow_t *flow, int64_t now_ns)
{
    const crema_stream_row_t *row = &flow->row;
    agg_tally_t tally = {
        .committed = row->committed,
        .missing = row->hi > row->committed ? row->hi - row->committed : 0,
        .done = crema_stream_is_done(flow->line),
    };
    if (tally.committed == flow->tally.committed && tally.missing == flow->tally.missing &&
        tally.done == flow->tally.done)
        return;
    agg_run_tally(flow->entry->run, flow->member, &flow->tally, &tally, now_ns);
    flow->tally = tally;
}

/* Most streams are fully committed, and then nothing can become due. */
static void
s_watch(agg_core_t *self, agg_flow_t *flow)
{
    const crema_stream_row_t *row = &flow->row;
    if (row->recv_next == 0 || row->hi >= row->recv_next || row->recv_next > row->committed + 1)
        crema_list_append(&self->watched, &flow->watch);
    else
        crema_list_remove(&flow->watch);
}

void
agg_flow_follow(agg_core_t *self, agg_flow_t *flow, int64_t now_ns)
{
    crema_stream_row_t was = flow->row;
    flow->row = crema_stream_row(flow->line);
    s_follow_credit(self, flow);
    s_follow_tally(flow, now_ns);
    s_watch(self, flow);
    if (flow->row.committed > was.committed) {
        self->stats.committed_records += flow->row.committed - was.committed;
        agg_ages_heard(self, flow->entry,
                       now_ns); /* also for records that another aggregator brought */
    }
    if (flow->row.committed < was.committed)
        flow->entry->regressed = true;
    bool moved = flow->row.committed != was.committed;
    bool placed = (flow->row.recv_next == 0) != (was.recv_next == 0);
    if (flow->client && (moved || placed)) {
        crema_list_append(&flow->client->acks, &flow->ack);
        flow->client->ack_waits = false;
        agg_client_out(self, flow->client);
    }
    crema_list_append(&self->due, &flow->due);
}

void
agg_flow_unlist(agg_core_t *self, agg_flow_t *flow, int64_t now_ns)
{
    crema_stream_t *line;
    if (!flow->client && flow->row.committed == 0) {
        agg_run_tally(flow->entry->run, flow->member, &flow->tally, NULL, now_ns);
        agg_flow_free(self, flow);
        return;
    }
    flow->is_listed = false;
    flow->promised = 0;
    if (crema_stream_new(&flow->row.stream_id, &flow->entry->run->run_id, &line) != CREMA_OK)
        return; /* it already expects the maximum */
    if (flow->client)
        crema_stream_set_interval(line, agg_agent_interval_ns(flow->client->agent));
    if (flow->row.recv_next > 0)
        crema_stream_on_state(line, flow->row.committed, flow->row.recv_next,
                              crema_stream_is_done(flow->line), now_ns);
    crema_stream_destroy(&flow->line);
    flow->line = line; /* its agent lists the rest in its next table */
    agg_flow_follow(self, flow, now_ns);
}

void
agg_flows_on_tick(agg_core_t *self, int64_t now_ns)
{
    for (crema_link_t *link = self->watched.next; link != &self->watched; link = link->next) {
        agg_flow_t *flow = CREMA_LIST_ITEM(link, agg_flow_t, watch);
        crema_list_append(&self->due, &flow->due);
        if (flow->client && flow->client->ack_waits &&
            now_ns - flow->client->ack_t2_ns >= ACK_PATIENCE_NS) {
            flow->client->ack_waits = false;
            agg_client_out(self, flow->client);
        }
    }
}

bool
agg_client_awaits_commit(const agg_client_t *client)
{
    for (const crema_link_t *link = client->flows.next; link != &client->flows; link = link->next) {
        const crema_stream_row_t *row = &CREMA_LIST_ITEM(link, agg_flow_t, of_client)->row;
        if (row->recv_next > row->committed + 1)
            return true;
    }
    return false;
}

uint64_t
agg_flow_short(const agg_flow_t *flow)
{
    bool is_short = flow->tally.done && flow->promised > flow->row.committed;
    return is_short ? flow->promised - flow->row.committed : 0;
}

/* The run keeps its sums, so a finished stream can be forgotten. */
static bool
s_is_forgettable(const agg_flow_t *flow)
{
    const agg_client_t *client = flow->client;
    return flow->tally.done && flow->entry->run->phase >= CREMA_RUN_SEALED &&
           agg_flow_short(flow) == 0 &&
           (!client || !client->has_session || flow->listed < client->whole_table);
}

static void
s_sweep(agg_core_t *self, agg_entry_t *entry)
{
    for (crema_link_t *link = entry->flows.next; link != &entry->flows;) {
        agg_flow_t *flow = CREMA_LIST_ITEM(link, agg_flow_t, of_entry);
        link = link->next;
        if (s_is_forgettable(flow))
            agg_flow_free(self, flow);
    }
}

void
agg_flows_sweep(agg_core_t *self)
{
    for (crema_link_t *link = self->over.next; link != &self->over;) {
        agg_entry_t *entry = CREMA_LIST_ITEM(link, agg_entry_t, over);
        link = link->next;
        s_sweep(self, entry);
        if (crema_list_is_empty(&entry->flows))
            crema_list_remove(&entry->over);
    }
}
