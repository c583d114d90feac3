/*
 * Writer of GGUF version 3 files to a stream: keys first, then tensor descriptions, then data. The writing calls report
 * no errors; gguf_writer_close does. Nothing is written after the first failure. Thread: one at a time.
 */
#ifndef MODEL_GGUF_WRITER_H
#define MODEL_GGUF_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "gguf.h"
#include "sereno/error.h"
#include "tensor_type.h"

typedef struct gguf_writer gguf_writer;

/*
 * Writes the header to the empty stream `to`, which messages call `name`; both are borrowed until close. n_kv and
 * n_tensors: how many will follow. On failure *out is NULL. SERENO_ERR_NO_MEMORY.
 */
int gguf_writer_open(FILE *to, const char *name, uint64_t n_kv, uint64_t n_tensors, gguf_writer **out,
                     sereno_error *err);

/* Sets the alignment of tensor data, if general.alignment is not 32; before the first tensor. */
void gguf_writer_align(gguf_writer *w, uint32_t alignment);

void gguf_write_u32(gguf_writer *w, const char *key, uint32_t value);
void gguf_write_f32(gguf_writer *w, const char *key, float value);
void gguf_write_bool(gguf_writer *w, const char *key, int value);
void gguf_write_string(gguf_writer *w, const char *key, const char *value);
/* An array of strings or int32: this, then `count` calls of gguf_write_*_element. */
void gguf_write_string_array(gguf_writer *w, const char *key, uint64_t count);
void gguf_write_i32_array(gguf_writer *w, const char *key, uint64_t count);
void gguf_write_string_element(gguf_writer *w, const char *value, size_t size);
void gguf_write_i32_element(gguf_writer *w, int32_t value);

/* Copies a key of another file. */
void gguf_write_kv(gguf_writer *w, const gguf_kv *kv);

/* Describes a tensor; rows 0: a vector. Data follows later, in the same order. */
void gguf_write_tensor(gguf_writer *w, const char *name, tensor_type type, uint64_t columns, uint64_t rows);
/* Describes a tensor with the name and dimensions of another file's. */
void gguf_write_tensor_like(gguf_writer *w, const gguf_tensor *t, tensor_type type);
/* Writes data of the next tensor, in any number of pieces. False: writing has failed; close says why. */
bool gguf_write_data(gguf_writer *w, const void *data, size_t size);

/*
 * Checks that everything announced was written, frees and nulls; NULL is fine. The caller flushes the stream.
 * SERENO_ERR_INVALID: something is missing; SERENO_ERR_IO: writing failed.
 */
int gguf_writer_close(gguf_writer **w, sereno_error *err);

#endif
