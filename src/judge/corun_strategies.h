/* Strategies of bench corun as text: NAME[:KEY=VALUE...], separated by commas. Names are rows of corun_kinds. Thread:
 * any. */
#ifndef JUDGE_CORUN_STRATEGIES_H
#define JUDGE_CORUN_STRATEGIES_H

#include "corun_strategy.h"
#include "decode_strategies.h"

typedef struct corun_strategy_list {
    corun_strategy list[STRATEGIES_LIST_MAX];
    int n;
    strategy_list engine; /* by the same index: their settings for our engine */
} corun_strategy_list;

/* draft: for strategies that name none; borrowed. SERENO_ERR_INVALID says what is wrong with the text. */
int corun_strategies_parse(const char *text, const char *draft, corun_strategy_list *out, sereno_error *err);

/* The index of the strategy of this name; -1: there is none. */
int corun_strategies_find(const corun_strategy_list *strategies, const char *name);

/* Appends a row for each kind to a text for --help, cut at `size`. */
void corun_kinds_help(char *out, size_t size);

#endif
