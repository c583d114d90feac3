/* Strategies of bench decode as text: NAME[:KEY=VALUE...], separated by commas; and synthetic acceptance. */
#ifndef CLI_DECODE_STRATEGIES_H
#define CLI_DECODE_STRATEGIES_H

#include "bench_decode.h"
#include "draft_options.h"
#include "synthetic.h"

enum { STRATEGIES_LIST_MAX = 16, STRATEGY_TEXT_MAX = 512 };

typedef struct strategy {
    char name[STRATEGY_TEXT_MAX]; /* as given */
    char text[STRATEGY_TEXT_MAX]; /* the same, cut into its words */
    draft_options draft;
    bool fill;
    double abandon;
    sereno_ngram_options ngram;
    opened_draft opened;
    const char *draft_name;
} strategy;

typedef struct strategy_list {
    strategy list[STRATEGIES_LIST_MAX];
    int n;
} strategy_list;

/* Both: 0, or EXIT_USAGE after an error was printed. */
int strategies_parse(const command_line *cl, const char *text, strategy_list *out);
int synthetic_parse(const command_line *cl, const char *text, synthetic_acceptance *out);

/* Opens the drafts of all. On failure: close them. They are to be closed before the target. */
int strategies_open(strategy_list *strategies, const char *timing_folder, sereno_engine *target,
                    const sereno_model *model, bool (*progress)(void *ctx, uint64_t done, uint64_t total),
                    void *progress_ctx, sereno_error *err);
void strategies_close(strategy_list *strategies);

/* What it borrows stays with the strategy. */
decode_strategy strategy_for_bench(const strategy *s);

#endif
