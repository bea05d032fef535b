#define _GNU_SOURCE /* nftw */

#include "record_frames.h"

#include "message_parts.h"
#include "must.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

void
frames_clear(frames_t *self)
{
    self->size = 0;
    self->n = 0;
}

void
frames_add(frames_t *self, const crema_record_t *record, uint64_t seq)
{
    size_t used;
    must(crema_record_encode(record, seq, (int64_t)seq * 1000, self->bytes + self->size,
                             sizeof self->bytes - self->size, &used));
    self->size += used;
    self->n++;
}

void
frames_add_dicts(frames_t *self, uint64_t first, uint64_t last)
{
    for (uint64_t seq = first; seq <= last; seq++) {
        char text[32];
        snprintf(text, sizeof text, "name-%llu", (unsigned long long)seq);
        Crema__DictEntry entry = {
            .kind = CREMA_DICT_ACTIVITY, .id = (uint32_t)seq, .text = text, .uuid = "", .host = ""};
        crema_record_t record = {.type = CREMA_RECORD_DICT,
                                 .dict = {.n_entries = 1, .entries = body_entries(1, &entry)}};
        frames_add(self, &record, seq);
    }
}

void
frames_add_loss(frames_t *self, uint64_t first, uint64_t last)
{
    crema_record_t record = {
        .type = CREMA_RECORD_LOSS,
        .loss = {.first = first, .last = last, .reason = CREMA_LOSS_CORRUPT, .bytes = 77},
    };
    frames_add(self, &record, last);
}

void
frames_add_end(frames_t *self, uint64_t seq)
{
    crema_record_t record = {.type = CREMA_RECORD_END};
    frames_add(self, &record, seq);
}

Crema__Put
frames_put(const frames_t *self, uint8_t stream, uint8_t run, uint64_t first_seq)
{
    return (Crema__Put){
        .stream_id = body_id(frames_id(stream)),
        .run_id = body_id(frames_id(run)),
        .agent_id = body_id(frames_id(0xaa)),
        .first_seq = first_seq,
        .n = self->n,
        .frames = {self->size, (uint8_t *)self->bytes},
    };
}

crema_id_t
frames_id(uint8_t byte)
{
    crema_id_t id;
    memset(id.bytes, byte, sizeof id.bytes);
    return id;
}

static const char *
s_temporary(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/tmp";
}

void
scratch_template(const char *name, char path[SCRATCH_BYTES])
{
    int n = snprintf(path, SCRATCH_BYTES, "%s/crema-%s-XXXXXX", s_temporary(), name);
    assert_true(n > 0 && n < SCRATCH_BYTES); /* choose a shorter TMPDIR */
}

static char *
s_make_below(const char *parent)
{
    char *dir;
    assert_true(asprintf(&dir, "%s/crema-test-XXXXXX", parent) > 0);
    assert_non_null(mkdtemp(dir));
    return dir;
}

char *
scratch_make(void)
{
    return s_make_below(s_temporary());
}

/* A container gets 64 MiB of it. */
static const char *
s_in_memory(size_t room_mib)
{
    struct statvfs shm;
    bool roomy = access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &shm) == 0 &&
                 (uint64_t)shm.f_bavail * shm.f_frsize >> 20 >= room_mib;
    return roomy ? "/dev/shm" : s_temporary();
}

char *
scratch_make_in_memory(size_t room_mib)
{
    return s_make_below(s_in_memory(room_mib));
}

void
scratch_prefer_memory(size_t room_mib)
{
    assert_int_equal(setenv("TMPDIR", s_in_memory(room_mib), 1), 0);
}

static int
s_on_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}

void
scratch_remove(char **dir)
{
    nftw(*dir, s_on_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*dir);
    *dir = NULL;
}

bool
scratch_mount(const char *dir, const char *size)
{
    char options[64];
    snprintf(options, sizeof options, "size=%s", size);
    return mount("tmpfs", dir, "tmpfs", 0, options) == 0;
}

void
scratch_unmount(const char *dir)
{
    assert_int_equal(umount2(dir, MNT_DETACH), 0);
}

void
scratch_fill(const char *path)
{
    static const char c_page[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, c_page, sizeof c_page) > 0)
        ;
    close(fd);
}
