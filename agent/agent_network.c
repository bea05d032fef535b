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

/* Bytes of interfaces of one kind, received and sent; -1: there are none. */
typedef struct {
    int64_t read_b, write_b;
} traffic_t;

/* Names of the interfaces with a default route, each followed by a newline. Read each time: routes
 * come and go, and a host with hardware does not need them. */
static void
s_routed(const agent_network_t *self, char *names, size_t size)
{
    char path[PATH_MAX], line[512], device[NAME_BYTES];
    size_t used = 0;
    names[0] = '\0';
    snprintf(path, sizeof path, "%s/net/route", self->proc);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long to, mask;
        /* "eth0 destination gateway flags refcnt use metric mask ..." */
        if (sscanf(line, "%63s %lx %*x %*x %*d %*d %*d %lx", device, &to, &mask) == 3 && to == 0 &&
            mask == 0 && used + strlen(device) + 2 < size)
            used += (size_t)snprintf(names + used, size - used, "\n%s\n", device);
    }
    if (file)
        fclose(file);
}

static bool
s_is_routed(const char *names, const char *device)
{
    char line[NAME_BYTES + 2];
    snprintf(line, sizeof line, "\n%s\n", device);
    return strstr(names, line) != NULL;
}

void
agent_network_read(agent_network_t *self, int64_t *ret_read_b, int64_t *ret_write_b)
{
    char line[512], routed[4096] = "";
    traffic_t all = {-1, -1}, hardware = all, default_route = all;
    for (size_t i = 0; (i > 0 || s_rewind(self)) && fgets(line, sizeof line, self->file); i++) {
        /* "  eth0: received packets errs drop fifo frame compressed multicast sent ..." */
        char device[NAME_BYTES];
        long long received, sent;
        if (sscanf(line, " %63[^: ]: %lld %*d %*d %*d %*d %*d %*d %*d %lld", device, &received,
                   &sent) != 3 ||
            strcmp(device, "lo") == 0)
            continue;
        s_add(&all.read_b, received);
        s_add(&all.write_b, sent);
        if (s_is_hardware(self, i, device)) {
            s_add(&hardware.read_b, received);
            s_add(&hardware.write_b, sent);
        } else if (hardware.read_b < 0) {
            if (!routed[0])
                s_routed(self, routed, sizeof routed);
            if (s_is_routed(routed, device)) {
                s_add(&default_route.read_b, received);
                s_add(&default_route.write_b, sent);
            }
        }
    }
    const traffic_t *sum = hardware.read_b >= 0        ? &hardware
                           : default_route.read_b >= 0 ? &default_route
                                                       : &all;
    *ret_read_b = sum->read_b;
    *ret_write_b = sum->write_b;
}
