#include "calibration.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "errors.h"
#include "hash.h"
#include "number.h"
#include "output_file.h"
#include "whole_file.h"

enum { CORES_MAX = 1024, FILE_BYTES_MAX = 64 << 20 };

/* The smallest slope that the governor uses: least_slope in src/govern/score.c. */
static const double felt_slope = 0.2;

static const char first_line[] = "sereno-calibration 2";

void calibration_identify(const sereno_engine *target, const sereno_engine *draft, int32_t n_threads,
                          char out[CALIBRATION_LINE_MAX]) {
    const sereno_engine_info *t = target->ops->info(target), *d = draft ? draft->ops->info(draft) : NULL;
    char cpu[128];
    int cores[CORES_MAX], n_cores = cpu_list(cores, CORES_MAX);
    cpu_name(cpu, sizeof cpu);
    snprintf(out, CALIBRATION_LINE_MAX,
             "weights %" PRIu64 " vocabulary %d activations %d draft %" PRIu64 " %d isa %s threads %d class %d "
             "context %d cores %d %016" PRIx64 " sereno %s on %s",
             t->weight_bytes, t->n_vocab, t->activation_bits, d ? d->weight_bytes : 0, d ? 1 + d->is_self_draft : 0,
             t->isa, n_threads ? n_threads : t->n_threads, (int)t->sched, t->n_ctx, n_cores,
             hash_bytes(cores, (size_t)n_cores * sizeof *cores), sereno_version(), cpu);
}

int calibration_open(int32_t n, sereno_calibration **out, sereno_error *err) {
    sereno_calibration *c = *out = calloc(1, sizeof *c);
    if (c && (c->baselines = calloc((size_t)n + 1, sizeof *c->baselines))) return SERENO_OK;
    sereno_calibration_close(out);
    return err_no_memory(err, "a calibration", ((size_t)n + 1) * sizeof *c->baselines);
}

void sereno_calibration_close(sereno_calibration **c) {
    if (*c) free((*c)->baselines);
    free(*c);
    *c = NULL;
}

sereno_calibration_summary sereno_calibration_describe(const sereno_calibration *c) {
    return (sereno_calibration_summary){.baselines = c->baselines,
                                        .n_baselines = c->n_baselines,
                                        .probe_ns = c->probe_ns,
                                        .probe_slope = c->probe_slope,
                                        .quiet = c->quiet,
                                        .blind = calibration_blind(c),
                                        .remark = c->remark};
}

/* ---- Looking up ---- */

static int compare(const sereno_baseline *a, const sereno_baseline *b) {
    if (a->plan != b->plan) return a->plan < b->plan ? -1 : 1;
    if (a->batch != b->batch) return a->batch < b->batch ? -1 : 1;
    if (a->n_subgraphs != b->n_subgraphs) return a->n_subgraphs < b->n_subgraphs ? -1 : 1;
    return (a->subgraph > b->subgraph) - (a->subgraph < b->subgraph);
}

/* The first row that is not before a key. */
static int32_t lower_bound(const sereno_calibration *c, const sereno_baseline *key) {
    int32_t low = 0, high = c->n_baselines;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (compare(&c->baselines[middle], key) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

int32_t calibration_batch(int32_t n_tokens) {
    int32_t batch = 1;
    while (batch < n_tokens && batch < SERENO_PREFILL_BATCH_MAX) batch *= 2;
    return batch;
}

/* The rows of a plan at a batch. */
static const sereno_baseline *rows_of(const sereno_calibration *c, sereno_plan_kind plan, int32_t batch, int32_t *n) {
    const sereno_baseline from = {.plan = plan, .batch = batch}, to = {.plan = plan, .batch = batch + 1};
    int32_t first = lower_bound(c, &from);
    *n = lower_bound(c, &to) - first;
    return c->baselines + first;
}

float calibration_us(const sereno_calibration *c, const sereno_baseline *of, bool *same) {
    int32_t at = lower_bound(c, of), n;
    *same = at < c->n_baselines && compare(&c->baselines[at], of) == 0 && c->baselines[at].kind == of->kind;
    if (*same) return c->baselines[at].us;
    const sereno_baseline *rows = rows_of(c, of->plan, of->batch, &n);
    float sum = 0;
    int32_t of_kind = 0;
    for (int32_t i = 0; i < n; i++) {
        if (rows[i].kind != of->kind) continue;
        sum += rows[i].us;
        of_kind++;
    }
    return of_kind > 0 ? sum / (float)of_kind : 0;
}

float calibration_slope(const sereno_calibration *c, sereno_plan_kind plan, int32_t batch, sereno_subgraph_kind kind) {
    int32_t n;
    const sereno_baseline *rows = rows_of(c, plan, batch, &n);
    for (int32_t i = 0; i < n; i++) {
        if (rows[i].kind == kind) return rows[i].slope;
    }
    return -1;
}

bool calibration_blind(const sereno_calibration *c) {
    for (int32_t i = 0; i < c->n_baselines; i++) {
        double slope = (double)c->baselines[i].slope;
        if (slope < 0 || slope >= felt_slope) return false;
    }
    return c->n_baselines > 0 && c->probe_slope >= 0 && c->probe_slope < felt_slope;
}

/* ---- The file ---- */

bool calibration_write(const sereno_calibration *c, FILE *to) {
    fprintf(to, "%s\n%s\n%s\n%s\n", first_line, c->identity, c->quiet ? "quiet" : "not quiet", c->remark);
    /* All digits, so that a sensor with the parsed calibration senses the same. */
    number_print(to, "probe %.17g %.17g\nrows %" PRId32 "\n", c->probe_ns, c->probe_slope, c->n_baselines);
    for (int32_t i = 0; i < c->n_baselines; i++) {
        const sereno_baseline *b = &c->baselines[i];
        number_print(to, "%d %d %d %d %d %.9g %.9g\n", (int)b->plan, b->batch, b->n_subgraphs, b->subgraph,
                     (int)b->kind, (double)b->us, (double)b->slope);
    }
    return !ferror(to);
}

/* The rest of the text, up to its terminating 0. */
typedef struct reader {
    const char *at;
} reader;

/* Takes a line without its end. False: there is no whole line, or it is too long. */
static bool take_line(reader *r, char out[CALIBRATION_LINE_MAX]) {
    size_t n = strcspn(r->at, "\n");
    if (r->at[n] != '\n' || n >= CALIBRATION_LINE_MAX) return false;
    memcpy(out, r->at, n);
    out[n] = '\0';
    r->at += n + 1;
    return true;
}

/* Takes exactly this text. */
static bool take_text(reader *r, const char *text) {
    size_t n = strlen(text);
    if (strncmp(r->at, text, n) != 0) return false;
    r->at += n;
    return true;
}

/* Takes a number that begins with a digit, and the text `then` after it. */
static bool take_integer(reader *r, int32_t low, int32_t high, const char *then, int32_t *out) {
    int64_t value = 0;
    const char *start = r->at;
    for (; *r->at >= '0' && *r->at <= '9'; r->at++) {
        value = value * 10 + (*r->at - '0');
        if (value > high) return false;
    }
    *out = (int32_t)value;
    return r->at > start && value >= low && take_text(r, then);
}

static bool take_real(reader *r, const char *then, double *out) {
    if (*r->at < '0' || *r->at > '9') return false;
    char *end;
    *out = number_parse(r->at, &end);
    r->at = end;
    return isfinite(*out) && *out <= 1e12 && take_text(r, then);
}

/* An unknown slope is written as -1. No other negative slope is allowed. */
static bool take_slope(reader *r, const char *then, double *out) {
    *out = SLOPE_UNKNOWN;
    return take_text(r, "-1") ? take_text(r, then) : take_real(r, then, out);
}

static bool take_row(reader *r, sereno_baseline *b) {
    int32_t plan, kind;
    double us, slope;
    if (!take_integer(r, 0, SERENO_PLAN_PREFILL, " ", &plan) ||
        !take_integer(r, 1, SERENO_PREFILL_BATCH_MAX, " ", &b->batch) ||
        !take_integer(r, 1, CALIBRATION_ROWS_MAX, " ", &b->n_subgraphs) ||
        !take_integer(r, 0, b->n_subgraphs - 1, " ", &b->subgraph) ||
        !take_integer(r, 0, SUBGRAPH_KINDS - 1, " ", &kind) || !take_real(r, " ", &us) ||
        !take_slope(r, "\n", &slope)) {
        return false;
    }
    b->plan = (sereno_plan_kind)plan;
    b->kind = (sereno_subgraph_kind)kind;
    b->us = (float)us;
    b->slope = (float)slope;
    return true;
}

static int parse(reader *r, sereno_calibration **out, sereno_error *err) {
    char identity[CALIBRATION_LINE_MAX], quiet[CALIBRATION_LINE_MAX], remark[CALIBRATION_LINE_MAX];
    double probe_ns, probe_slope;
    int32_t n;
    if (!take_text(r, first_line) || !take_text(r, "\n")) {
        return err_set(err, SERENO_ERR_FORMAT, "this is no calibration of this version");
    }
    if (!take_line(r, identity) || !take_line(r, quiet) || !take_line(r, remark) || !take_text(r, "probe ") ||
        !take_real(r, " ", &probe_ns) || !take_slope(r, "\n", &probe_slope) || !take_text(r, "rows ") ||
        !take_integer(r, 0, CALIBRATION_ROWS_MAX, "\n", &n) || (probe_ns > 0 && probe_slope < 0)) {
        return err_set(err, SERENO_ERR_FORMAT, "the head of the calibration is damaged");
    }
    /* No row is shorter than this, so a false number of rows costs no memory. */
    if (strlen(r->at) / strlen("0 1 1 0 0 0 0\n") < (size_t)n) {
        return err_set(err, SERENO_ERR_FORMAT, "the calibration has fewer than the %" PRId32 " rows it announces", n);
    }
    int status = calibration_open(n, out, err);
    if (status) return status;
    sereno_calibration *c = *out;
    assert(c);
    memcpy(c->identity, identity, sizeof identity);
    memcpy(c->remark, remark, sizeof remark);
    c->quiet = strcmp(quiet, "quiet") == 0;
    c->probe_ns = probe_ns;
    c->probe_slope = probe_slope;
    for (; c->n_baselines < n; c->n_baselines++) {
        sereno_baseline *b = &c->baselines[c->n_baselines];
        if (!take_row(r, b) || (c->n_baselines > 0 && compare(b - 1, b) >= 0)) {
            return err_set(err, SERENO_ERR_FORMAT, "row %" PRId32 " of the calibration is damaged", c->n_baselines);
        }
    }
    return *r->at ? err_set(err, SERENO_ERR_FORMAT, "the calibration goes on after its last row") : SERENO_OK;
}

int calibration_parse(const char *text, size_t size, sereno_calibration **out, sereno_error *err) {
    *out = NULL;
    if (!text || memchr(text, '\0', size))
        return err_set(err, SERENO_ERR_FORMAT, "a calibration is text, this is none");
    char *copy = malloc(size + 1);
    if (!copy) return err_no_memory(err, "a calibration's text", size);
    memcpy(copy, text, size);
    copy[size] = '\0';
    int status = parse(&(reader){copy}, out, err);
    free(copy);
    if (status) sereno_calibration_close(out);
    return status;
}

int sereno_calibration_save(const sereno_calibration *c, const char *path, sereno_error *err) {
    output_file *f;
    int status = output_file_open(path, true, &f, err);
    if (!status && !calibration_write(c, f->to)) {
        status = err_set(err, SERENO_ERR_IO, "cannot write '%s'", path);
    }
    if (!status) status = output_file_commit(f, err);
    output_file_close(&f);
    return status;
}

/* A file whole; the caller frees *out. */
int sereno_calibration_load(const char *path, const sereno_engine *target, const sereno_engine *draft,
                            sereno_calibration **out, sereno_error *err) {
    char *text = NULL, identity[CALIBRATION_LINE_MAX];
    size_t size = 0;
    *out = NULL;
    int status = file_read_whole(path, FILE_BYTES_MAX, &text, &size, err);
    if (status) return status;
    sereno_error why = {0};
    status = calibration_parse(text, size, out, &why);
    free(text);
    if (status) return err_set(err, status, "'%s': %s", path, why.message);
    assert(*out);
    calibration_identify(target, draft, 0, identity);
    if (strcmp(identity, (*out)->identity) == 0) return SERENO_OK;
    status = err_set(err, SERENO_ERR_INVALID, "'%s' was calibrated for '%s', this is '%s'", path, (*out)->identity,
                     identity);
    sereno_calibration_close(out);
    return status;
}
