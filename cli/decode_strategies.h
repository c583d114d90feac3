/* Strategies of benches as text: NAME[:KEY=VALUE...], separated by commas; and synthetic acceptance. */
#ifndef CLI_DECODE_STRATEGIES_H
#define CLI_DECODE_STRATEGIES_H

#include "draft_options.h"
#include "sereno/governor.h"
#include "synthetic.h"

enum { STRATEGIES_LIST_MAX = 32, STRATEGY_TEXT_MAX = 512 };

typedef struct strategy {
    char name[STRATEGY_TEXT_MAX]; /* as given */
    char text[STRATEGY_TEXT_MAX]; /* the same, cut into its words */
    draft_options draft;
    bool fill;
    bool governed; /* by the policy of: */
    sereno_governor_params governor;
    double abandon;
    sereno_ngram_options ngram;
    opened_draft opened;
} strategy;

typedef struct strategy_list {
    strategy list[STRATEGIES_LIST_MAX];
    int n;
} strategy_list;

/*
 * What a bench understands: the names, and keys of its own. Both return 0 or EXIT_USAGE, and are called with the number
 * of the strategy. `first` sets what the name says of the strategy; `key` NULL, or *known false: there is no such key.
 */
typedef struct strategy_dialect {
    const char *draft; /* of strategies that name none */
    int (*first)(void *ctx, const command_line *cl, int number, strategy *s, const char *word);
    int (*key)(void *ctx, const command_line *cl, int number, strategy *s, const char *key, const char *value,
               bool *known);
    void *ctx;
} strategy_dialect;

/* "plain" and "spec". */
extern const strategy_dialect decode_dialect;

/* Both: 0, or EXIT_USAGE after an error was printed. */
int strategies_parse(const command_line *cl, const char *text, const strategy_dialect *dialect, strategy_list *out);
int synthetic_parse(const command_line *cl, const char *text, synthetic_acceptance *out);

/* "strategy 'S': KEY is 'V'; ALLOWED is needed"; and a number or whole number that is all of a text and in range. */
int strategy_bad_value(const command_line *cl, const strategy *s, const char *key, const char *value,
                       const char *allowed);
bool parse_number(const char *text, double low, double high, double *out);
bool parse_whole(const char *text, int32_t low, int32_t high, int32_t *out);

/* Opens the draft of one strategy; one and the same draft is opened once. On failure: close them. They are
 * to be closed before the target. */
int strategy_open(strategy_list *strategies, int number, const char *timing_folder, sereno_engine *target,
                  const sereno_model *model, bool (*progress)(void *ctx, uint64_t done, uint64_t total),
                  void *progress_ctx, sereno_error *err);

/* For a session of the strategy on the engine of another: it finds nothing that was kept, nor frame hints; one whose
 * governor only watches has one. They borrow from the strategy. */
sereno_session_options strategy_session(const strategy *s, sereno_session *engine_of);

#endif
