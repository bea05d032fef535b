/* crema_session - the sender's half of delivery: an agent's connection to the aggregator. Pure:
 * events in, actions out; time is an argument; no socket, clock, file or log.
 *
 *     INIT --dial--> HELLO_SENT --WELCOME, credit--> STREAMING <--credit 0--> STALLED
 *                        ^  |                            |
 *                        |  +--WELCOME, retry_after------+--no ACK for 4 H, FENCE: back off, dial
 *                        +--------------------------------
 *     drain(): STREAMING/STALLED -> DRAINING --all committed, or deadline--> BYE_SENT -> CLOSED
 *
 * The reactor reports every stream of the spool after each scan, every message, and a tick at
 * least every 100 ms. After each event it takes actions until there are none. Go-back-N: `next` of
 * a stream advances when DATA was handed to the socket; it returns to recv_next when the
 * aggregator asks (REPLAY) or recv_next did not move for 2 H, and to committed + 1 in a new
 * session. */
#ifndef CREMA_SESSION_H
#define CREMA_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_spool_stream.h"
#include "crema_wire.h"

/* Runs whose barriers are handled in one turn; further ones will be asked for again. */
#define CREMA_SESSION_ENDS_MAX 64

typedef struct crema_session crema_session_t;

typedef enum {
    CREMA_SESSION_INIT,
    CREMA_SESSION_BACKOFF, /* waits for the next dial */
    /* dialled and sent HELLO, which is repeated until WELCOME: after 0.1 s, then up to every 2 s */
    CREMA_SESSION_HELLO_SENT,
    CREMA_SESSION_STREAMING,
    CREMA_SESSION_STALLED,  /* welcomed, but without credit */
    CREMA_SESSION_DRAINING, /* as STREAMING, and ends when everything is committed */
    CREMA_SESSION_BYE_SENT,
    CREMA_SESSION_CLOSED, /* final; see crema_session_end() */
} crema_session_state_t;

typedef enum {
    CREMA_SESSION_END_NONE,
    CREMA_SESSION_END_DRAINED,   /* drain() was called and everything is committed */
    CREMA_SESSION_END_DEADLINE,  /* drain() was called and the deadline passed: records stay */
    CREMA_SESSION_END_DISMISSED, /* the run is sealed and this agent was started for it */
    CREMA_SESSION_END_REFUSED,   /* FENCE(VERSION, CLONE, PRINCIPAL): do not dial again */
} crema_session_end_t;

typedef struct {
    crema_id_t agent_id;
    uint64_t boot;    /* random per start; also seeds the jitter */
    const char *host; /* host and version are borrowed for the session's life */
    const char *version;
    int32_t pid;
    crema_id_t run_id;    /* the only run that is served; zero: all */
    int64_t heartbeat_ns; /* H, 0.2 s to 60 s */
    size_t streams_max;   /* further streams wait in the spool; at least 1 */
} crema_session_config_t;

typedef enum {
    CREMA_SESSION_DIAL,   /* close the socket, if any, and connect a new one */
    CREMA_SESSION_HANGUP, /* close the socket */
    CREMA_SESSION_SEND,   /* send msg; a full socket may drop it */
    /* Read from the spool, send DATA, then call crema_session_on_data_sent(). */
    CREMA_SESSION_SEND_DATA,
    /* A run ends: end the agent's own stream of it, so that the following SCAN finds the END. */
    CREMA_SESSION_END_RUN,
    /* Scan the spool to its end at once, report every stream, then call
     * crema_session_on_scanned(). */
    CREMA_SESSION_SCAN,
    CREMA_SESSION_TRIM, /* committed moved: free the spool up to there */
} crema_session_action_type_t;

typedef struct {
    crema_session_action_type_t type;
    const crema_msg_t *msg; /* SEND: valid until the next call */
    crema_id_t stream_id;   /* SEND_DATA, TRIM */
    crema_id_t run_id;      /* SEND_DATA, END_RUN */
    uint64_t first_seq;     /* SEND_DATA */
    /* SEND_DATA: limit for the bytes of frames, from credit and batch limit; at least one record
     * of the maximum size */
    size_t max_bytes;
    uint64_t committed; /* TRIM */
    uint64_t session;   /* SEND_DATA: goes into the envelope */
} crema_session_action_t;

CREMA_MUST_CHECK crema_err_t crema_session_new(const crema_session_config_t *config, int64_t now_ns,
                                               crema_session_t **ret_self);
void crema_session_destroy(crema_session_t **self_p);

/* Sets H, 0.2 s to 60 s; the aggregator receives it with the next HELLO. */
void crema_session_set_interval(crema_session_t *self, int64_t heartbeat_ns);

/* A stream of the spool is there, or has grown; its hi never shrinks. It is borrowed until it is
 * gone, its cursor is the session's. */
CREMA_MUST_CHECK crema_err_t crema_session_on_stream(crema_session_t *self,
                                                     crema_spool_stream_t *stream, int64_t now_ns);
/* The spool is about to forget the stream; nothing happens if it was never reported. */
void crema_session_on_stream_gone(crema_session_t *self, crema_spool_stream_t *stream);
/* Reports what the scan could not read; at most CREMA_WIRE_FAULTS_MAX rows are copied. They are
 * sent with every table until the next call. While there are faults, the session does not count
 * as drained before its deadline. */
void crema_session_on_faults(crema_session_t *self, size_t n, const Crema__Reason *faults);
/* The scan requested by CREMA_SESSION_SCAN is complete: answers the barrier. Never call it after
 * a scan that failed or saw less than the spool holds. */
void crema_session_on_scanned(crema_session_t *self, int64_t now_ns);
/* n numbers (last - first_seq + 1: a LOSS frame covers many) in `bytes` of frames were sent from
 * first_seq on; n = 0: the socket refused them, or there was nothing. */
void crema_session_on_data_sent(crema_session_t *self, const crema_id_t *stream_id,
                                uint64_t first_seq, uint32_t n, size_t bytes, int64_t now_ns);
/* The socket had no connection for the message of a SEND. */
void crema_session_on_unsent(crema_session_t *self, int64_t now_ns);
void crema_session_on_message(crema_session_t *self, const crema_msg_t *msg, int64_t now_ns);
void crema_session_on_tick(crema_session_t *self, int64_t now_ns);
/* Delivers what there is, sends BYE and closes; gives up at deadline_ns. */
void crema_session_drain(crema_session_t *self, int64_t deadline_ns, int64_t now_ns);

/* The next action; false: none. */
bool crema_session_next(crema_session_t *self, int64_t now_mono_ns, int64_t now_real_ns,
                        crema_session_action_t *ret_action);

/* When the next tick is needed: 0: within 100 ms. It is later only while nothing waits to be
 * sent or acknowledged. */
int64_t crema_session_due_ns(const crema_session_t *self);

crema_session_state_t crema_session_state(const crema_session_t *self);
crema_session_end_t crema_session_end(const crema_session_t *self);

typedef struct {
    uint64_t welcomes, rewinds, replays, sent_records;
    uint64_t uncommitted_records; /* the current value */
} crema_session_stats_t;
crema_session_stats_t crema_session_stats(const crema_session_t *self);

#endif
