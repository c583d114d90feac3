#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf.h"
#include "gguf_writer.h"
#include "support.h"

/* A file being put together by hand, so that it can be wrong. */
typedef struct blob {
    uint8_t data[4096];
    size_t size;
} blob;

static void put(blob *b, const void *data, size_t size) {
    assert_true(b->size + size <= sizeof b->data);
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void put_u32(blob *b, uint32_t v) {
    put(b, &v, sizeof v);
}

static void put_u64(blob *b, uint64_t v) {
    put(b, &v, sizeof v);
}

static void put_string(blob *b, const char *s) {
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

static blob begin(uint32_t version, uint64_t n_tensors, uint64_t n_kv) {
    blob b = {.size = 0};
    put(&b, "GGUF", 4);
    put_u32(&b, version);
    put_u64(&b, n_tensors);
    put_u64(&b, n_kv);
    return b;
}

static void put_tensor(blob *b, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                       uint64_t offset) {
    put_string(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) {
        put_u64(b, dims[i]);
    }
    put_u32(b, type);
    put_u64(b, offset);
}

/* Parses a copy that ends where the heap block ends, so that ASan sees a read past it. */
static int parse(const uint8_t *data, size_t size, sereno_error *err) {
    uint8_t *copy = malloc(size ? size : 1);
    gguf *g;
    assert_non_null(copy);
    memcpy(copy, data, size);
    int status = gguf_parse("file.gguf", copy, size, &g, err);
    gguf_close(&g);
    free(copy);
    return status;
}

static void expect(const blob *b, int status, const char *part) {
    sereno_error error = {0};
    int got = parse(b->data, b->size, &error);
    if (got != status || !strstr(error.message, part) || !strstr(error.message, "file.gguf")) {
        fail_msg("%d '%s'; wanted %d with '%s'", got, error.message, status, part);
    }
}

static void test_header(void **state) {
    (void)state;
    blob b = {.size = 0};
    expect(&b, SERENO_ERR_FORMAT, "empty");
    put(&b, "GGML0000000000000000000000", 24);
    expect(&b, SERENO_ERR_FORMAT, "not a GGUF file");
    b = begin(1, 0, 0);
    expect(&b, SERENO_ERR_UNSUPPORTED, "version 1");
    b = begin(0x03000000, 0, 0);
    expect(&b, SERENO_ERR_UNSUPPORTED, "big-endian");
    b = begin(3, (uint64_t)1 << 63, 0);
    expect(&b, SERENO_ERR_FORMAT, "9223372036854775808 tensors");
    b = begin(3, 0, (uint64_t)1 << 63);
    expect(&b, SERENO_ERR_FORMAT, "9223372036854775808 keys");
}

static void test_keys(void **state) {
    (void)state;
    blob b = begin(3, 0, 1);
    put_u64(&b, UINT64_MAX - 4); /* key length */
    put(&b, "0123456789", 10);
    expect(&b, SERENO_ERR_FORMAT, "a string of 18446744073709551611 bytes");
    b = begin(3, 0, 1);
    put_string(&b, "some.key");
    put_u32(&b, 99);
    expect(&b, SERENO_ERR_FORMAT, "'some.key' at byte 40: unknown value type");
    b = begin(3, 0, 1);
    put_string(&b, "some.key");
    put_u32(&b, GGUF_ARRAY);
    put_u32(&b, GGUF_UINT64);
    put_u64(&b, (uint64_t)1 << 61); /* times 8 overflows */
    expect(&b, SERENO_ERR_FORMAT, "2305843009213693952 elements");
    b = begin(3, 0, 1);
    put_string(&b, "some.key");
    put_u32(&b, GGUF_ARRAY);
    put_u32(&b, GGUF_ARRAY);
    put_u64(&b, 1);
    expect(&b, SERENO_ERR_FORMAT, "arrays of arrays");
    b = begin(3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_string(&b, "twice");
        put_u32(&b, GGUF_UINT8);
        put(&b, "x", 1);
    }
    expect(&b, SERENO_ERR_FORMAT, "key 'twice' occurs twice");
    static const uint32_t alignments[] = {0, 1, 24, 1u << 31};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        b = begin(3, 0, 1);
        put_string(&b, "general.alignment");
        put_u32(&b, GGUF_UINT32);
        put_u32(&b, alignments[i]);
        expect(&b, SERENO_ERR_FORMAT, "general.alignment");
    }
}

static void test_tensors(void **state) {
    (void)state;
    static const struct {
        uint32_t n_dims, type;
        uint64_t dims[4], offset;
        int status;
        const char *part;
    } cases[] = {
        {0, 0, {0}, 0, SERENO_ERR_FORMAT, "1 to 4 dimensions"},
        {1, 0, {0}, 0, SERENO_ERR_FORMAT, "a dimension is out of range"},
        {1, 0, {(uint64_t)1 << 40}, 0, SERENO_ERR_FORMAT, "a dimension is out of range"},
        {4, 0, {1u << 30, 1u << 30, 1u << 30, 4}, 0, SERENO_ERR_FORMAT, "its size overflows"},
        {1, 2, {33}, 0, SERENO_ERR_FORMAT, "not whole blocks of 32 (Q4_0)"},
        {1, 4, {32}, 0, SERENO_ERR_UNSUPPORTED, "unknown tensor type 4"},
        {1, 0, {4}, 8, SERENO_ERR_FORMAT, "not a multiple of the alignment"},
        {1, 0, {1000}, 0, SERENO_ERR_FORMAT, "end past the file"},
        {1, 0, {4}, UINT64_MAX - 31, SERENO_ERR_FORMAT, "end past the file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        blob b = begin(3, 1, 0);
        put_tensor(&b, "the.tensor", cases[i].n_dims, cases[i].dims, cases[i].type, cases[i].offset);
        put(&b, (uint8_t[64]){0}, 64);
        expect(&b, cases[i].status, cases[i].part);
        expect(&b, cases[i].status, "the.tensor");
    }
    const uint64_t four = 4;
    blob b = begin(3, 2, 0);
    put_tensor(&b, "same", 1, &four, 0, 0);
    put_tensor(&b, "same", 1, &four, 0, 0);
    put(&b, (uint8_t[64]){0}, 64);
    expect(&b, SERENO_ERR_FORMAT, "tensor 'same' occurs twice");
}

/* Every prefix of a whole model is refused, except that padding after the last tensor may be missing. */
static void test_truncated_anywhere(void **state) {
    (void)state;
    size_t size;
    uint8_t *data = read_whole(random_model_path("tiny", "q4_0"), &size);
    gguf *g;
    size_t header = SIZE_MAX, end = 0;
    assert_ok(gguf_parse("file.gguf", data, size, &g, err));
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].offset < header) header = (size_t)g->tensors[i].offset;
        if (g->tensors[i].offset + g->tensors[i].size > end) end = (size_t)(g->tensors[i].offset + g->tensors[i].size);
    }
    gguf_close(&g);
    for (size_t length = 0; length < size; length += length < header ? 1 : 997) {
        sereno_error error = {0};
        int status = parse(data, length, &error);
        if ((status == 0) != (length >= end) || (status && !strstr(error.message, "file.gguf"))) {
            fail_msg("%zu of %zu bytes: %d '%s'", length, size, status, error.message);
        }
    }
    free(data);
}

static void test_typed_reads(void **state) {
    (void)state;
    gguf_writer *w;
    char *data;
    size_t size;
    FILE *memory = open_memstream(&data, &size);
    gguf *g;
    assert_non_null(memory);
    assert_ok(gguf_writer_open(memory, "keys.gguf", 5, 1, &w, err));
    gguf_write_u32(w, "a.number", 7);
    gguf_write_f32(w, "a.float", 0.5f);
    gguf_write_bool(w, "a.bool", 1);
    gguf_write_string(w, "a.string", "text");
    gguf_write_string_array(w, "a.list", 2);
    gguf_write_string_element(w, "one", 3);
    gguf_write_string_element(w, "two", 3);
    gguf_write_tensor(w, "t", TENSOR_F32, 3, 0);
    gguf_write_data(w, (float[]){1, 2, 3}, 12);
    assert_ok(gguf_writer_close(&w, err));
    fclose(memory);
    assert_ok(gguf_parse("keys.gguf", (const uint8_t *)data, size, &g, err));
    uint32_t number;
    float real;
    bool flag;
    gguf_string string;
    const gguf_kv *list;
    sereno_error error = {0};
    assert_ok(gguf_get_u32(g, "a.number", NULL, &number, err));
    assert_int_equal(number, 7);
    assert_ok(gguf_get_f32(g, "a.float", NULL, &real, err));
    assert_true(real == 0.5f);
    assert_ok(gguf_get_bool(g, "a.bool", NULL, &flag, err));
    assert_true(flag);
    assert_ok(gguf_get_string(g, "a.string", NULL, &string, err));
    assert_true(gguf_string_equals(string, "text"));
    assert_ok(gguf_get_array(g, "a.list", GGUF_STRING, &list, err));
    const uint8_t *at = list->data;
    assert_true(gguf_string_equals(gguf_next_string(&at), "one"));
    assert_true(gguf_string_equals(gguf_next_string(&at), "two"));
    assert_int_equal(gguf_get_u32(g, "a.string", NULL, &number, &error), SERENO_ERR_FORMAT);
    assert_non_null(strstr(error.message, "its type is string; an integer is needed"));
    assert_int_equal(gguf_get_u32(g, "absent", NULL, &number, &error), SERENO_ERR_FORMAT);
    assert_non_null(strstr(error.message, "'absent' is missing"));
    assert_int_equal(gguf_get_array(g, "a.list", GGUF_INT32, &list, &error), SERENO_ERR_FORMAT);
    float read[2];
    assert_ok(gguf_read_tensor(g, gguf_find_tensor(g, "t"), 4, read, sizeof read, err));
    assert_memory_equal(read, ((float[]){2, 3}), sizeof read);
    gguf_close(&g);
    free(data);
}

/* A header on disk is read whole, however long it is, and no further: what follows may be cut off meanwhile. */
static void test_long_headers(void **state) {
    (void)state;
    for (uint64_t size = 1 << 20; size <= (uint64_t)9 << 20; size += 2 << 20) {
        const char *path = temporary_path("header.gguf");
        FILE *out = fopen(path, "wb");
        gguf_writer *w;
        gguf *g;
        const gguf_kv *list;
        sereno_error error = {0};
        assert_non_null(out);
        assert_ok(gguf_writer_open(out, path, 2, 1, &w, err));
        gguf_write_i32_array(w, "long", size / 4);
        for (uint64_t i = 0; i < size / 4; i++) {
            gguf_write_i32_element(w, (int32_t)i);
        }
        gguf_write_string(w, "last", "text");
        gguf_write_tensor(w, "the.tensor", TENSOR_F32, 3, 0);
        gguf_write_data(w, (float[]){1, 2, 3}, 12);
        assert_ok(gguf_writer_close(&w, err));
        fclose(out);
        assert_ok(gguf_open(path, &g, err));
        assert_ok(gguf_get_array(g, "long", GGUF_INT32, &list, err));
        for (uint64_t i = 0; i < size / 4; i++) {
            int64_t value;
            assert_true(gguf_integer(list, i, &value) && value == (int64_t)i);
        }
        float data[3];
        assert_ok(gguf_read_tensor(g, &g->tensors[0], 0, data, sizeof data, err));
        assert_memory_equal(data, ((float[]){1, 2, 3}), sizeof data);
        assert_ok(gguf_forget_keys(g, err));
        assert_null(gguf_find(g, "last"));
        assert_ptr_equal(gguf_find_tensor(g, "the.tensor"), &g->tensors[0]);
        assert_int_equal(truncate(path, (off_t)g->tensors[0].offset + 4), 0);
        assert_ok(gguf_read_tensor(g, &g->tensors[0], 0, data, 4, err));
        assert_int_equal(gguf_read_tensor(g, &g->tensors[0], 0, data, sizeof data, &error), SERENO_ERR_IO);
        assert_non_null(strstr(error.message, "it was cut short while it was open"));
        gguf_close(&g);
        assert_int_equal(truncate(path, 100), 0);
        assert_int_equal(gguf_open(path, &g, &error), SERENO_ERR_FORMAT);
        assert_null(g);
        remove(path);
    }
}

/* A file with keys of every type, alone and in arrays, and a tensor of every number of dimensions. */
static blob every_key(uint32_t alignment) {
    static const uint8_t widths[GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    static const uint8_t bytes[] = "\1\0\1 any bytes will do \xFF";
    blob b = begin(3, GGUF_MAX_DIMS, 1 + 2 * (GGUF_TYPE_COUNT - 1));
    for (uint32_t type = 0; type < GGUF_TYPE_COUNT; type++) {
        char key[16];
        if (type == GGUF_ARRAY) continue;
        for (uint32_t count = 1; count < 4; count += 2) {
            snprintf(key, sizeof key, "%s.%u", gguf_type_name((gguf_type)type), count);
            put_string(&b, key);
            put_u32(&b, count == 1 ? type : GGUF_ARRAY);
            if (count > 1) put_u32(&b, type);
            if (count > 1) put_u64(&b, count);
            for (uint32_t i = 0; i < count; i++) {
                if (type == GGUF_STRING) put_u64(&b, sizeof bytes - i);
                put(&b, bytes, type == GGUF_STRING ? sizeof bytes - i : widths[type]);
            }
        }
    }
    put_string(&b, "general.alignment");
    put_u32(&b, GGUF_UINT32);
    put_u32(&b, alignment);
    const uint64_t dims[GGUF_MAX_DIMS] = {32, 1, 2, 1};
    uint64_t offset = 0;
    for (uint32_t n = 1; n <= GGUF_MAX_DIMS; n++) {
        char name[2] = {(char)('a' + n), '\0'};
        put_tensor(&b, name, n, dims, TENSOR_Q4_0, offset);
        offset += ((n > 2 ? 36 : 18) + (uint64_t)alignment - 1) / alignment * alignment;
    }
    while (b.size % alignment) put(&b, "", 1);
    for (uint64_t i = 0; i < offset; i++) {
        put(&b, "", 1);
    }
    return b;
}

/* Keys, dimensions and alignment of a file that was read are written as they were. */
static void test_copies_are_equal(void **state) {
    (void)state;
    for (uint32_t alignment = 8; alignment <= 256; alignment *= 2) {
        blob b = every_key(alignment);
        char *data;
        size_t size;
        FILE *memory = open_memstream(&data, &size);
        gguf *g;
        gguf_writer *w;
        assert_non_null(memory);
        assert_ok(gguf_parse("file.gguf", b.data, b.size, &g, err));
        assert_ok(gguf_writer_open(memory, "copy.gguf", g->n_kv, g->n_tensors, &w, err));
        gguf_writer_align(w, g->alignment);
        for (size_t i = 0; i < g->n_kv; i++) {
            gguf_write_kv(w, &g->kv[i]);
        }
        for (size_t i = 0; i < g->n_tensors; i++) {
            gguf_write_tensor_like(w, &g->tensors[i], g->tensors[i].type);
        }
        for (size_t i = 0; i < g->n_tensors; i++) {
            assert_true(gguf_write_data(w, b.data + g->tensors[i].offset, g->tensors[i].size));
        }
        assert_ok(gguf_writer_close(&w, err));
        fclose(memory);
        assert_int_equal(size, b.size);
        assert_memory_equal(data, b.data, size);
        gguf_close(&g);
        free(data);
    }
}

static void test_writer_finds_mistakes(void **state) {
    (void)state;
    FILE *null = fopen("/dev/null", "wb"), *full = fopen("/dev/full", "wb");
    gguf_writer *w;
    sereno_error error = {0};
    assert_true(null && full && setvbuf(full, NULL, _IONBF, 0) == 0);
    assert_ok(gguf_writer_open(null, "half.gguf", 2, 0, &w, err));
    gguf_write_u32(w, "only.one", 1);
    assert_int_equal(gguf_writer_close(&w, &error), SERENO_ERR_INVALID);
    assert_non_null(strstr(error.message, "'half.gguf': less was written"));
    assert_ok(gguf_writer_open(full, "full.gguf", 0, 1, &w, err));
    gguf_write_tensor(w, "t", TENSOR_F32, 1, 0);
    assert_false(gguf_write_data(w, &(float){1}, sizeof(float)));
    assert_int_equal(gguf_writer_close(&w, &error), SERENO_ERR_IO);
    assert_non_null(strstr(error.message, "cannot write 'full.gguf': No space left"));
    fclose(null);
    fclose(full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),           cmocka_unit_test(test_keys),
        cmocka_unit_test(test_tensors),          cmocka_unit_test(test_truncated_anywhere),
        cmocka_unit_test(test_typed_reads),      cmocka_unit_test(test_long_headers),
        cmocka_unit_test(test_copies_are_equal), cmocka_unit_test(test_writer_finds_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
