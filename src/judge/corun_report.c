#include "corun_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "corun_stats.h"
#include "errors.h"
#include "json_values.h"
#include "number.h"
#include "utf8.h"

/* ---- What is compared ---- */

enum { BASES_MAX = 2, LIST_MAX = 1024, NUMBER_MAX = 16, INTERVAL_MAX = 3 * NUMBER_MAX + 8 };

/* The bases of a strategy: its own, and native. Returns how many. */
static int bases_of(const corun_report *r, int strategy, const char *out[BASES_MAX]) {
    const char *name = r->strategies[strategy], *base = r->bases[strategy];
    int n = 0;
    if (base && strcmp(base, name) != 0) out[n++] = base;
    if (r->same_a && strcmp(r->same_a, name) != 0 && !(n > 0 && strcmp(r->same_a, base) == 0)) out[n++] = r->same_a;
    return n;
}

/* The ratio of native again to native; NaN: not compared. */
static int same_of(const corun_report *r, const char *foreground, corun_ratio *out, sereno_error *err) {
    const interval unknown = {NAN, NAN, NAN, 0};
    *out = (corun_ratio){unknown, unknown};
    if (!r->same_a || !r->same_b) return SERENO_OK;
    return corun_ratio_of(r->runs, r->same_b, r->same_a, foreground, r->seed, out, err);
}

static bool is_same(const corun_report *r, const char *strategy) {
    return r->same_b && strcmp(strategy, r->same_b) == 0;
}

static bool contains_1(const interval *i) {
    return i->lo <= 1 && 1 <= i->hi;
}

/* ---- JSON ---- */

static json_t *known(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* A number or null: 0 means that there is none. */
static json_t *known_above_0(double value) {
    return value > 0 ? json_real(value) : json_null();
}

static json_t *json_interval(const interval *i) {
    return json_pack("{s:o, s:o, s:o, s:i}", "point", known(i->point), "lo", known(i->lo), "hi", known(i->hi), "n",
                     i->n);
}

/* Gaps between tokens that come together are 0, so a low quantile may be. */
static json_t *known_quantiles(const sereno_quantiles *q) {
    return json_quantiles(*q, q->p99 > 0);
}

static json_t *json_governed(const corun_governed *g) {
    if (!g->there) return json_null();
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:f, s:f}", "mode_share", json_mode_share(g->mode_ns), "preemptions",
                     (json_int_t)g->preemptions, "sleeps", (json_int_t)g->sleeps, "holds", (json_int_t)g->holds,
                     "batch_changes", (json_int_t)g->batch_changes, "hold_ms", (double)g->hold_ns / 1e6, "sleep_ms",
                     (double)g->sleep_ns / 1e6);
}

static void put_engine(json_t *cell, const corun_cell *c) {
    const sereno_speculation_stats *s = &c->speculation;
    json_t *speculation = json_speculation(s, 0);
    bool verified = s->verified_draft_model + s->verified_ngram > 0, timed = s->step_ns > 0;
    json_object_set(cell, "acceptance", verified ? json_object_get(speculation, "acceptance") : json_null());
    json_object_set(cell, "time_share", timed ? json_object_get(speculation, "time_share") : json_null());
    json_object_set_new(cell, "governor", json_governed(&c->governed));
    json_object_set_new(cell, "weights_gbs", c->has_engine ? json_real(c->weights_gbs) : json_null());
    json_object_set_new(cell, "cpu_s", c->has_engine ? json_real(c->cpu_s) : json_null());
    json_object_set_new(cell, "longest_uninterrupted_ms",
                        c->has_engine ? json_real(c->longest_uninterrupted_ms) : json_null());
    json_decref(speculation);
}

static json_t *json_cell(const corun_report *r, const char *strategy, const char *foreground, const corun_cell *c) {
    json_t *cell =
        json_pack("{s:o, s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:I}", "strategy", json_name(strategy), "foreground",
                  json_name(foreground), "placement", r->placement, "frames", (json_int_t)c->frames, "janky",
                  (json_int_t)c->janky, "jank_rate", known(c->jank_rate.point), "jank_rate_lo", known(c->jank_rate.lo),
                  "jank_rate_hi", known(c->jank_rate.hi), "dropped", (json_int_t)c->dropped);
    json_t *more = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "frame_ms", known_quantiles(&c->frame_ms),
                             "fg_latency_ns", known_above_0(c->fg_latency_ns), "tok_s", known(c->tok_s.point),
                             "tok_s_lo", known(c->tok_s.lo), "tok_s_hi", known(c->tok_s.hi), "ttft_ms",
                             known_quantiles(&c->ttft_ms), "itl_ms", known_quantiles(&c->itl_ms));
    json_object_update(cell, more);
    json_decref(more);
    put_engine(cell, c);
    json_object_set_new(cell, "error", c->error ? json_name(c->error) : json_null());
    json_object_set_new(cell, "runs", json_integer(c->runs));
    json_object_set_new(cell, "failed", json_integer(c->failed));
    return cell;
}

static json_t *json_compared(const corun_report *r, const char *strategy, const char *base, const char *foreground,
                             const corun_ratio *ratio, const corun_ratio *same) {
    bool tells = r->same_a && r->same_b && !is_same(r, strategy) && !isnan(ratio->jank.point);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "strategy", json_name(strategy), "base", json_name(base),
                     "foreground", json_name(foreground), "jank", json_interval(&ratio->jank), "tok_s",
                     json_interval(&ratio->tok_s), "too_noisy",
                     tells ? json_boolean(corun_too_noisy(&ratio->jank, &same->jank)) : json_null());
}

/* Cells and ratios beside one foreground. */
static int put_foreground(json_t *cells, json_t *ratios, const corun_report *r, const char *foreground,
                          const corun_ratio *same, sereno_error *err) {
    for (int s = 0; s < r->n_strategies; s++) {
        corun_cell cell;
        int status = corun_cell_of(r->runs, r->strategies[s], foreground, r->seed, &cell, err);
        if (status) return status;
        json_array_append_new(cells, json_cell(r, r->strategies[s], foreground, &cell));
        const char *bases[BASES_MAX];
        int n = bases_of(r, s, bases);
        for (int b = 0; b < n; b++) {
            corun_ratio ratio;
            status = corun_ratio_of(r->runs, r->strategies[s], bases[b], foreground, r->seed, &ratio, err);
            if (status) return status;
            json_array_append_new(ratios, json_compared(r, r->strategies[s], bases[b], foreground, &ratio, same));
        }
    }
    return SERENO_OK;
}

int corun_report_json(json_t *document, const corun_report *r, sereno_error *err) {
    json_t *cells = json_array(), *ratios = json_array();
    const char *noisiest = NULL;
    corun_ratio worst = {0};
    int status = SERENO_OK;
    for (int f = 0; f < r->n_foregrounds && !status; f++) {
        corun_ratio same;
        status = same_of(r, r->foregrounds[f], &same, err);
        if (status) break;
        status = put_foreground(cells, ratios, r, r->foregrounds[f], &same, err);
        /* a missing ratio counts as the noisiest */
        if (!noisiest || isnan(same.jank.point) || fabs(log(same.jank.point)) > fabs(log(worst.jank.point))) {
            noisiest = r->foregrounds[f];
            worst = same;
        }
    }
    json_object_set_new(document, "cells", cells);
    json_object_set_new(document, "ratios", ratios);
    json_t *noise = json_null();
    if (r->same_a && r->same_b && noisiest) {
        noise = json_pack("{s:o, s:o, s:o}", "jank", json_interval(&worst.jank), "contains_1",
                          isnan(worst.jank.lo) ? json_null() : json_boolean(contains_1(&worst.jank)), "foreground",
                          json_name(noisiest));
    }
    json_object_set_new(document, "noise", noise);
    return status;
}

/* ---- Tables ---- */

enum { NAME_COLUMNS = 20, INTERVAL_COLUMNS = 17, QUANTILE_COLUMNS = 9 };

/* Three digits, in five columns at most; "-": unknown. */
static const char *short_number(double value, char out[NUMBER_MAX]) {
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    if (isnan(value)) snprintf(out, NUMBER_MAX, "-");
    else if (value < 99999.5) number_format(out, NUMBER_MAX, "%.*f", decimals, value);
    else number_format(out, NUMBER_MAX, "%.0e", value); /* "inf" too */
    return out;
}

/* "1.05 [0.83, 1.31]", each number times `factor`; without bounds where none are known. */
static const char *short_interval(const interval *i, double factor, char out[INTERVAL_MAX]) {
    char point[NUMBER_MAX], lo[NUMBER_MAX], hi[NUMBER_MAX];
    short_number(factor * i->point, point);
    if (isnan(i->lo)) snprintf(out, INTERVAL_MAX, "%s", point);
    else {
        snprintf(out, INTERVAL_MAX, "%s [%s, %s]", point, short_number(factor * i->lo, lo),
                 short_number(factor * i->hi, hi));
    }
    return out;
}

/* Names and errors may hold anything. */
static void print_clean(const char *text, const char *end) {
    char clean[CORUN_ERROR_MAX];
    snprintf(clean, sizeof clean, "%s", text);
    utf8_make_printable(clean);
    printf("%s%s", clean, end);
}

static void print_name(const char *name) {
    char clean[CORUN_STRATEGY_MAX];
    snprintf(clean, sizeof clean, "%s", name);
    utf8_make_printable(clean);
    if (strlen(clean) > NAME_COLUMNS) printf("%s\n%*s", clean, NAME_COLUMNS, "");
    else printf("%-*s", NAME_COLUMNS, clean);
}

/* The ratio of a strategy in a table; NaN: not compared. */
typedef struct comparison {
    corun_ratio base, native;
} comparison;

static void print_row(const char *strategy, const corun_cell *c, const comparison *over) {
    char a[INTERVAL_MAX], b[NUMBER_MAX], d[NUMBER_MAX], quantiles[INTERVAL_MAX] = "-";
    print_name(strategy);
    printf(" %6" PRId64, c->frames);
    printf(" %*s", INTERVAL_COLUMNS, short_interval(&c->jank_rate, 100, a));
    printf(" %*s", INTERVAL_COLUMNS, short_interval(&over->base.jank, 1, a));
    printf(" %*s", INTERVAL_COLUMNS, short_interval(&over->native.jank, 1, a));
    printf(" %6s %5s", short_number(c->tok_s.point, b), short_number(over->base.tok_s.point, d));
    if (c->frames > 0) {
        snprintf(quantiles, sizeof quantiles, "%s/%s", short_number(c->frame_ms.p50, b),
                 short_number(c->frame_ms.p95, d));
    }
    printf(" %*s %6s %5s\n", QUANTILE_COLUMNS, quantiles,
           short_number(c->fg_latency_ns > 0 ? c->fg_latency_ns : NAN, b),
           short_number(c->has_engine ? c->weights_gbs : NAN, d));
    if (c->failed > 0) {
        printf("    failed %d of %d: ", c->failed, c->runs + c->failed);
        print_clean(c->error, "\n");
    }
}

/* Compares a strategy with its bases; adds ratios that are too noisy to the list `drowned`. */
static int compare(const corun_report *r, int strategy, const char *foreground, const corun_ratio *same,
                   comparison *out, char drowned[LIST_MAX], sereno_error *err) {
    const interval unknown = {NAN, NAN, NAN, 0};
    const char *name = r->strategies[strategy], *bases[BASES_MAX];
    out->base = out->native = (corun_ratio){unknown, unknown};
    int n = bases_of(r, strategy, bases);
    for (int b = 0; b < n; b++) {
        corun_ratio ratio;
        int status = corun_ratio_of(r->runs, name, bases[b], foreground, r->seed, &ratio, err);
        if (status) return status;
        if (r->bases[strategy] && strcmp(bases[b], r->bases[strategy]) == 0) out->base = ratio;
        if (r->same_a && strcmp(bases[b], r->same_a) == 0) out->native = ratio;
        if (!is_same(r, name) && !isnan(ratio.jank.point) && corun_too_noisy(&ratio.jank, &same->jank)) {
            char which[2 * CORUN_STRATEGY_MAX + 8];
            snprintf(which, sizeof which, "%s over %s", name, bases[b]);
            err_list(drowned, LIST_MAX, which);
        }
    }
    return SERENO_OK;
}

static void print_noise(const corun_report *r, const corun_ratio *same, char *drowned) {
    char text[INTERVAL_MAX];
    if (!r->same_a || !r->same_b) {
        printf("nothing tells how noisy this machine was: native was not measured against itself\n");
        return;
    }
    if (isnan(same->jank.point)) {
        printf("too noisy to tell: native against native gave no ratio\n");
        return;
    }
    printf("native against native: jank %s", short_interval(&same->jank, 1, text));
    bool differs = !isnan(same->jank.lo) && !contains_1(&same->jank);
    if (differs) printf(", which does not hold 1: did something else run?");
    if (drowned[0]) {
        utf8_make_printable(drowned);
        printf("%s too noisy to tell: %s\n", differs ? "" : ":", drowned);
    } else {
        bool known = !isnan(same->jank.lo);
        printf("%s\n", differs ? ""
                       : known ? ": this machine was quiet enough"
                               : ": one repeat tells nothing of noise");
    }
}

static int print_foreground(const corun_report *r, const char *foreground, sereno_error *err) {
    char drowned[LIST_MAX] = "";
    corun_ratio same;
    int status = same_of(r, foreground, &same, err);
    printf("\n");
    print_clean(foreground, "");
    printf(", %s placement%s%s\n", r->placement, r->setting ? ", " : "", r->setting ? r->setting : "");
    printf("%-*s %6s %*s %*s %*s %6s %5s %*s %6s %5s\n", NAME_COLUMNS, "strategy", "frames", INTERVAL_COLUMNS,
           "jank % [lo, hi]", INTERVAL_COLUMNS, "x base [lo, hi]", INTERVAL_COLUMNS, "x native [lo, hi]", "tok/s",
           "xbase", QUANTILE_COLUMNS, "p50/95 ms", "mem ns", "GB/s");
    for (int s = 0; s < r->n_strategies && !status; s++) {
        corun_cell cell;
        comparison over;
        status = corun_cell_of(r->runs, r->strategies[s], foreground, r->seed, &cell, err);
        if (!status) status = compare(r, s, foreground, &same, &over, drowned, err);
        if (!status) print_row(r->strategies[s], &cell, &over);
    }
    if (!status) print_noise(r, &same, drowned);
    return status;
}

int corun_report_text(const corun_report *r, sereno_error *err) {
    int status = SERENO_OK;
    for (int f = 0; f < r->n_foregrounds && !status; f++) {
        status = print_foreground(r, r->foregrounds[f], err);
    }
    return status;
}
