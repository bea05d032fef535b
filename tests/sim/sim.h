/* sim - one history of a whole cluster in virtual time, from one seed: agents with spools, a
 * network, an aggregator, a sink with a disk.
 *
 * The shipped objects decide (crema_session, agg_core, sink_commit and what they are made of);
 * everything around them is modelled here: what a kill or a power cut leaves behind, what a
 * network does to messages, what a disk has and has not. An oracle that sees all of it, and none
 * of their insides, holds them to the promise. Nothing depends on anything but the seed.
 *
 *   sim_world.c    random numbers, the queue of what happens next, copies of messages
 *   sim_net.c      connections: FIFO with breaks as over TCP, or hostile: lost, doubled, late, out
 *                  of order
 *   sim_spool.c    streams of one host: records, segments, tails, what a power cut takes
 *   sim_agent.c    crema-agent around crema_session
 *   sim_agg.c      crema-aggregator around agg_core
 *   sim_sink.c     crema-sink around sink_commit, with pages that are buffered, written, durable
 *   sim_client.c   the collector: opens and ends the run, repeats until it is answered
 *   sim_faults.c   what goes wrong, and when it all heals
 *   sim_oracle.c   what must hold
 *   sim_main.c     the command */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_core.h"
#include "crema_life.h"
#include "crema_session.h"
#include "message_parts.h"
#include "sink_commit.h"

#define SIM_MS 1000000ll
#define SIM_S (1000 * SIM_MS)
#define SIM_AGENTS_MAX 4
#define SIM_STREAMS_MAX 96
#define SIM_RECORDS_MAX 512 /* of one stream */
#define SIM_SEGMENT 8       /* records a segment */
#define SIM_RUNS_MAX 2
#define SIM_PARTS 2 /* of the list of writers */
#define SIM_ABANDON_NS (20 * SIM_S)
#define SIM_ORPHAN_NS (2 * SIM_ABANDON_NS) /* likewise of the sink */
#define SIM_CREDIT_B (512u << 10)
#define SIM_REDIAL_MIN_NS (500 * SIM_MS) /* ZeroMQ's own reconnection */
#define SIM_REDIAL_MAX_NS (1500 * SIM_MS)

typedef struct sim sim_t;

/* ---- the ledger: what was recorded, whatever became of it */

typedef struct {
    uint64_t body;  /* what its frame carries */
    uint64_t other; /* what a record of the same number carried that a power cut took; 0 none */
    int64_t t_ns;   /* when write() returned */
    bool is_end;
} sim_record_t;

typedef struct {
    crema_id_t id, run_id;
    int agent; /* host */
    bool own;  /* the agent's samples */
    bool writer_alive;
    uint64_t hi;               /* last record in the spool */
    uint64_t synced;           /* a power cut keeps at least these */
    uint64_t first_avail;      /* whole segments below are unlinked */
    uint64_t power_lost;       /* highest number that a power cut took */
    bool closed;               /* hi is END */
    bool gone;                 /* delivered and unlinked */
    bool unread;               /* a record was written since the agent looked */
    crema_spool_stream_t seen; /* what the agent's last look showed; its cursor is the session's */
    uint64_t listed;           /* its last number, as its writer told the collector */
    bool is_listed;            /* in the list of writers */
    int64_t hidden_until_ns;   /* the agent cannot read it before */
    unsigned seen_life;        /* of the agent that has read it */
    char file[64];             /* name of its first segment */
    sim_record_t records[SIM_RECORDS_MAX + 1]; /* by number */
} sim_stream_t;

/* ---- the sink's journal */

typedef struct {
    uint64_t first, last; /* equal but for LOSS */
    uint64_t body;
    bool is_loss, is_end;
} sim_entry_t;

typedef struct {
    sim_entry_t *entries;
    size_t n, capacity;
    size_t written; /* entries behind write(): a kill leaves them */
    size_t durable; /* entries behind fdatasync(): a power cut leaves them */
    bool damaged;   /* entries from `hole` on cannot be read any more */
    size_t hole;
    uint64_t fell_from; /* what had been said to be durable when the hole was found */
    unsigned fell_life; /* of the aggregator then */
} sim_journal_t;

/* ---- nodes */

typedef enum { SIM_AGENT, SIM_AGG, SIM_SINK, SIM_CLIENT } sim_kind_t;

typedef struct {
    bool up;
    unsigned life; /* grows with each start: what was meant for an earlier one is void */
    int64_t stalled_until_ns;
} sim_process_t;

/* A host's monotonic clock: it began somewhere and runs a little too fast or too slow. */
typedef struct {
    int64_t base_ns;
    int64_t drift_ppb;
} sim_clock_t;

typedef struct {
    sim_process_t process;
    sim_clock_t clock;
    crema_session_t *session;
    uint64_t boot;
    int conn;          /* -1: none */
    int64_t redial_ns; /* the library connects anew at that time; 0: it need not */
    bool dead;         /* never started again */
    bool known;        /* to the living aggregator, which heard a HELLO */
    int own_stream[SIM_RUNS_MAX];
    int64_t interval_ns;
    int64_t blind_until_ns; /* it cannot list its spool before */
    bool dismissed;
} sim_agent_t;

typedef struct {
    sim_process_t process;
    sim_clock_t clock;
    agg_core_t *core;
    uint64_t boot;
    bool opened[SIM_RUNS_MAX]; /* this life heard RUN_OPEN */
    bool ended[SIM_RUNS_MAX];  /* and RUN_END */
    uint64_t heard_boot;       /* of the sink that spoke last */
    int64_t wall_ahead_ns;     /* of its monotonic clock: somebody sets it */
} sim_agg_t;

typedef struct {
    bool sealed;
    size_t reasons; /* of the last verdict */
    bool lacks_end; /* one of them */
    crema_life_t life;
    int64_t revision;
    int64_t heard_ns;       /* last sign of it */
    bool listed[SIM_PARTS]; /* parts of the list of writers that are durable */
    bool seal_asked;
    bool held; /* nothing is said of it before its journal was read once more */
} sim_sealed_t;

typedef struct {
    sim_process_t process;
    sink_commit_t *commit;
    uint64_t boot;
    bool full;
    bool commit_due;
    bool scrubbing; /* what lay in the store at its start is being read once more */
    int64_t busy_until_ns;
    sim_journal_t journals[SIM_STREAMS_MAX];
    sim_sealed_t sealed[SIM_RUNS_MAX];
} sim_sink_t;

typedef struct {
    bool open_answered, end_sent, sealed;
    int64_t end_at_ns, ended_ns, sealed_ns;
    int64_t verdict_after_ns;
    unsigned verdict_life; /* of the aggregator that gave the last one */
    bool dismiss;
    int64_t gone_ns;   /* its client is killed at that time; 0: it is not */
    int64_t back_ns;   /* another one comes then and ends the run; 0: none does */
    int64_t client_ns; /* the aggregator heard it last */
    bool is_unlisted;  /* its collector makes no list of writers */
    uint64_t verdicts, partials;
    size_t reasons; /* of the last one */
    bool has_list;
    Crema__Writer writers[SIM_STREAMS_MAX];
    size_t n_writers;
    uint32_t kept;
} sim_run_t;

/* ---- the network */

typedef struct {
    bool open;
    sim_kind_t from; /* AGENT, CLIENT, or AGG towards the sink */
    int who;         /* agent or client number */
    agg_peer_t peer; /* at the aggregator */
    /* FIFO: nothing arrives before what was sent earlier; [0] away from `from` */
    int64_t last_ns[2];
    int64_t cut_until_ns; /* partition */
} sim_conn_t;

#define SIM_CONNS_MAX 2048

#define SIM_ERRORS 10000 /* of offsets, in steps of 10 us */

typedef struct {
    uint64_t histories, records, violations, events, verdicts, partials, exempt, kills;
    uint64_t abandoned,
        returned; /* runs whose client was killed; of them those that it ended after all */
    uint64_t wall_steps;
    uint64_t cuts;                   /* of power, of a host or the sink's */
    uint64_t damages, holes;         /* of a journal, and how many of them were found */
    uint64_t dropped, doubled, late; /* messages */
    uint64_t offsets, offsets_held;  /* estimates of clocks, and how many were within their bound */
    uint64_t calm_offsets;           /* of them those where nothing went wrong */
    uint64_t offset_errors
        [SIM_ERRORS];   /* how many of these were off by so much; more counts as the last */
    int64_t slowest_ns; /* from heal to everything delivered and sealed */
} sim_totals_t;

struct sim {
    uint64_t seed, random;
    bool verbose;
    bool hostile; /* the network loses, doubles and reorders */
    bool faults;  /* anything goes wrong at all */
    bool power;   /* hosts lose power */
    bool regress; /* an older store is put back once */
    bool damage;  /* a stream's part of the journal of an open run is damaged once */
    bool healed;
    int64_t now_ns, heal_ns;
    int n_agents, n_runs, n_streams;
    sim_agent_t agents[SIM_AGENTS_MAX];
    sim_agg_t agg;
    sim_sink_t sink;
    sim_run_t runs[SIM_RUNS_MAX];
    crema_id_t run_ids[SIM_RUNS_MAX];
    int client_conn;
    int64_t client_redial_ns;
    int sink_conn;
    int64_t sink_redial_ns;
    sim_stream_t streams[SIM_STREAMS_MAX];
    sim_conn_t conns[SIM_CONNS_MAX];
    int n_conns;
    agg_peer_t peers;
    double drop_p, double_p;
    struct sim_event *heap;
    size_t n_heap, heap_capacity;
    uint64_t order;
    bool regressed;
    unsigned regress_life; /* of the aggregator when it happened */
    bool damaged;
    bool anybody_dead;
    sim_totals_t *totals;
    bool violated;
    char why[256];
};

/* sim_world.c */
uint64_t sim_random(sim_t *sim);
/* Uniform in [low, high]. */
int64_t sim_between(sim_t *sim, int64_t low, int64_t high);
bool sim_chance(sim_t *sim, double p);
crema_id_t sim_random_id(sim_t *sim);
/* Calls fn(sim, a, b, msg) at that time; msg may be NULL and is freed afterwards. */
typedef void (*sim_fn_t)(sim_t *sim, int a, int b, crema_msg_t *msg);
void sim_at(sim_t *sim, int64_t at_ns, sim_fn_t fn, int a, int b, crema_msg_t *msg);
/* False when nothing is left. */
bool sim_step(sim_t *sim);
void sim_clear(sim_t *sim);
/* One block, to be freed. */
crema_msg_t *sim_copy(const crema_msg_t *msg);
void sim_violation(sim_t *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_say(const sim_t *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sim_is_running(const sim_t *sim, const sim_process_t *process);
int64_t sim_clock(const sim_t *sim, const sim_clock_t *clock);
sim_clock_t sim_random_clock(sim_t *sim);
int sim_run_of(const sim_t *sim, const crema_id_t *run_id);

/* sim_net.c */
int sim_connect(sim_t *sim, sim_kind_t from, int who);
void sim_disconnect(sim_t *sim, int conn);
/* `away`: from the side that connected. False: the socket did not take it. */
bool sim_send(sim_t *sim, int conn, bool away, const crema_msg_t *msg);
int sim_conn_of_peer(const sim_t *sim, agg_peer_t peer);

/* sim_spool.c */
int sim_stream_new(sim_t *sim, int agent, int run, bool own);
bool sim_record(sim_t *sim, int stream, bool is_end);
void sim_stream_abandon(sim_t *sim, int stream);
/* As crema_spool_read(): whole frames from first_seq on, LOSS for what is no longer there. */
size_t sim_spool_read(sim_t *sim, int stream, uint64_t first_seq, uint8_t *buf, size_t size,
                      uint32_t *ret_n, uint64_t *ret_last);
void sim_spool_trim(sim_t *sim, int stream, uint64_t committed);
void sim_spool_power_cut(sim_t *sim, int agent);
int sim_stream_find(const sim_t *sim, const crema_id_t *id);
void sim_writers_start(sim_t *sim);

/* sim_agent.c, sim_agg.c, sim_sink.c, sim_client.c */
void sim_agent_start(sim_t *sim, int agent);
void sim_agent_kill(sim_t *sim, int agent);
void sim_agent_on_message(sim_t *sim, int agent, const crema_msg_t *msg);
void sim_agg_start(sim_t *sim);
void sim_agg_kill(sim_t *sim);
void sim_agg_on_peer(sim_t *sim, agg_peer_t peer, const crema_msg_t *msg);
void sim_agg_on_sink(sim_t *sim, const crema_msg_t *msg);
void sim_sink_start(sim_t *sim);
void sim_sink_kill(sim_t *sim, bool power_cut);
void sim_sink_regress(sim_t *sim);
void sim_sink_damage(sim_t *sim);
void sim_sink_on_message(sim_t *sim, const crema_msg_t *msg);
void sim_sink_destroy(sim_t *sim);
void sim_client_start(sim_t *sim);
void sim_client_on_message(sim_t *sim, const crema_msg_t *msg);

/* sim_faults.c */
void sim_faults_start(sim_t *sim);

/* sim_oracle.c */
void sim_check_trim(sim_t *sim, const sim_stream_t *stream, uint64_t committed);
void sim_check_verdict(sim_t *sim, int run, size_t reasons);
void sim_check_abandoned(sim_t *sim, int run);
void sim_check_credit(sim_t *sim);
void sim_check_offset(sim_t *sim, const Crema__ClockSample *sample);
void sim_check_dismissed(sim_t *sim, int agent);
bool sim_is_finished(const sim_t *sim);
void sim_check_end(sim_t *sim);

/* sim_history.c */
void sim_history(uint64_t seed, bool verbose, sim_totals_t *totals);

#endif
