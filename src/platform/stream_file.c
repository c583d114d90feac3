#include "stream_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

int stream_file_open(stream_file *f, const char *path, sereno_error *err) {
    *f = (stream_file){.path = path, .buffer = malloc(STREAM_BUFFER_BYTES)};
    if (!f->buffer) return err_no_memory(err, "a buffer", STREAM_BUFFER_BYTES);
    f->to = fopen(path, "we");
    if (!f->to) {
        int status = err_set(err, SERENO_ERR_IO, "cannot write '%s': %s", path, strerror(errno));
        free(f->buffer);
        *f = (stream_file){0};
        return status;
    }
    setvbuf(f->to, f->buffer, _IOFBF, STREAM_BUFFER_BYTES);
    return SERENO_OK;
}

int stream_file_close(stream_file *f, sereno_error *err) {
    int status = SERENO_OK;
    if (f->to) {
        bool failed = ferror(f->to);
        errno = 0;
        failed |= fclose(f->to) != 0;
        if (failed) {
            status = err_set(err, SERENO_ERR_IO, "'%s' is not complete: %s", f->path,
                             errno ? strerror(errno) : "the system did not take all that was written");
        }
    }
    free(f->buffer);
    *f = (stream_file){0};
    return status;
}
