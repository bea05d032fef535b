#include "agent_pace.h"

#define COMPANY_NS 1250000000ll /* a process that wrote within this time is expected to go on */

static int64_t
s_slack_ns(const agent_pace_t *self)
{
    return self->interval_ns / 4;
}

/* A sample waits only for processes that write at least about as often as it is taken. */
static bool
s_in_company(const agent_pace_t *self, int64_t now_ns)
{
    int64_t within_ns = self->interval_ns + s_slack_ns(self);
    return self->changed_ns &&
           now_ns - self->changed_ns < (within_ns < COMPANY_NS ? within_ns : COMPANY_NS);
}

int64_t
agent_pace_latest_ns(const agent_pace_t *self, int64_t now_ns)
{
    return self->at_ns + (s_in_company(self, now_ns) ? s_slack_ns(self) : 0);
}

bool
agent_pace_is_due(const agent_pace_t *self, bool changed, int64_t now_ns)
{
    return now_ns >=
           (changed ? self->at_ns - s_slack_ns(self) : agent_pace_latest_ns(self, now_ns));
}

/* In company a late sample moves those that follow, and an early one does not, so that their mean
 * distance is not shorter. The first one, and one after a pause, are put on a multiple of the
 * interval, as looks into the spool are. */
void
agent_pace_taken(agent_pace_t *self, int64_t now_ns)
{
    int64_t late_ns = now_ns - self->at_ns;
    if (late_ns >= self->interval_ns)
        self->at_ns = now_ns - now_ns % self->interval_ns;
    else if (late_ns > 0 && s_in_company(self, now_ns))
        self->at_ns = now_ns;
    self->at_ns += self->interval_ns;
}
