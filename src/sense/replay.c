#include "replay.h"

#include <assert.h>
#include <stdlib.h>

#include "errors.h"

typedef struct replayed_engine {
    sereno_engine base;
    sereno_engine_info info;
    const recording_engine *of;
} replayed_engine;

struct replay {
    const recording *recording;
    recording_codec *codec;
    const uint8_t *at;
    replayed_engine target, draft;
    recording_event event; /* at the present boundary */
    int faults_told;       /* counts of `event` that were given out */
    uint64_t faults;       /* the last count */
    probe_times probe;
};

static const sereno_engine_info *info(const sereno_engine *e) {
    return &((const replayed_engine *)(const void *)e)->info;
}

/* The time at the first recorded context that is not shorter, else at the longest. */
static double pass_us(const sereno_engine *e, int32_t n_tokens, int32_t context) {
    const recording_engine *of = ((const replayed_engine *)(const void *)e)->of;
    int k = 0;
    while (k < RECORDING_CONTEXTS - 1 && recording_contexts[k] < context) k++;
    assert(n_tokens >= 1 && n_tokens <= SERENO_PREFILL_BATCH_MAX);
    return of->pass_us[k][n_tokens - 1];
}

static const sereno_engine_ops ops = {.info = info, .pass_us = pass_us};

static replayed_engine engine_of(const recording_engine *of) {
    replayed_engine e = {.base = {&ops}, .info = of->info, .of = of};
    e.info.isa = of->isa;
    e.info.stream = of->has_stream ? of : NULL; /* any address: the replay answers probes, nothing reads it */
    return e;
}

int replay_open(const recording *r, replay **out, sereno_error *err) {
    replay *p = *out = calloc(1, sizeof *p);
    if (p) p->codec = recording_codec_open();
    if (!p || !p->codec) {
        replay_close(out);
        return err_no_memory(err, "a replay", sizeof *p);
    }
    p->recording = r;
    p->at = r->boundaries;
    p->target = engine_of(&r->target);
    p->draft = engine_of(&r->draft);
    return SERENO_OK;
}

void replay_close(replay **p) {
    if (*p) recording_codec_close(&(*p)->codec);
    free(*p);
    *p = NULL;
}

sereno_engine *replay_target(replay *p) {
    return &p->target.base;
}

sereno_engine *replay_draft(replay *p) {
    return p->recording->has_draft ? &p->draft.base : NULL;
}

static uint64_t count_faults(void *ctx) {
    replay *p = ctx;
    if (p->faults_told < p->event.n_faults) p->faults = p->event.faults[p->faults_told++];
    return p->faults;
}

static probe_times time_probe(void *ctx, probe *of) {
    replay *p = ctx;
    (void)of;
    return p->probe;
}

sensor_machine replay_machine(replay *p) {
    return (sensor_machine){p, count_faults, time_probe, p->recording->cache_bytes};
}

bool replay_next(replay *p, recording_event *out) {
    const recording *r = p->recording;
    if (p->event.n_faults > 0) p->faults = p->event.faults[p->event.n_faults - 1];
    if (p->at == r->boundaries + r->size) return false;
    const char *wrong = recording_take(p->codec, &p->at, r->boundaries + r->size, &p->event);
    assert(!wrong); /* recording_parse has checked it */
    (void)wrong;
    p->faults_told = 0;
    if (p->event.probed) p->probe = p->event.probe;
    *out = p->event;
    return true;
}
