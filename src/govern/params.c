/* Settings of the governor: one table for parsing, checking, help and documentation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "number.h"
#include "sereno/governor.h"

#define ROW(at, name, unit, low, high, balanced, ui, about, whole, trial)                                              \
    { #name, unit, about, low, high, {balanced, balanced, ui }, whole, trial, offsetof(sereno_governor_params, at) }
#define KEY(name, unit, low, high, balanced, ui_first, about)                                                          \
    ROW(name, name, unit, low, high, balanced, ui_first, about, false, false)
#define WHOLE(name, unit, low, high, balanced, ui_first, about)                                                        \
    ROW(name, name, unit, low, high, balanced, ui_first, about, true, false)
/* Those of sereno_governor_params.experimental. */
#define TRIAL(name, unit, low, high, balanced, ui_first, about)                                                        \
    ROW(experimental.name, name, unit, low, high, balanced, ui_first, about, false, true)
#define WHOLE_TRIAL(name, unit, low, high, balanced, ui_first, about)                                                  \
    ROW(experimental.name, name, unit, low, high, balanced, ui_first, about, true, true)

static const sereno_governor_key keys[] = {
    TRIAL(fast_us, "us", 50, 100000, 800, 800, "time constant of the fast score, by which bursts are sensed"),
    TRIAL(slow_ms, "ms", 1, 10000, 30, 30, "time constant of the slow score, which PI control follows"),
    TRIAL(drift_s, "s", 0.1, 3600, 2, 2, "how slowly baselines follow the machine's own speed while nothing contends"),
    TRIAL(burst_on, "", 0, 2, 0.65, 0.6, "fast score above which a burst begins"),
    TRIAL(burst_off, "", -1, 2, 0.4, 0.35, "fast score below which a burst ends"),
    WHOLE_TRIAL(burst_up, "samples", 1, 1000, 3, 2, "in a row above burst_on that begin a burst"),
    WHOLE_TRIAL(burst_down, "samples", 1, 1000, 3, 3, "in a row below burst_off that end a burst"),
    KEY(preempt, "", 0, 1, 0.5, 0.5,
        "a burst abandons drafts while PI output is below this; 1: always. Contention that "
        "lasts comes in frames, between which a draft that is held goes on"),
    KEY(hold_after_us, "us", 0, 1000000, 4000, 0, "a burst that has lasted this long also holds everything else"),
    KEY(hold_max_us, "us", 0, 1000000, 4500, 12000, "longest hold; 0: no holds"),
    TRIAL(hold_rest_us, "us", 0, 1000000, 2500, 1500, "least time from a hold that was cut off to the next"),
    KEY(frame_guard_us, "us", 0, 1000000, 4000, 1000000, "with frame hints: hold from this long before a deadline on"),
    KEY(target, "", 0, 1, 0.15, 0.1, "slow score that PI control aims at; above it the run yields more"),
    TRIAL(kp, "", 0, 100, 0.5, 1, "proportional gain: output (0 to 1) per score"),
    TRIAL(ki, "1/s", 0, 1000, 3, 6, "integral gain"),
    WHOLE(batch_max, "tokens", 1, SERENO_VERIFY_BATCH_MAX, 4, 8,
          "limit of the smallest batch, which PI control raises; rounded down to 1, 4, 8, 16 or 32"),
    WHOLE_TRIAL(batch_up, "ticks", 1, 1000, 4, 2,
                "of 5 ms in a row above a step's threshold that raise the smallest batch"),
    WHOLE_TRIAL(batch_down, "ticks", 1, 1000, 40, 60, "of 5 ms in a row below it that lower the smallest batch"),
    TRIAL(batch_dwell_ms, "ms", 0, 60000, 500, 500, "least time between two changes of the smallest batch"),
    TRIAL(sleep_from, "", 0, 1, 0.7, 0.5, "PI output above which it sleeps between subgraphs"),
    KEY(sleep_ratio, "", 0, 20, 0, 0.25, "most sleep per running time that PI control asks for; 0: none"),
    KEY(sleep_us, "us", 100, SERENO_SLEEP_US_MAX, 1000, 1000, "length of a sleep; shorter ones are saved up"),
    TRIAL(cpu_delay, "", 0, 1, 0.1, 0.1, "share of time waited for cores, from which on a flat score means CPU-bound"),
    KEY(yield_ratio, "", 0, 20, 0.25, 1, "sleep per running time, where the foreground wants cores rather than memory"),
    KEY(min_tok_s, "tok/s", 0, 1000000, 1, 1, "guaranteed speed: this or min_share, whichever is more"),
    KEY(min_share, "", 0, 1, 0.25, 0.1, "guaranteed speed as a share of plain decoding's"),
    TRIAL(credit_s, "s", 0.1, 5, 0.8, 0.8, "most of the guarantee that work done earlier counts for"),
    TRIAL(relaxed_target, "", 0, 1, 0.5, 0.4, "target while credit is low"),
    WHOLE(prefill_batch, "tokens", 1, SERENO_PREFILL_BATCH_MAX, 128, 128, "tokens of a prefill pass at most"),
    WHOLE_TRIAL(force, "", 0, 5, 0, 0, "1 to 5 force open, preempt, batch, sleep, hold; 0: none"),
    {0},
};

const sereno_governor_key *sereno_governor_keys(void) {
    return keys;
}

static double *value_of(sereno_governor_params *params, const sereno_governor_key *key) {
    return (double *)(void *)((char *)params + key->offset);
}

sereno_governor_params sereno_governor_defaults(sereno_policy policy) {
    sereno_governor_params params = {.policy = policy}; /* sereno_governor_check refuses an unknown one */
    if (policy < 0 || policy >= SERENO_POLICIES) policy = SERENO_POLICY_BALANCED;
    for (const sereno_governor_key *k = keys; k->name; k++) {
        *value_of(&params, k) = k->defaults[policy];
    }
    return params;
}

static int check_value(const sereno_governor_key *k, double value, const char *text, sereno_error *err) {
    bool fits = value >= k->low && value <= k->high; /* false for NaN */
    if (fits && k->whole && value != floor(value)) {
        return err_set(err, SERENO_ERR_INVALID, "governor setting %s is %s; a whole number is needed", k->name, text);
    }
    if (fits) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "governor setting %s is %s; %g to %g%s%s is allowed", k->name, text, k->low,
                   k->high, *k->unit ? " " : "", k->unit);
}

int sereno_governor_set(sereno_governor_params *params, const char *name, const char *value, sereno_error *err) {
    for (const sereno_governor_key *k = keys; k->name; k++) {
        if (strcmp(k->name, name) != 0) continue;
        char *end;
        double number = number_parse(value, &end);
        if (end == value || *end != '\0') number = NAN;
        int status = check_value(k, number, value, err);
        if (!status) *value_of(params, k) = number;
        return status;
    }
    char list[1024] = "";
    for (const sereno_governor_key *k = keys; k->name; k++) {
        err_list(list, sizeof list, k->name);
    }
    return err_set(err, SERENO_ERR_INVALID, "there is no governor setting '%s'; there are %s", name, list);
}

int sereno_governor_check(const sereno_governor_params *params, sereno_error *err) {
    if (params->policy < 0 || params->policy >= SERENO_POLICIES) {
        return err_set(err, SERENO_ERR_INVALID, "there is no governor policy %d", (int)params->policy);
    }
    sereno_governor_params copy = *params;
    for (const sereno_governor_key *k = keys; k->name; k++) {
        char text[32];
        double value = *value_of(&copy, k);
        number_format(text, sizeof text, "%g", value);
        int status = check_value(k, value, text, err);
        if (status) return status;
    }
    const sereno_governor_experiments *x = &params->experimental;
    if (!(x->burst_off <= x->burst_on)) {
        return err_set(err, SERENO_ERR_INVALID, "governor setting burst_off is %g; at most burst_on, %g, is allowed",
                       x->burst_off, x->burst_on);
    }
    return SERENO_OK;
}

const char *sereno_plan_name(sereno_plan_kind plan) {
    static const char *const names[] = {"draft", "verify", "prefill"};
    return plan >= 0 && plan <= SERENO_PLAN_PREFILL ? names[plan] : "?";
}

const char *sereno_policy_name(sereno_policy policy) {
    static const char *const names[] = {"throughput", "balanced", "ui-first"};
    return policy >= 0 && policy < SERENO_POLICIES ? names[policy] : "?";
}

const char *sereno_mode_name(sereno_mode mode) {
    static const char *const names[SERENO_MODES] = {
        [SERENO_MODE_OPEN] = "open",       [SERENO_MODE_PREEMPT] = "preempt",
        [SERENO_MODE_BATCH] = "batch",     [SERENO_MODE_SLEEP] = "sleep",
        [SERENO_MODE_HOLD] = "hold",       [SERENO_MODE_YIELD] = "yield",
        [SERENO_MODE_RELAXED] = "relaxed", [SERENO_MODE_UNGOVERNED] = "ungoverned",
        [SERENO_MODE_PAUSED] = "paused",
    };
    return mode >= 0 && mode < SERENO_MODES ? names[mode] : "?";
}

const char *sereno_event_name(sereno_event_kind kind) {
    static const char *const names[SERENO_EVENT_KINDS] = {
        [SERENO_EVENT_SUBGRAPH] = "subgraph",
        [SERENO_EVENT_DRAFT_TOKEN] = "draft-token",
        [SERENO_EVENT_PASS] = "pass",
        [SERENO_EVENT_TOKENS] = "tokens",
        [SERENO_EVENT_PREFILL] = "prefill",
        [SERENO_EVENT_BEGIN] = "begin",
        [SERENO_EVENT_END] = "end",
        [SERENO_EVENT_PAUSE] = "pause",
        [SERENO_EVENT_RESUME] = "resume",
        [SERENO_EVENT_FRAME_BEGIN] = "frame-begin",
        [SERENO_EVENT_FRAME_END] = "frame-end",
        [SERENO_EVENT_TICK] = "tick",
    };
    return kind >= 0 && kind < SERENO_EVENT_KINDS ? names[kind] : "?";
}
