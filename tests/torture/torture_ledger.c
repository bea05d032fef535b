#include "torture_ledger.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

crema_err_t
torture_ledger_new(const char *dir, const crema_id_t *stream_id, torture_ledger_t **ret_ledger)
{
    char path[4096];
    char hex[CREMA_ID_HEX_CHARS + 1];
    snprintf(path, sizeof path, "%s/%s.ledger", dir, crema_id_hex(stream_id, hex));
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return CREMA_EIO;
    void *map = MAP_FAILED;
    if (ftruncate(fd, sizeof(torture_ledger_t)) == 0)
        map = mmap(NULL, sizeof(torture_ledger_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return CREMA_EIO;
    *ret_ledger = map;
    (*ret_ledger)->stream_id = *stream_id;
    return CREMA_OK;
}

crema_err_t
torture_ledger_read(const char *path, torture_ledger_t *ret_ledger)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return CREMA_ENOENT;
    ssize_t got = read(fd, ret_ledger, sizeof *ret_ledger);
    close(fd);
    return got == (ssize_t)sizeof *ret_ledger ? CREMA_OK : CREMA_EMORE;
}

double
torture_value(const crema_id_t *stream_id, uint64_t seq)
{
    uint64_t mixed = (crema_id_hash(stream_id) ^ seq) * 0x9e3779b97f4a7c15u;
    return (double)(mixed >> 12); /* 52 bits: exact in a double */
}
