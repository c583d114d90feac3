#include "timing.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "hash.h"
#include "number.h"

enum {
    TIMING_VERSION = 6,   /* of what is measured and how */
    MEASURED_BATCHES = 5, /* 1 to 16; larger ones are extrapolated in proportion */
    STREAMED_BATCHES = 3, /* 1, 2 and 4: also with TILE_STREAMS; larger ones take longer to multiply than to read */
    STREAMED_BYTES = 96 << 20, /* so many layers that caches do not keep them from one batch to the next */
    ROUNDS = 3,
    BOUND_MS = 4000,        /* of wall time; on a slower machine the batches measured so far suffice */
    SAMPLE_MS = 2,          /* between samples of the threads' waits for cores */
    DELAY_MS_MIN = 2,       /* shorter waits do not matter */
    DELAY_PERCENT_MAX = 10, /* nor does this share of the time */
    LAYERS_MIN = 2,
    LAYERS_MAX = 64,
    KEY_SIZE = 512,
    PATH_SIZE = 4096,
};

static const double clearly_faster = 0.97;

/* ---- Watching ---- */

/* A measurement under way, and why it ended early. */
typedef struct watch {
    native_engine *e;
    const sereno_clock *clock;                            /* the machine's; the engine's may be simulated */
    uint64_t start_ns, sampled_ns, delay_ns, done, total; /* delay_ns: of the team at the start */
    bool cancelled, disturbed, late;
} watch;

static uint64_t run_delay_ns(native_engine *e) {
    uint64_t cpu_ns, delay_ns;
    return team_sample(e->team, &cpu_ns, &delay_ns) ? delay_ns : 0;
}

static watch begin_watch(native_engine *e, uint64_t total) {
    const sereno_clock *clock = sereno_clock_system();
    return (watch){
        .e = e, .clock = clock, .start_ns = sereno_now_ns(clock), .delay_ns = run_delay_ns(e), .total = total};
}

/* Called after each operation: whether to go on measuring. Times are useless if threads wait for cores. */
static bool go_on(watch *w) {
    const sereno_engine_options *o = &w->e->options;
    uint64_t now_ns = sereno_now_ns(w->clock), elapsed_ns = now_ns - w->start_ns;
    w->done++;
    if (now_ns - w->sampled_ns >= SAMPLE_MS * UINT64_C(1000000)) { /* while it samples, spinning threads would park */
        uint64_t then_ns = run_delay_ns(w->e), delay_ns = then_ns > w->delay_ns ? then_ns - w->delay_ns : 0;
        w->disturbed = delay_ns > DELAY_MS_MIN * UINT64_C(1000000) &&
                       delay_ns > elapsed_ns / 100 * DELAY_PERCENT_MAX * (uint64_t)w->e->info.n_threads;
        w->sampled_ns = now_ns;
    }
    w->late = elapsed_ns > BOUND_MS * UINT64_C(1000000);
    w->cancelled = !sereno_progress_tell(&o->progress, "timing the machine", w->done, w->total);
    return !w->cancelled && !w->disturbed && !w->late;
}

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

/* Runs an operation; *us becomes its time if that is shorter. */
static bool run_timed(watch *w, sereno_subgraph_kind kind, int32_t layer, int32_t batch, float *us) {
    native_engine *e = w->e;
    subgraph s = plan_operation(&e->weights, sereno_model_describe(e->model), kind, layer, batch, e->info.n_threads);
    uint64_t start = sereno_now_ns(w->clock);
    native_run_subgraph(e, &s, batch);
    *us = fminf(*us, (float)(sereno_now_ns(w->clock) - start) / 1000);
    return go_on(w);
}

/* Times of each operation and layer: the shortest of several rounds, because disturbance only adds time. */
typedef struct samples {
    float us[PLAN_KINDS][LAYERS_MAX];
} samples;

static bool run_round(watch *w, int32_t batch, int32_t n_layers, samples *s) {
    for (int32_t layer = 0; layer < n_layers; layer++) {
        for (int kind = 0; kind < SERENO_SUBGRAPH_HEAD; kind++) {
            if (!run_timed(w, (sereno_subgraph_kind)kind, layer, batch, &s->us[kind][layer])) return false;
        }
    }
    return run_timed(w, SERENO_SUBGRAPH_HEAD, 0, batch, &s->us[SERENO_SUBGRAPH_HEAD][0]);
}

/* Times of a batch with the streams that the engine has for it now. */
static bool time_batch(watch *w, int b, int32_t context, plan_timing *out) {
    samples s;
    native_engine *e = w->e;
    int32_t n_layers = layers_to_run(e);
    for (int i = 0; i < PLAN_KINDS * LAYERS_MAX; i++) {
        s.us[i / LAYERS_MAX][i % LAYERS_MAX] = INFINITY;
    }
    place(e, plan_batches[b], context);
    for (int round = 0; round < ROUNDS; round++) {
        if (run_round(w, plan_batches[b], n_layers, &s)) continue;
        if (!w->late || round == 0) return false;
        break; /* the rounds so far must do */
    }
    for (int kind = 0; kind < PLAN_KINDS; kind++) { /* the upper quartile over layers: cuts must fit slow ones, too */
        int32_t n = kind == SERENO_SUBGRAPH_HEAD ? 1 : n_layers;
        qsort(s.us[kind], (size_t)n, sizeof s.us[kind][0], ascending);
        out->us[kind][b] = s.us[kind][n * 3 / 4];
    }
    out->us[SERENO_SUBGRAPH_ATTENTION][b] *= (float)PLAN_TIMED_CONTEXT / (float)context;
    out->streams[b] = e->timing.streams[b];
    return true;
}

/* Of a layer's products. */
static double products_us(const plan_timing *t, int b) {
    double us = 0;
    for (int kind = 0; kind < SERENO_SUBGRAPH_HEAD; kind++) {
        if (kind != SERENO_SUBGRAPH_ATTENTION) us += (double)t->us[kind][b];
    }
    return us;
}

/* One stream, or for small batches several if they are clearly faster. False: not even one could be timed. */
static bool measure_batch(watch *w, int b, int32_t context, plan_timing *out) {
    int32_t *streams = &w->e->timing.streams[b];
    plan_timing several;
    *streams = 1;
    if (!time_batch(w, b, context, out)) return false;
    if (b >= STREAMED_BATCHES || w->late) return true;
    *streams = TILE_STREAMS;
    bool timed = time_batch(w, b, context, &several);
    *streams = 1;
    if (!timed || products_us(&several, b) > clearly_faster * products_us(out, b))
        return !w->cancelled && !w->disturbed;
    for (int kind = 0; kind < PLAN_KINDS; kind++) {
        out->us[kind][b] = several.us[kind][b];
    }
    out->streams[b] = TILE_STREAMS;
    return true;
}

static int32_t timed_context(const native_engine *e) {
    return e->info.n_ctx < PLAN_TIMED_CONTEXT ? e->info.n_ctx : PLAN_TIMED_CONTEXT;
}

/* Returns whether *out is a measurement. Batches that were not measured are extrapolated from the last measured
 * one, in proportion. */
static bool measure(watch *w, plan_timing *out) {
    native_engine *e = w->e;
    int32_t context = timed_context(e);
    int n_measured = 0;
    while (n_measured < MEASURED_BATCHES && measure_batch(w, n_measured, context, out)) n_measured++;
    e->n_inputs = e->n_logits = 0;
    if (w->cancelled || w->disturbed || n_measured == 0) return false;
    for (int b = n_measured; b < PLAN_BATCHES; b++) {
        for (int kind = 0; kind < PLAN_KINDS; kind++) {
            out->us[kind][b] = out->us[kind][b - 1] * (float)plan_batches[b] / (float)plan_batches[b - 1];
        }
        out->streams[b] = 1;
    }
    return true;
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
             o->prefetch.weights_bytes, o->prefetch.next_bytes, timed_context(e), sereno_version());
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
    for (int b = 0; ok && b < PLAN_BATCHES; b++) {
        char word[32], several[32];
        snprintf(several, sizeof several, "%d", TILE_STREAMS);
        ok = fscanf(file, "%31s", word) == 1 && (strcmp(word, "1") == 0 || strcmp(word, several) == 0);
        out->streams[b] = ok && strcmp(word, several) == 0 ? TILE_STREAMS : 1;
    }
    fclose(file);
    return ok;
}

/* Writes under a temporary name first, so that no reader sees half a file. */
static void save(const char *path, const char *key, const plan_timing *t) {
    char temporary[PATH_SIZE + 32];
    snprintf(temporary, sizeof temporary, "%s.%" PRIx64, path, sereno_system_now_ns());
    FILE *file = fopen(temporary, "w");
    if (!file) return;
    bool ok = fprintf(file, "%s\n", key) > 0;
    for (int i = 0; i < PLAN_KINDS * PLAN_BATCHES; i++) {
        const char *end = i % PLAN_BATCHES == PLAN_BATCHES - 1 ? "\n" : " ";
        ok &= number_print(file, "%.4f%s", (double)t->us[i / PLAN_BATCHES][i % PLAN_BATCHES], end) > 0;
    }
    for (int b = 0; b < PLAN_BATCHES; b++) {
        ok &= fprintf(file, "%d%s", t->streams[b], b == PLAN_BATCHES - 1 ? "\n" : " ") > 0;
    }
    ok &= fclose(file) == 0;
    if (!ok || rename(temporary, path) != 0) remove(temporary);
}

int timing_obtain(native_engine *e, plan_timing *out, sereno_error *err) {
    char key[KEY_SIZE], path[PATH_SIZE];
    plan_timing kept, measured;
    describe(e, key);
    int length =
        snprintf(path, sizeof path, "%s/timing-%016" PRIx64, e->options.timing_folder, hash_bytes(key, strlen(key)));
    bool named = length > 0 && (size_t)length < sizeof path;
    if (named && load(path, key, &kept)) {
        *out = kept;
        e->info.timing = SERENO_TIMING_KEPT;
        return SERENO_OK;
    }
    watch w = begin_watch(e, (uint64_t)(MEASURED_BATCHES + STREAMED_BATCHES) * ROUNDS *
                                 (uint64_t)(layers_to_run(e) * SERENO_SUBGRAPH_HEAD + 1));
    bool ok = measure(&w, &measured);
    e->info.timing = ok ? SERENO_TIMING_MEASURED : SERENO_TIMING_SHIPPED;
    if (ok) *out = measured;
    if (ok && named) save(path, key, out);
    return w.cancelled ? err_set(err, SERENO_ERR_ABANDONED, "opening the engine was given up") : SERENO_OK;
}
