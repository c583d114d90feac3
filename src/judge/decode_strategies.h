/* Strategies of benches as text: NAME[:KEY=VALUE...], separated by commas; and synthetic acceptance. Thread: any. */
#ifndef JUDGE_DECODE_STRATEGIES_H
#define JUDGE_DECODE_STRATEGIES_H

#include "sereno/session.h"
#include "synthetic.h"

enum { STRATEGIES_LIST_MAX = 32, STRATEGY_TEXT_MAX = 512 };

typedef struct strategy {
    char name[STRATEGY_TEXT_MAX]; /* as given */
    char text[STRATEGY_TEXT_MAX]; /* the same, cut into its words */
    bool plain;                   /* one token a pass, whatever the draft */
    const char *draft;            /* a part of the text, or what was said for all */
    sereno_speculation speculation;
    bool governed; /* by: */
    sereno_governor_params governor;
    double abandon; /* probability of a draft's pass to be abandoned */
} strategy;         /* not to be moved */

typedef struct strategy_list {
    strategy list[STRATEGIES_LIST_MAX];
    int n;
} strategy_list;

/*
 * What a bench understands: the names, and keys of its own. Both return 0 or SERENO_ERR_INVALID, and are called with
 * the number of the strategy. `first` sets what the name says of the strategy; `key` NULL, or *known false: there is no
 * such key.
 */
typedef struct strategy_dialect {
    const char *draft; /* of strategies that name none; borrowed. NULL: "ngram" */
    int (*first)(void *ctx, int number, strategy *s, const char *word, sereno_error *err);
    int (*key)(void *ctx, int number, strategy *s, const char *key, const char *value, bool *known, sereno_error *err);
    void *ctx;
} strategy_dialect;

/* "plain" and "spec". */
extern const strategy_dialect decode_dialect;

/* Both: SERENO_ERR_INVALID says what is wrong with the text. */
int strategies_parse(const char *text, const strategy_dialect *dialect, strategy_list *out, sereno_error *err);
int synthetic_parse(const char *text, synthetic_acceptance *out, sereno_error *err);

/* What can be said of a draft's name and of a batch (0: none is fixed) without a model: SERENO_ERR_INVALID, in the
 * words of the options --draft and --batch. */
int strategy_check(const char *draft, int32_t batch, sereno_error *err);

/* SERENO_ERR_INVALID: "strategy 'S': KEY is 'V'; ALLOWED is needed". */
int strategy_bad_value(const strategy *s, const char *key, const char *value, const char *allowed, sereno_error *err);
/* A number or whole number that is all of a text and in range. */
bool parse_number(const char *text, double low, double high, double *out);
bool parse_whole(const char *text, int32_t low, int32_t high, int32_t *out);

/* For a session of the strategy on the engine of another: it finds nothing that was kept, nor frame hints; one whose
 * governor only watches has one. They borrow from the strategy. */
sereno_session_options strategy_session(const strategy *s, sereno_session *engine_of);

#endif
