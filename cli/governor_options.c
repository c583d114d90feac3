#include "governor_options.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "calibration_store.h"
#include "errors.h"
#include "folder.h"
#include "ini.h"
#include "number.h"
#include "output_file.h"

const char *const policy_names[] = {"throughput", "balanced", "ui-first", NULL};

governor_options governor_defaults(void) {
    return (governor_options){.policy = SERENO_POLICY_BALANCED};
}

/* ---- Help ---- */

bool governor_help(const governor_options *o) {
    bool wanted = false;
    for (int i = 0; i < o->settings.n; i++) {
        wanted |= strcmp(o->settings.items[i], "help") == 0;
    }
    if (!wanted) return false;
    puts("Settings of the governor, given as --gov KEY=VALUE, or as KEY = VALUE under [governor] in a\n"
         "configuration file. Policy throughput does not govern.\n");
    for (const sereno_governor_key *k = sereno_governor_keys(); k->name; k++) {
        char text[512];
        number_format(text, sizeof text, "%s%s%.10g to %.10g; balanced %.10g, ui-first %.10g: %s", k->unit,
                      *k->unit ? ", " : "", k->low, k->high, k->defaults[SERENO_POLICY_BALANCED],
                      k->defaults[SERENO_POLICY_UI_FIRST], k->about);
        options_explain(k->name, NULL, text);
    }
    return true;
}

/* ---- Checking ---- */

static double *value_of(sereno_governor_params *params, const sereno_governor_key *key) {
    return (double *)(void *)((char *)params + key->offset);
}

/* Settings that were given, before it is known to which policy. */
typedef struct given_settings {
    sereno_governor_params params; /* those of `set` count */
    bool set[GOVERNOR_KEYS_MAX];
} given_settings;

static int give(given_settings *g, const char *key, const char *value, sereno_error *err) {
    int status = sereno_governor_set(&g->params, key, value, err);
    const sereno_governor_key *keys = sereno_governor_keys();
    for (int i = 0; !status && keys[i].name; i++) {
        assert(i < GOVERNOR_KEYS_MAX);
        if (strcmp(keys[i].name, key) == 0) g->set[i] = true;
    }
    return status;
}

/* ---- Configuration ---- */

typedef struct configuration {
    given_settings settings;
    int32_t policy; /* -1: not given */
    int policy_line, line_of[GOVERNOR_KEYS_MAX];
} configuration;

static int on_section(void *ctx, const char *name, sereno_error *err) {
    (void)ctx;
    if (strcmp(name, "governor") == 0) return SERENO_OK;
    return err_set(err, SERENO_ERR_FORMAT, "there is no section [%s]; there is governor", name);
}

static int set_policy(configuration *c, const char *value, sereno_error *err) {
    char known[128] = "";
    for (int32_t i = 0; policy_names[i]; i++) {
        if (strcmp(policy_names[i], value) == 0) {
            c->policy = i;
            return SERENO_OK;
        }
        err_list(known, sizeof known, policy_names[i]);
    }
    return err_set(err, SERENO_ERR_FORMAT, "policy is '%s'; it can be %s", value, known);
}

static int on_key(void *ctx, const char *section, const char *key, const char *value, int line, sereno_error *err) {
    (void)section;
    configuration *c = ctx;
    assert(c);
    bool is_policy = strcmp(key, "policy") == 0;
    int *line_of = is_policy ? &c->policy_line : NULL;
    const sereno_governor_key *keys = sereno_governor_keys();
    for (int i = 0; !line_of && keys[i].name; i++) {
        if (strcmp(keys[i].name, key) == 0) line_of = &c->line_of[i];
    }
    if (line_of && *line_of) {
        return err_set(err, SERENO_ERR_FORMAT, "'%s' was given in line %d already", key, *line_of);
    }
    if (line_of) *line_of = line;
    return is_policy ? set_policy(c, value, err) : give(&c->settings, key, value, err);
}

/* The file asked for, or the one at the default place if there is one. */
static int read_configuration(const char *given, configuration *c, sereno_error *err) {
    char place[4096];
    const char *path = given;
    if (!path && folder_config("sereno.ini", place, sizeof place) && path_exists(place)) path = place;
    if (!path) return SERENO_OK;
    sereno_text text = {0};
    int status = read_text(path, &text, err);
    if (!status) {
        sereno_error inner = {0};
        status = ini_parse(text.data, text.size, &(ini_reader){on_section, on_key, c}, &inner);
        if (status) status = err_set(err, SERENO_ERR_FORMAT, "configuration '%s', %s", path, inner.message);
    }
    sereno_text_free(&text);
    return status;
}

/* ---- Both together ---- */

static void apply(governor_options *o, const given_settings *from) {
    const sereno_governor_key *keys = sereno_governor_keys();
    sereno_governor_params params = from->params;
    for (int i = 0; keys[i].name; i++) {
        if (!from->set[i]) continue;
        *value_of(&o->params, &keys[i]) = *value_of(&params, &keys[i]);
        o->set[i] = true;
    }
}

int governor_check(const command_line *cl, const diagnostics *diag, governor_options *o) {
    sereno_error err = {0};
    given_settings here = {.params = sereno_governor_defaults(SERENO_POLICY_BALANCED)};
    configuration file = {.settings = here, .policy = -1};
    for (int i = 0; i < o->settings.n; i++) {
        const char *item = o->settings.items[i], *equals = strchr(item, '=');
        char key[64];
        if (!equals || equals == item || (size_t)(equals - item) >= sizeof key) {
            return usage_error(cl, "--gov is '%s'; KEY=VALUE is needed, and --gov help lists the keys", item);
        }
        snprintf(key, sizeof key, "%.*s", (int)(equals - item), item);
        if (give(&here, key, equals + 1, &err) != 0) return usage_error(cl, "--gov %s: %s", item, err.message);
    }
    if (o->trace && o->decisions && strcmp(o->trace, o->decisions) == 0) {
        return usage_error(cl, "--trace and --decisions are both '%s'; each needs a file of its own", o->trace);
    }
    if (read_configuration(o->config, &file, &err) != 0) return fail(diag, &err);
    if (!o->policy_given && file.policy >= 0) o->policy = file.policy;
    o->params = sereno_governor_defaults((sereno_policy)o->policy);
    apply(o, &file.settings);
    apply(o, &here);
    if (sereno_governor_check(&o->params, &err) != 0) return usage_error(cl, "%s", err.message);
    return 0;
}

/* ---- Opening ---- */

int governor_open_logs(const governor_options *o, opened_governor *out, sereno_error *err) {
    *out = (opened_governor){0};
    int status = o->trace ? trace_open(&out->trace, o->trace, err) : SERENO_OK;
    if (!status && o->decisions) status = decisions_open(&out->decisions, o->decisions, err);
    return status;
}

static void on_decision(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *decision) {
    opened_governor *g = ctx;
    trace_add(&g->trace, event, boundary, decision);
    decisions_add(&g->decisions, event, decision);
}

int governor_open_for(const governor_options *o, sereno_engine *target, sereno_engine *draft, opened_governor *out,
                      sereno_error *err) {
    bool logs = out->trace.file.to || out->decisions.file.to;
    if (o->policy == SERENO_POLICY_THROUGHPUT && !logs) return SERENO_OK;
    out->calibration = calibration_store_find(NULL, target, draft, &out->not_calibrated);
    int status = sereno_control_open(&out->control, target, draft, out->calibration, &o->params, err);
    /* A foreground that cooperates may come at any time; a system that lets none is no error. */
    if (!status && sereno_frame_hint_watch(NULL, &out->hint, &out->not_hinted) == SERENO_OK) {
        out->control.hint = out->hint;
    }
    if (logs) {
        out->control.on_decision = on_decision;
        out->control.ctx = out;
    }
    return status;
}

sereno_governing governor_governing(opened_governor *g) {
    return g->control.governor ? sereno_control_governing(&g->control) : (sereno_governing){0};
}

int governor_close_opened(opened_governor *g, sereno_error *err) {
    sereno_control_close(&g->control);
    sereno_calibration_close(&g->calibration);
    sereno_frame_hint_close(&g->hint);
    g->control.hint = NULL;
    int traced = trace_close(&g->trace, err), decided = decisions_close(&g->decisions, traced ? NULL : err);
    return traced ? traced : decided;
}

/* ---- Reporting ---- */

static json_t *json_shares(const sereno_governor_stats *s) {
    json_t *shares = json_object();
    double whole = 0;
    for (int i = 0; i < SERENO_MODES; i++) {
        whole += (double)s->mode_ns[i];
    }
    for (int i = 0; i < SERENO_MODES; i++) {
        json_object_set_new(shares, sereno_mode_name((sereno_mode)i),
                            json_real(share_of((double)s->mode_ns[i], whole)));
    }
    return shares;
}

static json_t *json_batches(const sereno_governor_stats *s) {
    json_t *passes = json_object();
    for (int i = 0; i < SERENO_BATCHES; i++) {
        char batch[16];
        snprintf(batch, sizeof batch, "%d", 1 << i);
        json_object_set_new(passes, batch, json_integer((json_int_t)s->passes_of[i]));
    }
    return passes;
}

static json_t *json_signals(const sereno_sensor *sensor) {
    sereno_sensor_stats s;
    sereno_sensor_stats_read(sensor, &s);
    return json_pack("{s:I, s:I, s:I, s:I}", "stretches", (json_int_t)s.stretches, "probes", (json_int_t)s.probes,
                     "dropped_faults", (json_int_t)s.dropped_faults, "dropped_delays", (json_int_t)s.dropped_delays);
}

/* Null where there was no burst to react to. */
static json_t *json_reaction(const sereno_governor_stats *s, double us) {
    return s->reactions > 0 ? json_real(us) : json_null();
}

json_t *json_governor(const governor_options *o, const opened_governor *g) {
    if (!g->control.governor) return json_null();
    sereno_governor_stats s;
    sereno_governor_read(g->control.governor, &s);
    json_t *score = json_pack("{s:f, s:f, s:f}", "p50", s.score_p50, "p95", s.score_p95, "p99", s.score_p99);
    json_t *reaction = json_pack("{s:o, s:o, s:o, s:I}", "p50", json_reaction(&s, s.reaction_us_p50), "p95",
                                 json_reaction(&s, s.reaction_us_p95), "p99", json_reaction(&s, s.reaction_us_p99), "n",
                                 (json_int_t)s.reactions);
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:f, s:f, s:o, s:b, s:o, s:b, s:s?}", "policy",
                     policy_names[o->policy], "mode_share", json_shares(&s), "preemptions", (json_int_t)s.preemptions,
                     "sleeps", (json_int_t)s.sleeps, "holds", (json_int_t)s.holds, "sleep_ms", (double)s.sleep_ns / 1e6,
                     "hold_ms", (double)s.hold_ns / 1e6, "batch_histogram", json_batches(&s), "score", score,
                     "bucket_level", s.bucket_tokens, "guarantee_tok_s", s.guarantee_tok_s, "reaction_us", reaction,
                     "calibrated", g->calibration != NULL, "signals", json_signals(g->control.sensor), "frame_hints",
                     g->hint != NULL, "frame_hints_note", g->hint ? NULL : g->not_hinted.message);
}

json_t *json_governor_settings(const governor_options *o) {
    json_t *settings = json_object();
    const sereno_governor_key *keys = sereno_governor_keys();
    sereno_governor_params params = o->params;
    for (int i = 0; keys[i].name; i++) {
        if (o->set[i]) json_object_set_new(settings, keys[i].name, json_real(*value_of(&params, &keys[i])));
    }
    return settings;
}

void governor_note(const diagnostics *diag, const governor_options *o, const opened_governor *g) {
    if (!g->control.governor) return;
    sereno_governor_stats s;
    sereno_governor_read(g->control.governor, &s);
    int most = 0;
    double whole = 0;
    for (int i = 0; i < SERENO_MODES; i++) {
        whole += (double)s.mode_ns[i];
        if (s.mode_ns[i] > s.mode_ns[most]) most = i;
    }
    note(diag,
         "governor (%s%s): %s for %.0f %% of the time; %llu drafts abandoned, %llu sleeps (%.0f ms), %llu holds (%.0f "
         "ms); score p50 %.2f, p95 %.2f",
         policy_names[o->policy], g->calibration ? "" : ", not calibrated: see 'sereno calibrate'",
         sereno_mode_name((sereno_mode)most), 100 * share_of((double)s.mode_ns[most], whole),
         (unsigned long long)s.preemptions, (unsigned long long)s.sleeps, (double)s.sleep_ns / 1e6,
         (unsigned long long)s.holds, (double)s.hold_ns / 1e6, s.score_p50, s.score_p95);
    if (!g->hint) note(diag, "no frame hints: %s", g->not_hinted.message);
}
