#define _GNU_SOURCE
#include "sereno/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

int sereno_file_open(const char *path, sereno_file **out, sereno_error *err) {
    *out = NULL;
    int status = SERENO_ERR_IO;
    sereno_file *file = calloc(1, sizeof *file);
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (!file || !(file->path = strdup(path))) {
        status = err_no_memory(err, "a file handle", sizeof *file + strlen(path));
        goto fail;
    }
    if (fd < 0) {
        err_set(err, status, "cannot open '%s': %s", path, strerror(errno));
        goto fail;
    }
    struct stat info;
    if (fstat(fd, &info) != 0) {
        err_set(err, status, "cannot examine '%s': %s", path, strerror(errno));
        goto fail;
    }
    if (!S_ISREG(info.st_mode)) {
        err_set(err, status, "'%s' is %s; a regular file is needed", path, kind_name(info.st_mode));
        goto fail;
    }
    file->size = (size_t)info.st_size;
    if (file->size > 0) {
        void *map = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) {
            err_set(err, status, "cannot map '%s' (%zu bytes): %s", path, file->size, strerror(errno));
            goto fail;
        }
        file->data = map;
    }
    close(fd);
    *out = file;
    return SERENO_OK;
fail:
    if (fd >= 0) close(fd);
    sereno_file_close(&file);
    return status;
}

void sereno_file_drop_pages(const sereno_file *file) {
    if (file->data) madvise((void *)file->data, file->size, MADV_DONTNEED);
}

void sereno_file_close(sereno_file **file) {
    sereno_file *f = *file;
    *file = NULL;
    if (!f) return;
    if (f->data) munmap((void *)f->data, f->size);
    free(f->path);
    free(f);
}
