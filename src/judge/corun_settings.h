/* The requests to the LLM in a co-running bench, and the settings that runs must have in common to be counted together.
 * Thread: any. */
#ifndef JUDGE_CORUN_SETTINGS_H
#define JUDGE_CORUN_SETTINGS_H

#include "corun_foregrounds.h"
#include "corun_places.h"
#include "prompts.h"
#include "sereno/model.h"

typedef enum corun_rhythm {
    RHYTHM_STEADY,   /* requests of 256 tokens, back to back */
    RHYTHM_SPORADIC, /* requests of 64 tokens, each with three seconds of rest */
} corun_rhythm;

/* Requests for these prompts, which are borrowed; `rows` is storage. synthetic: cuts the prompts short, as their text
 * does not matter. The caller sets the sampler. */
corun_requests corun_requests_of(corun_rhythm rhythm, prompt_list *prompts, bool synthetic,
                                 corun_prompt rows[PROMPTS_MAX]);

/* All borrowed. */
typedef struct corun_settings {
    const char *synthetic; /* acceptance rates, as given; NULL: real text */
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

/* The settings as JSON, with this program's version and the processor; a log keeps them and compares them. The
 * caller's; NULL: no memory. */
json_t *json_corun_settings(const corun_settings *settings);

/* "real text" or "synthetic". */
const char *corun_setting_name(const corun_settings *settings);

#endif
