/* crema_mutant - seeded bugs that prove the tests' teeth.
 * Pure: a constant. tests/mutants.sh builds the simulator with -DCREMA_MUTANT=n for every n in the list there and wants it to fail; in
 * every other build the number is 0 and the compiler drops all of it. */
#ifndef CREMA_MUTANT_H
#define CREMA_MUTANT_H

#ifndef CREMA_MUTANT
#define CREMA_MUTANT 0
#endif

#define CREMA_MUTATED(n) (CREMA_MUTANT == (n))

#endif
