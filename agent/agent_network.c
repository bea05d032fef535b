#include "agent_network.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KNOWN_MAX 64 /* devices of a host; more are looked up each time */
#define NAME_BYTES 64

struct agent_network {
    const char *proc, *sys;
    FILE *file; /* NULL until it could be opened */
    struct {
        char name[NAME_BYTES];
        bool is_hardware;
    } known[KNOWN_MAX]; /* by their order in the file, which changes only with the devices */
};

crema_err_t
agent_network_new(const char *proc, const char *sys, agent_network_t **ret_self)
{
    agent_network_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->proc = proc;
    self->sys = sys;
    *ret_self = self;
    return CREMA_OK;
}

void
agent_network_destroy(agent_network_t **self_p)
{
    if (*self_p && (*self_p)->file)
        fclose((*self_p)->file);
    free(*self_p);
    *self_p = NULL;
}

static bool
s_rewind(agent_network_t *self)
{
    char path[PATH_MAX];
    if (self->file) {
        rewind(self->file);
        return true;
    }
    snprintf(path, sizeof path, "%s/net/dev", self->proc);
    self->file = fopen(path, "re");
    return self->file != NULL;
}

static bool
s_look_up(const agent_network_t *self, const char *device)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/class/net/%s/device", self->sys, device);
    return access(path, F_OK) == 0;
}

static bool
s_is_hardware(agent_network_t *self, size_t i, const char *device)
{
    if (i >= KNOWN_MAX)
        return s_look_up(self, device);
    if (strcmp(self->known[i].name, device) != 0) {
        strcpy(self->known[i].name, device);
        self->known[i].is_hardware = s_look_up(self, device);
    }
    return self->known[i].is_hardware;
}

static void
s_add(int64_t *sum, long long value)
{
    if (value >= 0)
        *sum = *sum < 0 ? value : *sum > INT64_MAX - value ? INT64_MAX : *sum + value;
}

void
agent_network_read(agent_network_t *self, int64_t *ret_read_b, int64_t *ret_write_b)
{
    char line[512];
    int64_t all[2] = {-1, -1}, hardware[2] = {-1, -1};
    for (size_t i = 0; (i > 0 || s_rewind(self)) && fgets(line, sizeof line, self->file); i++) {
        /* "  eth0: received packets errs drop fifo frame compressed multicast sent ..." */
        char device[NAME_BYTES];
        long long received, sent;
        if (sscanf(line, " %63[^: ]: %lld %*d %*d %*d %*d %*d %*d %*d %lld", device, &received,
                   &sent) != 3 ||
            strcmp(device, "lo") == 0)
            continue;
        s_add(&all[0], received);
        s_add(&all[1], sent);
        if (s_is_hardware(self, i, device)) {
            s_add(&hardware[0], received);
            s_add(&hardware[1], sent);
        }
    }
    const int64_t *sum = hardware[0] >= 0 ? hardware : all;
    *ret_read_b = sum[0];
    *ret_write_b = sum[1];
}
