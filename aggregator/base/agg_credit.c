#include "agg_credit.h"

#include <stdlib.h>

#include "crema_frame.h"

#define OVERDRAFT_B (CREMA_FRAME_HEADER_BYTES + CREMA_RECORD_BODY_MAX)

struct agg_credit {
    uint64_t half_b;     /* of the pool */
    uint64_t reserved_b; /* floors of open accounts; at most half_b */
    uint64_t shared_b;   /* above the floors; at most half_b */
    uint64_t active;
    uint64_t granted_b, in_use_b;
};

crema_err_t
agg_credit_new(uint64_t pool_b, agg_credit_t **ret_self)
{
    if (pool_b / 2 < AGG_CREDIT_FLOOR_B)
        return CREMA_EINVAL;
    agg_credit_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->half_b = pool_b / 2;
    self->active = 1;
    *ret_self = self;
    return CREMA_OK;
}

void
agg_credit_destroy(agg_credit_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

/* Granted but not released; an overdraft released before the next grant counts as nothing. */
static uint64_t
s_outstanding(const agg_account_t *account)
{
    return account->total_b > account->released_b ? account->total_b - account->released_b : 0;
}

bool
agg_credit_has_room(const agg_credit_t *self, const agg_account_t *account)
{
    return account->open || self->reserved_b + AGG_CREDIT_FLOOR_B <= self->half_b;
}

uint64_t
agg_credit_accounts_max(const agg_credit_t *self)
{
    return self->half_b / AGG_CREDIT_FLOOR_B;
}

crema_err_t
agg_credit_open(agg_credit_t *self, agg_account_t *account)
{
    agg_credit_close(self, account);
    if (self->reserved_b + AGG_CREDIT_FLOOR_B > self->half_b)
        return CREMA_EAGAIN;
    self->reserved_b += AGG_CREDIT_FLOOR_B;
    account->open = true;
    account->window_b = AGG_CREDIT_FLOOR_B;
    return CREMA_OK;
}

void
agg_credit_close(agg_credit_t *self, agg_account_t *account)
{
    if (account->open) {
        self->reserved_b -= AGG_CREDIT_FLOOR_B;
        self->shared_b -= account->shared_b;
        self->granted_b -= s_outstanding(account);
        self->in_use_b -= account->received_b - account->released_b;
    }
    *account = (agg_account_t){0};
}

bool
agg_credit_receive(agg_credit_t *self, agg_account_t *account, uint64_t bytes)
{
    account->received_b += bytes;
    account->used_b += bytes;
    self->in_use_b += bytes;
    bool within = account->received_b <= account->total_b + OVERDRAFT_B;
    account->abuses += !within;
    return within;
}

void
agg_credit_release(agg_credit_t *self, agg_account_t *account, uint64_t bytes)
{
    uint64_t in_use = account->received_b - account->released_b;
    uint64_t before = s_outstanding(account);
    bytes = bytes < in_use ? bytes : in_use; /* the rest was sent in an earlier session */
    account->released_b += bytes;
    self->in_use_b -= bytes;
    uint64_t after = s_outstanding(account);
    self->granted_b -= before - after;
    uint64_t shared = after > AGG_CREDIT_FLOOR_B ? after - AGG_CREDIT_FLOOR_B : 0;
    if (shared < account->shared_b) {
        self->shared_b -= account->shared_b - shared;
        account->shared_b = shared;
    }
}

void
agg_credit_set_active(agg_credit_t *self, uint64_t agents)
{
    self->active = agents > 0 ? agents : 1;
}

static uint64_t
s_window_limit(const agg_credit_t *self)
{
    uint64_t share = self->half_b / self->active;
    if (share < AGG_CREDIT_FLOOR_B)
        return AGG_CREDIT_FLOOR_B;
    return share < AGG_CREDIT_CEILING_B ? share : AGG_CREDIT_CEILING_B;
}

bool
agg_credit_grant(agg_credit_t *self, agg_account_t *account)
{
    if (!account->open)
        return false;
    uint64_t limit = s_window_limit(self);
    if (account->used_b >= account->window_b / 2) {
        account->window_b *= 2;
        account->used_b = 0;
    }
    if (account->window_b > limit)
        account->window_b = limit;
    uint64_t shared = account->window_b - AGG_CREDIT_FLOOR_B;
    uint64_t free_b = self->half_b - self->shared_b + account->shared_b;
    shared = shared < free_b ? shared : free_b;
    uint64_t total = account->released_b + AGG_CREDIT_FLOOR_B + shared;
    if (total <= account->total_b)
        return false;
    self->granted_b += total - account->released_b - s_outstanding(account);
    self->shared_b += shared - account->shared_b;
    account->shared_b = shared;
    account->total_b = total;
    return true;
}

uint64_t
agg_credit_granted_b(const agg_credit_t *self)
{
    return self->granted_b;
}

uint64_t
agg_credit_in_use_b(const agg_credit_t *self)
{
    return self->in_use_b;
}
