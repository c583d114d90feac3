/* Sessions for tests: small, on the caller's thread, without files. */
#ifndef TESTS_SESSION_FIXTURE_H
#define TESTS_SESSION_FIXTURE_H

#include "support.h"

/* Plain decoding on one thread, a context of 128, raw text, not governed. */
sereno_session_options plain_session_options(const sereno_model *model);

/* Both fail the test on an error. */
sereno_session *open_session(const sereno_session_options *options);
sereno_answer *submit(sereno_session *s, const sereno_request *request);

sereno_request turn_of(const char *text, int32_t max_tokens);

#endif
