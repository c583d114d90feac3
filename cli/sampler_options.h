/* Options about how tokens are chosen, as rows for a command's table. */
#ifndef CLI_SAMPLER_OPTIONS_H
#define CLI_SAMPLER_OPTIONS_H

#include "options.h"
#include "sereno/sampler.h"

/* clang-format off */
#define SAMPLER_OPTIONS(sampler_)                                                                                   \
    {OPTION_FLOAT, "--temp, --temperature", "T", &(sampler_).temperature,                                           \
     "0 is always the likeliest token; default 0.7: varied, but on the subject", 0, 100, NULL, NULL},               \
    {OPTION_INT, "--top-k", "K", &(sampler_).top_k,                                                                 \
     "only the K likeliest tokens, 0 all; default 40: cuts the long tail of nonsense", 0, 1 << 24, NULL, NULL},     \
    {OPTION_FLOAT, "--top-p", "P", &(sampler_).top_p,                                                               \
     "of these only the likeliest that make up P of the probability, 1 all; default 0.95: less choice where the "   \
     "model is sure", 0, 1, NULL, NULL},                                                                            \
    {OPTION_FLOAT, "--min-p", "P", &(sampler_).min_p,                                                               \
     "of these only tokens at least P times as likely as the likeliest, 0 all; default 0.05: no wild token where "  \
     "the likeliest is near certain", 0, 1, NULL, NULL}
/* clang-format on */

#endif
