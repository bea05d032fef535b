#include "agent_others.h"

#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* This process's effective capabilities, one bit each. */
static uint64_t
s_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_capget, &header, data) != 0)
        return 0;
    return (uint64_t)data[1].effective << 32 | data[0].effective;
}

static bool
s_has(unsigned capability)
{
    return (s_capabilities() >> capability & 1) != 0;
}

bool
agent_others_are_read(void)
{
    return s_has(CAP_DAC_OVERRIDE) || s_has(CAP_DAC_READ_SEARCH);
}

bool
agent_others_are_hidden(char text[AGENT_OTHERS_TEXT_BYTES])
{
    bool sees = s_has(CAP_SYS_PTRACE), gives = s_has(CAP_CHOWN);
    snprintf(text, AGENT_OTHERS_TEXT_BYTES, "%s%s%s", sees ? "" : "CAP_SYS_PTRACE",
             sees || gives ? "" : " and ", gives ? "" : "CAP_CHOWN");
    return agent_others_are_read() && !(sees && gives);
}

bool
agent_others_miss(const char *spool_dir, char text[AGENT_OTHERS_TEXT_BYTES])
{
    char lacking[AGENT_OTHERS_TEXT_BYTES];
    struct stat st;
    if (!agent_others_are_read())
        snprintf(
            text, AGENT_OTHERS_TEXT_BYTES,
            "only the processes of uid %lu are served: run the agent as root to serve those of "
            "other users",
            (unsigned long)geteuid());
    else if (stat(spool_dir, &st) == 0 && (st.st_mode & S_IWOTH) == 0)
        snprintf(text, AGENT_OTHERS_TEXT_BYTES,
                 "other users than uid %lu cannot record in %.256s: chmod 1777 lets them",
                 (unsigned long)st.st_uid, spool_dir);
    else if (agent_others_are_hidden(lacking))
        snprintf(text, AGENT_OTHERS_TEXT_BYTES,
                 "the processes of other users are not sampled: the agent lacks %.64s", lacking);
    else
        return false;
    return true;
}
