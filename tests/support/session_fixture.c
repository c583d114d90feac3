#include "session_fixture.h"

#include <string.h>

sereno_session_options plain_session_options(const sereno_model *model) {
    sereno_session_options o = sereno_session_defaults();
    o.model = model;
    o.on_caller = true;
    o.raw = true;
    o.draft = "none";
    o.engine_options.n_threads = 1;
    o.engine_options.n_ctx = 128;
    o.engine_options.sched = SERENO_SCHED_NORMAL;
    o.governor = sereno_governor_defaults(SERENO_POLICY_THROUGHPUT);
    o.cache_folder = "";
    o.frame_hints = false;
    return o;
}

sereno_session *open_session(const sereno_session_options *o) {
    sereno_session *s;
    assert_ok(sereno_session_open(o, &s, err));
    return s;
}

sereno_request turn_of(const char *text, int32_t max_tokens) {
    return (sereno_request){
        .text = text, .text_size = strlen(text), .max_tokens = max_tokens, .sampler = sereno_sampler_defaults()};
}

sereno_answer *submit(sereno_session *s, const sereno_request *r) {
    sereno_answer *a;
    assert_ok(sereno_session_submit(s, r, &a, err));
    return a;
}
