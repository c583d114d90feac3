#define _GNU_SOURCE
#include "input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "errors.h"

static const char *kind_name(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a FIFO";
    if (S_ISCHR(mode)) return "a character device";
    if (S_ISBLK(mode)) return "a block device";
    if (S_ISSOCK(mode)) return "a socket";
    return "something else";
}

int input_file_open(const char *path, input_file **out, sereno_error *err) {
    *out = NULL;
    int status = SERENO_ERR_IO;
    struct stat info;
    input_file *file = calloc(1, sizeof *file);
    if (!file) return err_no_memory(err, "a file handle", sizeof *file);
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    file->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (file->fd < 0) {
        err_set(err, status, "cannot open '%s': %s", path, strerror(errno));
        goto fail;
    }
    if (fstat(file->fd, &info) != 0) {
        err_set(err, status, "cannot examine '%s': %s", path, strerror(errno));
        goto fail;
    }
    if (!S_ISREG(info.st_mode)) {
        err_set(err, status, "'%s' is %s; a regular file is needed", path, kind_name(info.st_mode));
        goto fail;
    }
    if (!(file->path = strdup(path))) {
        status = err_no_memory(err, "a file handle", strlen(path));
        goto fail;
    }
    file->size = (size_t)info.st_size;
    *out = file;
    return SERENO_OK;
fail:
    input_file_close(&file);
    return status;
}

int input_file_read(const input_file *file, uint64_t offset, void *out, size_t size, sereno_error *err) {
    for (size_t n = 0; n < size;) {
        ssize_t got = pread(file->fd, (char *)out + n, size - n, (off_t)(offset + n));
        if (got > 0) {
            n += (size_t)got;
        } else if (got == 0) {
            return err_set(err, SERENO_ERR_IO,
                           "'%s' has no bytes %" PRIu64 " to %" PRIu64
                           " any more: it was cut short while it was open; replace a file by renaming instead",
                           file->path, offset + n, offset + size - 1);
        } else if (errno != EINTR) {
            return err_set(err, SERENO_ERR_IO, "cannot read '%s': %s", file->path, strerror(errno));
        }
    }
    return SERENO_OK;
}

void input_file_close(input_file **file) {
    input_file *f = *file;
    *file = NULL;
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f);
}
