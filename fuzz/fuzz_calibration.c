/*
 * calibration_parse on any bytes. An accepted calibration has figures in their ranges and rows in order, so that
 * lookups end, and is the same when it is written and read again.
 */
#include <math.h>
#include <string.h>

#include "calibration.h"
#include "fuzz.h"

static bool is_slope(double slope) {
    return slope == SLOPE_UNKNOWN || (isfinite(slope) && slope >= 0);
}

static void check_rows(const sereno_calibration *c) {
    CHECK(isfinite(c->probe_ns) && c->probe_ns >= 0);
    CHECK(is_slope(c->probe_slope) && (c->probe_slope >= 0 || c->probe_ns == 0));
    for (int32_t i = 0; i < c->n_baselines; i++) {
        const sereno_baseline *b = &c->baselines[i];
        CHECK(b->plan <= SERENO_PLAN_PREFILL && b->kind <= SERENO_SUBGRAPH_HEAD);
        CHECK(b->batch >= 1 && b->batch <= SERENO_PREFILL_BATCH_MAX);
        CHECK(b->subgraph >= 0 && b->subgraph < b->n_subgraphs);
        CHECK(isfinite(b->us) && b->us >= 0 && is_slope((double)b->slope));
        bool same;
        CHECK(calibration_us(c, b, &same) == b->us && same);
        CHECK(is_slope((double)calibration_slope(c, b->plan, b->batch, b->kind)));
    }
    sereno_calibration_describe(c);
}

/* Text is written by the C library: %.9g gives back every float. */
static void check_again(const sereno_calibration *c) {
    FILE *file = tmpfile();
    CHECK(file && calibration_write(c, file));
    long size = ftell(file);
    char *text = malloc((size_t)size);
    rewind(file);
    CHECK(text && fread(text, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    sereno_calibration *again;
    CHECK(calibration_parse(text, (size_t)size, &again, NULL) == SERENO_OK);
    free(text);
    CHECK(again->n_baselines == c->n_baselines && again->quiet == c->quiet);
    CHECK(strcmp(again->identity, c->identity) == 0 && strcmp(again->remark, c->remark) == 0);
    for (int32_t i = 0; i < c->n_baselines; i++) {
        CHECK(again->baselines[i].us == c->baselines[i].us && again->baselines[i].slope == c->baselines[i].slope);
    }
    sereno_calibration_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sereno_calibration *c;
    sereno_error err = {0};
    int status = calibration_parse((const char *)data, size, &c, &err);
    CHECK((status == SERENO_OK) == (c != NULL));
    if (status) CHECK(status == SERENO_ERR_FORMAT && err.message[0]);
    else check_rows(c);
    if (!status) check_again(c);
    sereno_calibration_close(&c);
    return 0;
}
