#include "agg_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agg_core_impl.h"

#define CAUSE_BYTES 160
/* Agents of a run that began before this aggregator may still reconnect. */
#define SETTLE_NS (10 * AGG_S)
/* An agent that was not admitted is waited for if it tried this recently. */
#define TRIED_NS (60 * AGG_S)
#define SEAL_WAIT_MIN_NS AGG_S
#define SEAL_WAIT_MAX_NS (5 * AGG_S)
/* The sink retries by itself; this covers one that has given up. */
#define SEAL_WAIT_FAILED_NS (60 * AGG_S)
/* How long a complete sealed run can still be queried, and how long missing data may still come;
 * agents are known as long. */
#define WHOLE_NS (600 * AGG_S)
#define MISSING_NS (24 * 3600 * AGG_S)

static const crema_id_t s_no_agent, s_all_runs;

static void
s_note_event(agg_core_t *core, agg_run_t *run, agg_event_t event)
{
    run->events |= 1u << event;
    run->want_state = run->has_watcher;
    agg_run_out(core, run);
}

/* ---------------------------------------------------------------- what agents cannot read
 *
 * It is attributed to the runs that it may belong to, and named in their verdicts. */

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
s_file_concerns(const agg_core_t *core, const Crema__Reason *fault, const agg_run_t *run)
{
    crema_id_t id;
    if (!s_parse_stream(fault->subject, &id))
        return false;
    const agg_stream_t *stream = crema_map_find(core->streams, &id);
    return stream ? stream->run == run && !agg_stream_is_done(stream)
                  : agg_writers_may_have(core, run, &id);
}

/* True if all that the run lists is durable to its end. */
static bool
s_is_durable(const agg_run_t *run)
{
    return run->is_listed && run->sums.undone == 0;
}

/* Further files are as those with a name: of others, unless the list or a stream is not whole. An
 * agent that sees nothing of its spool may hold streams that nobody lists, its own among them. */
static bool
s_concerns(const agg_core_t *core, const Crema__Reason *fault, const agg_run_t *run)
{
    if (strcmp(fault->code, CREMA_FAULT_FILE) == 0)
        return s_file_concerns(core, fault, run);
    return strcmp(fault->code, CREMA_FAULT_SPOOL) == 0 ||
           (strcmp(fault->code, CREMA_FAULT_MORE) == 0 && !s_is_durable(run));
}

/* There were faults whose texts found no room. */
static bool
s_has_lost_faults(const agg_session_t *session, const agg_run_t *run)
{
    return session->faults_lost && (session->is_blind || !s_is_durable(run));
}

static bool
s_hides(const agg_core_t *core, const agg_session_t *session, const agg_run_t *run)
{
    bool hides = s_has_lost_faults(session, run);
    for (size_t i = 0; !hides && session->faults && i < session->faults->bye.n_faults; i++)
        hides = s_concerns(core, session->faults->bye.faults[i], run);
    return hides && agg_session_may_have(session, run);
}

static void
s_add_fault_reason(agg_run_t *run, const agg_session_t *session, const Crema__Reason *fault)
{
    const char *host = session->name;
    char cause[CAUSE_BYTES];
    if (strcmp(fault->code, CREMA_FAULT_FILE) == 0) {
        snprintf(cause, sizeof cause, "the agent on %s cannot read this file: %s", host,
                 fault->text);
        agg_run_add_reason(run, CREMA_FAULT_FILE, fault->subject, 0, cause);
    } else if (strcmp(fault->code, CREMA_FAULT_SPOOL) == 0) {
        snprintf(cause, sizeof cause, "the agent cannot list its spool: %s", fault->text);
        agg_run_add_reason(run, CREMA_FAULT_SPOOL, host, 0, cause);
    } else {
        agg_run_add_reason(run, CREMA_FAULT_MORE, host, fault->count,
                           "the agent cannot read this many further files of its spool");
    }
}

static void
s_add_fault_reasons(const agg_core_t *core, const agg_session_t *session, agg_run_t *run)
{
    if (s_has_lost_faults(session, run))
        agg_run_add_reason(
            run, CREMA_FAULT_MORE, session->name, 0,
            "the agent cannot read files of its spool; their names did not fit here");
    for (size_t i = 0; session->faults && i < session->faults->bye.n_faults; i++)
        if (s_concerns(core, session->faults->bye.faults[i], run))
            s_add_fault_reason(run, session, session->faults->bye.faults[i]);
}

/* ---------------------------------------------------------------- the barrier */

/* Asks an agent that can have something of the run, repeatedly until it answers. */
static void
s_expect(agg_core_t *core, agg_run_t *run, agg_session_t *session, int64_t now_ns)
{
    agg_member_t *member = NULL;
    if (!agg_session_may_have(session, run))
        return;
    if (agg_run_member(run, &session->agent_id, &member) != CREMA_OK) {
        core->stats.refused++;
        return;
    }
    member->is_optional = crema_id_is_zero(&session->bound) && crema_id_is_zero(&session->serves);
    agg_run_expect(run, member, agg_session_interval_ns(session),
                   agg_session_silent_ns(session, now_ns), now_ns);
    agg_run_out(core, run);
}

/* True if it was dismissed when the run was abandoned and has nothing of it: it need not return
 * to answer. */
static bool
s_has_left(const agg_run_t *run, const agg_session_t *session)
{
    return session->dismissed && agg_session_is_dismissable(session) &&
           crema_id_equal(&session->dismissed_run_id, &run->run_id);
}

/* An agent that can have something of the run must report what it holds if it is connected; an
 * absent one is waited for only if it left streams open. */
static void
s_expect_if_needed(agg_core_t *core, agg_run_t *run, agg_session_t *session, int64_t now_ns,
                   int64_t *slowest_ns)
{
    agg_session_state_t state = agg_session_state(session, now_ns);
    bool tried = state == AGG_SESSION_NEW && agg_session_silent_ns(session, now_ns) < TRIED_NS;
    bool is_absent = state == AGG_SESSION_LOST || state == AGG_SESSION_EXPIRED;
    const agg_member_t *member = agg_run_find(run, &session->agent_id);
    int64_t interval_ns = agg_session_interval_ns(session);
    *slowest_ns = interval_ns > *slowest_ns ? interval_ns : *slowest_ns;
    if (s_has_left(run, session))
        return;
    if (state == AGG_SESSION_LIVE || state == AGG_SESSION_SUSPECT || tried ||
        (is_absent && member && !member->settled) || s_hides(core, session, run))
        s_expect(core, run, session, now_ns);
}

/* Those whose only run this is by key and declaration, or, with a zero id, that serve all runs. */
static void
s_expect_serving(agg_core_t *core, agg_run_t *run, const crema_id_t *only_run, int64_t now_ns,
                 int64_t *slowest_ns)
{
    const crema_link_t *list = agg_lists_find(core->serving, only_run);
    for (crema_link_t *link = list ? list->next : NULL; link != list; link = link->next) {
        agg_session_t *session = CREMA_LIST_ITEM(link, agg_session_t, serving);
        if (agg_session_serves(session, &run->run_id))
            s_expect_if_needed(core, run, session, now_ns, slowest_ns);
    }
}

/* Those that have streams of the run although they declared another one. */
static void
s_expect_others(agg_core_t *core, agg_run_t *run, int64_t now_ns, int64_t *slowest_ns)
{
    for (size_t i = 0; i < run->n_members; i++) {
        const agg_member_t *member = run->members[i];
        agg_session_t *session = crema_map_find(core->sessions, &member->agent_id);
        if (session && member->sums.streams > 0 && !agg_session_serves(session, &run->run_id))
            s_expect_if_needed(core, run, session, now_ns, slowest_ns);
    }
}

static void
s_begin_barrier(agg_core_t *core, agg_run_t *run, int64_t now_ns)
{
    int64_t slowest_ns = 0;
    s_expect_serving(core, run, &run->run_id, now_ns, &slowest_ns);
    s_expect_serving(core, run, &s_all_runs, now_ns, &slowest_ns);
    s_expect_others(core, run, now_ns, &slowest_ns);
    agg_member_t *unlisted = NULL;
    if (run->sums.streams == 0 && agg_run_member(run, &s_no_agent, &unlisted) == CREMA_OK)
        agg_run_expect(run, unlisted, AGG_S, 0, now_ns);
    else if ((unlisted = agg_run_find(run, &s_no_agent)) != NULL) /* any agent may bring it */
        unlisted->interval_ns = slowest_ns ? slowest_ns : AGG_S;
    if (agg_writers_recorded_nothing(run))
        agg_run_expect_no_stream(run);
    agg_run_follow_phase(core, run, now_ns);
    s_note_event(core, run, AGG_EVENT_RUN_BARRIER);
}

/* The agent's next unsettled membership in a run that still wants answers; NULL: no more. *link
 * is the position after it, NULL at the start. */
static agg_member_t *
s_next_awaited(agg_core_t *core, const agg_session_t *session, crema_link_t **link)
{
    crema_link_t *list = agg_lists_find(core->awaited.of_agents, &session->agent_id);
    if (list && !*link)
        *link = list->next;
    while (list && *link != list) {
        agg_member_t *member = CREMA_LIST_ITEM(*link, agg_member_t, awaited);
        *link = (*link)->next; /* the member may leave the list */
        if (agg_run_wants_answers(member->run))
            return member;
    }
    return NULL;
}

/* An agent that connects while a run ends must report what it has of it; after the verdict only
 * members that were missing. */
void
agg_runs_on_session(agg_core_t *core, agg_session_t *session, int64_t now_ns)
{
    agg_member_t *member;
    crema_link_t *next = NULL;
    for (crema_link_t *link = core->ending.next; link != &core->ending; link = link->next)
        s_expect(core, CREMA_LIST_ITEM(link, agg_run_t, ending), session, now_ns);
    while ((member = s_next_awaited(core, session, &next)))
        if (member->run->phase != CREMA_RUN_BARRIER)
            s_expect(core, member->run, session, now_ns);
}

void
agg_runs_on_answer(agg_core_t *core, agg_session_t *session, uint64_t barrier_seen, int64_t now_ns)
{
    agg_member_t *member;
    crema_link_t *next = NULL;
    while ((member = s_next_awaited(core, session, &next)))
        if (!s_hides(core, session, member->run)) /* otherwise it is asked again */
            agg_run_on_answer(member->run, member, barrier_seen, now_ns);
}

void
agg_runs_on_bye(agg_core_t *core, agg_session_t *session, int64_t now_ns)
{
    agg_member_t *member;
    crema_link_t *next = NULL;
    while ((member = s_next_awaited(core, session, &next)))
        if (!s_hides(core, session, member->run))
            agg_run_excuse(member->run, member, now_ns);
}

/* ---------------------------------------------------------------- requests of the collector */

static void
s_on_open(agg_core_t *core, agg_run_t *run, const Crema__RunOpen *msg)
{
    bool known = run->phase != CREMA_RUN_UNKNOWN;
    if (agg_run_on_open(run, msg) != CREMA_OK) {
        core->stats.refused++;
        return;
    }
    run->want_open = true;
    run->want_admit = msg->agent_key.len > 0;
    if (!known)
        s_note_event(core, run, AGG_EVENT_RUN_OPENED);
}

/* An earlier aggregator may have ended it and the sink may have sealed it; then the sink reports
 * so. */
static bool
s_may_be_sealed(const agg_run_t *run)
{
    return run->phase == CREMA_RUN_BARRIER && !run->opened;
}

static void
s_on_end(agg_core_t *core, agg_run_t *run, const Crema__RunEnd *msg, int64_t now_ns)
{
    crema_err_t err = agg_run_on_end(run, msg, core->barriers + 1, now_ns);
    if (err == CREMA_OK) {
        core->barriers++;
        agg_writers_follow(core, run);
        s_begin_barrier(core, run, now_ns);
    } else if (err != CREMA_EREPEAT) {
        core->stats.refused++;
    }
    run->want_end = s_may_be_sealed(run);
}

static void
s_refuse(agg_core_t *core, agg_peer_t peer, const crema_id_t *run_id, crema_refusal_t refusal)
{
    core->stats.refused += refusal != CREMA_REFUSED_UNKNOWN_RUN;
    core->stats.not_allowed += refusal == CREMA_REFUSED_OTHER_KEY;
    agg_reply(core, peer,
              &(crema_msg_t){.type = CREMA_MSG_RUN_STATE,
                             .run_state = {.run_id = crema_id_field(run_id), .refusal = refusal}});
}

bool
agg_runs_on_message(agg_core_t *core, agg_peer_t peer, const crema_msg_t *msg, int64_t now_ns)
{
    bool is_query = msg->type == CREMA_MSG_RUN_QUERY;
    bool is_list = msg->type == CREMA_MSG_RUN_WRITERS;
    const crema_id_t *run_id = crema_id_of(msg->run_id);
    agg_run_t *run = crema_map_find(core->runs, run_id);
    if (!agg_owner_is_known(core, run))
        return false; /* clients ask again */
    crema_refusal_t refusal =
        crema_id_is_zero(run_id) ? CREMA_REFUSED_BAD_ID : agg_refusal(core, run, peer, msg);
    if (refusal == CREMA_REFUSED_NOT && !run) {
        agg_runs_forget_finished(core, peer);
        run = agg_run_get(core, run_id, now_ns);
        refusal = run ? CREMA_REFUSED_NOT : CREMA_REFUSED_NO_ROOM;
    }
    if (refusal != CREMA_REFUSED_NOT) {
        s_refuse(core, peer, run_id, refusal);
        return false;
    }
    run->was_asked = true;
    run->watcher = peer;
    run->has_watcher = run->want_state = true;
    if (!is_query)
        agg_owner_take(core, run, peer);
    agg_run_heard(core, run, now_ns);
    agg_run_out(core, run);
    if (!is_query && !is_list)
        agg_split_set_prefixes(core, run, &msg->run_open);
    if (msg->type == CREMA_MSG_RUN_OPEN)
        s_on_open(core, run, &msg->run_open);
    else if (msg->type == CREMA_MSG_RUN_END)
        s_on_end(core, run, &msg->run_end, now_ns);
    else if (is_list)
        agg_writers_on_message(core, run, &msg->run_writers, now_ns);
    agg_owner_keep_messages(run);
    return true;
}

/* ---------------------------------------------------------------- the verdict */

static void
s_add_stream_reasons(agg_run_t *run, const agg_member_t *member)
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    for (crema_link_t *link = run->streams.next; link != &run->streams; link = link->next) {
        const agg_stream_t *stream = CREMA_LIST_ITEM(link, agg_stream_t, of_run);
        if (stream->member != member || agg_stream_is_done(stream))
            continue;
        if (stream->listed_last > stream->at.committed)
            agg_run_add_reason(run, "records_missing", crema_id_hex(&stream->stream_id, hex),
                               stream->listed_last - stream->at.committed,
                               "its writer ended it, but no agent delivered all of it");
        else
            agg_run_add_reason(run, "stream_not_closed", crema_id_hex(&stream->stream_id, hex),
                               agg_stream_missing(stream),
                               "its writer did not end it, so what else it recorded is not known");
    }
}

static void
s_add_reason(agg_core_t *core, agg_run_t *run, const agg_member_t *member, int64_t now_ns)
{
    const agg_session_t *session = crema_map_find(core->sessions, &member->agent_id);
    uint64_t missing = member->sums.missing;
    char hex[CREMA_ID_HEX_CHARS + 1];
    const char *name = session ? session->name : crema_id_hex(&member->agent_id, hex);
    bool is_there = session && agg_session_state(session, now_ns) == AGG_SESSION_LIVE;
    bool hides = session && s_hides(core, session, run);
    if (hides)
        s_add_fault_reasons(core, session, run);
    if (hides && missing == 0)
        s_add_stream_reasons(run, member);
    else if (!member->owes_answer && (missing == 0 || crema_id_is_zero(&member->agent_id)))
        s_add_stream_reasons(run, member);
    else if (!is_there)
        agg_run_add_reason(
            run, "agent_lost", name, missing,
            "the agent was silent when the run ended; count is the records that it was "
            "known to hold");
    else
        agg_run_add_reason(
            run, "agent_stalled", name, missing,
            member->owes_answer
                ? "the agent is alive but did not report what its spool holds"
                : "the agent is alive, but these records of its streams did not arrive");
}

/* Excuses agents that serve all runs, have nothing of this one, and did not answer as long as they
 * were waited for, although they are there: all that the run lists is durable. */
static void
s_spare_unanswering(agg_core_t *core, agg_run_t *run, int64_t now_ns)
{
    for (size_t i = 0; s_is_durable(run) && i < run->n_members; i++) {
        agg_member_t *member = run->members[i];
        const agg_session_t *session = crema_map_find(core->sessions, &member->agent_id);
        if (agg_run_needs_no_answer(run, member) && !(session && s_hides(core, session, run)))
            agg_run_excuse(run, member, now_ns);
    }
}

static void
s_give_verdict(agg_core_t *core, agg_run_t *run, int64_t mono_ns, int64_t real_ns)
{
    s_spare_unanswering(core, run, mono_ns);
    agg_run_clear_reasons(run);
    if (run->revoked)
        agg_run_add_final_reason(run, "key_revoked", "", 0,
                                 "the key that opened the run was revoked before the run ended");
    if (run->sums.streams == 0)
        agg_run_add_reason(run, "agent_never_seen", "", 0,
                           "no agent ever had a stream of this run");
    for (size_t i = 0; i < run->n_members; i++) {
        const agg_member_t *member = run->members[i];
        bool stands_for_none = crema_id_is_zero(&member->agent_id) && member->sums.streams == 0;
        if (!member->settled && !stands_for_none)
            s_add_reason(core, run, member, mono_ns);
    }
    agg_writers_add_reasons(run);
    agg_run_give_verdict(run, mono_ns, real_ns);
    run->want_seal = true;
    run->seal_wait_ns = SEAL_WAIT_MIN_NS;
    run->seal_at_ns = mono_ns + run->seal_wait_ns;
    agg_run_follow_phase(core, run, mono_ns);
    s_note_event(core, run, AGG_EVENT_RUN_VERDICT);
}

static bool
s_is_settled_in(const agg_core_t *core, const agg_run_t *run, int64_t now_ns)
{
    return core->sink_known && (run->opened || now_ns - core->sink_known_ns >= SETTLE_NS);
}

/* Excuses agents that serve all runs, have nothing of this one as far as anybody knows, and have
 * been silent since it ended: somebody else's dead agent neither delays nor spoils it. One that
 * was not admitted yet has not listed what it has. */
static void
s_spare_silent(agg_core_t *core, agg_run_t *run, int64_t now_ns)
{
    for (size_t i = 0; run->is_listed && i < run->n_members; i++) {
        agg_member_t *member = run->members[i];
        if (!agg_run_can_spare(run, member, now_ns))
            continue;
        const agg_session_t *session = crema_map_find(core->sessions, &member->agent_id);
        bool tried = session && agg_session_state(session, now_ns) == AGG_SESSION_NEW;
        if (!session || (!tried && agg_session_silent_ns(session, now_ns) >= now_ns - run->end_ns))
            agg_run_excuse(run, member, now_ns);
    }
}

/* True while a restarted sink has not yet reported the state of each stream: it may lack records
 * that the verdict relies on. */
static bool
s_is_in_doubt(const agg_run_t *run)
{
    for (crema_link_t *link = run->streams.next; link != &run->streams; link = link->next)
        if (CREMA_LIST_ITEM(link, agg_stream_t, of_run)->at.next == 0)
            return true;
    return false;
}

static bool
s_is_ready(const agg_core_t *core, const agg_run_t *run, int64_t now_ns)
{
    if (run->revoked)
        return core->sink_known;
    return agg_run_is_ready(run, now_ns) && s_is_settled_in(core, run, now_ns) &&
           !s_is_in_doubt(run);
}

void
agg_runs_decide(agg_core_t *core, int64_t mono_ns, int64_t real_ns)
{
    for (crema_link_t *link = core->ending.next; link != &core->ending;) {
        agg_run_t *run = CREMA_LIST_ITEM(link, agg_run_t, ending);
        link = link->next; /* it may leave the list */
        if (s_is_ready(core, run, mono_ns))
            s_give_verdict(core, run, mono_ns, real_ns);
    }
    crema_link_t *recovered = &core->awaited.recovered, *last = recovered->prev;
    for (crema_link_t *link = recovered->next, *next; link != recovered; link = next) {
        next = link == last ? recovered : link->next;
        s_give_verdict(core, CREMA_LIST_ITEM(link, agg_run_t, recovered), mono_ns, real_ns);
    }
}

/* ---------------------------------------------------------------- sealed, and afterwards */

bool
agg_session_is_dismissable(const agg_session_t *session)
{
    for (crema_link_t *link = session->streams.next; link != &session->streams; link = link->next) {
        const agg_stream_t *stream = CREMA_LIST_ITEM(link, agg_stream_t, of_session);
        bool undelivered = !agg_stream_is_done(stream);
        if (stream->run->phase < CREMA_RUN_VERDICT || undelivered)
            return false;
    }
    return true;
}

/* Dismisses the agents of a run; an agent that cannot go yet is dismissed after a later
 * heartbeat. */
static void
s_dismiss(agg_core_t *core, const agg_run_t *run)
{
    for (size_t i = 0; i < run->n_members; i++) {
        agg_session_t *session = crema_map_find(core->sessions, &run->members[i]->agent_id);
        if (!session || run->members[i]->sums.streams == 0)
            continue;
        session->dismissed = true;
        session->dismissed_run_id = run->run_id;
        session->want_dismiss = agg_session_is_dismissable(session);
        agg_session_out(core, session);
    }
}

void
agg_runs_on_sealed(agg_core_t *core, const Crema__Sealed *sealed, int64_t now_ns)
{
    agg_run_t *run = crema_map_find(core->runs, crema_id_of(sealed->run_id));
    if (!run)
        return; /* a forgotten run, or one that another aggregator ended */
    bool had_failed = run->phase == CREMA_RUN_FAILED;
    crema_err_t err = agg_run_on_sealed(run, sealed);
    if (err != CREMA_OK) {
        core->stats.refused += err != CREMA_EREPEAT; /* RUN_SEAL is repeated and answered again */
        return;
    }
    agg_run_follow_phase(core, run, now_ns);
    run->late_reported = false;
    run->want_seal = false;
    if (run->phase == CREMA_RUN_FAILED) {
        run->seal_wait_ns = SEAL_WAIT_FAILED_NS;
        run->seal_at_ns = now_ns + run->seal_wait_ns;
        if (had_failed)
            return; /* already reported; a run that can never be sealed is forgotten eventually */
    }
    agg_run_end_split(run);
    s_note_event(core, run, AGG_EVENT_RUN_SEALED);
    if (run->dismiss)
        s_dismiss(core, run);
}

/* Repeats RUN_SEAL unless the verdict must be revised. */
static void
s_seal_again(agg_core_t *core, agg_run_t *run, int64_t now_ns)
{
    const bool failed = run->phase == CREMA_RUN_FAILED;
    const int64_t most_ns = failed ? SEAL_WAIT_FAILED_NS : SEAL_WAIT_MAX_NS;
    if (s_is_in_doubt(run))
        return;
    if (run->regressed && agg_run_reopen(run, now_ns)) {
        run->regressed = false;
        agg_run_follow_phase(core, run, now_ns);
        s_note_event(core, run, AGG_EVENT_RUN_BARRIER);
    } else {
        run->want_seal = true;
        run->seal_wait_ns *= 2;
        if (run->seal_wait_ns > most_ns)
            run->seal_wait_ns = most_ns;
        run->seal_at_ns = now_ns + run->seal_wait_ns;
    }
    agg_run_out(core, run);
}

void
agg_runs_on_sink_up(agg_core_t *core, int64_t now_ns)
{
    size_t cursor = 0;
    for (agg_run_t *run; (run = crema_map_next(core->runs, &cursor)) != NULL;) {
        crema_run_phase_t phase = run->phase;
        run->want_open = run->open_msg && phase != CREMA_RUN_SEALED;
        run->want_end = s_may_be_sealed(run);
        if (phase != CREMA_RUN_SEALED)
            agg_writers_on_sink_up(core, run);
        if (crema_list_is_linked(&run->filing))
            run->seal_at_ns = now_ns;
        agg_run_out(core, run);
    }
}

/* ---------------------------------------------------------------- abandoned and forgotten */

/* Ends the run on behalf of its client. */
static void
s_abandon(agg_core_t *core, agg_run_t *run, int64_t now_ns)
{
    bool is_known = run->open_msg || !crema_list_is_empty(&run->streams);
    if (!is_known ||
        agg_run_abandon(run, core->barriers + 1, now_ns, run->since_real_ns) != CREMA_OK) {
        agg_run_forget(core, run);
        return;
    }
    core->barriers++;
    run->events |= 1u << AGG_EVENT_RUN_ABANDONED;
    s_begin_barrier(core, run, now_ns);
}

void
agg_runs_on_revoked(agg_core_t *core, const crema_id_t *key, int64_t now_ns)
{
    size_t cursor = 0;
    for (agg_run_t *run; (run = crema_map_next(core->runs, &cursor)) != NULL;)
        if (run->has_opener && crema_id_equal(&run->opened_by.key, key) &&
            run->phase < CREMA_RUN_VERDICT) {
            run->revoked = true;
            run->has_watcher = run->want_state = false; /* it gets no more updates */
        }
    for (crema_link_t *link = core->ages[AGG_AGE_OPEN].next; link != &core->ages[AGG_AGE_OPEN];) {
        agg_run_t *run = CREMA_LIST_ITEM(link, agg_run_t, age);
        link = link->next; /* it leaves the list */
        if (run->revoked)
            s_abandon(core, run, now_ns);
    }
}

/* True if its client has sent a message here, or an agent connected here lists a stream of it.
 * Other runs, known only from the sink, may be served by another aggregator or by none; the sink
 * ends the latter. */
static bool
s_is_served(const agg_run_t *run)
{
    bool is_served = run->was_asked;
    for (crema_link_t *link = run->streams.next; link != &run->streams && !is_served;
         link = link->next)
        is_served = CREMA_LIST_ITEM(link, agg_stream_t, of_run)->session != NULL;
    return is_served;
}

static void
s_age_runs(agg_core_t *core, int64_t now_ns)
{
    agg_run_t *run;
    while ((run = agg_run_oldest(core, AGG_AGE_OPEN, now_ns - core->config.abandon_after_ns)))
        if (s_is_served(run))
            s_abandon(core, run, now_ns);
        else
            agg_run_forget(core, run);
    while ((run = agg_run_oldest(core, AGG_AGE_WHOLE, now_ns - WHOLE_NS)))
        agg_run_forget(core, run);
    while ((run = agg_run_oldest(core, AGG_AGE_MISSING, now_ns - MISSING_NS)))
        agg_run_forget(core, run);
}

void
agg_runs_on_tick(agg_core_t *core, int64_t now_ns)
{
    for (crema_link_t *link = core->ending.next; link != &core->ending; link = link->next) {
        agg_run_t *run = CREMA_LIST_ITEM(link, agg_run_t, ending);
        s_spare_silent(core, run, now_ns);
        agg_run_on_tick(run, now_ns);
        agg_run_out(core, run);
    }
    for (crema_link_t *link = core->filing.next; link != &core->filing;) {
        agg_run_t *run = CREMA_LIST_ITEM(link, agg_run_t, filing);
        link = link->next; /* it may leave the list */
        if (now_ns >= run->seal_at_ns)
            s_seal_again(core, run, now_ns);
    }
    s_age_runs(core, now_ns);
}
