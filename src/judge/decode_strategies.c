#include "decode_strategies.h"

#include <stdlib.h>
#include <string.h>

#include "draft_model.h"
#include "errors.h"
#include "number.h"

int strategy_bad_value(const strategy *s, const char *key, const char *value, const char *allowed, sereno_error *err) {
    return err_set(err, SERENO_ERR_INVALID, "strategy '%s': %s is '%s'; %s is needed", s->name, key, value, allowed);
}

int strategy_check(const char *draft, int32_t batch, sereno_error *err) {
    if (batch & (batch - 1)) {
        return err_set(err, SERENO_ERR_INVALID, "--batch is %d; 1, 2, 4, 8, 16 and 32 are there", batch);
    }
    sereno_error wrong;
    int status = draft_model_check(draft, &wrong);
    if (!status) return SERENO_OK;
    bool is_number = draft[0] >= '0' && draft[0] <= '9';
    return err_set(err, status, "--%s%s", wrong.message, is_number ? ". How many tokens is said by --draft-max" : "");
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

/* Keys that are fixed numbers of tokens. */
static int set_length(strategy *s, const char *value, sereno_error *err) {
    sereno_bounds *b = &s->speculation.bounds;
    if (!parse_whole(value, 0, SERENO_DRAFT_MAX, &b->draft_min)) {
        return strategy_bad_value(s, "draft-max", value, "0 to 31", err);
    }
    b->draft_max = b->draft_min;
    return SERENO_OK;
}

static int set_batch(strategy *s, const char *value, sereno_error *err) {
    sereno_bounds *b = &s->speculation.bounds;
    if (!parse_whole(value, 1, SERENO_VERIFY_BATCH_MAX, &b->batch_min)) {
        return strategy_bad_value(s, "batch", value, "1, 2, 4, 8, 16 or 32", err);
    }
    b->batch_max = b->batch_min;
    return SERENO_OK;
}

static int set_key(const strategy_dialect *dialect, int number, strategy *s, const char *key, const char *value,
                   sereno_error *err) {
    sereno_ngram_options *ngram = &s->speculation.ngram;
    const struct {
        const char *key;
        bool *target;
    } switches[] = {
        {"fill", &s->speculation.ngrams},  {"prompt", &ngram->from_prompt}, {"rejected", &ngram->from_rejected},
        {"trust", &ngram->trust},          {"evict", &ngram->evict},        {"decay", &ngram->decay},
        {"longest", &ngram->longest_first}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        if (strcmp(key, switches[i].key) != 0) continue;
        return parse_switch(value, switches[i].target) ? 0 : strategy_bad_value(s, key, value, "on or off", err);
    }
    if (strcmp(key, "draft-max") == 0) return set_length(s, value, err);
    if (strcmp(key, "batch") == 0) return set_batch(s, value, err);
    if (strcmp(key, "draft") == 0) {
        s->draft = value;
    } else if (strcmp(key, "abandon") == 0) {
        if (!parse_number(value, 0, 1, &s->abandon)) return strategy_bad_value(s, key, value, "a probability", err);
    } else if (strcmp(key, "orders") == 0) {
        if (!parse_orders(value, ngram)) return strategy_bad_value(s, key, value, "a range within 2-8", err);
    } else {
        bool known = false;
        int status = dialect->key ? dialect->key(dialect->ctx, number, s, key, value, &known, err) : SERENO_OK;
        if (known) return status;
        return err_set(err, SERENO_ERR_INVALID, "strategy '%s' has no key '%s'; --help lists them", s->name, key);
    }
    return SERENO_OK;
}

/* The end of the word at `at`: a ':' before a key. The colons of "self:int4" and "self:layers=K" do not end a word. */
static char *word_end(char *at) {
    for (char *colon = strchr(at, ':'); colon; colon = strchr(colon + 1, ':')) {
        const char *next = colon + 1;
        if (strncmp(next, "layers=", 7) == 0) continue;
        size_t key = strspn(next, "abcdefghijklmnopqrstuvwxyz-_");
        if (key > 0 && next[key] == '=') return colon;
    }
    return at + strlen(at);
}

static int parse_strategy(const strategy_dialect *dialect, const char *text, size_t size, int number, strategy *s,
                          sereno_error *err) {
    *s = (strategy){.draft = dialect->draft ? dialect->draft : "ngram", .speculation = sereno_speculation_defaults()};
    if (size == 0) return err_set(err, SERENO_ERR_INVALID, "a strategy is empty");
    if (size >= sizeof s->name) {
        return err_set(err, SERENO_ERR_INVALID, "a strategy is longer than %zu bytes", sizeof s->name - 1);
    }
    memcpy(s->name, text, size);
    memcpy(s->text, text, size);
    char *at = s->text, *end = word_end(at);
    for (bool first = true;; first = false) {
        bool last = *end == '\0';
        *end = '\0';
        char *value = strchr(at, '=');
        int status;
        if (first) {
            status = dialect->first(dialect->ctx, number, s, at, err);
        } else {
            *value++ = '\0'; /* word_end saw it */
            status = set_key(dialect, number, s, at, value, err);
        }
        if (status || last) return status ? status : strategy_check(s->draft, s->speculation.bounds.batch_min, err);
        at = end + 1;
        end = word_end(at);
    }
}

static int plain_or_spec(void *ctx, int number, strategy *s, const char *word, sereno_error *err) {
    (void)ctx;
    (void)number;
    s->plain = strcmp(word, "plain") == 0;
    if (s->plain || strcmp(word, "spec") == 0) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "strategy '%s': '%s' is neither plain nor spec; keys follow as :KEY=VALUE",
                   s->name, word);
}

/* A strategy with a policy is governed. */
static int policy_key(void *ctx, int number, strategy *s, const char *key, const char *value, bool *known,
                      sereno_error *err) {
    (void)ctx;
    (void)number;
    *known = strcmp(key, "policy") == 0;
    for (int policy = 0; policy < SERENO_POLICIES && *known; policy++) {
        if (strcmp(value, sereno_policy_name((sereno_policy)policy)) != 0) continue;
        s->governed = true;
        s->governor = sereno_governor_defaults((sereno_policy)policy);
        return 0;
    }
    return *known ? strategy_bad_value(s, key, value, "throughput, balanced or ui-first", err) : 0;
}

const strategy_dialect decode_dialect = {.first = plain_or_spec, .key = policy_key};

int strategies_parse(const char *text, const strategy_dialect *dialect, strategy_list *out, sereno_error *err) {
    out->n = 0;
    for (const char *at = text;; at++) {
        size_t size = strcspn(at, ",");
        if (out->n == STRATEGIES_LIST_MAX) {
            return err_set(err, SERENO_ERR_INVALID, "more than %d strategies", STRATEGIES_LIST_MAX);
        }
        int number = out->n++, status = parse_strategy(dialect, at, size, number, &out->list[number], err);
        if (status) return status;
        at += size;
        if (!*at) return 0;
    }
}

int synthetic_parse(const char *text, synthetic_acceptance *out, sereno_error *err) {
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
    return err_set(err, SERENO_ERR_INVALID,
                   "--synthetic-acceptance is '%s'; up to %d probabilities separated by commas are needed, and "
                   "perhaps :ngram=PROBABILITY",
                   text, SYNTHETIC_RATES_MAX);
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
    o.draft = s->plain ? "none" : s->draft;
    o.speculation = s->speculation;
    o.governor = s->governed ? s->governor : sereno_governor_defaults(SERENO_POLICY_THROUGHPUT);
    if (s->governed) o.on_decision = only_watch; /* a listener, so that policy throughput has a governor, too */
    o.frame_hints = false;
    o.cache_folder = "";
    return o;
}
