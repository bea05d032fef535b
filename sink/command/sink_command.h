/* sink_command - the commands of crema-sink beside `serve`. Each takes its arguments as main()
 * does, its own name first, and returns the exit status. */
#ifndef SINK_COMMAND_H
#define SINK_COMMAND_H

#define SINK_PROGRAM "crema-sink"

enum { SINK_EXIT_FAILED = 1, SINK_EXIT_USAGE = 2 };

int sink_command_rebuild(int argc, char **argv);
int sink_command_view(int argc, char **argv);
int sink_command_check(int argc, char **argv);
int sink_command_store(int argc, char **argv);

/* Prints why on standard error; returns the status. */
int sink_command_say(const char *why, int status);

/* `rebuild JOURNAL --output FILE` and `rebuild --output FILE JOURNAL` mean the same: leading
 * arguments that are not options go to the end. */
void sink_command_words_last(int argc, char **argv);

#endif
