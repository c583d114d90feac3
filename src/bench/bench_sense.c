#include "bench_sense.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "probe.h"
#include "recorder.h"
#include "rng.h"
#include "sereno/control.h"

enum {
    WINDOW_NS = SENSE_WINDOW_MS * 1000000,
    SLICE_NS = 1000000,     /* of a window; in each it streams for the duty's share */
    RECORD_BYTES = 4 << 20, /* most of a minute of a small model */
    DRAFT_TOKENS = 4,
    CONTEXT = 160, /* then the sequence begins anew: attention stays short */
    CONTEXT_MIN = SERENO_VERIFY_BATCH_MAX + DRAFT_TOKENS + 2,
};

static const float slope_least = 0.05f; /* a signal that moves less says nothing */

/* ---- Statistics ---- */

double pearson(const double *x, const double *y, size_t stride, size_t n) {
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    size_t pairs = 0;
    for (size_t i = 0; i < n * stride; i += stride) {
        if (isnan(x[i]) || isnan(y[i])) continue;
        pairs++;
        double dx = x[i] - mean_x, dy = y[i] - mean_y;
        mean_x += dx / (double)pairs;
        mean_y += dy / (double)pairs;
        xx += dx * (x[i] - mean_x);
        yy += dy * (y[i] - mean_y);
        xy += dx * (y[i] - mean_y);
    }
    return pairs >= 3 && xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

double sense_fuse(double log_slowdown, double slowdown_slope, double log_probe, double probe_slope) {
    double sum = 0, weight = 0;
    if (slowdown_slope > 0 && !isnan(log_slowdown)) {
        sum += slowdown_slope * log_slowdown / log1p(slowdown_slope);
        weight += slowdown_slope;
    }
    if (probe_slope > 0 && !isnan(log_probe)) {
        sum += probe_slope * log_probe / log1p(probe_slope);
        weight += probe_slope;
    }
    return weight > 0 ? sum / weight : NAN;
}

void sense_add(sense_tally *t, const sereno_signals *s, float score) {
    for (int k = 0; k < SENSE_SIGNALS; k++) {
        double sample = sense_sample((sense_signal)k, s, score);
        if (isnan(sample)) continue;
        t->sum[k] += sample;
        t->n[k]++;
    }
    if (s->slowdown > 0 && s->slowdown_slope >= slope_least) {
        double slope = (double)s->slowdown_slope;
        t->scaled += slope * log((double)s->slowdown) / log1p(slope);
        t->slowdown_slope += slope;
        t->weighed++;
    }
    if (s->probe > 0) t->probe_slope = (double)s->probe_slope;
}

void sense_settle(const sense_tally *t, sense_window *w) {
    for (int k = 0; k < SENSE_SIGNALS; k++) {
        w->signal[k] = t->n[k] ? t->sum[k] / t->n[k] : NAN;
    }
    double slope = t->weighed ? t->slowdown_slope / t->weighed : 0, log_slowdown = NAN;
    if (t->weighed) log_slowdown = t->scaled / t->slowdown_slope * log1p(slope); /* scaled back by the mean slope */
    w->signal[SENSE_FUSED] = sense_fuse(log_slowdown, slope, w->signal[SENSE_PROBE], t->probe_slope);
}

void sense_correlate(sense_result *r) {
    const size_t stride = sizeof(sense_window) / sizeof(double), n = (size_t)r->n_windows;
    const sense_window *w = r->windows;
    for (int i = 0; i < SENSE_SIGNALS && n > 0; i++) {
        r->of[i] = (sense_correlation){.intensity = pearson(&w->signal[i], &w->duty, stride, n),
                                       .fg_latency = pearson(&w->signal[i], &w->fg_latency_ns, stride, n),
                                       .fg_bandwidth = pearson(&w->signal[i], &w->fg_gbs, stride, n)};
    }
}

/* ---- The foreground ---- */

typedef struct foreground {
    sense_window *windows; /* the stressor's thread writes its columns until it has stopped */
    int32_t n_windows;
    uint64_t seed, start_ns;
} foreground;

/* One window of slices; each slice measures the latency, streams, and rests. */
static void stream_window(memory_stressor *s, sense_window *w, double duty, uint64_t begin_ns, probe *p) {
    double latency = 0;
    int looks = 0;
    size_t at;
    stressor_sum before = memory_stressor_streamed(s);
    for (uint64_t slice = 0; slice < WINDOW_NS / SLICE_NS; slice++) {
        uint64_t from_ns = begin_ns + slice * SLICE_NS;
        memory_stressor_rest_until(s, from_ns);
        memory_stressor_buffer(s, &at);
        p->position = (double)at / STRESSOR_BUFFER_BYTES;
        latency += probe_run(p, from_ns);
        looks++;
        memory_stressor_stream_until(s, from_ns + (uint64_t)(duty * SLICE_NS));
    }
    stressor_sum after = memory_stressor_streamed(s);
    double streamed_ns = (double)(after.ns - before.ns);
    w->duty = fmin(streamed_ns / WINDOW_NS, 1); /* a descheduled slice may go on in the next window */
    w->fg_latency_ns = latency / looks;
    w->fg_gbs = after.bytes > before.bytes ? (double)(after.bytes - before.bytes) / streamed_ns : NAN;
}

/* The schedule: windows of random duty. */
static void stream_windows(void *ctx, memory_stressor *s) {
    foreground *f = ctx;
    size_t at;
    sereno_engine_info own = {.stream = memory_stressor_buffer(s, &at), .stream_bytes = STRESSOR_BUFFER_BYTES};
    probe p;
    probe_begin(&p, &own, sereno_clock_system(), f->seed);
    rng r = {f->seed};
    for (int32_t i = 0; i < f->n_windows && !memory_stressor_stopped(s); i++) {
        double duty = (double)rng_below(&r, 1001) / 1000; /* the drawn duty */
        stream_window(s, &f->windows[i], duty, f->start_ns + (uint64_t)i * WINDOW_NS, &p);
    }
}

/* Without a foreground. */
static void note_silence(foreground *f) {
    for (int32_t i = 0; i < f->n_windows; i++) {
        f->windows[i] = (sense_window){.fg_latency_ns = NAN, .fg_gbs = NAN};
    }
}

/* ---- The background ---- */

typedef struct watcher {
    sereno_engine *target, *draft; /* draft NULL: none */
    sereno_sensor *sensor;
    sereno_governor *governor; /* which only observes */
    recorder *recorder;        /* NULL: nothing is recorded */
    sense_tally *tallies;
    int32_t n_windows;
    uint64_t start_ns;
} watcher;

static sereno_verdict observe(void *ctx, const sereno_boundary *b) {
    watcher *w = ctx;
    sereno_signals s = w->recorder ? recorder_read(w->recorder, b) : sereno_sensor_read(w->sensor, b);
    sereno_event e = sereno_event_of(b);
    sereno_decision d;
    e.signals = s;
    sereno_governor_step(w->governor, &e, &d);
    uint64_t window = b->now_ns >= w->start_ns ? (b->now_ns - w->start_ns) / WINDOW_NS : UINT64_MAX;
    if (window >= (uint64_t)w->n_windows) return (sereno_verdict){0};
    sense_add(&w->tallies[window], &s, d.score);
    return (sereno_verdict){0};
}

/* A pass of a chain of n tokens, of which the first is committed. */
static int run_pass(sereno_engine *e, sereno_plan_kind plan, int32_t n, watcher *w, sereno_error *err) {
    sereno_input inputs[SERENO_VERIFY_BATCH_MAX];
    const int32_t first = 0;
    int32_t length = e->ops->length(e, 0), n_vocab = e->ops->info(e)->n_vocab;
    for (int32_t i = 0; i < n; i++) {
        inputs[i] = (sereno_input){.token = (length + i) % n_vocab, .parent = i - 1, .wants_logits = true};
    }
    const sereno_pass pass = {
        .plan = plan, .inputs = inputs, .n_inputs = n, .observer = observe, .observer_ctx = w, .sample_cpu = true};
    int status = e->ops->pass(e, &pass, err);
    return status ? status : e->ops->commit(e, 0, &first, 1, err);
}

/* One step of decoding. A self-draft follows the target's sequence, so only other drafts are truncated. */
static int run_step(const sense_options *o, watcher *w, sense_result *out, sereno_error *err) {
    sereno_engine *target = w->target, *draft = w->draft;
    int status = SERENO_OK;
    if (target->ops->length(target, 0) >= CONTEXT) status = target->ops->truncate(target, 0, 0, err);
    if (!status && draft && draft->ops->length(draft, 0) >= CONTEXT) status = draft->ops->truncate(draft, 0, 0, err);
    for (int i = 0; i < DRAFT_TOKENS && draft && !status; i++) {
        status = run_pass(draft, SERENO_PLAN_DRAFT, 1, w, err);
        out->passes++;
    }
    int32_t batch = o->batch > 0 ? o->batch : draft ? DRAFT_TOKENS + 1 : 1;
    if (!status) status = run_pass(target, SERENO_PLAN_VERIFY, batch, w, err);
    out->passes++;
    return status;
}

static int decode(const sense_options *o, watcher *w, sense_result *out, sereno_error *err) {
    uint64_t end_ns = w->start_ns + (uint64_t)w->n_windows * WINDOW_NS, now;
    int status = SERENO_OK;
    while (!status && (now = sereno_system_now_ns()) < end_ns) {
        uint64_t done = now > w->start_ns ? (now - w->start_ns) / WINDOW_NS : 0;
        watch_progress(&o->watch, done, (uint64_t)w->n_windows);
        status = run_step(o, w, out, err);
        if (!status && watch_cancelled(&o->watch)) status = err_set(err, SERENO_ERR_ABANDONED, "cancelled");
    }
    return status;
}

/* ---- The recording ---- */

static void describe_model(const sereno_model *model, char out[RECORDING_TEXT_MAX]) {
    const sereno_model_info *m = sereno_model_describe(model);
    snprintf(out, RECORDING_TEXT_MAX,
             "%.100s, %s, %" PRIu64 " parameters, %u layers of %u, %u heads and %u of keys of %u, feed-forward %u",
             m->name, m->weight_type, m->n_parameters, m->n_layers, m->n_embd, m->n_heads, m->n_kv_heads, m->head_dim,
             m->n_ff);
}

static int begin_recording(const sense_options *o, watcher *w, sereno_error *err) {
    if (!o->record) return SERENO_OK;
    const sereno_session_info *info = sereno_session_describe(o->session);
    char model[RECORDING_TEXT_MAX];
    describe_model(info->model, model);
    const recorder_options how = {.model = model,
                                  .draft_model = w->draft ? info->draft_name : NULL,
                                  .quiet = !o->foreground,
                                  .size_max = RECORD_BYTES};
    return recorder_open(w->sensor, w->target, w->draft, info->calibration, &how, &w->recorder, err);
}

static int save_recording(const sense_options *o, const watcher *w, sense_result *out, sereno_error *err) {
    if (!w->recorder) return SERENO_OK;
    recording *r = recorder_end(w->recorder);
    r->windows = calloc((size_t)w->n_windows, sizeof *r->windows);
    if (!r->windows) return err_no_memory(err, "a recording's windows", (size_t)w->n_windows * sizeof *r->windows);
    r->windows_begin_ns = w->start_ns;
    r->window_ns = WINDOW_NS;
    r->n_windows = w->n_windows;
    for (int32_t i = 0; i < w->n_windows; i++) {
        const sense_window *s = &out->windows[i];
        r->windows[i] = (recording_window){(float)s->duty, (float)s->fg_latency_ns, (float)s->fg_gbs};
    }
    if (!recording_write(r, o->record)) {
        return err_set(err, SERENO_ERR_IO, "the recording cannot be written: %s", strerror(errno));
    }
    long size = ftell(o->record);
    out->recorded = (sense_recorded){r->n_boundaries, r->n_dropped, size > 0 ? (uint64_t)size : 0};
    return SERENO_OK;
}

/* ---- All of it ---- */

static int check(const watcher *w, sereno_error *err) {
    const sereno_engine_info *t = w->target->ops->info(w->target), *d = w->draft ? w->draft->ops->info(w->draft) : t;
    int32_t n_ctx = t->n_ctx < d->n_ctx ? t->n_ctx : d->n_ctx;
    if (n_ctx >= CONTEXT + CONTEXT_MIN) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "sensing needs a context of %d tokens, this one has %d",
                   CONTEXT + CONTEXT_MIN, n_ctx);
}

/* any policy, because the score does not depend on decisions */
static int open_observer(const sereno_engine *target, sereno_governor **out, sereno_error *err) {
    const sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_THROUGHPUT);
    const sereno_throughput_profile throughput = sereno_throughput_profile_of(target);
    return sereno_governor_open(&params, &throughput, out, err);
}

int bench_sense(const sense_options *o, sense_result *out, sereno_error *err) {
    *out = (sense_result){0};
    int32_t n = (int32_t)(o->seconds * 1000 / SENSE_WINDOW_MS);
    if (n < 1) n = 1;
    watcher w = {
        .target = sereno_session_engine(o->session), .draft = sereno_session_draft(o->session), .n_windows = n};
    foreground f = {.n_windows = n, .seed = o->seed};
    int status = check(&w, err);
    if (status) return status;
    out->windows = calloc((size_t)n, sizeof *out->windows);
    w.tallies = calloc((size_t)n, sizeof *w.tallies);
    f.windows = out->windows;
    if (!out->windows || !w.tallies) status = err_no_memory(err, "windows", (size_t)n * sizeof *out->windows);
    const sereno_calibration *calibration = sereno_session_describe(o->session)->calibration;
    if (!status) status = sereno_sensor_open(w.target, w.draft, calibration, &w.sensor, err);
    if (!status) status = open_observer(w.target, &w.governor, err);
    if (!status) status = begin_recording(o, &w, err);
    if (!status) status = w.target->ops->truncate(w.target, 0, 0, err);
    if (!status && w.draft) status = w.draft->ops->truncate(w.draft, 0, 0, err);
    w.start_ns = f.start_ns = sereno_system_now_ns() + SLICE_NS;
    if (!status && o->foreground) memory_stressor_start(o->foreground, stream_windows, &f);
    else if (!status) note_silence(&f);
    if (!status) status = decode(o, &w, out, err);
    if (!status && o->foreground) memory_stressor_finish(o->foreground);
    else if (o->foreground) memory_stressor_stop(o->foreground);
    for (int32_t i = 0; i < n && !status; i++) {
        sense_settle(&w.tallies[i], &out->windows[i]);
    }
    if (!status) status = save_recording(o, &w, out, err);
    if (!status) {
        out->n_windows = n;
        sereno_sensor_stats_read(w.sensor, &out->stats);
        sense_correlate(out);
    }
    recorder_close(&w.recorder);
    sereno_governor_close(&w.governor);
    sereno_sensor_close(&w.sensor);
    free(w.tallies);
    return status;
}

void sense_result_free(sense_result *r) {
    free(r->windows);
    *r = (sense_result){0};
}
