#include "decode_strategies.h"

#include <stdlib.h>
#include <string.h>

#include "number.h"

int strategy_bad_value(const command_line *cl, const strategy *s, const char *key, const char *value,
                       const char *allowed) {
    return usage_error(cl, "strategy '%s': %s is '%s'; %s is needed", s->name, key, value, allowed);
}

bool parse_number(const char *text, double low, double high, double *out) {
    char *end;
    *out = number_parse(text, &end);
    return end != text && !*end && *out >= low && *out <= high;
}

bool parse_whole(const char *text, int32_t low, int32_t high, int32_t *out) {
    double number;
    bool ok = parse_number(text, low, high, &number) && number == (double)(int32_t)number;
    if (ok) *out = (int32_t)number;
    return ok;
}

static bool parse_switch(const char *text, bool *out) {
    *out = strcmp(text, "on") == 0;
    return *out || strcmp(text, "off") == 0;
}

static bool parse_orders(const char *text, sereno_ngram_options *out) {
    bool shaped = strlen(text) == 3 && text[0] >= '2' && text[1] == '-' && text[0] <= text[2] && text[2] <= '8';
    if (!shaped) return false;
    out->order_min = text[0] - '0';
    out->order_max = text[2] - '0';
    return true;
}

static int set_key(const command_line *cl, const strategy_dialect *dialect, int number, strategy *s, const char *key,
                   const char *value) {
    const struct {
        const char *key;
        bool *target;
    } switches[] = {{"fill", &s->fill},
                    {"prompt", &s->ngram.from_prompt},
                    {"rejected", &s->ngram.from_rejected},
                    {"trust", &s->ngram.trust},
                    {"evict", &s->ngram.evict},
                    {"decay", &s->ngram.decay},
                    {"longest", &s->ngram.longest_first}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        if (strcmp(key, switches[i].key) != 0) continue;
        return parse_switch(value, switches[i].target) ? 0 : strategy_bad_value(cl, s, key, value, "on or off");
    }
    if (strcmp(key, "draft") == 0) {
        s->draft.draft = value;
    } else if (strcmp(key, "draft-max") == 0) {
        if (!parse_whole(value, 0, SERENO_DRAFT_MAX, &s->draft.length)) {
            return strategy_bad_value(cl, s, key, value, "0 to 31");
        }
    } else if (strcmp(key, "batch") == 0) {
        if (!parse_whole(value, 1, SERENO_VERIFY_BATCH_MAX, &s->draft.batch)) {
            return strategy_bad_value(cl, s, key, value, "1, 2, 4, 8, 16 or 32");
        }
    } else if (strcmp(key, "abandon") == 0) {
        if (!parse_number(value, 0, 1, &s->abandon)) return strategy_bad_value(cl, s, key, value, "a probability");
    } else if (strcmp(key, "orders") == 0) {
        if (!parse_orders(value, &s->ngram)) return strategy_bad_value(cl, s, key, value, "a range within 2-8");
    } else {
        bool known = false;
        int code = dialect->key ? dialect->key(dialect->ctx, cl, number, s, key, value, &known) : 0;
        return known ? code : usage_error(cl, "strategy '%s' has no key '%s'; --help lists them", s->name, key);
    }
    return 0;
}

/* Where the word at `at` ends: at a ':' that a key follows. The words of "self:int4" and "self:layers=K" do not end. */
static char *word_end(char *at) {
    for (char *colon = strchr(at, ':'); colon; colon = strchr(colon + 1, ':')) {
        const char *next = colon + 1;
        if (strncmp(next, "layers=", 7) == 0) continue;
        size_t key = strspn(next, "abcdefghijklmnopqrstuvwxyz-_");
        if (key > 0 && next[key] == '=') return colon;
    }
    return at + strlen(at);
}

static int parse_strategy(const command_line *cl, const strategy_dialect *dialect, const char *text, size_t size,
                          int number, strategy *s) {
    sereno_speculation defaults = sereno_speculation_defaults();
    *s = (strategy){.draft = draft_defaults(), .fill = true, .ngram = defaults.ngram};
    if (dialect->draft) s->draft.draft = dialect->draft;
    if (size == 0) return usage_error(cl, "a strategy is empty");
    if (size >= sizeof s->name) return usage_error(cl, "a strategy is longer than %zu bytes", sizeof s->name - 1);
    memcpy(s->name, text, size);
    memcpy(s->text, text, size);
    char *at = s->text, *end = word_end(at);
    for (bool first = true;; first = false) {
        bool last = *end == '\0';
        *end = '\0';
        char *value = strchr(at, '=');
        int code = 0;
        if (first) {
            code = dialect->first(dialect->ctx, cl, number, s, at);
        } else {
            *value++ = '\0'; /* word_end saw it */
            code = set_key(cl, dialect, number, s, at, value);
        }
        if (code || last) return code ? code : draft_check(cl, &s->draft);
        at = end + 1;
        end = word_end(at);
    }
}

static int plain_or_spec(void *ctx, const command_line *cl, int number, strategy *s, const char *word) {
    (void)ctx;
    (void)number;
    bool plain = strcmp(word, "plain") == 0;
    if (!plain && strcmp(word, "spec") != 0) {
        return usage_error(cl, "strategy '%s': '%s' is neither plain nor spec; keys follow as :KEY=VALUE", s->name,
                           word);
    }
    s->draft.strategy = plain ? STRATEGY_PLAIN : STRATEGY_SPEC;
    return 0;
}

/* A policy governs the strategy. */
static int policy_key(void *ctx, const command_line *cl, int number, strategy *s, const char *key, const char *value,
                      bool *known) {
    (void)ctx;
    (void)number;
    *known = strcmp(key, "policy") == 0;
    for (int policy = 0; policy < SERENO_POLICIES && *known; policy++) {
        if (strcmp(value, sereno_policy_name((sereno_policy)policy)) != 0) continue;
        s->governed = true;
        s->governor = sereno_governor_defaults((sereno_policy)policy);
        return 0;
    }
    return *known ? strategy_bad_value(cl, s, key, value, "throughput, balanced or ui-first") : 0;
}

const strategy_dialect decode_dialect = {.first = plain_or_spec, .key = policy_key};

int strategies_parse(const command_line *cl, const char *text, const strategy_dialect *dialect, strategy_list *out) {
    out->n = 0;
    for (const char *at = text;; at++) {
        size_t size = strcspn(at, ",");
        if (out->n == STRATEGIES_LIST_MAX) return usage_error(cl, "more than %d strategies", STRATEGIES_LIST_MAX);
        int number = out->n++;
        int code = parse_strategy(cl, dialect, at, size, number, &out->list[number]);
        if (code) return code;
        at += size;
        if (!*at) return 0;
    }
}

int synthetic_parse(const command_line *cl, const char *text, synthetic_acceptance *out) {
    *out = (synthetic_acceptance){.ngram = 0.35f};
    const char *at = text;
    for (;;) {
        char *end;
        double rate = number_parse(at, &end);
        if (end == at || !(rate >= 0 && rate <= 1) || out->n_rates == SYNTHETIC_RATES_MAX) break;
        out->rate[out->n_rates++] = (float)rate;
        at = end;
        if (*at == ',') {
            at++;
            continue;
        }
        static const char key[] = ":ngram=";
        double ngram;
        if (*at == '\0') return 0;
        if (strncmp(at, key, strlen(key)) != 0 || !parse_number(at + strlen(key), 0, 1, &ngram)) break;
        out->ngram = (float)ngram;
        return 0;
    }
    return usage_error(cl,
                       "--synthetic-acceptance is '%s'; up to %d probabilities separated by commas are needed, and "
                       "perhaps :ngram=PROBABILITY",
                       text, SYNTHETIC_RATES_MAX);
}

/* An opened strategy before this one whose draft is the same. */
static const strategy *same_draft(const strategy_list *strategies, int number) {
    const strategy *s = &strategies->list[number];
    for (int i = 0; i < number; i++) {
        const strategy *other = &strategies->list[i];
        if (other->opened.neural.engine && strcmp(other->draft.draft, s->draft.draft) == 0) return other;
    }
    return NULL;
}

int strategy_open(strategy_list *strategies, int number, const char *timing_folder, sereno_engine *target,
                  const sereno_model *model, bool (*progress)(void *ctx, uint64_t done, uint64_t total),
                  void *progress_ctx, sereno_error *err) {
    strategy *s = &strategies->list[number];
    const strategy *same = same_draft(strategies, number);
    draft_options options = s->draft;
    if (same) options.draft = "ngram"; /* opens nothing */
    int status = draft_open_for(&options, timing_folder, target, model, progress, progress_ctx, &s->opened, err);
    if (same && !s->opened.plain) s->opened.speculation.draft = same->opened.neural.engine;
    s->opened.speculation.ngrams = s->fill;
    s->opened.speculation.ngram = s->ngram;
    return status;
}

static void only_watch(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                       const sereno_decision *decision) {
    (void)ctx;
    (void)event;
    (void)boundary;
    (void)decision;
}

sereno_session_options strategy_session(const strategy *s, sereno_session *engine_of) {
    sereno_session_options o = sereno_session_defaults();
    o.on_caller = true;
    o.engine_of = engine_of;
    draft_apply(&s->draft, &o);
    o.speculation.ngrams = s->fill;
    o.speculation.ngram = s->ngram;
    o.governor = s->governed ? s->governor : sereno_governor_defaults(SERENO_POLICY_THROUGHPUT);
    if (s->governed) o.on_decision = only_watch; /* else policy throughput had no governor at all */
    o.frame_hints = false;
    o.cache_folder = "";
    return o;
}
