#include "tune.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "errors.h"
#include "samples.h"

enum { FRAMES_MIN = 20 }; /* fewer say nothing about a tail */

/* One run: its share of janky frames, and its frame time, in periods, at the quantile 1 - wanted share. */
typedef struct tune_run {
    double jank, quantile;
} tune_run;

static int run_once(const profile *p, const tune_options *o, double seconds, tune_run *out, sereno_error *err) {
    int max = (int)ceil(seconds * p->fps) + 1;
    double *periods = malloc((size_t)max * sizeof *periods);
    if (!periods) return err_no_memory(err, "frame times", (size_t)max * sizeof *periods);
    int n = o->run(o->ctx, p, seconds, periods, max), status = SERENO_OK, janky = 0;
    if (n < 0) {
        status = err_set(err, n, "a run at scale %.4g failed", (double)p->scale);
    } else if (n < FRAMES_MIN) {
        status = err_set(err, SERENO_ERR_INVALID,
                         "only %d frames were made in %.3g s; at least %d are needed: tune for longer", n, seconds,
                         FRAMES_MIN);
    } else {
        samples_sort(periods, (size_t)n);
        for (int i = 0; i < n; i++) {
            janky += periods[i] > 1;
        }
        *out = (tune_run){(double)janky / n, samples_quantile(periods, (size_t)n, 1 - o->native_jank)};
    }
    free(periods);
    return status;
}

/* Whether frames take about as long at scales that are far apart: then they do not follow the scale. */
static bool is_fixed(double scale_a, const tune_run *a, double scale_b, const tune_run *b) {
    const double far_apart = 4, alike = 1.2;
    double scales = scale_b > scale_a ? scale_b / scale_a : scale_a / scale_b;
    double times = scale_b > scale_a ? b->quantile / a->quantile : a->quantile / b->quantile;
    return scales >= far_apart && times < alike;
}

/* Changes the scale round by round; *scales: the scale after each round. */
static int move_scale(profile *tuned, const tune_options *o, double *scales, sereno_error *err) {
    tune_run first = {0}, run = {0};
    double first_scale = (double)tuned->scale;
    for (int round = 0; round < o->rounds; round++) {
        int status = run_once(tuned, o, o->seconds, &run, err);
        if (status) return status;
        double scale = (double)tuned->scale;
        if (round == 0) first = run;
        if (o->progress) o->progress(o->ctx, round, scale, run.jank);
        if (!(run.quantile > 0) || is_fixed(first_scale, &first, scale, &run)) {
            return err_set(err, SERENO_ERR_INVALID,
                           "frames of '%s' do not take longer when there is more work (scale %.4g: %.3g of a period)",
                           tuned->name, scale, run.quantile);
        }
        scales[round] = fmin(fmax(scale / run.quantile, PROFILE_SCALE_MIN), PROFILE_SCALE_MAX);
        tuned->scale = (float)scales[round];
    }
    return SERENO_OK;
}

int tune_profile(profile *p, const tune_options *o, tune_result *out, sereno_error *err) {
    assert(o->native_jank > 0 && o->native_jank < 1 && o->rounds > 0);
    profile tuned = *p;
    tune_run run = {0};
    double *scales = malloc((size_t)o->rounds * sizeof *scales);
    if (!scales) return err_no_memory(err, "scales", (size_t)o->rounds * sizeof *scales);
    int status = move_scale(&tuned, o, scales, err);
    if (!status) {
        /* A machine's speed varies, so the result is the median over the rounds but the first few, which may be far
         * off. */
        int away = o->rounds / 3;
        samples_sort(scales + away, (size_t)(o->rounds - away));
        tuned.scale = (float)samples_quantile(scales + away, (size_t)(o->rounds - away), 0.5);
        status = run_once(&tuned, o, o->check_seconds, &run, err);
    }
    free(scales);
    if (status) return status;
    if (o->progress) o->progress(o->ctx, o->rounds, (double)tuned.scale, run.jank);
    p->scale = tuned.scale;
    *out = (tune_result){run.jank, run.jank >= 0.5 * o->native_jank && run.jank <= 1.5 * o->native_jank};
    return SERENO_OK;
}
