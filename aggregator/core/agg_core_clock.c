#include "agg_core_private.h"
#include "crema_time.h"

#define CLOCK_NS (10 * AGG_S) /* between two clock messages to the sink about one agent */

/* Queues the offset of the agent's wall clock for every run it has streams of, at most each
 * CLOCK_NS. The round trips compare monotonic clocks, which clock steps do not disturb and which
 * restart at each boot; adding each host's difference between wall clock and monotonic clock
 * gives the difference of the wall clocks. */
static void
s_note_clock(agg_core_t *self, agg_client_t *client, const crema_offset_estimate_t *estimate,
             const Crema__Heartbeat *heartbeat, int64_t now_ns)
{
    int64_t real_less_mono_there_ns = crema_time_sub(heartbeat->t1_real_ns, heartbeat->t1_mono_ns);
    int64_t real_less_mono_here_ns = self->real_ns - now_ns;
    client->clock = (Crema__ClockSample){
        .agent_id = crema_id_field(agg_agent_id(client->agent)),
        .t_ns = self->real_ns,
        /* the sample is source - aggregator */
        .offset_ns = crema_time_sub(crema_time_sub(real_less_mono_there_ns, estimate->offset_ns),
                                    real_less_mono_here_ns),
        .uncertainty_ns = estimate->uncertainty_ns,
        .rtt_ns = estimate->rtt_ns,
        .drift_ppb = -estimate->drift_ppb,
    };
    client->n_clock_runs = 0;
    for (crema_link_t *link = client->flows.next; link != &client->flows; link = link->next) {
        const crema_id_t *run_id = &CREMA_LIST_ITEM(link, agg_flow_t, of_client)->row.run_id;
        size_t i = 0;
        while (i < client->n_clock_runs && !crema_id_equal(&client->clock_runs[i], run_id))
            i++;
        if (i == client->n_clock_runs && i < AGG_CLOCK_RUNS_MAX)
            client->clock_runs[client->n_clock_runs++] = *run_id;
    }
    agg_client_out(self, client);
}

void
agg_client_follow_clock(agg_core_t *self, agg_client_t *client, const Crema__Heartbeat *heartbeat,
                        int64_t now_ns)
{
    crema_offset_estimate_t estimate;
    bool ends = !crema_list_is_empty(&self->ending);
    if (heartbeat->echo_t4_mono_ns == 0 || heartbeat->t1_real_ns == 0)
        return;
    crema_err_t err =
        crema_offset_take(client->offset, heartbeat->echo_t1_mono_ns, heartbeat->echo_t2_mono_ns,
                          heartbeat->echo_t3_mono_ns, heartbeat->echo_t4_mono_ns);
    if ((err != CREMA_OK && err != CREMA_EREPEAT) ||
        !crema_offset_estimate(client->offset, heartbeat->t1_mono_ns, &estimate))
        return;
    agg_agent_on_round_trip(client->agent, estimate.rtt_ns);
    if (client->clock_sent_ns && now_ns - client->clock_sent_ns < (ends ? AGG_S : CLOCK_NS))
        return;
    client->clock_sent_ns = now_ns;
    s_note_clock(self, client, &estimate, heartbeat, now_ns);
}
