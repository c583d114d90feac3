/*
 * A GGUF file written anew with its matrices in another type.
 *
 * Matrices (tensors of more than one row, the embedding and the output head among them) take the type, or F16
 * where their rows are not whole blocks of it. Vectors stay as they are, and so do matrices that have their type
 * already, byte for byte. Keys are carried over unchanged but for two: general.file_type becomes that of the type,
 * and sereno.origin, which says what the weights were made from, is added unless it is there.
 * Memory: a row of a matrix, whatever the size of the file. Thread: any, one conversion a thread.
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
    gguf_string origin;           /* as it will be; points into `from` or to a constant */
    size_t n_converted, n_kept;   /* tensors */
    size_t n_f16;                 /* matrices whose rows are not whole blocks, so that F16 takes the type's place */
    const gguf_tensor *first_f16; /* NULL: none */
} conversion;

/*
 * Fills *c: finds out what would become of each tensor; type: one that can be written (tensor_type_writable).
 * SERENO_ERR_UNSUPPORTED: a matrix has a type that cannot be read.
 */
int conversion_plan(const gguf *from, tensor_type type, conversion *c, sereno_error *err);

/*
 * Writes the new file to the empty stream `to`, which messages call `name`. progress (may be NULL): "converting", how
 * many of the tensors' bytes are done, at least once a row; false gives up. SERENO_ERR_IO: the stream failed;
 * _UNSUPPORTED, _FORMAT: a weight is too large for the type, or not finite, by tensor and row; _ABANDONED; _NO_MEMORY.
 */
int conversion_write(const conversion *c, FILE *to, const char *name, const sereno_progress *progress,
                     sereno_error *err);

#endif
