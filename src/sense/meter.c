#include "sereno/meter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baselines.h"
#include "errors.h"

/* A slowdown above lost_core is a lost core, not contention. The machine seems quiet while the usual slowdown is below
 * `quiet`. */
static const float lost_core = 8, quiet = 1.1F;
static const double slope_shipped = 0.5;

struct sereno_meter {
    baseline_table *baselines;
    recent lately; /* slowdowns against settled baselines */
    int32_t n_units;
    sereno_work_unit units[];
};

static int check(const sereno_work_unit *units, int32_t n, sereno_error *err) {
    int status = err_check_range("the number of units", n, 1, SERENO_METER_UNITS_MAX, err);
    for (int32_t i = 0; i < n && !status; i++) {
        const sereno_work_unit *u = &units[i];
        if (!(u->expected_us >= 0 && isfinite(u->expected_us)) || !(u->slope >= 0 && isfinite(u->slope))) {
            status = err_set(err, SERENO_ERR_INVALID, "unit %d: a time of %g us, a slope of %g; 0 or more is allowed",
                             i, u->expected_us, u->slope);
        }
    }
    return status;
}

int sereno_meter_open(const sereno_work_unit *units, int32_t n_units, sereno_meter **out, sereno_error *err) {
    *out = NULL;
    int status = check(units, n_units, err);
    if (status) return status;
    size_t bytes = (size_t)n_units * sizeof *units;
    sereno_meter *m = calloc(1, sizeof *m + bytes);
    if (!m) return err_no_memory(err, "a meter", sizeof *m + bytes);
    m->n_units = n_units;
    memcpy(m->units, units, bytes);
    status = baselines_open(&m->baselines, err);
    if (status) sereno_meter_close(&m);
    *out = m;
    return status;
}

void sereno_meter_close(sereno_meter **meter) {
    sereno_meter *m = *meter;
    *meter = NULL;
    if (!m) return;
    baselines_close(&m->baselines);
    free(m);
}

sereno_signals sereno_meter_read(sereno_meter *m, int32_t unit, int32_t batch, uint64_t wall_ns, uint64_t now_ns) {
    const sereno_signals none = {0};
    bool is_unit = unit >= 0 && unit < m->n_units, is_batch = batch >= 1 && batch <= SERENO_PREFILL_BATCH_MAX;
    if (!is_unit || !is_batch || !m->units[unit].streams || wall_ns == 0) return none;
    const sereno_work_unit *u = &m->units[unit];
    baseline *b = baselines_find(m->baselines, (baseline_key){SERENO_PLAN_VERIFY, batch, unit, m->n_units, 0});
    if (!b) return none;
    if (b->value == 0 && batch == 1 && u->expected_us > 0) baseline_begin(b, (float)u->expected_us, false);
    bool is_known = b->settled || b->guessed, was_settled = b->settled;
    float us = (float)wall_ns / 1000, slowdown = is_known ? us / b->value : 0;
    if (b->settled && slowdown > lost_core) return none;
    baseline_learn(b, us, now_ns, m->lately.n == 0 || m->lately.value < quiet);
    if (was_settled) recent_learn(&m->lately, slowdown, now_ns);
    if (!is_known) return none;
    return (sereno_signals){.slowdown = slowdown, .slowdown_slope = (float)(u->slope > 0 ? u->slope : slope_shipped)};
}
