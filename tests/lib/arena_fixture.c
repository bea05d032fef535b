#include "arena_fixture.h"

#include "crema_wire.h"
#include "must.h"

crema_arena_t *fixture_arena;

int
fixture_arena_set_up(void **state)
{
    (void)state;
    must(crema_arena_new(CREMA_WIRE_ARENA_BYTES, &fixture_arena));
    return 0;
}

int
fixture_arena_tear_down(void **state)
{
    (void)state;
    crema_arena_destroy(&fixture_arena);
    return 0;
}
