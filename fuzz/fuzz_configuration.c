/*
 * Configuration files from any bytes. A refused file changes nothing. An accepted one keeps settings that were given
 * before, gives the same when it is read twice, and makes settings that a governor accepts, or refuses by name.
 */
#include <string.h>

#include "configuration_parse.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = size > 0 ? (const char *)data : "";
    sereno_configuration c = sereno_configuration_defaults();
    CHECK(sereno_configuration_set(&c, "min_tok_s=2.5", NULL) == SERENO_OK);
    const sereno_configuration before = c;
    sereno_error err = {0};
    if (configuration_parse(&c, text, size, &err)) {
        CHECK(err.code < 0 && strncmp(err.message, "line ", 5) == 0 && !strchr(err.message, '\n'));
        CHECK(memcmp(&c, &before, sizeof c) == 0);
        return 0;
    }
    const sereno_configuration once = c;
    CHECK(configuration_parse(&c, text, size, NULL) == SERENO_OK && memcmp(&c, &once, sizeof c) == 0);
    CHECK(c.params_given.min_tok_s == 2.5 && (c.policy_given || c.policy == before.policy));
    sereno_governor_params params;
    if (sereno_configuration_params(&c, &params, &err)) {
        CHECK(strstr(err.message, "burst_off")); /* all others are in their ranges, whatever the rest is */
        return 0;
    }
    CHECK(params.policy == c.policy && params.min_tok_s == 2.5);
    return 0;
}
