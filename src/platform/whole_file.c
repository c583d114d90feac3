#include "whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "input_file.h"
#include "interrupt.h"

int file_read_whole(const char *path, size_t max, char **out, size_t *size, sereno_error *err) {
    input_file *file;
    *out = NULL;
    int status = input_file_open(path, &file, err);
    if (status) return status;
    *size = file->size;
    if (file->size > max) {
        status = err_set(err, SERENO_ERR_FORMAT, "'%s' has %zu bytes; %zu are the most", path, file->size, max);
    } else {
        *out = calloc(1, file->size + 1);
        status = *out ? input_file_read(file, 0, *out, file->size, err) : err_no_memory(err, "a file", file->size);
    }
    input_file_close(&file);
    if (status) free(*out);
    if (status) *out = NULL;
    return status;
}

int file_read_text(const char *path, sereno_text *out, sereno_error *err) {
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rbe");
    if (!file) return err_set(err, SERENO_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    char block[4096];
    int status = SERENO_OK;
    int64_t n = 0;
    while (!status && (n = interrupt_read(fileno(file), block, sizeof block)) > 0) {
        status = sereno_text_append(out, block, (size_t)n, err);
    }
    if (n < 0) {
        int code = errno == EINTR ? SERENO_ERR_ABANDONED : SERENO_ERR_IO; /* a signal has come */
        status = err_set(err, code, "cannot read '%s': %s", standard ? "standard input" : path, strerror(errno));
    }
    if (!standard) fclose(file);
    return status;
}
