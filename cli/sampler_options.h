/* Options about sampling, as rows for a command's table. */
#ifndef CLI_SAMPLER_OPTIONS_H
#define CLI_SAMPLER_OPTIONS_H

#include "options.h"
#include "sereno/sampler.h"

/* clang-format off */
#define SAMPLER_OPTIONS(sampler_)                                                                                      \
    {OPTION_FLOAT, "--temp, --temperature", &(sampler_).temperature, .value = "T", .low = 0, .high = 100,              \
     .help = "0 is always the likeliest token; default 0.7: varied, but on the subject"},                              \
    {OPTION_INT, "--top-k", &(sampler_).top_k, .value = "K", .low = 0, .high = 1 << 24,                                \
     .help = "only the K likeliest tokens, 0 all; default 40: cuts the long tail of nonsense"},                        \
    {OPTION_FLOAT, "--top-p", &(sampler_).top_p, .value = "P", .low = 0, .high = 1,                                    \
     .help = "of these only the likeliest that make up P of the probability, 1 all; default 0.95: less choice "        \
             "where the model is sure"},                                                                               \
    {OPTION_FLOAT, "--min-p", &(sampler_).min_p, .value = "P", .low = 0, .high = 1,                                    \
     .help = "of these only tokens at least P times as likely as the likeliest, 0 all; default 0.05: no wild token "   \
             "where the likeliest is near certain"}
/* clang-format on */

#endif
