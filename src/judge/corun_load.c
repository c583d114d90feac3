#include "corun_load.h"

#include <stdlib.h>

#include "errors.h"
#include "histogram.h"
#include "rng.h"
#include "samples.h"
#include "sereno/clock.h"
#include "session_parts.h"
#include "sleep.h"
#include "thread.h"

enum { TTFT_MAX = 4096 };

/* ---- What is counted ---- */

/* Counts a run. Engine and peer both call meter_token. */
typedef struct meter {
    const corun_window *window;
    corun_background *out;
    histogram gaps;
    double ttft_ms[TTFT_MAX];
    size_t n_ttft;
    uint64_t asked_ns, last_ns; /* of the present request, and its last token; 0: it has none yet */
} meter;

static bool in_window(const corun_window *w, uint64_t time_ns) {
    return w->begin_ns <= time_ns && time_ns < w->end_ns;
}

static void meter_token(meter *m, uint64_t time_ns) {
    bool first = m->last_ns == 0;
    if (in_window(m->window, time_ns)) {
        m->out->tokens++;
        if (!first) histogram_add(&m->gaps, time_ns - m->last_ns);
        else if (m->n_ttft < TTFT_MAX) m->ttft_ms[m->n_ttft++] = (double)(time_ns - m->asked_ns) / 1e6;
    }
    m->last_ns = time_ns;
}

static void meter_end(meter *m) {
    samples_sort(m->ttft_ms, m->n_ttft);
    const double quantiles[] = {0.50, 0.95, 0.99};
    double *ttft[] = {&m->out->ttft_ms.p50, &m->out->ttft_ms.p95, &m->out->ttft_ms.p99};
    double *itl[] = {&m->out->itl_ms.p50, &m->out->itl_ms.p95, &m->out->itl_ms.p99};
    for (int i = 0; i < 3; i++) {
        *ttft[i] = samples_quantile(m->ttft_ms, m->n_ttft, quantiles[i]);
        *itl[i] = (double)histogram_quantile(&m->gaps, quantiles[i]) / 1e6;
    }
}

/* ---- The row of requests ---- */

typedef struct row {
    const corun_requests *requests;
    const corun_window *window;
    rng r;
    int *order, n; /* of the prompts; shuffled anew after each round. n: requests so far */
    uint64_t next_ns;
} row;

static int row_open(row *w, const corun_requests *requests, const corun_window *window, sereno_error *err) {
    *w = (row){.requests = requests, .window = window, .r = {hash_u64(window->seed)}};
    w->order = calloc((size_t)requests->n_prompts, sizeof *w->order);
    return w->order ? SERENO_OK : err_no_memory(err, "an order of prompts", 0);
}

/* The next request's prompt and length. All requests sample with the window's seed; only their prompts differ. The
 * first answer has a random length, so that a window begins at a random place within an answer. Otherwise a window
 * about as long as an answer would contain a prefill for fast strategies only. */
static const corun_prompt *row_prompt(row *w, int32_t *max_tokens) {
    *max_tokens = w->requests->max_tokens;
    if (w->n == 0) *max_tokens = 1 + (int32_t)rng_below(&w->r, (uint32_t)w->requests->max_tokens);
    int all = w->requests->n_prompts;
    int at = w->n++ % all;
    for (int i = 0; i < all && at == 0; i++) {
        int j = (int)rng_below(&w->r, (uint32_t)i + 1);
        w->order[i] = w->order[j];
        w->order[j] = i;
    }
    return &w->requests->prompts[w->order[at]];
}

/* Waits until the next request is due. False: the window ends first. */
static bool row_wait(row *w) {
    uint64_t gap = w->requests->gap_ns, time = sereno_system_now_ns();
    if (gap > 0) {
        uint64_t due = w->n > 0 && w->next_ns > time ? w->next_ns : time;
        uint64_t until = due < w->window->end_ns ? due : w->window->end_ns;
        w->next_ns = due + gap / 2 + (rng_u64(&w->r) >> 11) % gap;
        for (; time < until; time = sereno_system_now_ns()) {
            sleep_until_ns(until);
        }
    }
    return time < w->window->end_ns;
}

/* ---- Our engine ---- */

typedef struct engine_run {
    meter meter;
    pacer pacer;
    const frame_signal *signal;
    double target_bytes, draft_bytes; /* of a whole pass */
    uint64_t last_ns;                 /* the last boundary without a sleep; 0: none */
    uint64_t cpu_begin_ns;            /* CPU time when the window began; 0: it has not */
    sereno_cancel ended;
} engine_run;

static void count_boundary(engine_run *e, const sereno_boundary *b) {
    const corun_window *w = e->meter.window;
    if (b->now_ns < w->begin_ns) return;
    if (e->cpu_begin_ns == 0) e->cpu_begin_ns = process_cpu_ns();
    if (b->now_ns >= w->end_ns) {
        sereno_cancel_request(&e->ended);
        return;
    }
    if (b->slept_ns > 0) return;
    e->meter.out->weight_bytes +=
        (b->plan == SERENO_PLAN_DRAFT ? e->draft_bytes : e->target_bytes) / (double)b->n_subgraphs;
    double uninterrupted_ms = (double)(b->now_ns - e->last_ns) / 1e6;
    if (e->last_ns > 0 && uninterrupted_ms > e->meter.out->longest_uninterrupted_ms)
        e->meter.out->longest_uninterrupted_ms = uninterrupted_ms;
}

static sereno_verdict observe(void *ctx, const sereno_boundary *b) {
    engine_run *e = ctx;
    count_boundary(e, b);
    if (sereno_cancel_requested(&e->ended)) return (sereno_verdict){.action = SERENO_ABANDON};
    bool in_frame = e->signal && atomic_load_explicit(&e->signal->in_frame, memory_order_relaxed);
    sereno_verdict verdict = pacer_verdict(&e->pacer, b, in_frame);
    e->last_ns = verdict.action == SERENO_SLEEP ? 0 : b->now_ns;
    return verdict;
}

static void on_token(void *ctx, int32_t token) {
    engine_run *e = ctx;
    (void)token;
    meter_token(&e->meter, sereno_system_now_ns());
}

static int answer(engine_run *e, sereno_session *session, row *w, sereno_error *err) {
    int32_t max_tokens;
    const corun_prompt *prompt = row_prompt(w, &max_tokens);
    sereno_answer *answer = NULL;
    const sereno_generation *g;
    sereno_request request = {.prompt = prompt->tokens.ids,
                              .n_prompt = (int32_t)prompt->tokens.n,
                              .max_tokens = max_tokens,
                              .sampler = w->requests->sampler,
                              .cancel = &e->ended,
                              .on_token = on_token,
                              .ctx = e,
                              .observer = observe,
                              .observer_ctx = e};
    request.sampler.seed = w->window->seed;
    e->meter.asked_ns = sereno_system_now_ns();
    e->meter.last_ns = 0;
    e->last_ns = 0;
    int status = sereno_session_submit(session, &request, &answer, err);
    if (status) return status;
    status = sereno_answer_wait(answer, &g, err);
    corun_background *out = e->meter.out;
    sereno_speculation_add(&out->speculation, &g->speculation);
    out->requests +=
        !status && g->finish != SERENO_FINISH_CANCELLED && in_window(e->meter.window, sereno_system_now_ns());
    sereno_answer_close(&answer);
    return status;
}

static int answer_all(engine_run *e, const corun_engine *with, row *w, sereno_error *err) {
    int status = SERENO_OK;
    while (!status && row_wait(w)) {
        synthetic_acceptance of = with->synthetic ? *with->synthetic : (synthetic_acceptance){0};
        of.seed = w->window->seed + ((uint64_t)w->n << 32); /* new for each request, the same for all strategies */
        session_set_synthetic(with->session, with->synthetic ? &of : NULL);
        status = answer(e, with->session, w, err);
        session_set_synthetic(with->session, NULL);
    }
    return status;
}

/* The governor's figures at the end of the last request. */
static corun_governed read_governor(const sereno_session *session) {
    sereno_session_stats stats;
    sereno_session_read(session, &stats);
    const sereno_governor_stats *s = &stats.governor;
    corun_governed g = {.there = sereno_session_describe(session)->governed,
                        .preemptions = (int64_t)s->preemptions,
                        .sleeps = (int64_t)s->sleeps,
                        .holds = (int64_t)s->holds,
                        .batch_changes = (int64_t)s->batch_changes,
                        .hold_ns = (int64_t)s->hold_ns,
                        .sleep_ns = (int64_t)s->sleep_ns};
    for (int i = 0; i < SERENO_MODES; i++) {
        g.mode_ns[i] = s->mode_ns[i];
    }
    return g;
}

int corun_load_engine(const corun_engine *with, const corun_requests *requests, const corun_window *window,
                      corun_background *out, sereno_error *err) {
    *out = (corun_background){.there = true, .has_engine = true};
    engine_run *e = calloc(1, sizeof *e);
    if (!e) return err_no_memory(err, "a run", sizeof *e);
    row w = {0};
    const sereno_session_info *info = sereno_session_describe(with->session);
    *e = (engine_run){.meter = {.window = window, .out = out},
                      .pacer = {.pacing = &with->strategy->pacing},
                      .signal = with->signal,
                      .target_bytes = (double)info->engine->weight_bytes,
                      .draft_bytes = info->draft ? (double)info->draft->weight_bytes : 0};
    thread_precise_timers(NULL);
    int status = row_open(&w, requests, window, err);
    if (!status) status = answer_all(e, with, &w, err);
    if (e->cpu_begin_ns > 0) out->cpu_s = (double)(process_cpu_ns() - e->cpu_begin_ns) / 1e9;
    meter_end(&e->meter);
    out->governed = read_governor(with->session);
    free(w.order);
    free(e);
    return status;
}

/* ---- A peer ---- */

static void on_piece(void *ctx, uint64_t time_ns) {
    meter_token(ctx, time_ns);
}

int corun_load_peer(peer_client *peer, const corun_requests *requests, const corun_window *window,
                    corun_background *out, sereno_error *err) {
    enum { SILENT_S = 10 };
    *out = (corun_background){.there = true};
    meter *m = calloc(1, sizeof *m);
    row w = {0};
    if (!m) return err_no_memory(err, "a run", sizeof *m);
    *m = (meter){.window = window, .out = out};
    int status = row_open(&w, requests, window, err);
    while (!status && row_wait(&w)) {
        peer_answer answer;
        int32_t max_tokens;
        const corun_prompt *prompt = row_prompt(&w, &max_tokens);
        peer_request request = {.prompt = prompt->text,
                                .max_tokens = max_tokens,
                                .sampler = requests->sampler,
                                .until_ns = window->end_ns,
                                .silent_ns = SILENT_S * UINT64_C(1000000000),
                                .on_token = on_piece,
                                .ctx = m};
        request.sampler.seed = window->seed;
        m->asked_ns = sereno_system_now_ns();
        m->last_ns = 0;
        status = peer_complete(peer, &request, &answer, err);
        if (!status && !answer.cut_off && answer.pieces == 0) {
            status = err_set(err, SERENO_ERR_FORMAT, "the server answered with no token at all");
        }
        out->requests += !status && !answer.cut_off && in_window(window, sereno_system_now_ns());
    }
    if (!status && out->tokens == 0 && requests->gap_ns == 0) {
        status = err_set(err, SERENO_ERR_IO, "the server gave no token in %.1f s",
                         (double)(window->end_ns - window->begin_ns) / 1e9);
    }
    meter_end(m);
    free(w.order);
    free(m);
    return status;
}

/* ---- A busy core ---- */

void corun_load_spin(const corun_window *window) {
    enum { LANES = 1024, ROUNDS = 64 };
    float values[LANES] = {0};
    while (sereno_system_now_ns() < window->end_ns) {
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < LANES; i++) {
                values[i] = values[i] * 0.999f + 0.5f;
            }
        }
        volatile float kept = values[0]; /* so that the compiler keeps all of it */
        (void)kept;
    }
}
