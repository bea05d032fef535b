/* The arena: zeroed, capped by the message, given back at once. */
#include "must.h"

#include <string.h>

#include "crema_arena.h"

static void
test_memory_is_zeroed_and_aligned_each_time(void **state)
{
    (void)state;
    crema_arena_t *arena;
    must(crema_arena_new(1000, &arena));
    for (int round = 0; round < 3; round++) {
        crema_arena_begin(arena, 1);
        for (size_t bytes = 1; bytes < 20; bytes++) {
            unsigned char *memory = crema_arena_take(arena, bytes);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % 16, 0);
            for (size_t i = 0; i < bytes; i++)
                assert_int_equal(memory[i], 0);
            memset(memory, 0xff, bytes);
        }
    }
    crema_arena_destroy(&arena);
    assert_null(arena);
    crema_arena_destroy(&arena);
}

static void
test_the_cap_follows_the_message(void **state)
{
    (void)state;
    const size_t plenty = 100 << 20;
    crema_arena_t *arena;
    must(crema_arena_new(plenty, &arena));
    crema_arena_begin(arena, 1000);
    const size_t cap = 1000 * CREMA_ARENA_FACTOR + CREMA_ARENA_SLACK;
    assert_non_null(crema_arena_take(arena, cap));
    assert_int_equal(crema_arena_used(arena), cap);
    assert_false(crema_arena_refused(arena));
    assert_null(crema_arena_take(arena, 1));
    assert_true(crema_arena_refused(arena));
    crema_arena_begin(arena, 1000);
    assert_false(crema_arena_refused(arena));
    assert_int_equal(crema_arena_used(arena), 0);
    assert_null(crema_arena_take(arena, cap + 1));
    assert_non_null(crema_arena_take(arena, cap)); /* a refusal takes nothing */
    crema_arena_begin(arena, SIZE_MAX);
    assert_null(crema_arena_take(arena, SIZE_MAX));
    assert_null(crema_arena_take(arena, plenty + 1));
    crema_arena_destroy(&arena);
}

static void
test_no_message_gets_more_than_the_whole(void **state)
{
    (void)state;
    crema_arena_t *arena = NULL;
    assert_int_equal(crema_arena_new(0, &arena), CREMA_EINVAL);
    assert_null(arena);
    must(crema_arena_new(100, &arena));
    crema_arena_begin(arena, 1000000);
    assert_non_null(crema_arena_take(arena, 99));
    assert_null(crema_arena_take(arena, 1)); /* aligned, it would begin behind the end */
    crema_arena_destroy(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_zeroed_and_aligned_each_time),
        cmocka_unit_test(test_the_cap_follows_the_message),
        cmocka_unit_test(test_no_message_gets_more_than_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
