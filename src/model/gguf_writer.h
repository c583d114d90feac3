/*
 * Writer of GGUF version 3 files: keys first, then tensor descriptions, then data, streamed to a file.
 * Thread: one at a time. The writing calls report nothing: close says whether all went well. Nothing is written
 * after the first failure.
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
 * Writes to `to`, which is empty so far and stays the caller's, as is `name`, which messages call it. Counts are
 * written first, so they are needed first.
 */
int gguf_writer_open(FILE *to, const char *name, uint64_t n_kv, uint64_t n_tensors, gguf_writer **out,
                     sereno_error *err);

/* Alignment of tensor data where the key general.alignment says another than 32; before the first tensor. */
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

/* A key of another file as it stands there. */
void gguf_write_kv(gguf_writer *w, const gguf_kv *kv);

/* Describes a tensor as given; rows 0: a vector. Data follows later, in the same order. */
void gguf_write_tensor(gguf_writer *w, const char *name, tensor_type type, uint64_t columns, uint64_t rows);
/* Describes one of another file's name and dimensions. */
void gguf_write_tensor_like(gguf_writer *w, const gguf_tensor *t, tensor_type type);
/* Data of the tensor that is next, in any number of pieces. False: writing has failed, and close knows why. */
bool gguf_write_data(gguf_writer *w, const void *data, size_t size);

/*
 * Checks that everything announced was written: SERENO_ERR_INVALID if not, SERENO_ERR_IO where the file did not take
 * it. What the stream still buffers is the caller's to flush. Frees and nulls; NULL is fine.
 */
int gguf_writer_close(gguf_writer **w, sereno_error *err);

#endif
