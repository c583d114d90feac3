#include "arch.h"

#include <string.h>

#include "errors.h"

static const arch archs[] = {
    {
        .name = "llama",
        .global =
            {
                [GLOBAL_TOKEN_EMBD] = {"token_embd.weight", DIM_EMBD, DIM_VOCAB, false},
                [GLOBAL_OUTPUT_NORM] = {"output_norm.weight", DIM_EMBD, DIM_ONE, false},
                [GLOBAL_OUTPUT] = {"output.weight", DIM_EMBD, DIM_VOCAB, true},
            },
        .layer =
            {
                [LAYER_ATTN_NORM] = {"attn_norm.weight", DIM_EMBD, DIM_ONE, false},
                [LAYER_Q] = {"attn_q.weight", DIM_EMBD, DIM_Q, false},
                [LAYER_K] = {"attn_k.weight", DIM_EMBD, DIM_KV, false},
                [LAYER_V] = {"attn_v.weight", DIM_EMBD, DIM_KV, false},
                [LAYER_ATTN_OUT] = {"attn_output.weight", DIM_Q, DIM_EMBD, false},
                [LAYER_FFN_NORM] = {"ffn_norm.weight", DIM_EMBD, DIM_ONE, false},
                [LAYER_GATE] = {"ffn_gate.weight", DIM_EMBD, DIM_FF, false},
                [LAYER_UP] = {"ffn_up.weight", DIM_EMBD, DIM_FF, false},
                [LAYER_DOWN] = {"ffn_down.weight", DIM_FF, DIM_EMBD, false},
            },
    },
};

const arch *arch_find(gguf_string name) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        if (gguf_string_equals(name, archs[i].name)) return &archs[i];
    }
    return NULL;
}

void arch_list(char *out, size_t size) {
    out[0] = '\0';
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        err_list(out, size, archs[i].name);
    }
}
