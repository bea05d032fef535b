/* sink_both - two functions at the same time, on two cores. They must not write to the same
 * memory. */
#ifndef SINK_BOTH_H
#define SINK_BOTH_H

/* Returns when both have returned. Where no thread can be had they run one after the other. */
void sink_both(void (*one)(void *), void *of_one, void (*other)(void *), void *of_other);

#endif
