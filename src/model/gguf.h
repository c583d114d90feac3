/*
 * Reader of GGUF versions 2 and 3 (little-endian).
 *
 * Reads from a file, or from a buffer that holds a whole file. Of a file it reads the header into its own memory, and
 * tensors on demand. It checks every count, offset, length, alignment and product of dimensions before it uses it. An
 * error names the file, the key or tensor, the byte offset and what was wrong.
 *
 * Guarantee after success: every tensor's data lay inside the file when it was opened, every array's elements lie in
 * memory, and keys and tensor names are unique.
 *
 * Source: the GGUF specification (gguf.md in the documents of ggml). Thread: an open file is read from any thread;
 * opening, forgetting keys and closing one at a time.
 */
#ifndef MODEL_GGUF_H
#define MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"
#include "tensor_type.h"

typedef enum gguf_type {
    GGUF_UINT8 = 0,
    GGUF_INT8,
    GGUF_UINT16,
    GGUF_INT16,
    GGUF_UINT32,
    GGUF_INT32,
    GGUF_FLOAT32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_UINT64,
    GGUF_INT64,
    GGUF_FLOAT64,
    GGUF_TYPE_COUNT,
} gguf_type;

typedef struct gguf_string {
    const char *data; /* size bytes, not terminated; any bytes */
    size_t size;
} gguf_string;

/* Bytes of a name that a message shows, for "%.*s". */
enum { GGUF_BYTES_SHOWN = 64 };
#define GGUF_SHOWN(s) (int)((s).size < GGUF_BYTES_SHOWN ? (s).size : GGUF_BYTES_SHOWN), (s).data

typedef struct gguf_kv {
    gguf_string key;
    gguf_type type;
    gguf_type element;   /* of an array */
    uint64_t count;      /* elements of an array, else 1 */
    const uint8_t *data; /* first element; unaligned */
    size_t size;         /* bytes of all elements */
    uint64_t offset;     /* of the value in the file */
} gguf_kv;

enum { GGUF_MAX_DIMS = 4 };

typedef struct gguf_tensor {
    gguf_string name;
    tensor_type type;
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS]; /* dims[0] = columns (contiguous), dims[1] = rows; 1 beyond n_dims */
    size_t size;                  /* bytes */
    uint64_t offset;              /* of the data in the file */
} gguf_tensor;

typedef struct gguf {
    const char *name; /* for messages; borrowed, or the file's */
    uint32_t version;
    uint32_t alignment; /* of tensor data, a power of two */
    size_t n_kv;
    gguf_kv *kv; /* in file order */
    size_t n_tensors;
    gguf_tensor *tensors; /* in file order */
    size_t size;          /* bytes of the whole file */
    /* The source of tensors: one of the two. */
    struct input_file *file; /* owned */
    const uint8_t *data;     /* borrowed */
    void *storage;           /* owned: the header that keys and names point into; NULL: they point into data */
} gguf;

/* Opens a file and reads its keys and tensor descriptions. On failure *out is NULL. SERENO_ERR_IO; SERENO_ERR_FORMAT;
 * SERENO_ERR_UNSUPPORTED: the version or a tensor type; SERENO_ERR_NO_MEMORY. */
int gguf_open(const char *path, gguf **out, sereno_error *err);

/* The same for `size` bytes in memory that are a whole file; messages call it `name`. Borrows data and name. */
int gguf_parse(const char *name, const uint8_t *data, size_t size, gguf **out, sereno_error *err);

/* Frees the keys, which take most of the memory; tensors keep their names. SERENO_ERR_NO_MEMORY: the keys are still
 * there. */
int gguf_forget_keys(gguf *g, sereno_error *err);

/* Reads `size` bytes of a tensor's data from byte `at` of it; at + size <= t->size. SERENO_ERR_IO as input_file_read.
 */
int gguf_read_tensor(const gguf *g, const gguf_tensor *t, uint64_t at, void *out, size_t size, sereno_error *err);

/* Closes the file, frees and nulls; NULL is fine. */
void gguf_close(gguf **g);

/* NULL when absent. */
const gguf_kv *gguf_find(const gguf *g, const char *key);
const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name);

/* The type that holds most bytes of the tensors; F32 where there are none. */
tensor_type gguf_main_type(const gguf *g);

bool gguf_string_equals(gguf_string s, const char *text);

/*
 * Typed reads of a key. An integer of any width is accepted if its value fits. If the key is absent, they store
 * *fallback. SERENO_ERR_FORMAT names the key: it has another type, or it is absent and fallback is NULL.
 */
int gguf_get_u32(const gguf *g, const char *key, const uint32_t *fallback, uint32_t *out, sereno_error *err);
int gguf_get_f32(const gguf *g, const char *key, const float *fallback, float *out, sereno_error *err);
int gguf_get_bool(const gguf *g, const char *key, const bool *fallback, bool *out, sereno_error *err);
int gguf_get_string(const gguf *g, const char *key, const gguf_string *fallback, gguf_string *out, sereno_error *err);
/* An array of the given element type. SERENO_ERR_FORMAT: absent, or another type. */
int gguf_get_array(const gguf *g, const char *key, gguf_type element, const gguf_kv **out, sereno_error *err);

/* Walks an array of strings: *at starts as kv->data and is moved on. At most kv->count calls. */
gguf_string gguf_next_string(const uint8_t **at);

/* The value of an integer key, or element i of an integer array, as 64 bits; false for other types. */
bool gguf_integer(const gguf_kv *kv, uint64_t i, int64_t *out);

/* "uint32", "string", ... Static storage. */
const char *gguf_type_name(gguf_type type);

/* Bytes of a value of a type; 0: they vary (strings, arrays). */
size_t gguf_type_bytes(gguf_type type);

#endif
