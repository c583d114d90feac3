#include "governor_options.h"

#include <string.h>

#include "number.h"

const char *const policy_names[] = {"throughput", "balanced", "ui-first", NULL};

governor_options governor_defaults(void) {
    return (governor_options){.policy = SERENO_POLICY_BALANCED};
}

/* ---- Help ---- */

static void explain_settings(bool experimental) {
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++) {
        if (k->experimental != experimental) continue;
        char text[512];
        number_format(text, sizeof text, "%s%s%.10g to %.10g; balanced %.10g, ui-first %.10g: %s", k->unit,
                      *k->unit ? ", " : "", k->low, k->high, k->defaults[SERENO_POLICY_BALANCED],
                      k->defaults[SERENO_POLICY_UI_FIRST], k->about);
        options_explain(k->name, NULL, text);
    }
}

bool governor_help(const governor_options *o) {
    bool wanted = false;
    for (int i = 0; i < o->settings.n; i++) {
        wanted |= strcmp(o->settings.items[i], "help") == 0;
    }
    if (!wanted) return false;
    puts("Settings of the governor, given as --gov KEY=VALUE, or as KEY = VALUE under [governor] in a\n"
         "configuration file. Policy throughput does not govern.\n");
    explain_settings(false);
    puts("\nExperimental settings, which may change or go in any version; leave them as the policy sets them.\n");
    explain_settings(true);
    return true;
}

/* ---- Checking ---- */

int governor_check(const command_line *cl, const diagnostics *diag, governor_options *o) {
    sereno_error err = {0};
    sereno_configuration *c = &o->configuration;
    *c = sereno_configuration_defaults();
    c->policy = (sereno_policy)o->policy;
    c->policy_given = o->policy_given;
    for (int i = 0; i < o->settings.n; i++) {
        const char *item = o->settings.items[i];
        if (sereno_configuration_set(c, item, &err) != 0) {
            return usage_error(cl, "--gov %s: %s; --gov help lists the keys", item, err.message);
        }
    }
    if (o->trace && o->decisions && strcmp(o->trace, o->decisions) == 0) {
        return usage_error(cl, "--trace and --decisions are both '%s'; each needs a file of its own", o->trace);
    }
    if (sereno_configuration_read(c, o->config, &err) != 0) return fail(diag, &err);
    if (sereno_configuration_params(c, &o->params, &err) != 0) return usage_error(cl, "%s", err.message);
    o->policy = (int32_t)c->policy;
    return 0;
}

/* ---- Reporting ---- */

static json_t *json_batches(const sereno_governor_stats *s) {
    json_t *passes = json_object();
    for (int i = 0; i < SERENO_BATCHES; i++) {
        char batch[16];
        snprintf(batch, sizeof batch, "%d", 1 << i);
        json_object_set_new(passes, batch, json_integer((json_int_t)s->passes_of[i]));
    }
    return passes;
}

static json_t *json_signals(const sereno_sensor_stats *s) {
    return json_pack("{s:I, s:I, s:I, s:I}", "slowdowns", (json_int_t)s->slowdowns, "probes", (json_int_t)s->probes,
                     "dropped_faults", (json_int_t)s->dropped_faults, "dropped_delays", (json_int_t)s->dropped_delays);
}

json_t *json_governor(const governor_options *o, const sereno_session *session) {
    const sereno_session_info *info = sereno_session_describe(session);
    if (!info->governed) return json_null();
    sereno_session_stats stats;
    sereno_session_read(session, &stats);
    const sereno_governor_stats s = stats.governor;
    json_t *score = json_quantiles((sereno_quantiles){s.score_p50, s.score_p95, s.score_p99}, true);
    json_t *reaction = json_quantiles((sereno_quantiles){s.reaction_us_p50, s.reaction_us_p95, s.reaction_us_p99},
                                      s.reactions > 0); /* without a burst there is nothing to react to */
    json_object_set_new(reaction, "n", json_integer((json_int_t)s.reactions));
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:f, s:f, s:o, s:b, s:o, s:b, s:s?}", "policy",
                     policy_names[o->policy], "mode_share", json_mode_share(s.mode_ns), "preemptions",
                     (json_int_t)s.preemptions, "sleeps", (json_int_t)s.sleeps, "holds", (json_int_t)s.holds,
                     "sleep_ms", (double)s.sleep_ns / 1e6, "hold_ms", (double)s.hold_ns / 1e6, "batch_histogram",
                     json_batches(&s), "score", score, "bucket_level", s.bucket_tokens, "guarantee_tok_s",
                     s.guarantee_tok_s, "reaction_us", reaction, "calibrated", info->calibration != NULL, "signals",
                     json_signals(&stats.sensor), "frame_hints", info->hinted, "frame_hints_note",
                     info->hinted ? NULL : info->not_hinted.message);
}

json_t *json_governor_settings(const governor_options *o) {
    json_t *settings = json_object();
    const sereno_governor_key *keys = sereno_governor_keys();
    for (int i = 0; keys[i].name; i++) {
        double value;
        memcpy(&value, (const char *)&o->params + keys[i].offset, sizeof value);
        if (o->configuration.set[i]) json_object_set_new(settings, keys[i].name, json_real(value));
    }
    return settings;
}

void governor_note(const diagnostics *diag, const governor_options *o, const sereno_session *session) {
    const sereno_session_info *info = sereno_session_describe(session);
    if (!info->governed) return;
    sereno_session_stats stats;
    sereno_session_read(session, &stats);
    const sereno_governor_stats s = stats.governor;
    int most = 0;
    double whole = 0;
    for (int i = 0; i < SERENO_MODES; i++) {
        whole += (double)s.mode_ns[i];
        if (s.mode_ns[i] > s.mode_ns[most]) most = i;
    }
    note(diag,
         "governor (%s%s): %s for %.0f %% of the time; %llu drafts abandoned, %llu sleeps (%.0f ms), %llu holds (%.0f "
         "ms); score p50 %.2f, p95 %.2f",
         policy_names[o->policy], info->calibration ? "" : ", not calibrated: see 'sereno calibrate'",
         sereno_mode_name((sereno_mode)most), 100 * share_of((double)s.mode_ns[most], whole),
         (unsigned long long)s.preemptions, (unsigned long long)s.sleeps, (double)s.sleep_ns / 1e6,
         (unsigned long long)s.holds, (double)s.hold_ns / 1e6, s.score_p50, s.score_p95);
    if (!info->hinted) note(diag, "no frame hints: %s", info->not_hinted.message);
}
