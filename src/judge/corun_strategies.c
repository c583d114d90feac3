#include "corun_strategies.h"

#include <stdio.h>
#include <string.h>

#include "errors.h"

static const char peer_prefix[] = "peer:";

static const corun_kind *find_kind(const char *word) {
    size_t length = strncmp(word, peer_prefix, strlen(peer_prefix)) == 0 ? strlen(peer_prefix) - 1 : strlen(word);
    for (const corun_kind *k = corun_kinds; k->name; k++) {
        if (strlen(k->name) == length && strncmp(word, k->name, length) == 0) return k;
    }
    return NULL;
}

static int take_name(void *ctx, int number, strategy *s, const char *word, sereno_error *err) {
    corun_strategy_list *list = ctx;
    const corun_kind *kind = find_kind(word);
    if (!kind) {
        return err_set(err, SERENO_ERR_INVALID, "strategy '%s': there is no '%s'; --help lists the strategies", s->name,
                       word);
    }
    const char *url = kind->load == LOAD_PEER ? word + strlen(kind->name) : "";
    if (*url == ':') url++;
    if (kind->load == LOAD_PEER && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) {
        return err_set(err, SERENO_ERR_INVALID,
                       "strategy '%s': a server's address is needed, as in peer:http://127.0.0.1:8080", s->name);
    }
    if (corun_strategies_find(list, s->name) >= 0) {
        return err_set(err, SERENO_ERR_INVALID, "strategy '%s' is there twice", s->name);
    }
    list->list[number] = (corun_strategy){.name = s->name, .kind = kind, .pacing = kind->pacing, .url = url};
    list->n = number + 1;
    s->plain = !kind->speculates;
    s->speculation.ngrams = kind->without != WITHOUT_FILL;
    s->governed = kind->governed;
    s->governor = corun_governor(kind);
    return SERENO_OK;
}

static int take_key(void *ctx, int number, strategy *s, const char *key, const char *value, bool *known,
                    sereno_error *err) {
    corun_strategy *c = &((corun_strategy_list *)ctx)->list[number];
    int32_t us;
    *known = true;
    if (strcmp(key, "decode") == 0) {
        s->plain = strcmp(value, "plain") == 0;
        if (!s->plain && strcmp(value, "spec") != 0) return strategy_bad_value(s, key, value, "plain or spec", err);
    } else if (strcmp(key, "factor") == 0) {
        if (!parse_number(value, 1, 100, &c->pacing.factor)) return strategy_bad_value(s, key, value, "1 to 100", err);
    } else if (strcmp(key, "every") == 0) {
        if (!parse_whole(value, 1, 1000000, &c->pacing.every)) {
            return strategy_bad_value(s, key, value, "a number of subgraphs, 1 to 1000000", err);
        }
    } else if (strcmp(key, "us") == 0) {
        if (!parse_whole(value, 1, 1000000, &us)) {
            return strategy_bad_value(s, key, value, "a number of microseconds, 1 to 1000000", err);
        }
        c->pacing.sleep_us = (uint32_t)us;
    } else if (strcmp(key, "frame") == 0 && c->kind->pacing.hint != HINT_NONE) {
        bool hold = strcmp(value, "hold") == 0;
        if (!hold && strcmp(value, "verify") != 0) return strategy_bad_value(s, key, value, "hold or verify", err);
        c->pacing.hint = hold ? HINT_HOLD : HINT_VERIFY;
    } else if (s->governed) {
        sereno_error wrong;
        int status = sereno_governor_set(&s->governor, key, value, &wrong);
        if (status) return err_set(err, status, "strategy '%s': %s", s->name, wrong.message);
    } else {
        *known = false;
    }
    return SERENO_OK;
}

static int check(const corun_strategy *c, const strategy *s, sereno_error *err) {
    bool has_keys = strcmp(s->text, s->name) != 0; /* the words of the text are cut apart */
    if (c->kind->load != LOAD_ENGINE && has_keys) {
        return err_set(err, SERENO_ERR_INVALID, "strategy '%s': %s takes no keys", s->name, c->kind->name);
    }
    sereno_error wrong;
    int status = s->governed ? sereno_governor_check(&s->governor, &wrong) : SERENO_OK;
    if (status) return err_set(err, status, "strategy '%s': %s", s->name, wrong.message);
    if (c->pacing.every > 0 && c->pacing.sleep_us == 0) {
        return err_set(err, SERENO_ERR_INVALID, "strategy '%s': every= needs us=, how long to sleep", s->name);
    }
    return SERENO_OK;
}

int corun_strategies_parse(const char *text, const char *draft, corun_strategy_list *out, sereno_error *err) {
    strategy_dialect dialect = {.draft = draft, .first = take_name, .key = take_key, .ctx = out};
    out->n = 0;
    int status = strategies_parse(text, &dialect, &out->engine, err);
    for (int i = 0; i < out->n && !status; i++) {
        status = check(&out->list[i], &out->engine.list[i], err);
    }
    return status;
}

int corun_strategies_find(const corun_strategy_list *strategies, const char *name) {
    for (int i = 0; i < strategies->n; i++) {
        if (strcmp(strategies->list[i].name, name) == 0) return i;
    }
    return -1;
}

void corun_kinds_help(char *out, size_t size) {
    size_t used = 0;
    for (const corun_kind *k = corun_kinds; k->name && used < size; k++) {
        int n = snprintf(out + used, size - used, "  %-22s %s\n", k->name, k->about);
        used += n > 0 ? (size_t)n : 0;
    }
}
