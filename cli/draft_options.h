/* Options about speculation. */
#ifndef CLI_DRAFT_OPTIONS_H
#define CLI_DRAFT_OPTIONS_H

#include "machine_options.h"
#include "sereno/session.h"
#include "support.h"

typedef struct draft_options {
    int32_t strategy; /* index into strategy_names */
    const char *draft;
    bool draft_given;
    bool fallback;
    int32_t length, batch; /* fixed; -1 and 0: the planner decides */
} draft_options;

enum { STRATEGY_PLAIN, STRATEGY_SPEC };
extern const char *const strategy_names[];

/* clang-format off */
#define DRAFT_OPTIONS(draft_)                                                                                          \
    {OPTION_HEADING, .help = "speculation (changes the speed, never the text)"},                                       \
    {OPTION_CHOICE, "--strategy", &(draft_).strategy, .value = "NAME", .choices = strategy_names,                      \
     .help = "spec or plain: verify proposed tokens in batches, or decode one token a pass; default spec, which "      \
             "falls back to plain where proposals do not pay"},                                                        \
    {OPTION_TEXT, "-md, --draft", &(draft_).draft, .value = "DRAFT", .given = &(draft_).draft_given,                   \
     .help = "who proposes: a GGUF file with the same vocabulary; self:int4 or self:int8, the model itself with "      \
             "coarser weights; self:layers=K, its first K layers; ngram, what followed the same words before; "        \
             "none. Default ngram: needs a megabyte. All but none use n-grams too"},                                   \
    {OPTION_FLAG, "--draft-fallback", &(draft_).fallback,                                                              \
     .help = "go on with n-grams where the draft's vocabulary differs, instead of refusing it"},                       \
    {OPTION_INT, "--draft-max", &(draft_).length, .value = "N", .low = 0, .high = SERENO_DRAFT_MAX,                    \
     .help = "let the draft propose N tokens a step, no more and no fewer; for experiments. Default: as many as "      \
             "pay"},                                                                                                   \
    {OPTION_INT, "--batch", &(draft_).batch, .value = "N", .low = 1, .high = SERENO_VERIFY_BATCH_MAX,                  \
     .help = "verify N tokens a pass: 1, 2, 4, 8, 16 or 32; for experiments. Default: as many as pay"}
/* clang-format on */

draft_options draft_defaults(void);

/* Checks the options as far as that needs no model. 0, or EXIT_USAGE after an error was printed. */
int draft_check(const command_line *cl, const draft_options *options);

/* Sets a session's options from these, which they borrow. */
void draft_apply(const draft_options *options, sereno_session_options *out);

#endif
