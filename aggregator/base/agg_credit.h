/* agg_credit - how many bytes each agent may have in flight, so that the sum stays below the
 * pool. Pure: arithmetic.
 *
 * An agent receives one absolute number: the bytes it may send since its session began = bytes
 * released + its window. Half of the pool is reserved so that every admitted agent always has
 * AGG_CREDIT_FLOOR_B; the other half is shared by agents that use it. A window starts at the floor
 * and doubles while it is used, up to clamp(pool / 2 / active agents, AGG_CREDIT_FLOOR_B,
 * AGG_CREDIT_CEILING_B). With any credit left a sender may send one record of the maximum size,
 * so bytes in flight may exceed the pool by that much per agent. */
#ifndef AGG_CREDIT_H
#define AGG_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"

#define AGG_CREDIT_FLOOR_B (16u << 10)
#define AGG_CREDIT_CEILING_B (4u << 20)

typedef struct agg_credit agg_credit_t; /* the pool */

/* An agent's account; all zero: closed. Only the functions below change it. */
typedef struct {
    bool open;
    uint64_t total_b; /* granted */
    uint64_t received_b;
    uint64_t released_b; /* at most received_b */
    uint64_t window_b;
    uint64_t used_b;   /* received since the window last grew */
    uint64_t shared_b; /* of the shared half */
    uint32_t abuses;   /* messages that exceeded the credit */
} agg_account_t;

CREMA_MUST_CHECK crema_err_t agg_credit_new(uint64_t pool_b, agg_credit_t **ret_self);
void agg_credit_destroy(agg_credit_t **self_p);

/* True if there is a floor for the account, or it has one. */
bool agg_credit_has_room(const agg_credit_t *self, const agg_account_t *account);
/* Number of accounts that can be open. */
uint64_t agg_credit_accounts_max(const agg_credit_t *self);
/* Opens an account with nothing granted; reopening starts from zero. CREMA_EAGAIN: no floor is
 * left, admit the agent later. */
CREMA_MUST_CHECK crema_err_t agg_credit_open(agg_credit_t *self, agg_account_t *account);
void agg_credit_close(agg_credit_t *self, agg_account_t *account);

/* `bytes` were received. False if they exceed the grant. */
bool agg_credit_receive(agg_credit_t *self, agg_account_t *account, uint64_t bytes);
/* `bytes` are durable, or were dropped. */
void agg_credit_release(agg_credit_t *self, agg_account_t *account, uint64_t bytes);

/* Number of agents that sent recently; at least 1 is assumed. */
void agg_credit_set_active(agg_credit_t *self, uint64_t agents);

/* Raises account->total_b as far as possible; true if it rose. */
bool agg_credit_grant(agg_credit_t *self, agg_account_t *account);

/* Granted but not released; received but not released: over all accounts. */
uint64_t agg_credit_granted_b(const agg_credit_t *self);
uint64_t agg_credit_in_use_b(const agg_credit_t *self);

#endif
