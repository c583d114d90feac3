/*
 * recording_parse on any bytes, followed by the right checksum, which chance would never hit. An accepted recording
 * has boundaries as of an engine, a sensor reads them all, and it is the same when it is written and read again.
 */
#include <string.h>

#include "fuzz.h"
#include "hash.h"
#include "replay.h"

static void check_boundary(const recording_event *e) {
    const sereno_boundary *b = &e->boundary;
    CHECK(recording_takes(b));
    CHECK(b->plan <= SERENO_PLAN_PREFILL && b->kind <= SERENO_SUBGRAPH_HEAD);
    CHECK(b->batch >= 1 && b->batch <= SERENO_PREFILL_BATCH_MAX);
    CHECK(b->subgraph >= 0 && b->subgraph < b->n_subgraphs);
    CHECK(e->verdict.action <= SERENO_ABANDON);
    CHECK(e->n_faults >= 0 && e->n_faults <= SENSOR_FAULTS_MAX);
}

static void check_windows(const recording *r) {
    for (int32_t i = 0; i < r->n_windows; i++) {
        CHECK(r->windows[i].duty >= 0 && r->windows[i].duty <= 1);
    }
}

/* Replays it to a sensor: everything that the sensor reads is there. */
static void check_replay(const recording *r) {
    replay *p;
    sereno_sensor *sensor;
    recording_event e;
    uint64_t n = 0;
    CHECK(replay_open(r, &p, NULL) == SERENO_OK);
    CHECK(sereno_sensor_open(replay_target(p), replay_draft(p), r->calibration, &sensor, NULL) == SERENO_OK);
    sensor_ask(sensor, replay_machine(p));
    for (; replay_next(p, &e); n++) {
        check_boundary(&e);
        sereno_sensor_read(sensor, &e.boundary);
    }
    CHECK(n == r->n_boundaries);
    sereno_sensor_close(&sensor);
    replay_close(&p);
}

static void check_again(const recording *r) {
    char *data = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&data, &size);
    recording *again;
    CHECK(file && recording_write(r, file) && fclose(file) == 0);
    CHECK(recording_parse((const uint8_t *)data, size, &again, NULL) == SERENO_OK);
    free(data);
    CHECK(strcmp(again->model, r->model) == 0 && strcmp(again->target.isa, r->target.isa) == 0);
    CHECK(again->quiet == r->quiet && again->has_draft == r->has_draft && again->n_windows == r->n_windows);
    CHECK(again->n_boundaries == r->n_boundaries && again->n_dropped == r->n_dropped && again->size == r->size);
    CHECK(r->size == 0 || memcmp(again->boundaries, r->boundaries, r->size) == 0);
    recording_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t check = hash_bytes(data, size);
    uint8_t *whole = malloc(size + sizeof check);
    CHECK(whole);
    if (size > 0) memcpy(whole, data, size);
    memcpy(whole + size, &check, sizeof check);
    recording *r;
    sereno_error err = {0};
    int status = recording_parse(whole, size + sizeof check, &r, &err);
    CHECK((status == SERENO_OK) == (r != NULL));
    if (status) CHECK(status == SERENO_ERR_FORMAT && err.message[0]);
    if (r) {
        check_windows(r);
        check_replay(r);
        check_again(r);
    }
    recording_close(&r);
    free(whole);
    return 0;
}
