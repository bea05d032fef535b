/* arena_fixture - one arena for a group of tests, large enough for any record and any message. */
#ifndef ARENA_FIXTURE_H
#define ARENA_FIXTURE_H

#include "crema_arena.h"

extern crema_arena_t *fixture_arena;

/* For cmocka_run_group_tests(). */
int fixture_arena_set_up(void **state);
int fixture_arena_tear_down(void **state);

#endif
