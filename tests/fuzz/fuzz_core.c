/* Any bytes as what agents, collectors and the sink say to an aggregator: a byte says who speaks
 * and how much time passes, two how long the message is. */
#include <string.h>

#include "agg_core.h"
#include "crema_bytes.h"
#include "fuzz.h"
#include "fuzz_files.h"

#define S 1000000000LL

static void
s_drain(agg_core_t *core, int64_t now_ns)
{
    agg_action_t action;
    for (int i = 0; i < 10000 && agg_core_next(core, now_ns, &action); i++) {
        HOLDS(action.type == AGG_EVENT || action.msg != NULL);
        uint8_t *bytes;
        size_t size;
        if (action.type != AGG_EVENT &&
            crema_wire_encode(action.msg, &bytes, &size) == CREMA_OK) /* as if sent */
            free(bytes);
    }
}

typedef struct {
    agg_core_t *core;
    crema_arena_t *arena;
    int64_t now_ns;
} rig_t;

static void
s_say(rig_t *rig, uint8_t how, uint8_t *bytes, size_t size)
{
    const int64_t real_ns = 1790000000 * S + rig->now_ns;
    const crema_principal_t nobody = {.as = CREMA_AS_ANY};
    crema_msg_t msg;
    fuzz_repair_message(bytes, size);
    crema_err_t err = crema_wire_decode(bytes, size, rig->arena, &msg);
    if (err != CREMA_OK) {
        agg_core_on_bad(rig->core, how & 3, err);
    } else if ((how & 3) == 0) {
        agg_core_on_sink(rig->core, &msg, rig->now_ns, real_ns);
    } else {
        agg_core_on_peer(rig->core, how & 3, &nobody, &msg, rig->now_ns, real_ns);
    }
    rig->now_ns += (int64_t)(how >> 4) * (how >> 4) * S / 4;
    agg_core_on_tick(rig->core, rig->now_ns, real_ns);
    s_drain(rig->core, rig->now_ns);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static crema_arena_t *arena;
    if (!arena)
        HOLDS(crema_arena_new(CREMA_WIRE_ARENA_BYTES, &arena) == CREMA_OK);
    const agg_config_t config = {.session = 7,
                                 .credit_pool_b = 8 << 20,
                                 .sink_silence_ns = 2 * S,
                                 .barrier_retries = 2,
                                 .barrier_cap_ns = 10 * S,
                                 .abandon_after_ns = 3600 * S,
                                 .agents_max = 8,
                                 .streams_max = 16,
                                 .runs_max = 4,
                                 .owner_runs_max = 3,
                                 .owner_bytes_max = 1 << 20};
    rig_t rig = {.arena = arena, .now_ns = 1000 * S};
    uint8_t *copy = malloc(size + 1);
    HOLDS(copy && agg_core_new(&config, &rig.core) == CREMA_OK);
    memcpy(copy, data, size);
    for (size_t at = 0; size - at > 3;) {
        uint8_t how = copy[at];
        size_t len = crema_get_u16(copy + at + 1), left = size - at - 3;
        len = len > left ? left : len;
        s_say(&rig, how, copy + at + 3, len);
        at += 3 + len;
    }
    agg_core_destroy(&rig.core);
    free(copy);
    return 0;
}
