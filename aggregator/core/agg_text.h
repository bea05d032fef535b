/* agg_text - deep copies of messages with texts, which outlive the event that brought them.
 * Pure: each copy is one block, released with one free(). */
#ifndef AGG_TEXT_H
#define AGG_TEXT_H

#include "crema_error.h"
#include "crema_wire.h"

CREMA_MUST_CHECK crema_err_t agg_text_copy_run(const crema_run_msg_t *msg,
                                               crema_run_msg_t **ret_copy);
CREMA_MUST_CHECK crema_err_t agg_text_copy_sealed(const crema_sealed_t *msg,
                                                  crema_sealed_t **ret_copy);
/* At most CREMA_WIRE_FAULTS_MAX rows. */
CREMA_MUST_CHECK crema_err_t agg_text_copy_faults(const crema_faults_t *faults,
                                                  crema_faults_t **ret_copy);

#endif
