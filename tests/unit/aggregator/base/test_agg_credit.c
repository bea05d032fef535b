/* agg_credit: windows grow with use, shrink with company, and never exceed the pool together. */
#include "must.h"

#include "agg_credit.h"

#define KIB 1024u
#define MIB (1024u * KIB)

static void
must_start_at_the_floor_and_double_with_use(void **state)
{
    (void)state;
    agg_credit_t *credit = NULL;
    agg_account_t account = {0};
    must(agg_credit_new(64 * MIB, &credit));
    assert_false(agg_credit_grant(credit, &account)); /* not open */
    must(agg_credit_open(credit, &account));
    assert_true(agg_credit_grant(credit, &account));
    assert_int_equal(account.total_b, AGG_CREDIT_FLOOR_B);
    assert_false(agg_credit_grant(credit, &account)); /* nothing used, nothing more */
    uint64_t window = AGG_CREDIT_FLOOR_B;
    while (window < 4 * MIB) {
        uint64_t bytes = account.total_b - account.received_b;
        assert_int_equal(bytes, window);
        assert_true(agg_credit_receive(credit, &account, bytes));
        assert_int_equal(agg_credit_in_use_b(credit), bytes);
        agg_credit_release(credit, &account, bytes);
        assert_true(agg_credit_grant(credit, &account));
        window *= 2;
    }
    assert_int_equal(account.total_b - account.received_b, 4 * MIB); /* the ceiling */
    agg_credit_receive(credit, &account, 4 * MIB);
    agg_credit_release(credit, &account, 4 * MIB);
    agg_credit_set_active(credit, 64); /* 32 MiB / 64 */
    assert_true(agg_credit_grant(credit, &account));
    assert_int_equal(account.total_b - account.received_b, 512 * KIB);
    agg_credit_close(credit, &account);
    assert_int_equal(agg_credit_granted_b(credit), 0);
    assert_int_equal(agg_credit_in_use_b(credit), 0);
    agg_credit_destroy(&credit);
    assert_null(credit);
}

static void
must_count_what_exceeds_the_grant(void **state)
{
    (void)state;
    agg_credit_t *credit = NULL;
    agg_account_t account = {0};
    must(agg_credit_new(MIB, &credit));
    must(agg_credit_open(credit, &account));
    assert_true(agg_credit_grant(credit, &account));
    assert_true(agg_credit_receive(credit, &account,
                                   AGG_CREDIT_FLOOR_B + 32 + 64 * KIB)); /* one record over */
    assert_false(agg_credit_receive(credit, &account, 1));
    assert_int_equal(account.abuses, 1);
    agg_credit_release(credit, &account,
                       10 * MIB); /* of an earlier session: no more than came in */
    assert_int_equal(account.released_b, account.received_b);
    assert_true(agg_credit_grant(credit, &account));
    assert_int_equal(agg_credit_granted_b(credit), account.total_b - account.released_b);
    agg_credit_close(credit, &account);
    agg_credit_destroy(&credit);
}

static void
must_have_room_for_ten_thousand_agents(void **state)
{
    (void)state;
    enum { AGENTS = 10000 };
    static agg_account_t accounts[AGENTS];
    agg_credit_t *credit = NULL;
    must(agg_credit_new(512 * MIB, &credit)); /* the default of --credit */
    for (size_t i = 0; i < AGENTS; i++) {
        must(agg_credit_open(credit, &accounts[i]));
        assert_true(agg_credit_grant(credit, &accounts[i]));
    }
    agg_credit_destroy(&credit);
}

/* Random use by many agents: the sum of what is granted never exceeds the pool, and nobody
 * admitted starves. */
static void
must_keep_the_sum_below_the_pool(void **state)
{
    (void)state;
    enum { AGENTS = 70, POOL = 2 * 1024 * 1024 };
    static agg_account_t accounts[AGENTS];
    agg_credit_t *credit = NULL;
    uint64_t random = 88172645463325252u;
    must(agg_credit_new(POOL, &credit));
    size_t admitted = 0;
    while (admitted < AGENTS && agg_credit_open(credit, &accounts[admitted]) == CREMA_OK)
        admitted++;
    assert_int_equal(admitted, POOL / 2 / AGG_CREDIT_FLOOR_B);
    if (admitted == 0)
        return;
    for (int step = 0; step < 100000; step++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        agg_account_t *account = &accounts[(random >> 33) % admitted];
        uint64_t left =
            account->total_b > account->received_b ? account->total_b - account->received_b : 0;
        switch ((random >> 20) % 4) {
        case 0:
            agg_credit_receive(credit, account, left ? (random >> 40) % left + 1 : 0);
            break;
        case 1:
            agg_credit_release(credit, account, account->received_b - account->released_b);
            agg_credit_grant(credit, account);
            assert_true(account->total_b >= account->released_b + AGG_CREDIT_FLOOR_B);
            break;
        case 2:
            agg_credit_release(credit, account, (random >> 44) % 4096);
            agg_credit_grant(credit, account);
            break;
        default:
            agg_credit_set_active(credit, (random >> 40) % admitted);
        }
        if (random % 97 == 0) {
            agg_credit_close(credit, account);
            must(agg_credit_open(credit, account));
        }
        uint64_t granted = 0, in_use = 0;
        for (size_t i = 0; i < admitted; i++) {
            in_use += accounts[i].received_b - accounts[i].released_b;
            if (accounts[i].total_b > accounts[i].released_b)
                granted += accounts[i].total_b - accounts[i].released_b;
        }
        assert_int_equal(agg_credit_granted_b(credit), granted);
        assert_int_equal(agg_credit_in_use_b(credit), in_use);
        assert_true(granted <= POOL);
    }
    for (size_t i = 0; i < admitted; i++)
        agg_credit_close(credit, &accounts[i]);
    assert_int_equal(agg_credit_granted_b(credit), 0);
    agg_credit_destroy(&credit);
    assert_int_equal(agg_credit_new(31 * KIB, &credit), CREMA_EINVAL);
}

/* Uses up all it is given until its window is `window`. */
static void
s_grow(agg_credit_t *credit, agg_account_t *account, uint64_t window)
{
    while (account->total_b - account->released_b < window) {
        uint64_t bytes = account->total_b - account->received_b;
        assert_true(agg_credit_receive(credit, account, bytes));
        agg_credit_release(credit, account, bytes);
        assert_true(agg_credit_grant(credit, account));
    }
}

/* A pool of which half is shared beyond the floors: 96 KiB. */
static void
must_lend_again_what_came_back(void **state)
{
    (void)state;
    agg_credit_t *credit = NULL;
    agg_account_t one = {0}, other = {0};
    must(agg_credit_new(192 * KIB, &credit));
    for (int turn = 0; turn < 3; turn++) {
        must(agg_credit_open(credit, &one));
        must(agg_credit_open(credit, &other));
        assert_true(agg_credit_grant(credit, &one) && agg_credit_grant(credit, &other));
        s_grow(credit, &one, 96 * KIB); /* 80 of the 96 */
        assert_int_equal(agg_credit_granted_b(credit), 112 * KIB);
        uint64_t bytes = other.total_b - other.received_b;
        assert_true(agg_credit_receive(credit, &other, bytes));
        agg_credit_release(credit, &other, bytes);
        assert_true(agg_credit_grant(credit, &other));
        assert_int_equal(other.total_b - other.released_b, 32 * KIB); /* the last 16 */
        bytes = one.total_b - one.received_b;
        assert_true(agg_credit_receive(credit, &one, bytes));
        agg_credit_release(credit, &one, bytes); /* all 80 come back */
        assert_int_equal(agg_credit_granted_b(credit), 32 * KIB);
        s_grow(credit, &other, 96 * KIB);
        assert_true(agg_credit_grant(credit, &one));
        assert_int_equal(one.total_b - one.released_b, 32 * KIB); /* what the other one left */
        agg_credit_close(credit, &one); /* and so does what a closed account had */
        agg_credit_close(credit, &other);
        assert_int_equal(agg_credit_granted_b(credit), 0);
    }
    agg_credit_destroy(&credit);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_start_at_the_floor_and_double_with_use),
        cmocka_unit_test(must_count_what_exceeds_the_grant),
        cmocka_unit_test(must_have_room_for_ten_thousand_agents),
        cmocka_unit_test(must_keep_the_sum_below_the_pool),
        cmocka_unit_test(must_lend_again_what_came_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
