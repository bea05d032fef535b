/* sink_answers - what is answered when the group of a run's journal that holds a message is
 * durable, or, for questions about streams, the next group of their run. Nothing of the loop waits
 * for that: a slow disk delays the answers of its own run only. */
#ifndef SINK_ANSWERS_H
#define SINK_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_list.h"
#include "crema_wire.h"

typedef struct sink_answers sink_answers_t;

typedef struct {
    crema_id_t run_id;
    crema_msg_type_t type; /* of the message */
    size_t peer;           /* who sent it; see sink_peers.h */
    bool is_new;           /* it was appended; not: an equal one was, before */
    uint32_t part, parts;  /* of a RUN_WRITERS */
    uint64_t appends;      /* of the run, with this message; see sink_run_t */
    uint8_t *bytes;        /* of a SEALED or OPEN, encoded; freed with the answer */
    size_t size;
    crema_link_t link;
} sink_answer_t;

CREMA_MUST_CHECK crema_err_t sink_answers_new(size_t runs_max, sink_answers_t **ret_self);
void sink_answers_destroy(sink_answers_t **self_p);

/* Copies the answer and takes its bytes, also after an error. */
CREMA_MUST_CHECK crema_err_t sink_answers_add(sink_answers_t *self, const sink_answer_t *answer);
/* The answer that waits for such a message; NULL: none. */
sink_answer_t *sink_answers_find(const sink_answers_t *self, const crema_id_t *run_id,
                                 crema_msg_type_t type, uint32_t part);

/* What waits for the run is not answered: who asked asks again. */
void sink_answers_drop(sink_answers_t *self, const crema_id_t *run_id);
/* So many appends of the run are durable now. */
void sink_answers_durable(sink_answers_t *self, const crema_id_t *run_id, uint64_t appends);
/* The next answer that is due, for sink_answer_free(); NULL: none. */
sink_answer_t *sink_answers_take(sink_answers_t *self);
void sink_answer_free(sink_answer_t *answer);

#endif
