/* The failpoints: part of the library in builds with CREMA_FAILPOINTS, and only there. */
#include "crema_failpoint.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME_CHARS 64

/* All points by program. `spool` is used by the agent and by every writer. */
static const char *const s_names[] = {
    "spool.before_segment_rename",
    "spool.after_segment_rename",
    "spool.before_record_write",
    "spool.after_record_write",
    "spool.before_end_write",
    "spool.after_end_write",
    "spool.after_end_truncate",
    "spool.before_head_write",
    "spool.after_head_write",
    "spool.after_head_truncate",
    "spool.before_unlink",
    "spool.after_unlink",
    "spool.before_id_write",
    "spool.before_id_fsync",
    "spool.before_id_rename",
    "spool.after_id_rename",
    "spool.after_id_dir_fsync",

    "agent.before_send.HELLO",
    "agent.after_send.HELLO",
    "agent.before_send.DATA",
    "agent.after_send.DATA",
    "agent.before_send.HEARTBEAT",
    "agent.after_send.HEARTBEAT",
    "agent.before_send.BYE",
    "agent.after_send.BYE",
    "agent.before_dismissal",
    "agent.before_keys_unlink",
    "agent.after_keys_unlink",
    "agent.before_spool_unlink",
    "agent.before_spool_rmdir",
    "agent.after_spool_rmdir",

    "aggregator.before_send.WELCOME",
    "aggregator.after_send.WELCOME",
    "aggregator.before_send.ACK",
    "aggregator.after_send.ACK",
    "aggregator.before_send.REPLAY",
    "aggregator.after_send.REPLAY",
    "aggregator.before_send.BARRIER",
    "aggregator.after_send.BARRIER",
    "aggregator.before_send.FENCE",
    "aggregator.after_send.FENCE",
    "aggregator.before_send.OPEN",
    "aggregator.after_send.OPEN",
    "aggregator.before_send.PUT",
    "aggregator.after_send.PUT",
    "aggregator.before_send.RUN_OPEN",
    "aggregator.after_send.RUN_OPEN",
    "aggregator.before_send.RUN_WRITERS",
    "aggregator.after_send.RUN_WRITERS",
    "aggregator.before_send.RUN_END",
    "aggregator.after_send.RUN_END",
    "aggregator.before_send.RUN_SEAL",
    "aggregator.after_send.RUN_SEAL",
    "aggregator.before_send.RUN_STATE",
    "aggregator.after_send.RUN_STATE",
    "aggregator.before_send.CLOCK",
    "aggregator.after_send.CLOCK",

    "sink.before_send.STATE",
    "sink.after_send.STATE",
    "sink.before_send.COMMITTED",
    "sink.after_send.COMMITTED",
    "sink.before_send.NACK",
    "sink.after_send.NACK",
    "sink.before_send.FULL",
    "sink.after_send.FULL",
    "sink.before_send.SEALED",
    "sink.after_send.SEALED",
    "sink.before_send.RUN_LISTED",
    "sink.after_send.RUN_LISTED",
    "sink.before_commit.RUN_OPEN",
    "sink.after_commit.RUN_OPEN",
    "sink.before_commit.RUN_WRITERS",
    "sink.after_commit.RUN_WRITERS",
    "sink.before_commit.RUN_END",
    "sink.after_commit.RUN_END",
    "sink.before_commit.RUN_SEAL",
    "sink.after_commit.RUN_SEAL",
    "sink.before_replace_write",
    "sink.before_replace_fsync",
    "sink.before_replace_rename",
    "sink.after_replace_rename",
    "sink.after_replace_dir_fsync",
    "sink.before_segment_write",
    "sink.before_segment_fsync",
    "sink.before_segment_dir_fsync",
    "sink.after_segment_dir_fsync",
    "sink.before_checkpoint_write",
    "sink.before_group_write",
    "sink.before_group_fdatasync",
    "sink.after_group_fdatasync",
    "sink.before_renew_truncate",
    "sink.before_renew_write",
    "sink.before_renew_fsync",
    "sink.after_renew_fsync",
    "sink.before_torn_unlink",
    "sink.after_torn_unlink",
    "sink.before_journal_rest_fdatasync",
    "sink.before_tombs_write",
    "sink.before_tombs_fdatasync",
    "sink.after_tombs_fdatasync",
    "sink.before_journal_unlink",
    "sink.after_journal_unlink",
    "sink.before_journal_rmdir",

    "live.before_unlink",
    "live.before_create",
    "live.before_flush",
    "live.after_flush",

    "seal.before_write",
    "seal.before_close",
    "seal.before_fsync",
    "seal.before_verify",
    "seal.before_rename",
    "seal.after_rename",
    "seal.after_dir_fsync",
};

/* The waits that SHORT_WAITS can name. */
static const char *const s_waits[] = {
    "aggregator.barrier_cap", /* the longest between two questions to an agent */
    "sink.seal_limit",        /* for a process that seals */
    "sink.view_limit",        /* for the process of live files to take something */
};

/* The armed point and its remaining count; the name is empty if none is set. */
static struct {
    bool read;
    char name[NAME_CHARS];
    unsigned long left;
} s_armed;

const char *
crema_failpoint_name(size_t i)
{
    return i < sizeof s_names / sizeof *s_names ? s_names[i] : NULL;
}

/* An unknown name would never be reached: it is reported at once. */
static void
s_arm(void)
{
    s_armed.read = true;
    const char *text = getenv("FAILPOINT");
    if (!text)
        return;
    for (size_t i = 0; i < sizeof s_names / sizeof *s_names; i++) {
        size_t n = strlen(s_names[i]);
        if (strncmp(text, s_names[i], n) != 0 || text[n] != ':')
            continue;
        memcpy(s_armed.name, s_names[i], n + 1);
        s_armed.left = strtoul(text + n + 1, NULL, 10);
    }
    if (s_armed.left == 0) {
        dprintf(STDERR_FILENO, "FAILPOINT=%s names no point, or no occurrence from 1 on\n", text);
        abort();
    }
}

void
crema_failpoint(const char *name)
{
    if (!s_armed.read)
        s_arm();
    if (s_armed.left == 0 || strcmp(name, s_armed.name) != 0 || --s_armed.left > 0)
        return;
    const struct timespec leave = {.tv_nsec = 20000000};
    if (strstr(name, ".after_send")) /* what was handed to the socket is sent first */
        nanosleep(&leave, NULL);
    dprintf(STDERR_FILENO, "event=failpoint name=%s\n", name);
    raise(SIGKILL);
}

void
crema_failpoint_message(const char *name, crema_msg_type_t type)
{
    char full[NAME_CHARS];
    snprintf(full, sizeof full, "%s.%s", name, crema_msg_name(type));
    crema_failpoint(full);
}

/* The milliseconds that "name:milliseconds,..." gives for `name`; -1 if it gives none. */
static long
s_short_wait_ms(const char *text, const char *name)
{
    long found_ms = -1;
    while (text) {
        size_t n = strcspn(text, ":"), i = 0;
        while (i < sizeof s_waits / sizeof *s_waits &&
               (strlen(s_waits[i]) != n || strncmp(text, s_waits[i], n) != 0))
            i++;
        char *end = NULL;
        long ms = text[n] == ':' ? strtol(text + n + 1, &end, 10) : 0;
        if (i == sizeof s_waits / sizeof *s_waits || ms < 1 || (*end != ',' && *end != '\0')) {
            dprintf(STDERR_FILENO, "SHORT_WAITS: %s names no wait, or no milliseconds\n", text);
            abort();
        }
        if (strcmp(s_waits[i], name) == 0)
            found_ms = ms;
        text = *end == ',' ? end + 1 : NULL;
    }
    return found_ms;
}

int64_t
crema_failpoint_wait(const char *name, int64_t usual_ns)
{
    long ms = s_short_wait_ms(getenv("SHORT_WAITS"), name);
    return ms < 0 ? usual_ns : ms * INT64_C(1000000);
}
