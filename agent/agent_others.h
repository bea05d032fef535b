/* agent_others - what this process may do for the workers of other users: that takes capabilities,
 * which root has on a host, but not all of them in a container. */
#ifndef AGENT_OTHERS_H
#define AGENT_OTHERS_H

#include <stdbool.h>

#define AGENT_OTHERS_TEXT_BYTES 512

/* True if it can read the records of other users: it may serve a spool for all of them. */
bool agent_others_are_read(void);

/* True if it cannot sample the processes of other users although it reads their records; `text`
 * receives the names of the capabilities that it lacks. */
bool agent_others_are_hidden(char text[AGENT_OTHERS_TEXT_BYTES]);

/* True if an agent that serves this spool for whoever writes there would leave something out for
 * other users than its own; `text` receives what, and what would help. */
bool agent_others_miss(const char *spool_dir, char text[AGENT_OTHERS_TEXT_BYTES]);

#endif
