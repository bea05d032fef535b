#include <stdlib.h>

#include "agg_core_private.h"

#define SETTLE_NS                                                                                  \
    (10 * AGG_S) /* agents of a run that began before this aggregator may still reconnect */
#define KNOCK_NS                                                                                   \
    (60 * AGG_S) /* an agent that was not admitted is waited for if it tried this recently */
#define SEAL_WAIT_MIN_NS AGG_S
#define SEAL_WAIT_MAX_NS (5 * AGG_S)
#define SEAL_WAIT_FAILED_NS                                                                        \
    (60 * AGG_S) /* the sink retries by itself; this covers one that has given up */

static const crema_id_t s_no_agent;

static void
s_note_event(agg_core_t *self, agg_entry_t *entry, agg_event_t event)
{
    entry->events |= 1u << event;
    entry->want_state = entry->has_watcher;
    agg_entry_out(self, entry);
}

/* ---------------------------------------------------------------- the barrier */

/* Asks an agent that can have something of the run, repeatedly until it answers. */
static void
s_expect(agg_core_t *self, agg_entry_t *entry, agg_client_t *client, int64_t now_ns)
{
    agg_member_t *member = NULL;
    if (!agg_client_may_have(client, entry))
        return;
    if (agg_run_member(entry->run, agg_agent_id(client->agent), &member) != CREMA_OK) {
        self->stats.refused++;
        return;
    }
    agg_run_set_optional(member,
                         crema_id_is_zero(&client->bound) && crema_id_is_zero(&client->serves));
    agg_run_expect(entry->run, member, agg_agent_interval_ns(client->agent),
                   agg_agent_silent_ns(client->agent, now_ns), now_ns);
    agg_entry_out(self, entry);
}

/* True if it was dismissed when the run was abandoned and has nothing of it: it need not return
 * to answer. */
static bool
s_has_left(const agg_entry_t *entry, const agg_client_t *client)
{
    return client->dismissed && agg_client_is_dismissable(client) &&
           crema_id_equal(&client->dismissed_run_id, &entry->run->run_id);
}

/* Every connected agent that can have something of the run must report what it holds; an absent
 * one is waited for only if it left streams open. */
void
agg_runs_begin_barrier(agg_core_t *self, agg_entry_t *entry, int64_t now_ns)
{
    size_t cursor = 0;
    int64_t slowest_ns = 0;
    for (agg_client_t *client; (client = crema_map_next(self->clients, &cursor)) != NULL;) {
        if (!agg_client_may_have(client, entry))
            continue;
        agg_agent_state_t state = agg_agent_state(client->agent, now_ns);
        int64_t interval_ns = agg_agent_interval_ns(client->agent);
        slowest_ns = interval_ns > slowest_ns ? interval_ns : slowest_ns;
        agg_member_t *member = agg_run_find(entry->run, agg_agent_id(client->agent));
        bool owes = member && !member->settled;
        bool knocks =
            state == AGG_AGENT_NEW && agg_agent_silent_ns(client->agent, now_ns) < KNOCK_NS;
        if (s_has_left(entry, client))
            continue;
        if (state == AGG_AGENT_LIVE || state == AGG_AGENT_SUSPECT || knocks ||
            agg_client_hides(self, client, entry) ||
            (owes && (state == AGG_AGENT_LOST || state == AGG_AGENT_EXPIRED)))
            s_expect(self, entry, client, now_ns);
    }
    agg_member_t *unlisted = NULL;
    if (entry->run->streams == 0 && agg_run_member(entry->run, &s_no_agent, &unlisted) == CREMA_OK)
        agg_run_expect(entry->run, unlisted, AGG_S, 0, now_ns);
    else if ((unlisted = agg_run_find(entry->run, &s_no_agent)) !=
             NULL) /* any agent may bring it */
        agg_run_pace(unlisted, slowest_ns ? slowest_ns : AGG_S);
    if (agg_writers_recorded_nothing(entry))
        agg_run_expect_no_stream(entry->run);
    agg_ages_follow(self, entry, now_ns);
    s_note_event(self, entry, AGG_EVENT_RUN_BARRIER);
}

/* The agent's next unsettled membership in a run that still wants answers; NULL: no more. *link
 * is the position after it, NULL at the start. */
static agg_member_t *
s_next_awaited(agg_core_t *self, const agg_client_t *client, crema_link_t **link,
               agg_entry_t **ret_entry)
{
    crema_link_t *list = agg_awaited_of(self->awaited, agg_agent_id(client->agent));
    if (list && !*link)
        *link = list->next;
    while (list && *link != list) {
        agg_member_t *member = CREMA_LIST_ITEM(*link, agg_member_t, awaited);
        const agg_run_t *run = member->run;
        *link = (*link)->next; /* the member may leave the list */
        if (!agg_run_wants_answers(run))
            continue;
        *ret_entry = crema_map_find(self->entries, &run->run_id);
        return member;
    }
    return NULL;
}

/* An agent that connects while a run ends must report what it has of it; after the verdict only
 * members that were missing. */
void
agg_runs_on_client(agg_core_t *self, agg_client_t *client, int64_t now_ns)
{
    agg_entry_t *entry;
    crema_link_t *next = NULL;
    for (crema_link_t *link = self->ending.next; link != &self->ending; link = link->next)
        s_expect(self, CREMA_LIST_ITEM(link, agg_entry_t, ending), client, now_ns);
    while (s_next_awaited(self, client, &next, &entry))
        if (entry->run->phase != CREMA_RUN_BARRIER)
            s_expect(self, entry, client, now_ns);
}

void
agg_runs_on_answer(agg_core_t *self, agg_client_t *client, uint64_t barrier_seen, int64_t now_ns)
{
    agg_entry_t *entry;
    agg_member_t *member;
    crema_link_t *next = NULL;
    while ((member = s_next_awaited(self, client, &next, &entry)))
        if (!agg_client_hides(self, client, entry)) /* otherwise it is asked again */
            agg_run_on_answer(entry->run, member, barrier_seen, now_ns);
}

void
agg_runs_on_bye(agg_core_t *self, agg_client_t *client, int64_t now_ns)
{
    agg_entry_t *entry;
    agg_member_t *member;
    crema_link_t *next = NULL;
    while ((member = s_next_awaited(self, client, &next, &entry)))
        if (!agg_client_hides(self, client, entry))
            agg_run_excuse(entry->run, member, now_ns);
}

/* ---------------------------------------------------------------- requests of the collector */

static void
s_on_open(agg_core_t *self, agg_entry_t *entry, const Crema__RunOpen *msg)
{
    bool known = entry->run->phase != CREMA_RUN_UNKNOWN;
    if (agg_run_on_open(entry->run, msg) != CREMA_OK) {
        self->stats.refused++;
        return;
    }
    entry->want_open = true;
    entry->want_lend = msg->agent_key.len > 0;
    if (!known)
        s_note_event(self, entry, AGG_EVENT_RUN_OPENED);
}

/* An earlier aggregator may have ended it and the sink may have sealed it; then the sink reports
 * so. */
static bool
s_may_be_sealed(const agg_entry_t *entry)
{
    return entry->run->phase == CREMA_RUN_BARRIER && !entry->run->opened;
}

static void
s_on_end(agg_core_t *self, agg_entry_t *entry, const Crema__RunEnd *msg, int64_t now_ns)
{
    crema_err_t err = agg_run_on_end(entry->run, msg, self->barriers + 1, now_ns);
    if (err == CREMA_OK) {
        self->barriers++;
        agg_writers_follow(self, entry);
        agg_runs_begin_barrier(self, entry, now_ns);
    } else if (err != CREMA_EREPEAT) {
        self->stats.refused++;
    }
    entry->want_end = s_may_be_sealed(entry);
}

static void
s_refuse(agg_core_t *self, agg_peer_t peer, const crema_id_t *run_id, crema_refusal_t refusal)
{
    self->stats.refused += refusal != CREMA_REFUSED_UNKNOWN_RUN;
    self->stats.not_allowed += refusal == CREMA_REFUSED_OTHER_KEY;
    agg_reply(self, peer,
              &(crema_msg_t){.type = CREMA_MSG_RUN_STATE,
                             .run_state = {.run_id = crema_id_field(run_id), .refusal = refusal}});
}

void
agg_runs_on_message(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg, int64_t now_ns)
{
    bool is_query = msg->type == CREMA_MSG_RUN_QUERY;
    bool is_list = msg->type == CREMA_MSG_RUN_WRITERS;
    const crema_id_t *run_id = crema_id_of(msg->run_id);
    agg_entry_t *entry = crema_map_find(self->entries, run_id);
    if (!agg_owner_is_known(self, entry))
        return; /* clients ask again */
    crema_refusal_t refusal =
        crema_id_is_zero(run_id) ? CREMA_REFUSED_BAD_ID : agg_refusal(self, entry, peer, msg);
    if (refusal == CREMA_REFUSED_NOT && !entry) {
        agg_entry_forget_finished(self, peer);
        entry = agg_entry_get(self, run_id, now_ns);
        refusal = entry ? CREMA_REFUSED_NOT : CREMA_REFUSED_NO_ROOM;
    }
    if (refusal != CREMA_REFUSED_NOT) {
        s_refuse(self, peer, run_id, refusal);
        return;
    }
    self->took_run = entry->was_asked = true;
    entry->watcher = peer;
    entry->has_watcher = entry->want_state = true;
    if (!is_query)
        agg_owner_take(self, entry, peer);
    agg_ages_heard(self, entry, now_ns);
    agg_entry_out(self, entry);
    if (!is_query && !is_list)
        agg_split_set_prefixes(self, entry, &msg->run_open);
    if (msg->type == CREMA_MSG_RUN_OPEN)
        s_on_open(self, entry, &msg->run_open);
    else if (msg->type == CREMA_MSG_RUN_END)
        s_on_end(self, entry, &msg->run_end, now_ns);
    else if (is_list)
        agg_writers_on_message(self, entry, &msg->run_writers, now_ns);
    agg_owner_keep_messages(entry);
}

/* ---------------------------------------------------------------- the verdict */

static void
s_blame_streams(agg_entry_t *entry, const agg_member_t *member)
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    for (crema_link_t *link = entry->flows.next; link != &entry->flows; link = link->next) {
        const agg_flow_t *flow = CREMA_LIST_ITEM(link, agg_flow_t, of_entry);
        if (flow->member != member || flow->tally.done)
            continue;
        if (flow->promised > flow->row.committed)
            agg_run_blame(entry->run, "records_missing", crema_id_hex(&flow->row.stream_id, hex),
                          flow->promised - flow->row.committed,
                          "its writer ended it, but no agent delivered all of it");
        else
            agg_run_blame(entry->run, "stream_not_closed", crema_id_hex(&flow->row.stream_id, hex),
                          flow->tally.missing,
                          "its writer did not end it, so what else it recorded is not known");
    }
}

static void
s_blame(agg_core_t *self, agg_entry_t *entry, const agg_member_t *member, int64_t now_ns)
{
    const agg_client_t *client = crema_map_find(self->clients, &member->agent_id);
    uint64_t missing = member->missing;
    char hex[CREMA_ID_HEX_CHARS + 1];
    const char *name =
        client ? agg_agent_name(client->agent) : crema_id_hex(&member->agent_id, hex);
    bool is_there = client && agg_agent_state(client->agent, now_ns) == AGG_AGENT_LIVE;
    bool hides = client && agg_client_hides(self, client, entry);
    if (hides)
        agg_client_blame_faults(self, client, entry);
    if (hides && missing == 0)
        s_blame_streams(entry, member);
    else if (!member->owes_answer && (missing == 0 || crema_id_is_zero(&member->agent_id)))
        s_blame_streams(entry, member);
    else if (!is_there)
        agg_run_blame(entry->run, "agent_lost", name, missing,
                      "the agent was silent when the run ended; count is the records that it was "
                      "known to hold");
    else
        agg_run_blame(entry->run, "agent_stalled", name, missing,
                      member->owes_answer
                          ? "the agent is alive but did not report what its spool holds"
                          : "the agent is alive, but these records of its streams did not arrive");
}

static void
s_give_verdict(agg_core_t *self, agg_entry_t *entry, int64_t mono_ns, int64_t real_ns)
{
    agg_run_t *run = entry->run;
    agg_run_clear_reasons(run);
    if (entry->revoked)
        agg_run_blame_for_good(run, "key_revoked", "", 0,
                               "the key that opened the run was revoked before the run ended");
    if (run->streams == 0)
        agg_run_blame(run, "agent_never_seen", "", 0, "no agent ever had a stream of this run");
    for (size_t i = 0; i < run->n_members; i++) {
        const agg_member_t *member = run->members[i];
        bool stands_for_none = crema_id_is_zero(&member->agent_id) && member->streams == 0;
        if (!member->settled && !stands_for_none)
            s_blame(self, entry, member, mono_ns);
    }
    agg_writers_blame(entry);
    agg_run_give_verdict(run, mono_ns, real_ns);
    entry->want_seal = true;
    entry->seal_wait_ns = SEAL_WAIT_MIN_NS;
    entry->seal_at_ns = mono_ns + entry->seal_wait_ns;
    agg_ages_follow(self, entry, mono_ns);
    s_note_event(self, entry, AGG_EVENT_RUN_VERDICT);
}

static bool
s_is_settled_in(const agg_core_t *self, const agg_entry_t *entry, int64_t now_ns)
{
    return self->sink_known && (entry->run->opened || now_ns - self->sink_known_ns >= SETTLE_NS);
}

/* Excuses agents that serve all runs, have nothing of this one as far as anybody knows, and have
 * been silent since it ended: somebody else's dead agent neither delays nor spoils it. One that
 * was not admitted yet has not listed what it has. */
static void
s_spare_silent(agg_core_t *self, agg_entry_t *entry, int64_t now_ns)
{
    agg_run_t *run = entry->run;
    for (size_t i = 0; run->is_listed && i < run->n_members; i++) {
        agg_member_t *member = run->members[i];
        if (!agg_run_can_spare(run, member, now_ns))
            continue;
        const agg_client_t *client = crema_map_find(self->clients, &member->agent_id);
        bool knocks = client && agg_agent_state(client->agent, now_ns) == AGG_AGENT_NEW;
        if (!client ||
            (!knocks && agg_agent_silent_ns(client->agent, now_ns) >= now_ns - run->end_ns))
            agg_run_excuse(run, member, now_ns);
    }
}

/* True while a restarted sink has not yet reported the state of each stream: it may lack records
 * that the verdict relies on. */
static bool
s_is_in_doubt(const agg_entry_t *entry)
{
    for (crema_link_t *link = entry->flows.next; link != &entry->flows; link = link->next)
        if (CREMA_LIST_ITEM(link, agg_flow_t, of_entry)->row.recv_next == 0)
            return true;
    return false;
}

static bool
s_is_ready(const agg_core_t *self, const agg_entry_t *entry, int64_t now_ns)
{
    if (entry->revoked)
        return self->sink_known;
    return agg_run_is_ready(entry->run, now_ns) && s_is_settled_in(self, entry, now_ns) &&
           !s_is_in_doubt(entry);
}

void
agg_runs_decide(agg_core_t *self, int64_t mono_ns, int64_t real_ns)
{
    for (crema_link_t *link = self->ending.next; link != &self->ending;) {
        agg_entry_t *entry = CREMA_LIST_ITEM(link, agg_entry_t, ending);
        link = link->next; /* it may leave the list */
        if (s_is_ready(self, entry, mono_ns))
            s_give_verdict(self, entry, mono_ns, real_ns);
    }
    crema_link_t *mended = agg_awaited_mended(self->awaited), *last = mended->prev;
    for (crema_link_t *link = mended->next, *next; link != mended; link = next) {
        const agg_run_t *run = CREMA_LIST_ITEM(link, agg_run_t, mended);
        next = link == last ? mended : link->next;
        s_give_verdict(self, crema_map_find(self->entries, &run->run_id), mono_ns, real_ns);
    }
}

/* ---------------------------------------------------------------- sealed, and afterwards */

static bool
s_had_streams(const agg_entry_t *entry, const agg_client_t *client)
{
    const agg_member_t *member = agg_run_find(entry->run, agg_agent_id(client->agent));
    return member && member->streams > 0;
}

bool
agg_client_is_dismissable(const agg_client_t *client)
{
    for (crema_link_t *link = client->flows.next; link != &client->flows; link = link->next) {
        const agg_flow_t *flow = CREMA_LIST_ITEM(link, agg_flow_t, of_client);
        bool undelivered = !flow->tally.done;
        if (flow->entry->run->phase < CREMA_RUN_VERDICT || undelivered)
            return false;
    }
    return true;
}

/* Dismisses the agents of a run; an agent that cannot go yet is dismissed after a later
 * heartbeat. */
static void
s_dismiss(agg_core_t *self, const agg_entry_t *entry)
{
    size_t cursor = 0;
    for (agg_client_t *client; (client = crema_map_next(self->clients, &cursor)) != NULL;) {
        if (!s_had_streams(entry, client))
            continue;
        client->dismissed = true;
        client->dismissed_run_id = entry->run->run_id;
        client->want_dismiss = agg_client_is_dismissable(client);
        agg_client_out(self, client);
    }
}

void
agg_runs_on_sealed(agg_core_t *self, const Crema__Sealed *sealed, int64_t now_ns)
{
    agg_entry_t *entry = crema_map_find(self->entries, crema_id_of(sealed->run_id));
    if (!entry)
        return; /* a forgotten run, or one that another aggregator ended */
    bool had_failed = entry->run->phase == CREMA_RUN_FAILED;
    crema_err_t err = agg_run_on_sealed(entry->run, sealed);
    if (err != CREMA_OK) {
        self->stats.refused += err != CREMA_EREPEAT; /* RUN_SEAL is repeated and answered again */
        return;
    }
    agg_ages_follow(self, entry, now_ns);
    entry->late_reported = false;
    entry->want_seal = false;
    if (entry->run->phase == CREMA_RUN_FAILED) {
        entry->seal_wait_ns = SEAL_WAIT_FAILED_NS;
        entry->seal_at_ns = now_ns + entry->seal_wait_ns;
        if (had_failed)
            return; /* already reported; a run that can never be sealed is forgotten eventually */
    }
    agg_split_end(entry);
    s_note_event(self, entry, AGG_EVENT_RUN_SEALED);
    if (entry->run->dismiss)
        s_dismiss(self, entry);
}

/* Repeats RUN_SEAL unless the verdict must be revised. */
static void
s_seal_again(agg_core_t *self, agg_entry_t *entry, int64_t now_ns)
{
    const bool failed = entry->run->phase == CREMA_RUN_FAILED;
    const int64_t most_ns = failed ? SEAL_WAIT_FAILED_NS : SEAL_WAIT_MAX_NS;
    if (s_is_in_doubt(entry))
        return;
    if (entry->regressed && agg_run_reopen(entry->run, now_ns)) {
        entry->regressed = false;
        agg_ages_follow(self, entry, now_ns);
        s_note_event(self, entry, AGG_EVENT_RUN_BARRIER);
    } else {
        entry->want_seal = true;
        entry->seal_wait_ns *= 2;
        if (entry->seal_wait_ns > most_ns)
            entry->seal_wait_ns = most_ns;
        entry->seal_at_ns = now_ns + entry->seal_wait_ns;
    }
    agg_entry_out(self, entry);
}

void
agg_runs_on_sink_up(agg_core_t *self, int64_t now_ns)
{
    size_t cursor = 0;
    for (agg_entry_t *entry; (entry = crema_map_next(self->entries, &cursor)) != NULL;) {
        crema_run_phase_t phase = entry->run->phase;
        entry->want_open = entry->run->open_msg && phase != CREMA_RUN_SEALED;
        entry->want_end = s_may_be_sealed(entry);
        if (phase != CREMA_RUN_SEALED)
            agg_writers_on_sink_up(self, entry);
        if (crema_list_is_linked(&entry->filing))
            entry->seal_at_ns = now_ns;
        agg_entry_out(self, entry);
    }
}

void
agg_runs_on_tick(agg_core_t *self, int64_t now_ns)
{
    for (crema_link_t *link = self->ending.next; link != &self->ending; link = link->next) {
        agg_entry_t *entry = CREMA_LIST_ITEM(link, agg_entry_t, ending);
        s_spare_silent(self, entry, now_ns);
        agg_run_on_tick(entry->run, now_ns);
        agg_entry_out(self, entry);
    }
    for (crema_link_t *link = self->filing.next; link != &self->filing;) {
        agg_entry_t *entry = CREMA_LIST_ITEM(link, agg_entry_t, filing);
        link = link->next; /* it may leave the list */
        if (now_ns >= entry->seal_at_ns)
            s_seal_again(self, entry, now_ns);
    }
}
