/* Strategies of benches as text: NAME[:KEY=VALUE...], separated by commas; and synthetic acceptance. Thread: any. */
#ifndef JUDGE_DECODE_STRATEGIES_H
#define JUDGE_DECODE_STRATEGIES_H

#include "sereno/session.h"
#include "synthetic.h"

enum { STRATEGIES_LIST_MAX = 32, STRATEGY_TEXT_MAX = 512 };

typedef struct strategy {
    char name[STRATEGY_TEXT_MAX]; /* as given */
    char text[STRATEGY_TEXT_MAX]; /* the same, cut into words */
    bool plain;                   /* one token a pass, whatever the draft */
    const char *draft;            /* points into `text`, or the dialect's */
    sereno_speculation speculation;
    bool governed;
    sereno_governor_params governor; /* if governed */
    double abandon;                  /* probability that a pass of the draft is abandoned */
} strategy;                          /* must not be moved */

typedef struct strategy_list {
    strategy list[STRATEGIES_LIST_MAX];
    int n;
} strategy_list;

/*
 * A bench's own strategy names and keys. Both callbacks get the strategy's index and return 0 or SERENO_ERR_INVALID.
 * `first` fills in the strategy from its name. `key` handles a key of the bench's own; NULL, or *known false: the bench
 * has no such key.
 */
typedef struct strategy_dialect {
    const char *draft; /* for strategies that name none; borrowed. NULL: "ngram" */
    int (*first)(void *ctx, int number, strategy *s, const char *word, sereno_error *err);
    int (*key)(void *ctx, int number, strategy *s, const char *key, const char *value, bool *known, sereno_error *err);
    void *ctx;
} strategy_dialect;

/* Strategies "plain" and "spec". */
extern const strategy_dialect decode_dialect;

/* Both: SERENO_ERR_INVALID says what is wrong with the text. */
int strategies_parse(const char *text, const strategy_dialect *dialect, strategy_list *out, sereno_error *err);
int synthetic_parse(const char *text, synthetic_acceptance *out, sereno_error *err);

/* Checks a draft's name and a batch (0: not fixed) as far as that needs no model. SERENO_ERR_INVALID, in the words of
 * the options --draft and --batch. */
int strategy_check(const char *draft, int32_t batch, sereno_error *err);

/* SERENO_ERR_INVALID: "strategy 'S': KEY is 'V'; ALLOWED is needed". */
int strategy_bad_value(const strategy *s, const char *key, const char *value, const char *allowed, sereno_error *err);
/* Parse a text that is a number, or a whole number, within a range and nothing else. */
bool parse_number(const char *text, double low, double high, double *out);
bool parse_whole(const char *text, int32_t low, int32_t high, int32_t *out);

/* Options for a session of the strategy on the engine of another session. The session uses no kept files and no frame
 * hints; a strategy with policy throughput gets a governor that only watches. The options borrow from the strategy. */
sereno_session_options strategy_session(const strategy *s, sereno_session *engine_of);

#endif
