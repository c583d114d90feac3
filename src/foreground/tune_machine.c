#include "tune_machine.h"

#include <time.h>

#include "cpu.h"
#include "errors.h"
#include "frame_loop.h"
#include "number.h"

typedef struct tuner {
    const tune_options *options;
    const atomic_bool *stop;
    sereno_error err; /* error of a run */
    double *periods;
    int n, max;
} tuner;

static int keep_period(void *ctx, const frame_record *r) {
    tuner *t = ctx;
    if (t->n == t->max) return 1;
    double budget = (double)(r->deadline_ns - r->vsync_ns);
    t->periods[t->n++] = (double)(r->end_ns - r->vsync_ns) / budget;
    return 0;
}

static int run(void *ctx, const profile *p, double seconds, double *periods, int max) {
    tuner *t = ctx;
    scene *s;
    int status = scene_open(p, &s, &t->err);
    if (status) return status;
    t->periods = periods;
    t->n = 0;
    t->max = max;
    scene_draw(s, 0); /* caches and page tables are warm then; it is not counted */
    frame_loop_options o = {.profile = p,
                            .world = frame_loop_machine(s),
                            .seconds_ns = frame_loop_ns(seconds),
                            .stop = t->stop,
                            .on_frame = keep_period,
                            .ctx = t};
    frame_loop_run(&o);
    scene_close(&s);
    if (atomic_load_explicit(t->stop, memory_order_relaxed)) {
        return err_set(&t->err, SERENO_ERR_ABANDONED, "tuning was interrupted");
    }
    return t->n;
}

static void on_round(void *ctx, int round, double scale, double jank) {
    const tune_options *o = ((const tuner *)ctx)->options;
    if (o->progress) o->progress(o->ctx, round, scale, jank);
}

int tune_on_machine(profile *p, const tune_options *options, const atomic_bool *stop, tune_result *out,
                    sereno_error *err) {
    tuner t = {.options = options, .stop = stop};
    tune_options o = *options;
    o.run = run;
    o.progress = on_round;
    o.ctx = &t;
    int status = tune_profile(p, &o, out, err);
    if (status && t.err.code) *err = t.err; /* closer to the cause */
    return status;
}

int tune_save(const profile *p, const tune_result *result, char *path, size_t path_size, sereno_error *err) {
    char comment[320], cpu[128], date[32] = "some day";
    time_t now = time(NULL);
    struct tm day;
    if (gmtime_r(&now, &day)) strftime(date, sizeof date, "%Y-%m-%d", &day);
    cpu_name(cpu, sizeof cpu);
    number_format(comment, sizeof comment,
                  "Tuned on %s to this machine (%s): %.1f %% of frames janky with nothing beside it.", date, cpu,
                  100 * result->jank);
    return profile_save_tuned(p, comment, path, path_size, err);
}
