#include "timing.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "number.h"

enum {
    TIMING_VERSION = 4,        /* of what is measured and how */
    MEASURED_BATCHES = 5,      /* 1 to 16; larger ones take as much more as they are larger */
    STREAMED_BYTES = 96 << 20, /* enough layers that they do not stay in caches from one batch to the next */
    ROUNDS = 3,
    LAYERS_MIN = 2,
    LAYERS_MAX = 64,
    KEY_SIZE = 512,
    PATH_SIZE = 4096,
};

/* ---- Measuring ---- */

/* A pass of n tokens that all attend to `context` positions; their keys and values go past the end of the sequence. */
static void place(native_engine *e, int32_t n, int32_t context) {
    for (int32_t i = 0; i < n; i++) {
        e->inputs[i] = (placed_input){.token = i % e->info.n_vocab,
                                      .parent = -1,
                                      .position = context - 1,
                                      .slot = e->info.n_ctx + i,
                                      .n_contiguous = context};
        e->logits_input[i] = e->logits_row[i] = i;
    }
    e->n_inputs = e->n_logits = n;
}

static int32_t layers_to_run(const native_engine *e) {
    size_t layer = e->weights.pass_bytes / (size_t)e->n_layers;
    int32_t n = (int32_t)(STREAMED_BYTES / (layer + 1)) + 1;
    if (n < LAYERS_MIN) n = LAYERS_MIN;
    if (n > LAYERS_MAX) n = LAYERS_MAX;
    return n < e->n_layers ? n : e->n_layers;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float run_timed(native_engine *e, sereno_subgraph_kind kind, int32_t layer, int32_t batch) {
    subgraph s = plan_operation(&e->weights, sereno_model_describe(e->model), kind, layer, batch, e->info.n_threads);
    const sereno_clock *clock = sereno_clock_system(); /* not the engine's, which may be one of a simulation */
    uint64_t start = sereno_now_ns(clock);
    native_run_subgraph(e, &s, batch);
    return (float)(sereno_now_ns(clock) - start) / 1000;
}

/* Times of each operation and layer; of several rounds the shortest, since what disturbs only adds. */
typedef struct samples {
    float us[PLAN_KINDS][LAYERS_MAX];
} samples;

static void run_round(native_engine *e, int32_t batch, int32_t n_layers, samples *s) {
    for (int32_t layer = 0; layer < n_layers; layer++) {
        for (int kind = 0; kind < SERENO_SUBGRAPH_HEAD; kind++) {
            s->us[kind][layer] = fminf(s->us[kind][layer], run_timed(e, (sereno_subgraph_kind)kind, layer, batch));
        }
    }
    float *head = s->us[SERENO_SUBGRAPH_HEAD];
    head[0] = fminf(head[0], run_timed(e, SERENO_SUBGRAPH_HEAD, 0, batch));
}

static void measure_batch(native_engine *e, int b, int32_t context, plan_timing *out) {
    samples s;
    int32_t n_layers = layers_to_run(e);
    for (int i = 0; i < PLAN_KINDS * LAYERS_MAX; i++) {
        s.us[i / LAYERS_MAX][i % LAYERS_MAX] = INFINITY;
    }
    place(e, plan_batches[b], context);
    for (int round = 0; round < ROUNDS; round++) {
        run_round(e, plan_batches[b], n_layers, &s);
    }
    for (int kind = 0; kind < PLAN_KINDS; kind++) { /* of the layers the upper quartile: cuts are for slow ones too */
        int32_t n = kind == SERENO_SUBGRAPH_HEAD ? 1 : n_layers;
        qsort(s.us[kind], (size_t)n, sizeof s.us[kind][0], ascending);
        out->us[kind][b] = s.us[kind][n * 3 / 4];
    }
    out->us[SERENO_SUBGRAPH_ATTENTION][b] *= (float)PLAN_TIMED_CONTEXT / (float)context;
}

static int32_t timed_context(const native_engine *e) {
    return e->info.n_ctx < PLAN_TIMED_CONTEXT ? e->info.n_ctx : PLAN_TIMED_CONTEXT;
}

static void measure(native_engine *e, plan_timing *out) {
    int32_t context = timed_context(e);
    for (int b = 0; b < MEASURED_BATCHES; b++) {
        measure_batch(e, b, context, out);
    }
    for (int b = MEASURED_BATCHES; b < PLAN_BATCHES; b++) {
        for (int kind = 0; kind < PLAN_KINDS; kind++) {
            out->us[kind][b] = out->us[kind][b - 1] * (float)plan_batches[b] / (float)plan_batches[b - 1];
        }
    }
    e->n_inputs = e->n_logits = 0;
}

/* ---- Keeping ---- */

/* What the timing depends on, as a line. */
static void describe(const native_engine *e, char key[KEY_SIZE]) {
    const sereno_engine_options *o = &e->options;
    const sereno_model_info *m = sereno_model_describe(e->model);
    uint64_t shapes = hash_u64(m->n_layers + ((uint64_t)m->n_heads << 16) + ((uint64_t)m->n_kv_heads << 32));
    for (uint32_t layer = 0; layer < m->n_layers; layer++) {
        for (int i = 0; i < WEIGHT_MATRICES; i++) {
            const packed_matrix *w = &e->weights.layers[layer].matrix[i];
            shapes = hash_u64(shapes + (uint64_t)w->format + ((uint64_t)w->rows << 8) + ((uint64_t)w->columns << 36));
        }
    }
    const packed_matrix *head = &e->weights.head;
    shapes = hash_u64(shapes + (uint64_t)head->format + ((uint64_t)head->rows << 8));
    uint64_t cores = o->n_cpus > 0 ? hash_bytes(o->cpus, (size_t)o->n_cpus * sizeof *o->cpus) : 0;
    snprintf(key, KEY_SIZE,
             "timing %d shapes %016" PRIx64 " isa %s threads %d cores %016" PRIx64
             " class %d activations %d prefetch %" PRIu32 " %" PRIu32 " context %d sereno %s",
             TIMING_VERSION, shapes, e->info.isa, e->info.n_threads, cores, (int)o->sched, e->info.activation_bits,
             o->prefetch_bytes, o->prefetch_next_bytes, timed_context(e), sereno_version());
}

static bool load(const char *path, const char *key, plan_timing *out) {
    char line[KEY_SIZE];
    FILE *file = fopen(path, "r");
    if (!file) return false;
    bool ok =
        fgets(line, sizeof line, file) && strcspn(line, "\n") == strlen(key) && strncmp(line, key, strlen(key)) == 0;
    for (int i = 0; ok && i < PLAN_KINDS * PLAN_BATCHES; i++) {
        float *us = &out->us[i / PLAN_BATCHES][i % PLAN_BATCHES];
        char word[32], *end = word;
        ok = fscanf(file, "%31s", word) == 1;
        if (ok) *us = (float)number_parse(word, &end);
        ok = ok && end != word && !*end && isfinite(*us) && *us > 0;
    }
    fclose(file);
    return ok;
}

/* Under a name of its own first, so that no reader sees half a file. */
static void save(const char *path, const char *key, const plan_timing *t) {
    char temporary[PATH_SIZE + 32];
    snprintf(temporary, sizeof temporary, "%s.%" PRIx64, path, sereno_now_ns(sereno_clock_system()));
    FILE *file = fopen(temporary, "w");
    if (!file) return;
    bool ok = fprintf(file, "%s\n", key) > 0;
    for (int i = 0; i < PLAN_KINDS * PLAN_BATCHES; i++) {
        const char *end = i % PLAN_BATCHES == PLAN_BATCHES - 1 ? "\n" : " ";
        ok &= number_print(file, "%.4f%s", (double)t->us[i / PLAN_BATCHES][i % PLAN_BATCHES], end) > 0;
    }
    ok &= fclose(file) == 0;
    if (!ok || rename(temporary, path) != 0) remove(temporary);
}

void timing_obtain(native_engine *e, plan_timing *out) {
    char key[KEY_SIZE], path[PATH_SIZE];
    describe(e, key);
    int length =
        snprintf(path, sizeof path, "%s/timing-%016" PRIx64, e->options.timing_folder, hash_bytes(key, strlen(key)));
    bool named = length > 0 && (size_t)length < sizeof path;
    if (named && load(path, key, out)) return;
    measure(e, out);
    if (named) save(path, key, out);
}
