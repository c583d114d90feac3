/*
 * PI control (no D term, since scores jitter): output = kp * e + integral of ki * e, within 0 .. 1.
 *
 * Invariant: 0 <= output <= 1 and 0 <= integral <= 1. Anti-windup: while the output is at 0 or 1 and the
 * error pushes it further, the integral stands still. So the output leaves that end as soon as the error turns.
 *
 * Source: SERENO (OSDI 2026), "PI (no D: jitter) on e = CS - CS_target"; positive means yield more.
 */
#ifndef GOVERN_PI_H
#define GOVERN_PI_H

typedef struct pi_control {
    double kp, ki; /* per unit of error; per unit of error and second */
    double integral, output;
} pi_control;

static inline double pi_step(pi_control *c, double error, double dt_s) {
    double wanted = c->kp * error + c->integral;
    if (!((wanted >= 1 && error > 0) || (wanted <= 0 && error < 0))) c->integral += c->ki * error * dt_s;
    c->integral = c->integral > 1 ? 1 : c->integral > 0 ? c->integral : 0;
    wanted = c->kp * error + c->integral;
    c->output = wanted > 1 ? 1 : wanted > 0 ? wanted : 0;
    return c->output;
}

#endif
