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
#define DRAFT_OPTIONS(draft_)                                                                                       \
    {OPTION_HEADING, NULL, NULL, NULL, "speculation (changes the speed, never the text)", 0, 0, NULL, NULL},        \
    {OPTION_CHOICE, "--strategy", "NAME", &(draft_).strategy,                                                       \
     "spec or plain: verify proposed tokens in batches, or decode one token a pass; default spec, which falls back " \
     "to plain where proposals do not pay", 0, 0, strategy_names, NULL},                                            \
    {OPTION_TEXT, "-md, --draft", "DRAFT", &(draft_).draft,                                                         \
     "who proposes: a GGUF file with the same vocabulary; self:int4 or self:int8, the model itself with coarser "    \
     "weights; self:layers=K, its first K layers; ngram, what followed the same words before; none. Default ngram: " \
     "needs a megabyte. All but none use n-grams too", 0, 0, NULL, &(draft_).draft_given},                                            \
    {OPTION_FLAG, "--draft-fallback", NULL, &(draft_).fallback,                                                     \
     "go on with n-grams where the draft's vocabulary differs, instead of refusing it", 0, 0, NULL, NULL},          \
    {OPTION_INT, "--draft-max", "N", &(draft_).length,                                                   \
     "let the draft propose N tokens a step, no more and no fewer; for experiments. Default: as many as pay", 0,    \
     SERENO_DRAFT_MAX, NULL, NULL},                                                                                 \
    {OPTION_INT, "--batch", "N", &(draft_).batch,                                                   \
     "verify N tokens a pass: 1, 2, 4, 8, 16 or 32; for experiments. Default: as many as pay", 1,                   \
     SERENO_VERIFY_BATCH_MAX, NULL, NULL}
/* clang-format on */

draft_options draft_defaults(void);

/* What the options leave to check without a model. 0, or EXIT_USAGE after an error was printed. */
int draft_check(const command_line *cl, const draft_options *options);

/* Puts them into a session's options, which borrow from them. */
void draft_apply(const draft_options *options, sereno_session_options *out);

#endif
