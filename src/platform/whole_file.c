#include "whole_file.h"

#include <stdlib.h>

#include "errors.h"
#include "sereno/file.h"

int file_read_whole(const char *path, size_t max, char **out, size_t *size, sereno_error *err) {
    sereno_file *file;
    *out = NULL;
    int status = sereno_file_open(path, &file, err);
    if (status) return status;
    *size = file->size;
    if (file->size > max) {
        status = err_set(err, SERENO_ERR_FORMAT, "'%s' has %zu bytes; %zu are the most", path, file->size, max);
    } else {
        *out = calloc(1, file->size + 1);
        status = *out ? sereno_file_read(file, 0, *out, file->size, err) : err_no_memory(err, "a file", file->size);
    }
    sereno_file_close(&file);
    if (status) free(*out);
    if (status) *out = NULL;
    return status;
}
