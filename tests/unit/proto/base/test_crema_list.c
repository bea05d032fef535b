/* crema_list: order, and that linking and unlinking twice harms nothing. */
#include "must.h"

#include "crema_list.h"

typedef struct {
    int number;
    crema_link_t link;
} item_t;

/* The numbers in the list, as one decimal number. */
static int
s_spelled(crema_link_t *list)
{
    int spelled = 0;
    for (crema_link_t *link = list->next; link != list; link = link->next)
        spelled = 10 * spelled + CREMA_LIST_ITEM(link, item_t, link)->number;
    return spelled;
}

static void
must_keep_the_order_of_appending(void **state)
{
    (void)state;
    item_t items[4] = {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};
    crema_link_t list;
    crema_list_init(&list);
    assert_true(crema_list_is_empty(&list));
    assert_null(CREMA_LIST_FIRST(&list, item_t, link));
    for (int i = 0; i < 4; i++)
        crema_list_append(&list, &items[i].link);
    crema_list_append(&list, &items[0].link);
    assert_int_equal(s_spelled(&list), 1234);
    assert_ptr_equal(CREMA_LIST_FIRST(&list, item_t, link), &items[0]);
    crema_list_remove(&items[1].link);
    crema_list_remove(&items[1].link);
    assert_false(crema_list_is_linked(&items[1].link));
    assert_int_equal(s_spelled(&list), 134);
    crema_list_remove(&items[0].link);
    crema_list_remove(&items[3].link);
    crema_list_append(&list, &items[1].link);
    assert_int_equal(s_spelled(&list), 32);
    crema_list_remove(&items[2].link);
    crema_list_remove(&items[1].link);
    assert_true(crema_list_is_empty(&list));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_keep_the_order_of_appending)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
