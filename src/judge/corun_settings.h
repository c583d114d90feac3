/* What is asked of the LLM in a co-running bench, and all that runs must have in common to be counted together.
 * Thread: any. */
#ifndef JUDGE_CORUN_SETTINGS_H
#define JUDGE_CORUN_SETTINGS_H

#include "corun_foregrounds.h"
#include "corun_places.h"
#include "prompts.h"
#include "sereno/model.h"

typedef enum corun_rhythm {
    RHYTHM_STEADY,   /* one request after the other, of 256 tokens */
    RHYTHM_SPORADIC, /* one of 64 tokens, and three seconds of rest */
} corun_rhythm;

/* Requests for these prompts, which are borrowed; `rows` is storage. synthetic: the prompts become short, as what they
 * say does not matter. The sampler is the caller's to set. */
corun_requests corun_requests_of(corun_rhythm rhythm, prompt_list *prompts, bool synthetic,
                                 corun_prompt rows[PROMPTS_MAX]);

/* All borrowed. */
typedef struct corun_settings {
    const char *synthetic; /* acceptance, as given; NULL: real text */
    const char *placement, *load, *draft, *activations;
    const char *isa; /* NULL: the best */
    const corun_foregrounds *foregrounds;
    const corun_places *places;
    const sereno_model *model;
    const prompt_list *prompts;
    const corun_requests *requests; /* its sampler and length */
    int32_t n_ctx;                  /* 0: the default */
    double seconds, warm_up;
} corun_settings;

/* As JSON, with this program and processor: what a log keeps, and is compared with. */
json_t *json_corun_settings(const corun_settings *settings);

/* "real text" or "synthetic". */
const char *corun_setting_name(const corun_settings *settings);

#endif
