/* crema_mutant - seeded bugs that show that the tests detect them. Pure: a constant.
 * tests/mutants.sh builds the simulator with -DCREMA_MUTANT=n for every n listed there and
 * expects it to fail; in all other builds the number is 0 and the compiler removes the code. */
#ifndef CREMA_MUTANT_H
#define CREMA_MUTANT_H

#ifndef CREMA_MUTANT
#define CREMA_MUTANT 0
#endif

#define CREMA_MUTATED(n) (CREMA_MUTANT == (n))

#endif
