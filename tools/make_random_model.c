/*
 * make-random-model SHAPE TYPE OUT [SEED]: a GGUF model of a known shape with random weights and a valid
 * vocabulary. It says nothing sensible, but it computes like a model of its size.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "gguf_writer.h"
#include "half.h"
#include "hash.h"
#include "output_file.h"
#include "rng.h"
#include "spelling.h"
#include "standard_files.h"
#include "utf8.h"

typedef struct shape {
    const char *name;
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx;
    bool tied; /* the output head is the token embedding */
} shape;

static const shape shapes[] = {
    {"tiny", 2, 256, 8, 4, 32, 512, 512, 8192, true},        {"135m", 30, 576, 9, 3, 64, 1536, 49152, 8192, true},
    {"1b", 16, 2048, 32, 8, 64, 8192, 32768, 8192, true},    {"3b", 28, 3072, 24, 8, 128, 8192, 32768, 8192, true},
    {"8b", 32, 4096, 32, 8, 128, 14336, 32768, 8192, false}, {"untied", 1, 256, 8, 4, 32, 512, 512, 8192, false},
};

static const struct {
    const char *name;
    tensor_type type;
} type_names[] = {
    {"q4_0", TENSOR_Q4_0}, {"q4_1", TENSOR_Q4_1}, {"q8_0", TENSOR_Q8_0}, {"q6_k", TENSOR_Q6_K},
    {"f16", TENSOR_F16},   {"bf16", TENSOR_BF16}, {"f32", TENSOR_F32},
};

enum { N_CONTROL = 3, N_BYTES = 256, TOKEN_BYTES_MAX = 12, N_KV = 22, LAYER_TENSORS_WRITTEN = 9 };

static const char *const control_tokens[N_CONTROL] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

static const char chat_template[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/* ---- Vocabulary: control tokens, all bytes, then random merges of what is there ---- */

typedef struct token {
    char bytes[TOKEN_BYTES_MAX];
    uint8_t size;
    int32_t left, right; /* of a merge */
} token;

static size_t spell(const token *t, char *out) {
    size_t n = 0;
    for (int i = 0; i < t->size; i++) {
        n += (size_t)utf8_encode(spelling_of_byte((uint8_t)t->bytes[i]), out + n);
    }
    return n;
}

/* A byte that text is made of: mostly letters and the space. */
static int32_t frequent_byte(rng *r) {
    static const char letters[] = " etaoinshrdlucmfwypvbgkjqxz";
    return N_CONTROL + letters[rng_below(r, sizeof letters - 1)];
}

static bool is_new(const token *candidate, uint8_t *seen, size_t mask) {
    size_t i = hash_bytes(candidate->bytes, candidate->size) & mask;
    if (seen[i]) return false; /* a rare false alarm only costs another try */
    seen[i] = 1;
    return true;
}

static token *make_vocabulary(int32_t n_vocab, rng *r) {
    size_t places = 1 << 22;
    token *tokens = calloc((size_t)n_vocab, sizeof *tokens);
    uint8_t *seen = calloc(places, 1);
    if (!tokens || !seen) {
        free(tokens);
        free(seen);
        return NULL;
    }
    for (int32_t b = 0; b < N_BYTES; b++) {
        tokens[N_CONTROL + b] = (token){.bytes = {(char)b}, .size = 1};
    }
    for (int32_t id = N_CONTROL + N_BYTES; id < n_vocab;) {
        int32_t made = id - N_CONTROL - N_BYTES;
        token t = {.left = made > 0 && rng_below(r, 2) ? N_CONTROL + N_BYTES + (int32_t)rng_below(r, (uint32_t)made)
                                                       : frequent_byte(r),
                   .right = made > 0 && rng_below(r, 4) == 0
                                ? N_CONTROL + N_BYTES + (int32_t)rng_below(r, (uint32_t)made)
                                : frequent_byte(r)};
        const token *a = &tokens[t.left], *b = &tokens[t.right];
        if (a->size + b->size > TOKEN_BYTES_MAX) continue;
        memcpy(t.bytes, a->bytes, a->size);
        memcpy(t.bytes + a->size, b->bytes, b->size);
        t.size = (uint8_t)(a->size + b->size);
        if (is_new(&t, seen, places - 1)) tokens[id++] = t;
    }
    free(seen);
    return tokens;
}

static void write_vocabulary(gguf_writer *w, const token *tokens, int32_t n_vocab) {
    char text[TOKEN_BYTES_MAX * 4 + 1];
    gguf_write_string_array(w, "tokenizer.ggml.tokens", (uint64_t)n_vocab);
    for (int32_t id = 0; id < n_vocab; id++) {
        if (id < N_CONTROL) {
            gguf_write_string_element(w, control_tokens[id], strlen(control_tokens[id]));
        } else {
            gguf_write_string_element(w, text, spell(&tokens[id], text));
        }
    }
    gguf_write_i32_array(w, "tokenizer.ggml.token_type", (uint64_t)n_vocab);
    for (int32_t id = 0; id < n_vocab; id++) {
        gguf_write_i32_element(w, id < N_CONTROL ? 3 : 1);
    }
    gguf_write_string_array(w, "tokenizer.ggml.merges", (uint64_t)(n_vocab - N_CONTROL - N_BYTES));
    for (int32_t id = N_CONTROL + N_BYTES; id < n_vocab; id++) {
        char merge[2 * sizeof text];
        size_t n = spell(&tokens[tokens[id].left], merge);
        merge[n++] = ' ';
        n += spell(&tokens[tokens[id].right], merge + n);
        gguf_write_string_element(w, merge, n);
    }
}

/* ---- Weights: of about unit variance over a row's length ---- */

static void random_bytes(rng *r, uint8_t *out, size_t size) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = rng_u64(r);
        memcpy(out + i, &word, size - i < 8 ? size - i : 8);
    }
}

static void put_half(uint8_t *p, float value) {
    uint16_t half = float_to_half(value);
    memcpy(p, &half, sizeof half);
}

/* One block of a row; sigma is the standard deviation wanted. */
static void random_block(rng *r, tensor_type type, float sigma, uint8_t *p) {
    const size_t size = tensor_type_find(type)->block_bytes;
    float value = sigma * 1.7320508f * rng_signed_unit(r);
    switch (type) {
    case TENSOR_F32: memcpy(p, &value, 4); break;
    case TENSOR_F16: put_half(p, value); break;
    case TENSOR_BF16: {
        uint16_t b = (uint16_t)(bits_of_float(value) >> 16);
        memcpy(p, &b, 2);
        break;
    }
    default: random_bytes(r, p, size); break;
    }
    const float nibble_scale = sigma / 4.61f, byte_scale = sigma / 73.9f;
    if (type == TENSOR_Q4_0 || type == TENSOR_Q4_1) put_half(p, nibble_scale);
    if (type == TENSOR_Q4_1) put_half(p + 2, -7.5f * nibble_scale);
    if (type == TENSOR_Q8_0) put_half(p, byte_scale);
    if (type == TENSOR_Q6_K) {
        for (int i = 0; i < 16; i++) {
            p[192 + i] = (uint8_t)(24 + (p[192 + i] & 31)); /* sub-scales 24..55 */
        }
        put_half(p + 208, sigma / (18.5f * 40));
    }
}

static int write_matrix(gguf_writer *w, rng *r, tensor_type type, uint32_t columns, uint32_t rows, float gain) {
    size_t row_bytes = (size_t)tensor_row_bytes(type, columns);
    const tensor_type_info *info = tensor_type_find(type);
    uint8_t *row = calloc(1, row_bytes);
    if (!row) return -1;
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t b = 0; b < columns / info->block_weights; b++) {
            random_block(r, type, gain / sqrtf((float)columns), row + (size_t)b * info->block_bytes);
        }
        gguf_write_data(w, row, row_bytes);
    }
    free(row);
    return 0;
}

static void write_norm(gguf_writer *w, rng *r, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        float value = 1.0f + 0.1f * rng_signed_unit(r);
        gguf_write_data(w, &value, sizeof value);
    }
}

/* ---- The file ---- */

/* Tensors of a layer in file order; rows 0: a norm. */
typedef struct layer_tensor {
    const char *name;
    uint32_t columns, rows;
} layer_tensor;

static void layer_tensors(const shape *s, layer_tensor out[LAYER_TENSORS_WRITTEN]) {
    uint32_t q = s->n_heads * s->head_dim, kv = s->n_kv_heads * s->head_dim;
    const layer_tensor list[LAYER_TENSORS_WRITTEN] = {
        {"attn_norm", s->n_embd, 0},      {"attn_q", s->n_embd, q},       {"attn_k", s->n_embd, kv},
        {"attn_v", s->n_embd, kv},        {"attn_output", q, s->n_embd},  {"ffn_norm", s->n_embd, 0},
        {"ffn_gate", s->n_embd, s->n_ff}, {"ffn_up", s->n_embd, s->n_ff}, {"ffn_down", s->n_ff, s->n_embd},
    };
    memcpy(out, list, sizeof list);
}

static void write_keys(gguf_writer *w, const shape *s, const token *tokens) {
    gguf_write_string(w, "general.architecture", "llama");
    gguf_write_string(w, "general.name", "random");
    gguf_write_string(w, "sereno.origin", "random weights");
    gguf_write_u32(w, "general.quantization_version", 2);
    gguf_write_u32(w, "llama.block_count", s->n_layers);
    gguf_write_u32(w, "llama.context_length", s->n_ctx);
    gguf_write_u32(w, "llama.embedding_length", s->n_embd);
    gguf_write_u32(w, "llama.feed_forward_length", s->n_ff);
    gguf_write_u32(w, "llama.attention.head_count", s->n_heads);
    gguf_write_u32(w, "llama.attention.head_count_kv", s->n_kv_heads);
    gguf_write_u32(w, "llama.attention.key_length", s->head_dim);
    gguf_write_u32(w, "llama.attention.value_length", s->head_dim);
    gguf_write_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_write_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_write_string(w, "tokenizer.ggml.pre", "gpt-2");
    gguf_write_u32(w, "tokenizer.ggml.bos_token_id", 1);
    gguf_write_u32(w, "tokenizer.ggml.eos_token_id", 2);
    gguf_write_bool(w, "tokenizer.ggml.add_bos_token", false); /* said, and not left to a reader */
    gguf_write_string(w, "tokenizer.chat_template", chat_template);
    write_vocabulary(w, tokens, (int32_t)s->n_vocab);
}

static void describe_tensors(gguf_writer *w, const shape *s, tensor_type type) {
    layer_tensor list[LAYER_TENSORS_WRITTEN];
    layer_tensors(s, list);
    gguf_write_tensor(w, "token_embd.weight", type, s->n_embd, s->n_vocab);
    for (uint32_t layer = 0; layer < s->n_layers; layer++) {
        for (int i = 0; i < LAYER_TENSORS_WRITTEN; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s.weight", layer, list[i].name);
            gguf_write_tensor(w, name, list[i].rows ? type : TENSOR_F32, list[i].columns, list[i].rows);
        }
    }
    gguf_write_tensor(w, "output_norm.weight", TENSOR_F32, s->n_embd, 0);
    if (!s->tied) gguf_write_tensor(w, "output.weight", type, s->n_embd, s->n_vocab);
}

static int write_tensors(gguf_writer *w, const shape *s, tensor_type type, rng *r) {
    const float head_gain = 3; /* spreads the logits, so that choices are not all alike */
    layer_tensor list[LAYER_TENSORS_WRITTEN];
    layer_tensors(s, list);
    int status = write_matrix(w, r, type, s->n_embd, s->n_vocab, head_gain);
    for (uint32_t layer = 0; layer < s->n_layers && !status; layer++) {
        for (int i = 0; i < LAYER_TENSORS_WRITTEN && !status; i++) {
            if (list[i].rows) status = write_matrix(w, r, type, list[i].columns, list[i].rows, 1);
            else write_norm(w, r, list[i].columns);
        }
    }
    write_norm(w, r, s->n_embd);
    if (!s->tied && !status) status = write_matrix(w, r, type, s->n_embd, s->n_vocab, head_gain);
    return status;
}

/* Rows must be whole blocks of the type. */
static int check_rows(const shape *s, tensor_type type, sereno_error *err) {
    const tensor_type_info *info = tensor_type_find(type);
    const uint32_t columns[] = {s->n_embd, s->n_ff, s->n_heads * s->head_dim};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        if (columns[i] % info->block_weights != 0) {
            return err_set(err, SERENO_ERR_INVALID, "shape %s has rows of %u, which are not whole blocks of %u (%s)",
                           s->name, columns[i], info->block_weights, info->name);
        }
    }
    return SERENO_OK;
}

static int make_model(const shape *s, tensor_type type, const char *path, uint64_t seed, sereno_error *err) {
    int status = check_rows(s, type, err);
    if (status) return status;
    output_file *file;
    if ((status = output_file_open(path, true, &file, err))) return status;
    rng r = {seed};
    gguf_writer *w;
    uint64_t n_tensors = 2 + (uint64_t)s->n_layers * LAYER_TENSORS_WRITTEN + !s->tied;
    token *tokens = make_vocabulary((int32_t)s->n_vocab, &r);
    status = tokens ? gguf_writer_open(file->to, path, N_KV, n_tensors, &w, err) : SERENO_ERR_NO_MEMORY;
    if (!status) {
        write_keys(w, s, tokens);
        describe_tensors(w, s, type);
        if (write_tensors(w, s, type, &r) != 0) status = SERENO_ERR_NO_MEMORY;
        int closed = gguf_writer_close(&w, err);
        if (!status) status = closed;
    }
    if (!status) status = output_file_commit(file, err);
    output_file_close(&file);
    free(tokens);
    return status;
}

static int usage(void) {
    fputs("usage: make-random-model SHAPE TYPE OUT [SEED]\n  shapes:", stderr);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        fprintf(stderr, " %s", shapes[i].name);
    }
    fputs("\n  types:", stderr);
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
        fprintf(stderr, " %s", type_names[i].name);
    }
    fputs("\n  SEED: a number, default 1; the same seed makes the same file\n", stderr);
    return 2;
}

int main(int argc, char **argv) {
    if (!standard_files_hold()) return 1;
    const shape *s = NULL;
    int type = -1;
    for (size_t i = 0; argc >= 4 && i < sizeof shapes / sizeof *shapes; i++) {
        if (strcmp(argv[1], shapes[i].name) == 0) s = &shapes[i];
    }
    for (size_t i = 0; argc >= 4 && i < sizeof type_names / sizeof *type_names; i++) {
        if (strcmp(argv[2], type_names[i].name) == 0) type = (int)type_names[i].type;
    }
    if (argc > 5 || !s || type < 0) return usage();
    sereno_error err = {.code = SERENO_ERR_NO_MEMORY, .message = "out of memory"};
    if (make_model(s, (tensor_type)type, argv[3], argc > 4 ? strtoull(argv[4], NULL, 0) : 1, &err) != 0) {
        fprintf(stderr, "make-random-model: %s\n", err.message);
        return 1;
    }
    return 0;
}
