#include "crema_parent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

void
crema_parent_end_with(int64_t pid)
{
    if (pid == 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != pid) /* it ended before the kernel knew */
        raise(SIGTERM);
}
