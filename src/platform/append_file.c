#include "append_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "errors.h"

/* Why the file is not suitable for appending; NULL: it is. */
static const char *problem_of(int fd) {
    struct stat info;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; /* all of it */
    if (fstat(fd, &info) != 0) return strerror(errno);
    if (!S_ISREG(info.st_mode)) return "it is not a regular file";
    if (fcntl(fd, F_SETLK, &lock) == 0) return NULL;
    return errno == EACCES || errno == EAGAIN ? "another process has it open" : strerror(errno);
}

int append_file_open(const char *path, append_file **out, sereno_error *err) {
    *out = NULL;
    append_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        append_file_close(&f);
        return err_no_memory(err, "a file to append to", sizeof *f + strlen(path));
    }
    /* O_NONBLOCK: opening a pipe would wait for a writer. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    const char *problem = fd < 0 ? strerror(errno) : problem_of(fd);
    if (!problem && !(f->file = fdopen(fd, "rb"))) problem = strerror(errno);
    if (!problem) {
        *out = f;
        return SERENO_OK;
    }
    int status = err_set(err, SERENO_ERR_IO, "cannot append to '%s': %s", path, problem);
    if (fd >= 0) close(fd);
    append_file_close(&f);
    return status;
}

/* False with errno. */
static bool write_at(int fd, const char *data, size_t size, off_t at) {
    while (size > 0) {
        ssize_t n = pwrite(fd, data, size, at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        size -= (size_t)n;
        at += n;
    }
    return true;
}

int append_file_write(append_file *f, const char *record, size_t size, sereno_error *err) {
    int fd = fileno(f->file);
    if (ftruncate(fd, f->end) == 0 && write_at(fd, record, size, f->end) &&
        (fsync(fd) == 0 || errno == EINVAL)) { /* some file systems have no fsync */
        f->end += (int64_t)size;
        return SERENO_OK;
    }
    int status = err_set(err, SERENO_ERR_IO, "cannot append to '%s': %s", f->path, strerror(errno));
    (void)!ftruncate(fd, f->end); /* if this fails, the next write cuts the half record off */
    return status;
}

void append_file_close(append_file **file) {
    append_file *f = *file;
    *file = NULL;
    if (!f) return;
    if (f->file) fclose(f->file);
    free(f->path);
    free(f);
}
