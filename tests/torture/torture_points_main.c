/* torture_points - prints the names of all failpoints, one a line, in the order of the table. */
#include <stdio.h>

#include "crema_failpoint.h"

int
main(void)
{
#ifdef CREMA_FAILPOINTS
    const char *name;
    for (size_t i = 0; (name = crema_failpoint_name(i)); i++)
        puts(name);
    return 0;
#else
    fprintf(stderr, "torture_points: this build has none (CREMA_FAILPOINTS is off)\n");
    return 1;
#endif
}
