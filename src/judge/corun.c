#include "corun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "hash.h"
#include "interrupt.h"
#include "pipe.h"
#include "rng.h"
#include "samples.h"
#include "sereno/clock.h"

static const uint64_t look_ns = 100000000;        /* interval of checking the cancel flag */
static const uint64_t open_max_ns = 600000000000; /* for opening models, in the idle class on a busy machine too */
enum { FAILURES_MAX = 3 }; /* failures in a row after which the bench stops waiting for a strategy */

typedef struct bench {
    const corun_options *options;
    corun_runs *runs;
    background backgrounds[CORUN_STRATEGIES_MAX]; /* process.pid 0: none */
    int64_t batch;                                /* of the runs made now */
    uint64_t done, total;                         /* runs; total: as far as is known */
} bench;

/* A run under way. */
typedef struct making {
    bench *b;
    corun_run run;
    int capacity;
    corun_window window;
    double *latencies; /* latencies of the frames so far that have one */
    size_t n_latencies;
    bool no_memory;
} making;

/* Waits for foreground (NULL: none) or background (NULL: none), at most until a time; cancelling is an error. */
static int wait_for(bench *b, const foreground_child *f, const background *bg, uint64_t until_ns, bool readable[2],
                    sereno_error *err) {
    uint64_t time = sereno_system_now_ns(), left = until_ns > time ? until_ns - time : 0;
    int fds[2] = {f && !f->ended ? f->fd : -1, bg ? bg->answers_fd : -1};
    pipe_wait(fds, readable, 2, left < look_ns ? left : look_ns);
    if (watch_cancelled(&b->options->watch)) return err_set(err, SERENO_ERR_ABANDONED, "the bench was cancelled");
    return SERENO_OK;
}

/* ---- The background ---- */

/* The process that runs a strategy; NULL: it needs none. */
static background *background_of(bench *b, int strategy) {
    const corun_strategy *list = b->options->strategies;
    if (list[strategy].kind->load == LOAD_NONE) return NULL;
    int first = 0;
    while (!background_serves(&list[first], &list[strategy])) first++;
    return &b->backgrounds[first];
}

/* Starts it, unless it runs, and waits until it has opened what it needs. */
static int have_background(bench *b, int strategy, sereno_error *err) {
    background *bg = background_of(b, strategy);
    if (!bg || bg->ready) return SERENO_OK;
    const corun_options *o = b->options;
    int status = background_start(bg, o->background, o->strategies, (int)(bg - b->backgrounds), err);
    uint64_t give_up_ns = sereno_system_now_ns() + open_max_ns;
    while (!status && !bg->ready) {
        bool readable[2], answered;
        corun_background nothing;
        status = wait_for(b, NULL, bg, give_up_ns, readable, err);
        if (!status && readable[1]) status = background_read(bg, &answered, &nothing, err);
        if (!status && !bg->ready && sereno_system_now_ns() >= give_up_ns) {
            status = err_set(err, SERENO_ERR_SYSTEM, "the background did not open its model within %.0f s",
                             (double)open_max_ns / 1e9);
        }
    }
    if (status) background_close(bg);
    return status;
}

/* ---- One run ---- */

static void take_frame(void *ctx, const frame_record *r) {
    making *m = ctx;
    corun_run *run = &m->run;
    if (m->window.end_ns == 0 || r->vsync_ns < m->window.begin_ns || r->vsync_ns >= m->window.end_ns) return;
    if (run->n_frames == m->capacity) {
        int more = m->capacity > 0 ? 2 * m->capacity : 1024;
        corun_frame *frames = realloc(run->frames, (size_t)more * sizeof *frames);
        if (frames) run->frames = frames;
        double *latencies = realloc(m->latencies, (size_t)more * sizeof *latencies);
        if (latencies) m->latencies = latencies;
        m->no_memory |= !frames || !latencies;
        if (!frames || !latencies) return;
        m->capacity = more;
    }
    run->frames[run->n_frames++] = (corun_frame){.at_ms = (uint32_t)((r->vsync_ns - m->window.begin_ns) / 1000000),
                                                 .ms = (float)((double)(r->end_ns - r->vsync_ns) / 1e6),
                                                 .janky = r->missed};
    run->dropped += r->dropped;
    if (r->latency_ns > 0) m->latencies[m->n_latencies++] = r->latency_ns;
}

static int read_foreground(making *m, foreground_child *f, sereno_error *err) {
    int status = foreground_read(f, take_frame, m, err);
    if (!status && m->no_memory) status = err_no_memory(err, "frames", 0);
    return status;
}

/* Waits until the foreground makes frames. */
static int begin_foreground(making *m, foreground_child *f, sereno_error *err) {
    uint64_t give_up_ns = sereno_system_now_ns() + m->b->options->ready_ns;
    int status = SERENO_OK;
    while (!status && !f->ready) {
        bool readable[2];
        status = wait_for(m->b, f, NULL, give_up_ns, readable, err);
        if (!status && readable[0]) status = read_foreground(m, f, err);
        if (!status && !f->ready && sereno_system_now_ns() >= give_up_ns) {
            status = err_set(err, SERENO_ERR_SYSTEM, "the foreground did not begin within %.1f s",
                             (double)m->b->options->ready_ns / 1e9);
        }
    }
    return status;
}

/* Waits until the window is over and both sides have sent their results. */
static int measure(making *m, foreground_child *f, background *bg, sereno_error *err) {
    uint64_t end_ns = m->window.end_ns, give_up_ns = end_ns + m->b->options->late_ns;
    bool answered = bg == NULL, stopped = false;
    int status = SERENO_OK;
    while (!status && (!answered || !f->ended)) {
        bool readable[2];
        uint64_t until_ns = stopped ? give_up_ns : end_ns;
        status = wait_for(m->b, f, answered ? NULL : bg, until_ns, readable, err);
        if (!status && readable[0]) status = read_foreground(m, f, err);
        if (!status && f->finished && !stopped) {
            status = err_set(err, SERENO_ERR_SYSTEM, "the foreground ended by itself");
        }
        if (!status && !stopped) status = foreground_check(f, sereno_system_now_ns(), err);
        if (!status && readable[1]) status = background_read(bg, &answered, &m->run.background, err);
        if (!status && !stopped && sereno_system_now_ns() >= end_ns) {
            foreground_stop(f);
            stopped = true;
        }
        if (!status && sereno_system_now_ns() >= give_up_ns) {
            status = err_set(err, SERENO_ERR_SYSTEM, "%s hangs: nothing came from it within %.1f s after the end",
                             f->ended ? "the background" : "the foreground", (double)m->b->options->late_ns / 1e9);
        }
    }
    return status;
}

static int make_run(making *m, int strategy, int foreground, sereno_error *err) {
    const corun_options *o = m->b->options;
    background *bg = background_of(m->b, strategy);
    foreground_child f;
    foreground_options fo = {.program = o->foreground_program,
                             .profile = o->foregrounds[foreground],
                             .cpu = o->foreground_cpu,
                             .first_frame = (int)((int64_t)m->run.repeat * o->frames_a_repeat % (1 << 30)),
                             .seconds = (int)((o->window_ns + o->warm_up_ns + 2 * o->late_ns) / 1000000000) + 1,
                             .hints = o->strategies[strategy].kind->hinted,
                             .signal_fd = o->signal_fd,
                             .hang_ns = o->hang_ns};
    int status = foreground_start(&f, &fo, err);
    if (status) return status;
    status = begin_foreground(m, &f, err);
    m->window.begin_ns = sereno_system_now_ns() + o->warm_up_ns;
    m->window.end_ns = m->window.begin_ns + o->window_ns;
    background_order order = {.strategy = strategy, .window = m->window};
    if (!status && bg) status = background_run(bg, &order, err);
    if (!status) status = measure(m, &f, bg, err);
    if (status && bg) background_close(bg); /* its state is unknown; the next run starts a new process */
    foreground_close(&f);
    if (!status && m->run.n_frames == 0) {
        status = err_set(err, SERENO_ERR_SYSTEM, "the foreground made no frame in %.1f s", m->run.seconds);
    }
    samples_sort(m->latencies, m->n_latencies);
    m->run.fg_latency_ns = samples_quantile(m->latencies, m->n_latencies, 0.5);
    return status;
}

/* ---- All runs ---- */

static int run_one(bench *b, int strategy, int foreground, int32_t repeat, sereno_error *err) {
    const corun_options *o = b->options;
    const char *name = o->strategies[strategy].name, *beside = o->foregrounds[foreground];
    if (o->on_begin) o->on_begin(o->ctx, name, beside, repeat);
    making m = {.b = b, .run = {.repeat = repeat, .batch = b->batch, .seconds = (double)o->window_ns / 1e9}};
    snprintf(m.run.strategy, sizeof m.run.strategy, "%s", name);
    snprintf(m.run.foreground, sizeof m.run.foreground, "%s", beside);
    m.window.seed = o->seed + (uint64_t)repeat;
    sereno_error failure = {0};
    int status = have_background(b, strategy, &failure);
    if (!status) status = make_run(&m, strategy, foreground, &failure);
    free(m.latencies);
    if (status == SERENO_ERR_ABANDONED) {
        corun_run_free(&m.run);
        return err_set(err, status, "%s", failure.message);
    }
    if (status) snprintf(m.run.error, sizeof m.run.error, "%s", failure.message);
    status = corun_runs_append(b->runs, &m.run, err);
    if (!status && o->on_run) status = o->on_run(o->ctx, &b->runs->list[b->runs->n - 1], err);
    if (++b->done > b->total) b->total = b->done;
    watch_progress(&o->watch, b->done, b->total);
    return status;
}

/* Frames of a strategy so far; INT64_MAX if it has failed so often in this call that the bench stops waiting for it. */
static int64_t frames_of(const bench *b, const char *strategy, const char *foreground) {
    int64_t frames = 0;
    int failures = 0;
    for (int i = 0; i < b->runs->n; i++) {
        const corun_run *r = &b->runs->list[i];
        if (strcmp(r->strategy, strategy) != 0 || strcmp(r->foreground, foreground) != 0) continue;
        if (corun_runs_find(b->runs, strategy, foreground, r->repeat) != r) continue; /* it was made again */
        if (r->batch == b->batch) failures = r->error[0] ? failures + 1 : 0;
        frames += r->error[0] ? 0 : r->n_frames;
    }
    return failures >= FAILURES_MAX ? INT64_MAX : frames;
}

static bool needs_repeat(const bench *b, int32_t repeat) {
    const corun_options *o = b->options;
    if (repeat < o->repeats) return true;
    for (int i = 0; i < o->n_strategies * o->n_foregrounds; i++) {
        const char *strategy = o->strategies[i % o->n_strategies].name;
        if (frames_of(b, strategy, o->foregrounds[i / o->n_strategies]) < o->frames_min) return true;
    }
    return false;
}

/* Whether all strategies have run in a repeat, in turns and without an error. If not, the whole repeat is made
 * again, because runs of different times must not be compared. */
static bool is_complete(const bench *b, int32_t repeat) {
    const corun_options *o = b->options;
    int64_t batch = -1;
    for (int i = 0; i < o->n_strategies * o->n_foregrounds; i++) {
        const char *strategy = o->strategies[i % o->n_strategies].name;
        const corun_run *run = corun_runs_find(b->runs, strategy, o->foregrounds[i / o->n_strategies], repeat);
        if (!run || run->error[0] || (batch >= 0 && run->batch != batch)) return false;
        batch = run->batch;
    }
    return true;
}

/* Whether all repeats and frames that the options ask for are there. */
static bool is_done(const bench *b) {
    for (int32_t repeat = 0; needs_repeat(b, repeat); repeat++) {
        if (!is_complete(b, repeat)) return false;
    }
    return true;
}

static int run_repeat(bench *b, int32_t repeat, sereno_error *err) {
    const corun_options *o = b->options;
    int n = o->n_strategies * o->n_foregrounds, *order = calloc((size_t)n, sizeof *order), status = SERENO_OK;
    if (!order) return err_no_memory(err, "an order of runs", (size_t)n * sizeof *order);
    rng r = {hash_u64(o->seed) ^ hash_u64((uint64_t)repeat)};
    for (int i = 0; i < n; i++) {
        int j = (int)rng_below(&r, (uint32_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < n && !status; i++) {
        int s = order[i] % o->n_strategies, f = order[i] / o->n_strategies;
        status = run_one(b, s, f, repeat, err);
    }
    free(order);
    return status;
}

int bench_corun(const corun_options *o, corun_runs *runs, sereno_error *err) {
    bench *b = calloc(1, sizeof *b);
    if (!b) return err_no_memory(err, "the bench", sizeof *b);
    b->options = o;
    b->runs = runs;
    for (int i = 0; i < runs->n; i++) {
        if (runs->list[i].batch >= b->batch) b->batch = runs->list[i].batch + 1;
    }
    interrupt_ignore_broken_pipes();
    int status = SERENO_OK;
    for (int32_t repeat = 0; repeat < o->repeats; repeat++) {
        b->total += is_complete(b, repeat) ? 0 : (uint64_t)o->n_strategies * (uint64_t)o->n_foregrounds;
    }
    for (int s = 0; s < o->n_strategies && !status && !is_done(b); s++) {
        status = have_background(b, s, err);
    }
    for (int32_t repeat = 0; !status && needs_repeat(b, repeat); repeat++) {
        if (!is_complete(b, repeat)) status = run_repeat(b, repeat, err);
    }
    for (int s = 0; s < o->n_strategies; s++) {
        if (b->backgrounds[s].process.pid > 0) background_close(&b->backgrounds[s]);
    }
    free(b);
    return status;
}
