/*
 * Writes a GGUF file anew with its matrices in another type.
 *
 * Matrices (tensors of more than one row, with the embedding and the output head) get the type, or F16 if their rows
 * are not whole blocks of it. Vectors, and matrices that have their type already, are copied byte for byte. Keys are
 * copied unchanged but for two: general.file_type becomes that of the type, and sereno.origin, which names the type
 * that the weights were made from, is added if it is missing. Memory: one row of a matrix, for any size of file.
 * Thread: any, one at a time for each conversion.
 */
#ifndef MODEL_CONVERT_H
#define MODEL_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gguf.h"
#include "sereno/error.h"
#include "sereno/progress.h"
#include "tensor_type.h"

typedef struct conversion {
    const gguf *from; /* borrowed */
    tensor_type type;
    gguf_string origin;           /* sereno.origin of the new file; points into `from` or to a constant */
    size_t n_converted, n_kept;   /* tensors */
    size_t n_f16;                 /* matrices that become F16 because their rows are not whole blocks of the type */
    const gguf_tensor *first_f16; /* NULL: none */
} conversion;

/*
 * Fills in *c, without writing. type: one that can be written (tensor_type_writable). SERENO_ERR_UNSUPPORTED: a matrix
 * has a type that cannot be read.
 */
int conversion_plan(const gguf *from, tensor_type type, conversion *c, sereno_error *err);

/*
 * Writes the new file to the empty stream `to`, which messages call `name`. progress (may be NULL) gets the tensors'
 * bytes done so far, at least once a row; false gives up. SERENO_ERR_IO: the stream failed. SERENO_ERR_UNSUPPORTED: a
 * weight is too large for the type; SERENO_ERR_FORMAT: a weight is not finite; both name tensor and row.
 * SERENO_ERR_ABANDONED: progress returned false. SERENO_ERR_NO_MEMORY.
 */
int conversion_write(const conversion *c, FILE *to, const char *name, const sereno_progress *progress,
                     sereno_error *err);

#endif
