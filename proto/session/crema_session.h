/* crema_session - the sender's half of delivery: one agent's connection to the aggregator.
 * Pure: events in, actions out; time is an argument; no socket, clock, file or log.
 *
 *     INIT --dial--> HELLO_SENT --WELCOME, credit--> STREAMING <--credit 0--> STALLED
 *                        ^  |                            |
 *                        |  +--WELCOME, retry_after------+--no ACK for 4 H, FENCE: hang up, back off, dial
 *                        +--------------------------------
 *     drain(): STREAMING/STALLED -> DRAINING --all committed, or deadline--> BYE_SENT -> CLOSED
 *
 * The reactor feeds it: every stream of the spool after each scan, every message, a tick at least each 100 ms. After each event it
 * takes actions until there are none. Go-back-N: `next` of a stream moves on when DATA was handed to the socket; it returns to recv_next when
 * the aggregator asks (REPLAY) or did not move for 2 H, and to committed + 1 in a new session. */
#ifndef CREMA_SESSION_H
#define CREMA_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_wire.h"

/* Runs whose barriers come in one turn; further ones are asked for again. */
#define CREMA_SESSION_ENDS_MAX 64

typedef struct crema_session crema_session_t;

typedef enum {
    CREMA_SESSION_INIT,
    CREMA_SESSION_BACKOFF,    /* waits for the next dial */
    CREMA_SESSION_HELLO_SENT, /* dialled, HELLO out, no WELCOME yet; HELLO again every 2 s */
    CREMA_SESSION_STREAMING,
    CREMA_SESSION_STALLED,  /* welcomed, but no credit left */
    CREMA_SESSION_DRAINING, /* as STREAMING, and leaves when everything is committed */
    CREMA_SESSION_BYE_SENT,
    CREMA_SESSION_CLOSED, /* nothing more to do; see crema_session_end() */
} crema_session_state_t;

typedef enum {
    CREMA_SESSION_END_NONE,
    CREMA_SESSION_END_DRAINED,   /* drain() was asked and everything is committed */
    CREMA_SESSION_END_DEADLINE,  /* drain() was asked, the deadline came first: records stay */
    CREMA_SESSION_END_DISMISSED, /* the run is sealed and this agent was started for it */
    CREMA_SESSION_END_REFUSED,   /* FENCE(VERSION, CLONE, PRINCIPAL): do not dial again */
} crema_session_end_t;

typedef struct {
    crema_id_t agent_id;
    uint64_t boot;    /* random per start; also seeds the jitter */
    const char *host; /* borrowed for the session's life, as is version */
    const char *version;
    int32_t pid;
    crema_id_t run_id;    /* the one run that is served; zero: all */
    int64_t heartbeat_ns; /* H, 0.2 s to 60 s */
    size_t streams_max;   /* streams above it wait in the spool; at least 1 */
} crema_session_config_t;

typedef enum {
    CREMA_SESSION_DIAL,   /* close the socket if there is one, connect a fresh one */
    CREMA_SESSION_HANGUP, /* close the socket */
    CREMA_SESSION_SEND,   /* send msg; a full socket may drop it */
    /* Read from the spool, send DATA, then call crema_session_on_data_sent(). */
    CREMA_SESSION_SEND_DATA,
    /* A run ends: the agent ends its own stream of it, so that the SCAN that follows finds the END. */
    CREMA_SESSION_END_RUN,
    /* Scan the spool to its end at once, report every stream, then crema_session_on_scanned(). */
    CREMA_SESSION_SCAN,
    CREMA_SESSION_TRIM, /* committed moved: free the spool up to there */
} crema_session_action_type_t;

typedef struct {
    crema_session_action_type_t type;
    const crema_msg_t *msg; /* SEND: valid until the next call */
    crema_id_t stream_id;   /* SEND_DATA, TRIM */
    crema_id_t run_id;      /* SEND_DATA, END_RUN */
    uint64_t first_seq;     /* SEND_DATA */
    /* SEND_DATA: frames bytes at most: credit left, batch limit; never below one largest record */
    size_t max_bytes;
    uint64_t committed; /* TRIM */
    uint64_t session;   /* SEND_DATA: goes into the envelope */
} crema_session_action_t;

CREMA_MUST_CHECK crema_err_t crema_session_new(const crema_session_config_t *config, int64_t now_ns,
                                               crema_session_t **ret_self);
void crema_session_destroy(crema_session_t **self_p);

/* Another H, 0.2 s to 60 s, of which the aggregator learns with the next HELLO. */
void crema_session_set_interval(crema_session_t *self, int64_t heartbeat_ns);

/* A stream as the spool holds it now; hi never shrinks. committed and recv_next of the row are ignored. */
CREMA_MUST_CHECK crema_err_t crema_session_on_stream(crema_session_t *self,
                                                     const crema_stream_row_t *row, int64_t now_ns);
/* The spool no longer holds it (everything committed and trimmed). */
void crema_session_on_stream_gone(crema_session_t *self, const crema_id_t *stream_id);
/* What the scan could not read: copies of at most CREMA_WIRE_FAULTS_MAX rows. They travel with every table until the next call; with any of
 * them nothing counts as drained before its deadline. */
void crema_session_on_faults(crema_session_t *self, const crema_faults_t *faults);
/* The scan asked for by CREMA_SESSION_SCAN is reported completely: answers the barrier. Never after a scan that failed or saw less than
 * the spool holds. */
void crema_session_on_scanned(crema_session_t *self, uint64_t spool_b, uint64_t spool_cap_b,
                              uint64_t evicted, int64_t now_ns);
/* n numbers (last - first_seq + 1: a LOSS frame stands in for many), bytes of frames, went out from first_seq on; n = 0: the socket would not
 * take them, or nothing was there. */
void crema_session_on_data_sent(crema_session_t *self, const crema_id_t *stream_id,
                                uint64_t first_seq, uint32_t n, size_t bytes, int64_t now_ns);
/* The socket has no connection that would take the message of a SEND. */
void crema_session_on_unsent(crema_session_t *self, int64_t now_ns);
void crema_session_on_message(crema_session_t *self, const crema_msg_t *msg, int64_t now_mono_ns,
                              int64_t now_real_ns);
void crema_session_on_tick(crema_session_t *self, int64_t now_mono_ns, int64_t now_real_ns);
/* Deliver what there is, say BYE, close; give up waiting at deadline_ns. */
void crema_session_drain(crema_session_t *self, int64_t deadline_ns, int64_t now_ns);

/* False when there is nothing to do now. */
bool crema_session_next(crema_session_t *self, int64_t now_mono_ns, int64_t now_real_ns,
                        crema_session_action_t *ret_action);

crema_session_state_t crema_session_state(const crema_session_t *self);
const char *crema_session_state_name(crema_session_state_t state);
crema_session_end_t crema_session_end(const crema_session_t *self);

typedef struct {
    uint64_t dials, welcomes, rewinds, replays, acks, heartbeats, barriers, fences;
    uint64_t sent_records, sent_bytes, committed_records;
    uint64_t streams, uncommitted_records; /* now */
} crema_session_stats_t;
crema_session_stats_t crema_session_stats(const crema_session_t *self);

#endif
