#include "sereno/speculation.h"

#include "errors.h"
#include "ngram.h"
#include "sereno/governor.h"

sereno_speculation sereno_speculation_defaults(void) {
    return (sereno_speculation){
        .ngrams = true,
        .ngram = {.order_min = NGRAM_ORDER_MIN,
                  .order_max = NGRAM_ORDER_MAX,
                  .from_prompt = true,
                  .from_rejected = true,
                  .trust = true,
                  .evict = true,
                  .decay = true,
                  .longest_first = true},
        .bounds = sereno_decision_default().bounds,
    };
}

static int check_batch(const char *what, int32_t value, sereno_error *err) {
    if (value >= 1 && value <= SERENO_VERIFY_BATCH_MAX && (value & (value - 1)) == 0) return SERENO_OK;
    return err_set(err, SERENO_ERR_INVALID, "%s is %d; 1, 2, 4, 8, 16 and 32 are allowed", what, value);
}

int sereno_speculation_check(const sereno_speculation *s, sereno_error *err) {
    const sereno_bounds *b = &s->bounds;
    int status;
    if ((status = err_check_range("the shortest n-gram", s->ngram.order_min, NGRAM_ORDER_MIN, NGRAM_ORDER_MAX, err)) ||
        (status =
             err_check_range("the longest n-gram", s->ngram.order_max, s->ngram.order_min, NGRAM_ORDER_MAX, err)) ||
        (status = err_check_range("the longest draft", b->draft_max, 0, SERENO_DRAFT_MAX, err)) ||
        (status = err_check_range("the shortest draft", b->draft_min, 0, b->draft_max, err)) ||
        (status = check_batch("the largest batch", b->batch_max, err)) ||
        (status = check_batch("the smallest batch", b->batch_min, err)) ||
        (status = err_check_range("the smallest batch", b->batch_min, 1, b->batch_max, err))) {
        return status;
    }
    return SERENO_OK;
}

void sereno_speculation_add(sereno_speculation_stats *sum, const sereno_speculation_stats *more) {
    sum->passes += more->passes;
    sum->drafted += more->drafted;
    sum->drafted_abandoned += more->drafted_abandoned;
    sum->verified_draft_model += more->verified_draft_model;
    sum->verified_ngram += more->verified_ngram;
    sum->accepted_draft_model += more->accepted_draft_model;
    sum->accepted_ngram += more->accepted_ngram;
    sum->padded += more->padded;
    for (int i = 0; i < SERENO_DRAFT_MAX; i++) {
        sum->tried_at[i] += more->tried_at[i];
        sum->accepted_at[i] += more->accepted_at[i];
    }
    for (int i = 0; i < SERENO_BATCHES; i++) {
        sum->passes_of[i] += more->passes_of[i];
        sum->verify_ns[i] += more->verify_ns[i];
    }
    sum->step_ns += more->step_ns;
    sum->draft_ns += more->draft_ns;
    sum->sleep_ns += more->sleep_ns;
}
