#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "errors.h"

enum { NAMES_TRIED = 100 };

bool path_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

bool path_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Creates a file of a name that nobody uses; files of earlier runs that were killed stay. Returns -1 with errno. */
static int create(output_file *f, size_t size) {
    int fd = -1;
    snprintf(f->temporary, size, "%s.part", f->path);
    for (int n = 1; n < NAMES_TRIED; n++) {
        fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
        if (fd >= 0 || errno != EEXIST) break;
        snprintf(f->temporary, size, "%s.part%d", f->path, n);
    }
    return fd;
}

int output_file_open(const char *path, bool replace, output_file **out, sereno_error *err) {
    *out = NULL;
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return err_set(err, SERENO_ERR_IO, "'%s' is not a regular file, so it cannot be written anew", path);
    }
    size_t size = strlen(path) + sizeof ".part99";
    output_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path)) || !(f->temporary = malloc(size))) {
        output_file_close(&f);
        return err_no_memory(err, "an output file", sizeof *f + 2 * size);
    }
    f->replace = replace;
    int fd = create(f, size);
    f->is_there = fd >= 0;
    f->to = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (f->to) {
        *out = f;
        return SERENO_OK;
    }
    int status = err_set(err, SERENO_ERR_IO, "cannot create '%s': %s", f->temporary, strerror(errno));
    if (fd >= 0) close(fd);
    output_file_close(&f);
    return status;
}

/* Flushes everything to the disk, or returns false with errno. */
static bool to_disk(FILE *file) {
    if (fflush(file) != 0) return false;
    if (ferror(file)) {
        errno = EIO;
        return false;
    }
    return fsync(fileno(file)) == 0 || errno == EINVAL; /* some file systems have no fsync */
}

int output_file_commit(output_file *f, sereno_error *err) {
    bool good = to_disk(f->to);
    int reason = errno;
    if (fclose(f->to) != 0 && good) {
        good = false;
        reason = errno;
    }
    f->to = NULL;
    if (!good) return err_set(err, SERENO_ERR_IO, "cannot write '%s': %s", f->temporary, strerror(reason));
    if (!f->replace) { /* a file may have appeared since opening; link fails if the name exists */
        if (link(f->temporary, f->path) == 0) return SERENO_OK; /* close removes the other name */
        /* without links, a file that appears between the check and the renaming is lost */
        if (errno == EEXIST || path_exists(f->path)) return err_set(err, SERENO_ERR_IO, "'%s' exists already", f->path);
    }
    if (rename(f->temporary, f->path) != 0) {
        return err_set(err, SERENO_ERR_IO, "cannot rename '%s' to '%s': %s", f->temporary, f->path, strerror(errno));
    }
    f->is_there = false;
    return SERENO_OK;
}

void output_file_close(output_file **file) {
    output_file *f = *file;
    *file = NULL;
    if (!f) return;
    if (f->to) fclose(f->to);
    if (f->is_there) unlink(f->temporary);
    free(f->path);
    free(f->temporary);
    free(f);
}
