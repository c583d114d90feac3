/*
 * Writer of GGUF version 3 files: keys first, then tensor descriptions, then data, streamed to a file.
 * Thread: one at a time. The writing calls report nothing: close says whether all went well.
 */
#ifndef MODEL_GGUF_WRITER_H
#define MODEL_GGUF_WRITER_H

#include <stdint.h>
#include <stdio.h>

#include "sereno/error.h"
#include "tensor_type.h"

typedef struct gguf_writer gguf_writer;

/* Counts are written first, so they are needed first. The file appears under `path` only at close. */
int gguf_writer_open(const char *path, uint64_t n_kv, uint64_t n_tensors, gguf_writer **out, sereno_error *err);

void gguf_write_u32(gguf_writer *w, const char *key, uint32_t value);
void gguf_write_f32(gguf_writer *w, const char *key, float value);
void gguf_write_bool(gguf_writer *w, const char *key, int value);
void gguf_write_string(gguf_writer *w, const char *key, const char *value);
/* An array of strings or int32: this, then `count` calls of gguf_write_*_element. */
void gguf_write_string_array(gguf_writer *w, const char *key, uint64_t count);
void gguf_write_i32_array(gguf_writer *w, const char *key, uint64_t count);
void gguf_write_string_element(gguf_writer *w, const char *value, size_t size);
void gguf_write_i32_element(gguf_writer *w, int32_t value);

/* Describes a tensor; rows 0: a vector. Data follows later, in the same order. */
void gguf_write_tensor(gguf_writer *w, const char *name, tensor_type type, uint64_t columns, uint64_t rows);
/* Data of the tensor that is next, in any number of pieces. */
void gguf_write_data(gguf_writer *w, const void *data, size_t size);

/* Checks that everything announced was written, and renames into place; on failure nothing is left. Nulls. */
int gguf_writer_close(gguf_writer **w, sereno_error *err);

#endif
