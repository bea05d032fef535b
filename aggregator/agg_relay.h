/* agg_relay - the connection of a collector, in a process of its own: passes messages between an
 * aggregator and standard input and output. libzmq ends a process that has no more descriptors or
 * threads, which must not be the one that analyses.
 *
 * Both streams are frames: the length of the content in four bytes, little-endian, a letter, and
 * the content. 'M' is a message (crema_wire.h). On standard output 'C' says that there is a
 * connection now, 'D' that it is lost, and 'E' is a sentence on why there will be none, after
 * which the program ends. A message without a connection is dropped: its sender repeats it. */
#ifndef AGG_RELAY_H
#define AGG_RELAY_H

/* Returns the exit status: 0 when standard input has ended. `keys_dir` is a client's, or NULL. */
int agg_relay_run(const char *endpoint, const char *keys_dir);

#endif
