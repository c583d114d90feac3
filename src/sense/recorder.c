#include "recorder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "cpu.h"
#include "errors.h"

struct recorder {
    sereno_sensor *sensor;
    sensor_machine machine; /* the real one */
    recording *recording;
    recording_codec *codec;
    size_t size_max;
    recording_event event; /* the last boundary, which is not complete yet */
    bool has_event, ended; /* ended: the memory is full */
};

/* ---- Listening ---- */

static uint64_t count_faults(void *ctx) {
    recorder *r = ctx;
    uint64_t n = r->machine.count_faults(r->machine.ctx);
    assert(r->event.n_faults < SENSOR_FAULTS_MAX);
    return r->event.faults[r->event.n_faults++] = n;
}

static probe_times time_probe(void *ctx, probe *p) {
    recorder *r = ctx;
    assert(!r->event.probed);
    r->event.probed = true;
    return r->event.probe = r->machine.time_probe(r->machine.ctx, p);
}

/* ---- Opening ---- */

/* Cuts a text: it may come from a file. */
static void describe(char out[RECORDING_TEXT_MAX], const char *text) {
    snprintf(out, RECORDING_TEXT_MAX, "%s", text ? text : "");
}

static void describe_engine(recording_engine *out, const sereno_engine *e) {
    out->info = *e->ops->info(e);
    describe(out->isa, out->info.isa);
    out->has_stream = out->info.stream != NULL;
    for (int k = 0; k < RECORDING_CONTEXTS; k++) {
        int32_t context = recording_contexts[k] < out->info.n_ctx ? recording_contexts[k] : out->info.n_ctx;
        for (int32_t n = 0; n < SERENO_PREFILL_BATCH_MAX; n++) {
            out->pass_us[k][n] = e->ops->pass_us(e, n + 1, context);
        }
    }
}

/* Allocates memory for the boundaries and touches it: a later page fault would count as one of the owner's. */
static int make_room(recorder *r, sereno_error *err) {
    r->recording = calloc(1, sizeof *r->recording);
    r->codec = recording_codec_open();
    if (!r->recording || !r->codec) return err_no_memory(err, "a recorder", sizeof *r->recording);
    size_t size = r->size_max + 1; /* malloc(0) may return NULL */
    r->recording->boundaries = malloc(size);
    if (!r->recording->boundaries) return err_no_memory(err, "a recording", size);
    memset(r->recording->boundaries, 0, size);
    return SERENO_OK;
}

int recorder_open(sereno_sensor *sensor, sereno_engine *target, sereno_engine *draft,
                  const sereno_calibration *calibration, const recorder_options *options, recorder **out,
                  sereno_error *err) {
    recorder *r = *out = calloc(1, sizeof *r);
    if (!r) return err_no_memory(err, "a recorder", sizeof *r);
    r->size_max = options->size_max;
    int status = make_room(r, err);
    if (status) {
        recorder_close(out);
        return status;
    }
    recording *to = r->recording;
    r->machine = sensor_machine_of(sensor);
    describe(to->version, sereno_version());
    cpu_name(to->processor, sizeof to->processor);
    describe(to->model, options->model);
    describe(to->draft_model, options->draft_model);
    to->quiet = options->quiet;
    to->cache_bytes = r->machine.cache_bytes;
    describe_engine(&to->target, target);
    to->has_draft = draft != NULL;
    if (draft) describe_engine(&to->draft, draft);
    to->calibration = (sereno_calibration *)calibration; /* borrowed: see close */
    r->sensor = sensor;
    sensor_ask(sensor, (sensor_machine){r, count_faults, time_probe, r->machine.cache_bytes});
    return SERENO_OK;
}

void recorder_close(recorder **recorder_) {
    recorder *r = *recorder_;
    *recorder_ = NULL;
    if (!r) return;
    if (r->sensor) sensor_ask(r->sensor, r->machine);
    if (r->recording) r->recording->calibration = NULL;
    recording_close(&r->recording);
    recording_codec_close(&r->codec);
    free(r);
}

/* ---- Recording ---- */

static void keep_event(recorder *r) {
    if (!r->has_event) return;
    r->has_event = false;
    recording *to = r->recording;
    r->ended |= to->size + RECORDING_EVENT_MAX > r->size_max || !recording_takes(&r->event.boundary);
    if (r->ended) {
        to->n_dropped++;
        return;
    }
    to->size += recording_put(r->codec, &r->event, to->boundaries + to->size);
    to->n_boundaries++;
}

sereno_signals recorder_read(recorder *r, const sereno_boundary *boundary) {
    keep_event(r);
    r->event = (recording_event){.boundary = *boundary};
    r->has_event = true;
    return sereno_sensor_read(r->sensor, boundary);
}

void recorder_answer(recorder *r, sereno_verdict verdict) {
    r->event.verdict = verdict;
}

recording *recorder_end(recorder *r) {
    keep_event(r);
    return r->recording;
}
