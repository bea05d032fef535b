/* agg_lists: a list lasts from the first join to the last leave. */
#include "must.h"

#include "agg_lists.h"

typedef struct {
    crema_link_t link;
} item_t;

static const crema_id_t s_a = {{1}}, s_b = {{2}}, s_zero;

static void
must_keep_a_list_until_the_last_one_leaves(void **state)
{
    (void)state;
    agg_lists_t *lists = NULL;
    crema_err_t err;
    must(agg_lists_new(&lists));
    assert_null(agg_lists_find(lists, &s_a));
    crema_link_t *list = agg_lists_join(lists, &s_a, &err);
    assert_non_null(list);
    assert_ptr_equal(agg_lists_join(lists, &s_a, &err), list);
    assert_true(crema_list_is_empty(list));
    agg_lists_leave(lists, &s_a);
    assert_ptr_equal(agg_lists_find(lists, &s_a), list);
    agg_lists_leave(lists, &s_a);
    assert_null(agg_lists_find(lists, &s_a));
    agg_lists_leave(lists, &s_a); /* once too often changes nothing */
    agg_lists_destroy(&lists);
    assert_null(lists);
    agg_lists_destroy(&lists);
}

static void
must_keep_the_lists_of_two_ids_apart(void **state)
{
    (void)state;
    agg_lists_t *lists = NULL;
    crema_err_t err;
    item_t item = {{0}};
    must(agg_lists_new(&lists));
    crema_link_t *of_b = agg_lists_join(lists, &s_b, &err);
    crema_link_t *of_all = agg_lists_join(lists, &s_zero, &err);
    crema_list_append(of_all, &item.link);
    assert_true(crema_list_is_empty(of_b));
    assert_ptr_equal(CREMA_LIST_FIRST(agg_lists_find(lists, &s_zero), item_t, link), &item);
    crema_list_remove(&item.link);
    agg_lists_leave(lists, &s_zero);
    agg_lists_leave(lists, &s_b);
    agg_lists_destroy(&lists);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_keep_a_list_until_the_last_one_leaves),
        cmocka_unit_test(must_keep_the_lists_of_two_ids_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
