/* Apart from control.c, which tests run with a governor of their own. */
#include "sereno/sensor.h"

int sereno_control_open(sereno_control *c, sereno_engine *target, sereno_engine *draft,
                        const sereno_calibration *calibration, const sereno_governor_params *params,
                        sereno_error *err) {
    *c = (sereno_control){0};
    sereno_governor_limits limits = sereno_governor_limits_of(target);
    int status = sereno_governor_open(params, &limits, &c->governor, err);
    if (!status) status = sereno_sensor_open(target, draft, calibration, &c->sensor, err);
    if (status) sereno_control_close(c);
    return status;
}

void sereno_control_close(sereno_control *c) {
    sereno_sensor_close(&c->sensor);
    sereno_governor_close(&c->governor);
}
