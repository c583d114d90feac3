/* Apart from control.c, which tests run with a governor of their own. */
#include <math.h>

#include "sereno/sensor.h"

sereno_throughput_profile sereno_throughput_profile_of(const sereno_engine *target) {
    enum { CONTEXT = 256 };
    int32_t n_ctx = target->ops->info(target)->n_ctx, context = n_ctx < CONTEXT ? n_ctx : CONTEXT;
    double plain_us = target->ops->pass_us(target, 1, context);
    double prefill_us = target->ops->pass_us(target, SERENO_PREFILL_BATCH_MAX, context) / SERENO_PREFILL_BATCH_MAX;
    return (sereno_throughput_profile){.plain_tok_s = 1e6 / plain_us, .prefill_cost = fmin(prefill_us / plain_us, 1)};
}

int sereno_control_open(sereno_control *c, sereno_engine *target, sereno_engine *draft,
                        const sereno_calibration *calibration, const sereno_governor_params *params,
                        sereno_error *err) {
    *c = (sereno_control){0};
    sereno_throughput_profile throughput = sereno_throughput_profile_of(target);
    int status = sereno_governor_open(params, &throughput, &c->governor, err);
    if (!status) status = sereno_sensor_open(target, draft, calibration, &c->sensor, err);
    if (status) sereno_control_close(c);
    return status;
}

void sereno_control_close(sereno_control *c) {
    sereno_sensor_close(&c->sensor);
    sereno_governor_close(&c->governor);
}
