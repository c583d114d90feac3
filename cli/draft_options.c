#include "draft_options.h"

#include "decode_strategies.h"

const char *const strategy_names[] = {"plain", "spec", NULL};

draft_options draft_defaults(void) {
    return (draft_options){.strategy = STRATEGY_SPEC, .draft = "ngram", .length = -1};
}

int draft_check(const command_line *cl, const draft_options *o) {
    sereno_error err;
    return strategy_check(o->draft, o->batch, &err) ? usage_error(cl, "%s", err.message) : 0;
}

void draft_apply(const draft_options *o, sereno_session_options *out) {
    sereno_bounds *b = &out->speculation.bounds;
    if (o->length >= 0) b->draft_min = b->draft_max = o->length;
    if (o->batch > 0) b->batch_min = b->batch_max = o->batch;
    out->draft = o->strategy == STRATEGY_PLAIN ? "none" : o->draft;
    out->draft_fallback = o->fallback;
}
