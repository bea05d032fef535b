/* instruction_count - what a call costs in machine instructions: the same on a busy machine as on
 * an idle one. */
#ifndef INSTRUCTION_COUNT_H
#define INSTRUCTION_COUNT_H

#include <stdint.h>

/* How many instructions `act` takes, counted in a copy of this process, so that nothing of it
 * happens here. Skips the test where processes cannot be traced. */
uint64_t must_count_steps(void (*act)(void));

#endif
