/* children - processes that a test forks. None outlives its test program, and in none an assertion
 * that fails goes on with the tests after it. */
#ifndef CHILDREN_H
#define CHILDREN_H

#include <sys/types.h>

/* As fork(), but never fails. In the child, an assertion that fails ends it with SIGABRT. */
pid_t must_fork(void);

/* The same for a child that has a terminal of its own, of which the parent has the other end. */
pid_t must_fork_at_terminal(int *ret_tty);

/* Waits for a child, which must end with status 0. */
void must_exit(pid_t child);

/* Kills a child and waits for it. */
void must_kill(pid_t child);

/* The teardown of a test with children: kills those that it left, because it failed. */
int children_end(void **state);

#endif
