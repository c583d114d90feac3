#include "corun_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "samples.h"

static bool is_of(const corun_run *run, const char *strategy, const char *foreground) {
    return strcmp(run->strategy, strategy) == 0 && strcmp(run->foreground, foreground) == 0;
}

static int64_t count_janky(const corun_run *run) {
    int64_t n = 0;
    for (int32_t i = 0; i < run->n_frames; i++) {
        n += run->frames[i].janky;
    }
    return n;
}

static tally jank_of(const corun_run *run) {
    return (tally){(double)count_janky(run), run->n_frames};
}

/* A tally of a run; whole 0: the run has no such figure. */
static tally tokens_of(const corun_run *run) {
    return run->background.there ? (tally){(double)run->background.tokens, run->seconds} : (tally){0, 0};
}

/* ---- Cells ---- */

/* Runs that count, and room for a number of each. */
typedef struct counted_runs {
    const corun_run **list;
    double *numbers;
    tally *tallies;
    int n;
} counted_runs;

static void counted_free(counted_runs *c) {
    free(c->list);
    free(c->numbers);
    free(c->tallies);
}

/* Also counts failed runs. On failure, too, the caller frees it. */
static int counted_of(const corun_runs *runs, const char *strategy, const char *foreground, counted_runs *c,
                      corun_cell *cell, sereno_error *err) {
    size_t room = (size_t)runs->n + 1; /* no run is not a failure */
    size_t size = room * (sizeof(corun_run *) + sizeof(double) + sizeof(tally));
    *c = (counted_runs){malloc(room * sizeof(corun_run *)), malloc(room * sizeof(double)), malloc(room * sizeof(tally)),
                        0};
    if (!c->list || !c->numbers || !c->tallies) return err_no_memory(err, "a cell's runs", size);
    for (int i = 0; i < runs->n; i++) {
        const corun_run *run = &runs->list[i];
        if (!is_of(run, strategy, foreground)) continue;
        if (corun_runs_find(runs, strategy, foreground, run->repeat) != run) continue; /* it was made again */
        if (run->error[0]) {
            cell->failed++;
            cell->error = run->error;
        } else {
            c->list[c->n++] = run;
        }
    }
    cell->runs = c->n;
    return SERENO_OK;
}

static interval rate_of(const counted_runs *c, tally (*tally_of)(const corun_run *run), uint64_t seed) {
    for (int i = 0; i < c->n; i++) {
        c->tallies[i] = tally_of(c->list[i]);
    }
    return bootstrap_rate(c->tallies, c->n, seed);
}

/* The median over the runs that have the figure: those where it is above 0. */
static double quantile_of(const counted_runs *c, double (*number_of)(const corun_run *run), double quantile) {
    size_t n = 0;
    for (int i = 0; i < c->n; i++) {
        double number = number_of(c->list[i]);
        if (number > 0) c->numbers[n++] = number;
    }
    samples_sort(c->numbers, n);
    return samples_quantile(c->numbers, n, quantile);
}

#define NUMBER_OF(name, field)                                                                                         \
    static double name(const corun_run *run) {                                                                         \
        return run->field;                                                                                             \
    }
NUMBER_OF(latency_of, fg_latency_ns)
NUMBER_OF(ttft_of, background.ttft_ms.p50)
NUMBER_OF(itl_p50_of, background.itl_ms.p50)
NUMBER_OF(itl_p95_of, background.itl_ms.p95)
NUMBER_OF(itl_p99_of, background.itl_ms.p99)
#undef NUMBER_OF

static int frames_of(const counted_runs *c, corun_cell *cell, sereno_error *err) {
    for (int i = 0; i < c->n; i++) {
        cell->frames += c->list[i]->n_frames;
        cell->janky += count_janky(c->list[i]);
        cell->dropped += c->list[i]->dropped;
    }
    size_t n = 0, size = ((size_t)cell->frames + 1) * sizeof(double);
    double *ms = malloc(size);
    if (!ms) return err_no_memory(err, "a cell's frames", size);
    for (int i = 0; i < c->n; i++) {
        for (int32_t k = 0; k < c->list[i]->n_frames; k++) {
            ms[n++] = (double)c->list[i]->frames[k].ms;
        }
    }
    samples_sort(ms, n);
    cell->frame_ms =
        (sereno_quantiles){samples_quantile(ms, n, 0.5), samples_quantile(ms, n, 0.95), samples_quantile(ms, n, 0.99)};
    free(ms);
    return SERENO_OK;
}

static void background_of(const counted_runs *c, corun_cell *cell) {
    double bytes = 0, cpu_s = 0, seconds = 0;
    for (int i = 0; i < c->n; i++) {
        const corun_background *b = &c->list[i]->background;
        cell->has_background |= b->there;
        if (!b->there || !b->has_engine) continue;
        cell->has_engine = true;
        sereno_speculation_add(&cell->speculation, &b->speculation);
        corun_governed_add(&cell->governed, &b->governed);
        bytes += b->weight_bytes;
        cpu_s += b->cpu_s;
        seconds += c->list[i]->seconds;
        if (b->longest_uninterrupted_ms > cell->longest_uninterrupted_ms)
            cell->longest_uninterrupted_ms = b->longest_uninterrupted_ms;
    }
    cell->weights_gbs = seconds > 0 ? bytes / seconds / 1e9 : 0;
    cell->cpu_s = cpu_s;
    cell->ttft_ms =
        (sereno_quantiles){quantile_of(c, ttft_of, 0.5), quantile_of(c, ttft_of, 0.95), quantile_of(c, ttft_of, 0.99)};
    cell->itl_ms = (sereno_quantiles){quantile_of(c, itl_p50_of, 0.5), quantile_of(c, itl_p95_of, 0.5),
                                      quantile_of(c, itl_p99_of, 0.5)};
}

int corun_cell_of(const corun_runs *runs, const char *strategy, const char *foreground, uint64_t seed, corun_cell *out,
                  sereno_error *err) {
    counted_runs c;
    *out = (corun_cell){0};
    int status = counted_of(runs, strategy, foreground, &c, out, err);
    if (!status) status = frames_of(&c, out, err);
    if (!status) {
        out->jank_rate = rate_of(&c, jank_of, seed);
        if (out->jank_rate.hi > 1) out->jank_rate.hi = 1; /* a share is at most 1 */
        out->tok_s = rate_of(&c, tokens_of, seed);
        out->fg_latency_ns = quantile_of(&c, latency_of, 0.5);
        background_of(&c, out);
    }
    counted_free(&c);
    return status;
}

/* ---- Ratios ---- */

static const corun_run *counted_find(const corun_runs *runs, const char *strategy, const char *foreground,
                                     int32_t repeat) {
    const corun_run *run = corun_runs_find(runs, strategy, foreground, repeat);
    return run && !run->error[0] ? run : NULL;
}

int corun_ratio_of(const corun_runs *runs, const char *strategy, const char *base, const char *foreground,
                   uint64_t seed, corun_ratio *out, sereno_error *err) {
    enum { SIDES = 4 }; /* jank and tokens of both strategies */
    size_t room = (size_t)runs->n + 1, size = SIDES * room * sizeof(tally);
    tally *jank = malloc(size);
    if (!jank) return err_no_memory(err, "a ratio's repeats", size);
    tally *base_jank = jank + room, *tokens = base_jank + room, *base_tokens = tokens + room;
    int n = 0;
    for (int i = 0; i < runs->n; i++) {
        const corun_run *run = &runs->list[i];
        if (!is_of(run, strategy, foreground) || counted_find(runs, strategy, foreground, run->repeat) != run) continue;
        const corun_run *other = counted_find(runs, base, foreground, run->repeat);
        if (!other || other->batch != run->batch) continue; /* they did not take turns */
        jank[n] = jank_of(run);
        base_jank[n] = jank_of(other);
        tokens[n] = tokens_of(run);
        base_tokens[n++] = tokens_of(other);
    }
    out->jank = bootstrap_ratio(jank, base_jank, n, seed);
    out->tok_s = bootstrap_ratio(tokens, base_tokens, n, seed);
    free(jank);
    return SERENO_OK;
}

bool corun_too_noisy(const interval *ratio, const interval *same) {
    double noise = fmax(-log(same->lo), log(same->hi));
    return isnan(ratio->point) || isnan(same->point) || isnan(same->lo) || noise >= fabs(log(ratio->point));
}
