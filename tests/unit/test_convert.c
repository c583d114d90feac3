/* Conversions in memory: what each tensor and key becomes, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert.h"
#include "gguf_writer.h"
#include "support.h"
#include "tensor_rows.h"

/* A GGUF file in memory, and what it says. */
typedef struct memory_file {
    FILE *stream;
    char *data;
    size_t size;
    gguf *gguf;
} memory_file;

static memory_file *open_memory(void) {
    memory_file *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->stream = open_memstream(&f->data, &f->size);
    assert_non_null(f->stream);
    return f;
}

static void parse_memory(memory_file *f) {
    fclose(f->stream);
    assert_ok(gguf_parse("file.gguf", (const uint8_t *)f->data, f->size, &f->gguf, err));
}

static void close_memory(memory_file *f) {
    gguf_close(&f->gguf);
    free(f->data);
    free(f);
}

static memory_file *convert(const gguf *from, tensor_type type, conversion *c) {
    memory_file *f = open_memory();
    assert_ok(conversion_plan(from, type, c, err));
    assert_ok(conversion_write(c, f->stream, "out.gguf", NULL, err));
    parse_memory(f);
    return f;
}

/* ---- Whole models ---- */

static const tensor_type targets[] = {TENSOR_F16, TENSOR_Q8_0, TENSOR_Q4_0};

enum { N_TARGETS = sizeof targets / sizeof *targets };

/* Each row is near that of its own row: rows are random, so that no other would be. */
static void check_matrix(const gguf *from, const gguf_tensor *before, const gguf *to, const gguf_tensor *after) {
    enum { COLUMNS_MAX = 512 };
    float x[COLUMNS_MAX], y[COLUMNS_MAX];
    double steps = after->type == TENSOR_F16 ? 2000 : after->type == TENSOR_Q8_0 ? 220 : 7.9;
    int32_t columns = (int32_t)before->dims[0];
    assert_true(columns <= COLUMNS_MAX);
    for (int64_t row = 0; row < (int64_t)before->dims[1]; row++) {
        double largest = 0;
        tensor_row_read(before->type, from->data + before->offset, row, columns, x);
        tensor_row_read(after->type, to->data + after->offset, row, columns, y);
        for (int32_t c = 0; c < columns; c++) {
            largest = fmax(largest, fabs((double)x[c]));
        }
        for (int32_t c = 0; c < columns; c++) {
            if (fabs((double)x[c] - (double)y[c]) > largest / steps) {
                fail_msg("%.*s row %d column %d: %g became %g", (int)before->name.size, before->name.data, (int)row, c,
                         (double)x[c], (double)y[c]);
            }
        }
    }
}

static void check_model(const gguf *before, const gguf *after, tensor_type type, const conversion *c) {
    size_t n_kept = 0;
    assert_int_equal(after->n_tensors, before->n_tensors);
    for (size_t i = 0; i < before->n_tensors; i++) {
        const gguf_tensor *b = &before->tensors[i], *a = &after->tensors[i];
        assert_int_equal(a->name.size, b->name.size);
        assert_memory_equal(a->name.data, b->name.data, b->name.size);
        assert_int_equal(a->n_dims, b->n_dims);
        assert_memory_equal(a->dims, b->dims, sizeof b->dims);
        assert_int_equal(a->type, b->n_dims == 1 ? b->type : type);
        if (a->type == b->type) {
            assert_int_equal(a->size, b->size);
            assert_memory_equal(after->data + a->offset, before->data + b->offset, b->size);
            n_kept++;
        } else {
            check_matrix(before, b, after, a);
        }
    }
    assert_int_equal(c->n_kept, n_kept);
    assert_int_equal(c->n_converted, before->n_tensors - n_kept);
    assert_int_equal(c->n_f16, 0);
}

static void test_every_type_to_every_type(void **state) {
    (void)state;
    static const char *const sources[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q6_k"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources * N_TARGETS; i++) {
        tensor_type type = targets[i % N_TARGETS];
        size_t size;
        uint8_t *data = read_whole(random_model_path("tiny", sources[i / N_TARGETS]), &size);
        gguf *before;
        conversion c;
        assert_ok(gguf_parse("tiny.gguf", data, size, &before, err));
        memory_file *after = convert(before, type, &c);
        check_model(before, after->gguf, type, &c);
        close_memory(after);
        gguf_close(&before);
        free(data);
    }
}

/* ---- Small files ---- */

typedef struct small_tensor {
    const char *name;
    tensor_type type;
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS];
} small_tensor;

/* A file of these tensors, filled with zeros but for one value in the first, which must then be F32. */
static memory_file *make_small(const small_tensor *tensors, size_t n, size_t place, float value) {
    static const char zeros[1 << 16];
    memory_file *f = open_memory();
    gguf_writer *w;
    assert_ok(gguf_writer_open(f->stream, "small.gguf", 0, n, &w, err));
    for (size_t i = 0; i < n; i++) {
        gguf_tensor t = {.name = {tensors[i].name, strlen(tensors[i].name)}, .n_dims = tensors[i].n_dims};
        memcpy(t.dims, tensors[i].dims, sizeof t.dims);
        gguf_write_tensor_like(w, &t, tensors[i].type);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t size = tensor_row_bytes(tensors[i].type, tensors[i].dims[0]);
        for (uint32_t d = 1; d < tensors[i].n_dims; d++) {
            size *= tensors[i].dims[d];
        }
        if (i == 0 && value != 0) {
            gguf_write_data(w, zeros, place * sizeof value);
            gguf_write_data(w, &value, sizeof value);
            size -= (place + 1) * sizeof value;
        }
        if (size > 0) gguf_write_data(w, zeros, size);
    }
    assert_ok(gguf_writer_close(&w, err));
    parse_memory(f);
    return f;
}

static void test_shapes(void **state) {
    (void)state;
    static const struct {
        small_tensor before;
        tensor_type q4_0, f16;
    } cases[] = {
        {{"matrix", TENSOR_F32, 2, {64, 3}}, TENSOR_Q4_0, TENSOR_F16},
        {{"odd", TENSOR_F32, 2, {48, 3}}, TENSOR_F16, TENSOR_F16},
        {{"odd and f16", TENSOR_F16, 2, {7, 2}}, TENSOR_F16, TENSOR_F16},
        {{"vector", TENSOR_F32, 1, {64}}, TENSOR_F32, TENSOR_F32},
        {{"flat", TENSOR_BF16, 2, {64, 1}}, TENSOR_BF16, TENSOR_BF16},
        {{"experts", TENSOR_Q4_1, 3, {32, 2, 3}}, TENSOR_Q4_0, TENSOR_F16},
        {{"deep", TENSOR_Q6_K, 4, {256, 1, 1, 2}}, TENSOR_Q4_0, TENSOR_F16},
        {{"numbers", TENSOR_I32, 1, {5}}, TENSOR_I32, TENSOR_I32},
    };
    enum { N = sizeof cases / sizeof *cases };
    small_tensor tensors[N];
    conversion c;
    for (size_t i = 0; i < N; i++) {
        tensors[i] = cases[i].before;
    }
    memory_file *before = make_small(tensors, N, 64 + 5, 0.5f);
    memory_file *q4_0 = convert(before->gguf, TENSOR_Q4_0, &c);
    assert_int_equal(c.n_converted, 4);
    assert_int_equal(c.n_kept, 4);
    assert_int_equal(c.n_f16, 2);
    assert_true(gguf_string_equals(c.first_f16->name, "odd"));
    memory_file *f16 = convert(before->gguf, TENSOR_F16, &c);
    assert_int_equal(c.n_f16, 0);
    assert_null(c.first_f16);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(q4_0->gguf->tensors[i].type, cases[i].q4_0);
        assert_int_equal(f16->gguf->tensors[i].type, cases[i].f16);
        assert_int_equal(f16->gguf->tensors[i].n_dims, cases[i].before.n_dims);
    }
    float row[64];
    tensor_row_read(TENSOR_Q4_0, q4_0->gguf->data + q4_0->gguf->tensors[0].offset, 1, 64, row);
    assert_true(row[5] == 0.5f && row[4] == 0);
    close_memory(before);
    close_memory(q4_0);
    close_memory(f16);
}

static void test_types_that_cannot_be_read(void **state) {
    (void)state;
    const small_tensor tensors[] = {{"vector", TENSOR_Q4_K, 1, {256}}, {"the.matrix", TENSOR_Q4_K, 2, {256, 2}}};
    memory_file *f = make_small(tensors, 2, 0, 0);
    conversion c;
    sereno_error error = {0};
    assert_int_equal(conversion_plan(f->gguf, TENSOR_F16, &c, &error), SERENO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "file.gguf: tensor 'the.matrix' has type Q4_K, which cannot be converted"));
    close_memory(f);
}

static void test_values_that_do_not_fit(void **state) {
    (void)state;
    static const struct {
        tensor_type type;
        float value;
        int status;
        const char *part;
    } cases[] = {
        {TENSOR_F16, 70000, SERENO_ERR_UNSUPPORTED, "has 70000 in column 7, beyond the 65504 that F16 can hold"},
        {TENSOR_Q8_0, -1e7f, SERENO_ERR_UNSUPPORTED, "has -1e+07 in column 7"},
        {TENSOR_Q4_0, 1e6f, SERENO_ERR_UNSUPPORTED, "that Q4_0 can hold"},
        {TENSOR_Q4_0, INFINITY, SERENO_ERR_FORMAT, "has inf in column 7"},
        {TENSOR_Q8_0, NAN, SERENO_ERR_FORMAT, "nan in column 7"},
        {TENSOR_F16, -INFINITY, SERENO_ERR_FORMAT, "has -inf in column 7"},
    };
    const small_tensor tensor = {"the.matrix", TENSOR_F32, 2, {32, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memory_file *f = make_small(&tensor, 1, 2 * 32 + 7, cases[i].value), *out = open_memory();
        conversion c;
        sereno_error error = {0};
        assert_ok(conversion_plan(f->gguf, cases[i].type, &c, err));
        assert_int_equal(conversion_write(&c, out->stream, "out.gguf", NULL, &error), cases[i].status);
        if (!strstr(error.message, cases[i].part) || !strstr(error.message, "file.gguf: tensor 'the.matrix': row 2 ")) {
            fail_msg("'%s'; wanted '%s'", error.message, cases[i].part);
        }
        fclose(out->stream);
        close_memory(out);
        close_memory(f);
    }
}

/* ---- Keys ---- */

typedef enum origin_given { NO_ORIGIN, ORIGIN_TEXT, ORIGIN_NUMBER } origin_given;

static void test_origin_and_file_type(void **state) {
    (void)state;
    for (origin_given given = NO_ORIGIN; given <= ORIGIN_NUMBER; given++) {
        memory_file *f = open_memory();
        gguf_writer *w;
        conversion c, again;
        gguf_string origin;
        uint32_t file_type;
        assert_ok(gguf_writer_open(f->stream, "small.gguf", 2 + (given != NO_ORIGIN), 1, &w, err));
        gguf_write_string(w, "general.file_type", "of another kind");
        if (given == ORIGIN_TEXT) gguf_write_string(w, "sereno.origin", "text");
        if (given == ORIGIN_NUMBER) gguf_write_u32(w, "sereno.origin", 7);
        gguf_write_u32(w, "last", 5);
        gguf_write_tensor(w, "matrix", TENSOR_Q4_1, 32, 2);
        gguf_write_data(w, (uint8_t[40]){0}, 40);
        assert_ok(gguf_writer_close(&w, err));
        parse_memory(f);
        memory_file *once = convert(f->gguf, TENSOR_F16, &c), *twice = convert(once->gguf, TENSOR_Q8_0, &again);
        const char *wanted = given == ORIGIN_TEXT ? "text" : "Q4_1";
        assert_ok(gguf_get_string(twice->gguf, "sereno.origin", NULL, &origin, err));
        assert_true(gguf_string_equals(origin, wanted));
        assert_true(gguf_string_equals(c.origin, wanted));
        assert_true(gguf_string_equals(again.origin, wanted));
        assert_ok(gguf_get_u32(once->gguf, "general.file_type", NULL, &file_type, err));
        assert_int_equal(file_type, 1);
        assert_ok(gguf_get_u32(twice->gguf, "general.file_type", NULL, &file_type, err));
        assert_int_equal(file_type, 7);
        assert_ok(gguf_get_u32(twice->gguf, "last", NULL, &file_type, err));
        assert_int_equal(file_type, 5);
        assert_int_equal(twice->gguf->n_kv, 3);
        close_memory(f);
        close_memory(once);
        close_memory(twice);
    }
}

/* ---- Files ---- */

/* A model on disk becomes what the same in memory does; one that is cut short meanwhile is an error that says so. */
static void test_files(void **state) {
    (void)state;
    size_t size;
    uint8_t *data = read_whole(random_model_path("tiny", "q6_k"), &size);
    const char *path = temporary_path("convert.gguf");
    memory_file *memory = open_memory(), *cut = open_memory();
    gguf *in_memory, *on_disk;
    conversion c;
    sereno_error error = {0};
    FILE *out = fopen(path, "wb");
    assert_true(out && fwrite(data, 1, size, out) == size && fclose(out) == 0);
    assert_ok(gguf_parse("tiny.gguf", data, size, &in_memory, err));
    memory_file *from_memory = convert(in_memory, TENSOR_Q8_0, &c);
    assert_ok(gguf_open(path, &on_disk, err));
    assert_ok(conversion_plan(on_disk, TENSOR_Q8_0, &c, err));
    assert_ok(conversion_write(&c, memory->stream, "out.gguf", NULL, err));
    fclose(memory->stream);
    assert_int_equal(memory->size, from_memory->size);
    assert_memory_equal(memory->data, from_memory->data, memory->size);
    for (tensor_type type = TENSOR_F16; type <= TENSOR_Q8_0; type += TENSOR_Q8_0 - TENSOR_F16) {
        assert_int_equal(truncate(path, type == TENSOR_F16 ? (off_t)size - 1 : 0), 0); /* a matrix, then a vector too */
        assert_ok(conversion_plan(on_disk, type, &c, err));
        assert_int_equal(conversion_write(&c, cut->stream, "out.gguf", NULL, &error), SERENO_ERR_IO);
        assert_non_null(strstr(error.message, "convert.gguf' has no bytes"));
    }
    fclose(cut->stream);
    gguf_close(&on_disk);
    gguf_close(&in_memory);
    remove(path);
    close_memory(from_memory);
    close_memory(memory);
    close_memory(cut);
    free(data);
}

/* ---- Giving up ---- */

typedef struct progress_seen {
    int calls, give_up_at;
    uint64_t done, total;
} progress_seen;

static bool on_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what;
    progress_seen *seen = ctx;
    assert_true(done > seen->done && done <= total);
    seen->done = done;
    seen->total = total;
    return ++seen->calls != seen->give_up_at;
}

static void test_progress_and_giving_up(void **state) {
    (void)state;
    const small_tensor tensors[] = {{"matrix", TENSOR_F32, 2, {32, 3}}, {"vector", TENSOR_F32, 1, {8}}};
    memory_file *f = make_small(tensors, 2, 0, 0);
    conversion c;
    assert_ok(conversion_plan(f->gguf, TENSOR_Q4_0, &c, err));
    for (int give_up_at = 0; give_up_at <= 4; give_up_at++) {
        memory_file *out = open_memory();
        progress_seen seen = {.give_up_at = give_up_at};
        sereno_error error = {0};
        int status = conversion_write(&c, out->stream, "out.gguf", &(sereno_progress){on_progress, &seen}, &error);
        assert_int_equal(status, give_up_at ? SERENO_ERR_ABANDONED : SERENO_OK);
        assert_int_equal(error.code, status);
        assert_int_equal(seen.calls, give_up_at ? give_up_at : 4);
        assert_int_equal(seen.total, 3 * 32 * 4 + 8 * 4);
        fclose(out->stream);
        close_memory(out);
    }
    close_memory(f);
}

static void test_full_disk(void **state) {
    (void)state;
    const small_tensor tensor = {"matrix", TENSOR_F32, 2, {32, 100}};
    memory_file *f = make_small(&tensor, 1, 0, 0);
    FILE *full = fopen("/dev/full", "wb");
    conversion c;
    sereno_error error = {0};
    progress_seen seen = {0};
    assert_true(full && setvbuf(full, NULL, _IONBF, 0) == 0);
    assert_ok(conversion_plan(f->gguf, TENSOR_Q4_0, &c, err));
    assert_int_equal(conversion_write(&c, full, "out.gguf", &(sereno_progress){on_progress, &seen}, &error),
                     SERENO_ERR_IO);
    assert_string_equal(error.message, "cannot write 'out.gguf': No space left on device");
    assert_int_equal(seen.calls, 0); /* it does not go on */
    fclose(full);
    close_memory(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_to_every_type),  cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_types_that_cannot_be_read), cmocka_unit_test(test_values_that_do_not_fit),
        cmocka_unit_test(test_origin_and_file_type),      cmocka_unit_test(test_files),
        cmocka_unit_test(test_progress_and_giving_up),    cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
